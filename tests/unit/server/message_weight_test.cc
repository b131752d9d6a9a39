// What a request takes in memory is known before it is parsed, and one that takes too much is not.
#include "server/rpc/message_weight.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "assay/v1/service.pb.h"

namespace assay::server {
namespace {

constexpr std::int64_t kAny = INT64_MAX;

std::int64_t Weight(const std::string& bytes, std::int64_t most = kAny) {
  return ParsedBytes(*v1::CreateJobRequest::descriptor(), bytes, most);
}

// The weight of a request, by what protobuf says that it takes.
double Ratio(const std::string& bytes) {
  v1::CreateJobRequest parsed;
  EXPECT_TRUE(parsed.ParseFromString(bytes));
  return static_cast<double>(Weight(bytes)) / static_cast<double>(parsed.SpaceUsedLong());
}

v1::CreateJobRequest EmptyCases(int count) {
  v1::CreateJobRequest request;
  for (int n = 0; n < count; ++n) request.mutable_spec()->mutable_cases()->add_cases();
  return request;
}

v1::CreateJobRequest UsualCases(int count) {
  v1::CreateJobRequest request = EmptyCases(count);
  for (v1::CaseSpec& spec : *request.mutable_spec()->mutable_cases()->mutable_cases()) {
    spec.mutable_gemm()->set_m(4096);
    spec.mutable_gemm()->set_n(1 << 20);
    spec.mutable_gemm()->set_k(-1);
    spec.set_name(std::string(100, 'x'));
    spec.set_dtype(v1::DTYPE_FP16);
    spec.set_provider("onednn");
    spec.set_min_efficiency(0.5);
    (*spec.mutable_golden())["cpu"] = std::string(32, 'a');
    spec.add_slices("actual[0:8,0:8]");
  }
  (*request.mutable_spec()->mutable_labels())["who"] = "me";
  return request;
}

TEST(MessageWeight, IsWhatTheMessageTakesOrSomeMore) {
  for (const v1::CreateJobRequest& request : {EmptyCases(1000), UsualCases(1000)}) {
    const double ratio = Ratio(request.SerializeAsString());
    EXPECT_GE(ratio, 1.0);
    EXPECT_LE(ratio, 2.0);
  }
  EXPECT_LT(Weight(UsualCases(10'000).SerializeAsString()), 32 << 20) << "the largest usual job";
  EXPECT_EQ(Weight(""), 0);
}

// Fields that no message here has: numbers, texts, and groups that hold what a case has.
TEST(MessageWeight, UnknownFieldsAreKeptAndWeighed) {
  for (const std::string& field : {std::string("\xf8\x3f\x01", 3), std::string("\xfa\x3f\x00", 3),
                                   std::string("\xfb\x3f\x0a\x00\xfc\x3f", 6)}) {
    std::string bytes;
    for (int n = 0; n < 1000; ++n) bytes += field;
    EXPECT_GE(Ratio(bytes), 1.0);
  }
}

// A text of 16 bytes is the shortest that does not lie in the string itself. Beside it the
// allocator has its own part, which protobuf does not count.
TEST(MessageWeight, ManyShortTextsWeighWhatTheAllocatorTakes) {
  v1::CreateJobRequest request;
  for (int n = 0; n < 1000; ++n) {
    request.mutable_spec()->mutable_filter()->add_ops(std::string(16, 'x'));
  }
  EXPECT_GE(Weight(request.SerializeAsString()), 1000 * (96 + 16));
}

// `spec` is a message and comes as a number; `request_id` is a text and comes as 8 bytes, or as a
// number.
TEST(MessageWeight, AFieldInAnotherFormIsKeptAsUnknown) {
  for (const std::string& field :
       {std::string("\x08\x01", 2), std::string("\x11 8 bytes", 9), std::string("\x10\x01", 2)}) {
    std::string bytes;
    for (int n = 0; n < 1000; ++n) bytes += field;
    EXPECT_GE(Ratio(bytes), 1.0);
    EXPECT_GE(Weight(bytes), 1000 * 96);
  }
}

TEST(MessageWeight, NumbersOfAListComePackedOrOneByOne) {
  v1::CreateJobRequest request;
  for (int n = 0; n < 1000; ++n) {
    request.mutable_spec()->mutable_filter()->add_dtypes(v1::DTYPE_FP16);
  }
  const std::int64_t packed = Weight(request.SerializeAsString());
  EXPECT_GE(packed, 1000 * 4);
  EXPECT_LT(packed, 1000 * 32);
}

TEST(MessageWeight, CountingStopsWhenThereIsTooMuch) {
  const std::string bytes = EmptyCases(100'000).SerializeAsString();
  EXPECT_GT(Weight(bytes, 10'000), 10'000);
  EXPECT_LT(Weight(bytes, 10'000), 12'000);
}

TEST(MessageWeight, DamageIsNoRequest) {
  const std::string whole = UsualCases(2).SerializeAsString();
  int damaged = 0;
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const std::string part = whole.substr(0, length);
    v1::CreateJobRequest parsed, here;
    const bool fine = parsed.ParseFromString(part);
    const absl::Status status = ParseWeighed(part, kAny, here);
    EXPECT_EQ(status.ok(), fine) << length;
    EXPECT_TRUE(fine || absl::IsInvalidArgument(status)) << status;
    damaged += fine ? 0 : 1;
  }
  EXPECT_GT(damaged, 100);
  for (int first = 0; first < 256; ++first) {
    std::string bytes(1, static_cast<char>(first));
    Weight(bytes);
    Weight(bytes + std::string(12, '\xff'));
  }
}

// The last text, or a message in a message, announces 1 GiB: it is damage and not too much.
TEST(MessageWeight, ALengthBeyondTheEndIsDamage) {
  constexpr std::string_view kGibibyte("\x80\x80\x80\x80\x04", 5);
  for (const char* tags : {"\x12", "\x0a", "\x0a\x10\x0a", "\x7a"}) {
    std::string bytes(tags);
    bytes += kGibibyte;
    v1::CreateJobRequest request;
    const absl::Status status = ParseWeighed(bytes + "some", 256 << 20, request);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                testing::HasSubstr("request: is no assay.v1.CreateJobRequest"));
    EXPECT_TRUE(status.GetPayload("type.googleapis.com/google.rpc.BadRequest").has_value());
  }
}

TEST(MessageWeight, TooHeavyIsRefusedUnparsed) {
  v1::CreateJobRequest request;
  const std::string bytes = EmptyCases(1000).SerializeAsString();
  const absl::Status status = ParseWeighed(bytes, 100'000, request);
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  EXPECT_EQ(status.message(),
            "a limit is reached: one request may have 100000 bytes in memory (max-request-bytes); "
            "send fewer cases at a time");
  EXPECT_TRUE(status.GetPayload("type.googleapis.com/google.rpc.QuotaFailure").has_value());
  EXPECT_FALSE(status.GetPayload("type.googleapis.com/google.rpc.RetryInfo").has_value())
      << "the same request is as large later";
  EXPECT_FALSE(request.has_spec());
  EXPECT_TRUE(ParseWeighed(bytes, 1'000'000, request).ok());
  EXPECT_EQ(request.spec().cases().cases_size(), 1000);
}

// One with more bytes than memory is refused before its pieces are put together.
TEST(MessageWeight, BytesInPiecesAreTheSameRequest) {
  const std::string bytes = EmptyCases(1000).SerializeAsString();
  const grpc::Slice pieces[] = {grpc::Slice(bytes.substr(0, 999)), grpc::Slice(bytes.substr(999))};
  const grpc::ByteBuffer buffer(pieces, 2);
  v1::CreateJobRequest request;
  EXPECT_TRUE(ParseWeighed(buffer, 1'000'000, request).ok());
  EXPECT_EQ(request.spec().cases().cases_size(), 1000);
  EXPECT_TRUE(absl::IsResourceExhausted(ParseWeighed(buffer, 100'000, request)));
  EXPECT_TRUE(absl::IsResourceExhausted(ParseWeighed(buffer, 1000, request)));
  EXPECT_TRUE(ParseWeighed(grpc::ByteBuffer(), 1000, request).ok()) << "an empty message";
}

}  // namespace
}  // namespace assay::server
