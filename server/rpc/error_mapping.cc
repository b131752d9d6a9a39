#include "server/rpc/error_mapping.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "absl/strings/cord.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "kernels/text/cat.h"
#include "server/base/error_info.h"

namespace assay::server {
namespace {

// Names by the number of the code. gRPC and abseil have the same numbers.
constexpr std::array<std::string_view, 17> kNames = {
    "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
    "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
    "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
    "DATA_LOSS", "UNAUTHENTICATED"};

grpc::StatusCode ToGrpcCode(absl::StatusCode code) {
  if (code == absl::StatusCode::kUnknown || code == absl::StatusCode::kDataLoss) {
    return grpc::StatusCode::INTERNAL;
  }
  return static_cast<grpc::StatusCode>(code);
}

// gRPC's clients take 8 KiB of trailing metadata; some of it is not ours.
constexpr std::size_t kTrailerBytes = 7 << 10;

// The message, cut where what is left would not fit beside the details: a client would get an error
// of gRPC instead. A name that a caller chose may be in a message, and may be long.
std::string Fitting(std::string_view message, std::size_t detail_bytes) {
  std::size_t left = kTrailerBytes - std::min(kTrailerBytes, detail_bytes / 3 * 4);  // as base64
  for (std::size_t i = 0; i < message.size(); ++i) {
    const auto byte = static_cast<unsigned char>(message[i]);
    const std::size_t takes = byte < ' ' || byte > '~' || byte == '%' ? 3 : 1;  // "%E2"
    if (left < takes) {
      while (i > 0 && (static_cast<unsigned char>(message[i]) & 0xC0) == 0x80) --i;  // whole UTF-8
      return Cat(message.substr(0, i), "…");
    }
    left -= takes;
  }
  return std::string(message);
}

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const grpc::StatusCode code = ToGrpcCode(status.code());
  google::rpc::Status details;
  bool has_reason = false;
  status.ForEachPayload([&](absl::string_view type_url, const absl::Cord& payload) {
    google::protobuf::Any* detail = details.add_details();
    detail->set_type_url(std::string(type_url));
    detail->set_value(std::string(payload));
    has_reason |= detail->Is<google::rpc::ErrorInfo>();
  });
  if (!has_reason) {
    google::rpc::ErrorInfo info;
    info.set_domain(kErrorDomain);
    info.set_reason(std::string(CodeName(code)));
    details.add_details()->PackFrom(info);
  }
  // The details do not repeat the message. Both travel in the trailing metadata, which is small.
  details.set_code(code);
  const std::string packed = details.SerializeAsString();
  return {code, Fitting({status.message().data(), status.message().size()}, packed.size()), packed};
}

std::string_view CodeName(grpc::StatusCode code) {
  const auto number = static_cast<std::size_t>(code);
  return number < kNames.size() ? kNames[number] : kNames[2];
}

}  // namespace assay::server
