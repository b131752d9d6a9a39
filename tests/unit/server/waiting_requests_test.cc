// Requests that wait are not in gRPC's memory, and their bytes are limited.
#include "server/rpc/waiting_requests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace assay::server {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kLargest = 100;

grpc::ByteBuffer Buffer(const std::string& bytes) {
  const grpc::Slice halves[] = {grpc::Slice(bytes.substr(0, bytes.size() / 2)),
                                grpc::Slice(bytes.substr(bytes.size() / 2))};
  return {halves, 2};
}

absl::StatusOr<WaitingRequests::Request> Take(WaitingRequests& waiting, std::string_view client,
                                              std::size_t size) {
  grpc::ByteBuffer bytes = Buffer(std::string(size, 'x'));
  return waiting.Take(client, bytes);
}

TEST(WaitingRequests, BytesAreMovedOutOfGrpcsMemory) {
  WaitingRequests waiting(kLargest);
  grpc::ByteBuffer bytes = Buffer("a request");
  const absl::StatusOr<WaitingRequests::Request> taken = waiting.Take("a", bytes);
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_EQ(**taken, "a request");
  EXPECT_FALSE(bytes.Valid());
  grpc::ByteBuffer refused = Buffer(std::string(2 * kLargest, 'x'));
  EXPECT_FALSE(waiting.Take("a", refused).ok());
  EXPECT_FALSE(refused.Valid()) << "nor does what is refused stay there";
  grpc::ByteBuffer none;
  EXPECT_EQ(**waiting.Take("a", none), "");
}

TEST(WaitingRequests, AClientHasOnlySoManyBytesAndGivesThemBack) {
  WaitingRequests waiting(kLargest);
  std::vector<WaitingRequests::Request> kept = {*Take(waiting, "a", 100), *Take(waiting, "a", 100)};
  const absl::Status refused = Take(waiting, "a", 1).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("a may have 200 bytes in requests that wait (max-request-bytes)"));
  EXPECT_TRUE(Take(waiting, "b", 100).ok()) << "another client has its own";
  kept.pop_back();
  EXPECT_TRUE(Take(waiting, "a", 100).ok());
}

TEST(WaitingRequests, AllClientsTogetherHaveOnlySoManyBytes) {
  WaitingRequests waiting(kLargest);
  std::vector<WaitingRequests::Request> kept;
  for (const char* client : {"a", "b", "c", "d"}) kept.push_back(*Take(waiting, client, 100));
  EXPECT_THAT(std::string(Take(waiting, "e", 1).status().message()),
              HasSubstr("all clients together may have 400 bytes in requests that wait"));
  kept.clear();
  EXPECT_TRUE(Take(waiting, "e", 100).ok());
}

}  // namespace
}  // namespace assay::server
