// FirstCall: makes the call that opens a connection, and repeats it if gRPC fails for no reason.
//
// If many threads open connections at the same time, gRPC 1.51 reports "No such file or directory"
// for about one TCP connection in two thousand. A TCP connection cannot have that error. gRPC would
// try again only after five seconds, but a new channel to the same address connects at once. Real
// errors are returned at once.
#ifndef ASSAY_CLIENT_LIB_FIRST_CALL_H_
#define ASSAY_CLIENT_LIB_FIRST_CALL_H_

#include <string_view>

#include "client/lib/connection.h"
#include "client/lib/errors.h"
#include "grpcpp/support/status.h"

namespace assay::client {

// No connection, for a reason that there cannot be for `target`.
inline bool IsSpurious(const grpc::Status& status, std::string_view target) {
  return NoSuchSocket(status) && !target.starts_with("unix:");
}

// The status of `call`, which makes one call of connection.stub() in a context of its own
// each time it is called: again while it fails spuriously, four times at most.
template <class Call>
grpc::Status FirstCall(Connection& connection, const Call& call) {
  grpc::Status status = call();
  for (int again = 0; again < 3 && IsSpurious(status, connection.target()); ++again) {
    connection.Renew();
    status = call();
  }
  return status;
}

}  // namespace assay::client

#endif  // ASSAY_CLIENT_LIB_FIRST_CALL_H_
