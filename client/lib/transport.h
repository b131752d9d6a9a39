// Tells errors of the connection from errors of the daemon.
//
// gRPC says in words only why a connection failed. This is the one place that reads its words;
// they are gRPC's own, and no daemon's: an error that carries an ErrorInfo of assay's is never
// taken for one of the connection. Pure functions.
#ifndef ASSAY_CLIENT_LIB_TRANSPORT_H_
#define ASSAY_CLIENT_LIB_TRANSPORT_H_

#include <optional>
#include <string>

#include "absl/time/time.h"
#include "google/rpc/error_details.pb.h"
#include "grpcpp/support/status.h"

namespace assay::client {

// The ErrorInfo that the daemon gave the error; with an empty domain if it gave none.
google::rpc::ErrorInfo ErrorInfoOf(const grpc::Status& status);

// No connection was made, so that the request cannot have been received.
bool NeverConnected(const grpc::Status& status);

// A connection broke while a request or a stream was under way.
bool ConnectionLost(const grpc::Status& status);

// The daemon is gone or going and may come back: worth another attempt.
bool IsTransient(const grpc::Status& status);

// When the daemon says to come again (google.rpc.RetryInfo); nothing if it does not.
std::optional<absl::Duration> RetryDelayOf(const grpc::Status& status);

// No connection was made, for want of a file: the socket of a "unix:" address.
bool NoSuchSocket(const grpc::Status& status);

// Why no connection was made: "connection refused".
struct ConnectionCause {
  std::string words;
  bool is_it_running = true;  // the daemon may simply not be there
};
ConnectionCause CauseOf(const grpc::Status& status);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_LIB_TRANSPORT_H_
