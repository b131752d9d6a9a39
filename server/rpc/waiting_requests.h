// Requests that wait for a thread, unparsed. Their bytes are moved out of gRPC's memory: there they
// would count for the memory that all connections share for what they receive, and gRPC ends calls
// when that is full. So the bytes that wait are limited here, those of each client and those of all
// clients together.
//
// Thread-safe. Requests may outlive the object.
#ifndef ASSAY_SERVER_RPC_WAITING_REQUESTS_H_
#define ASSAY_SERVER_RPC_WAITING_REQUESTS_H_

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace assay::server {

class WaitingRequests {
 public:
  // The bytes of a request. They count until the last copy is gone.
  using Request = std::shared_ptr<const std::string>;

  // `largest` is the most bytes that one request may have. The requests of a client may have twice
  // as many, those of all clients four times as many.
  explicit WaitingRequests(std::int64_t largest);

  // Moves the bytes out of `bytes`, whether it takes them or not. RESOURCE_EXHAUSTED, as
  // LimitReached says, if too many bytes wait.
  absl::StatusOr<Request> Take(std::string_view client, grpc::ByteBuffer& bytes);

 private:
  struct Counts;

  const std::int64_t largest_;
  const std::shared_ptr<Counts> counts_;
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_RPC_WAITING_REQUESTS_H_
