// FirstCall: the call by which a connection is opened.
//
// Where many threads open connections at once, gRPC 1.51 tells about one TCP connection in two
// thousand "No such file or directory", which no TCP connection can mean, and tries it again
// after five seconds only. A new channel to the same address connects at once. What is
// really refused, or has no address, is told at once.
#ifndef ASSAY_CLIENT_LIB_FIRST_CALL_H_
#define ASSAY_CLIENT_LIB_FIRST_CALL_H_

#include <string_view>

#include "client/lib/connection.h"
#include "client/lib/errors.h"
#include "grpcpp/support/status.h"

namespace assay {

// No connection, for a reason that there cannot be for `target`.
inline bool IsSpurious(const grpc::Status& status, std::string_view target) {
  return NeverConnected(status) && !target.starts_with("unix:") &&
         status.error_message().find("No such file") != std::string::npos;
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

}  // namespace assay

#endif  // ASSAY_CLIENT_LIB_FIRST_CALL_H_
