// FirstCall: the call by which a connection is opened.
//
// gRPC 1.51 looks at errno some calls after connect() has set it. Where many threads open
// connections at once, about one TCP connection in two thousand fails with the "No such file or
// directory" of something else, which no TCP connection can mean: it is tried again. What is
// really refused, or has no address, is told at once.
#ifndef ASSAY_CLIENT_LIB_FIRST_CALL_H_
#define ASSAY_CLIENT_LIB_FIRST_CALL_H_

#include <chrono>
#include <string_view>
#include <thread>

#include "client/lib/errors.h"
#include "grpcpp/support/status.h"

namespace assay {

// No connection, for a reason that there cannot be for `target`.
inline bool IsSpurious(const grpc::Status& status, std::string_view target) {
  return NeverConnected(status) && !target.starts_with("unix:") &&
         status.error_message().find("No such file") != std::string::npos;
}

// The status of `call`, which makes one call in a context of its own each time it is called:
// again while it fails spuriously, four times at most.
template <class Call>
grpc::Status FirstCall(std::string_view target, const Call& call) {
  grpc::Status status = call();
  for (int again = 0; again < 3 && IsSpurious(status, target); ++again) {
    // Longer than the channel waits before it connects again.
    std::this_thread::sleep_for(std::chrono::milliseconds(150));
    status = call();
  }
  return status;
}

}  // namespace assay

#endif  // ASSAY_CLIENT_LIB_FIRST_CALL_H_
