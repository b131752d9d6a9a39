// Shown: how a client presents itself when it connects.
//
// A daemon that wants no such client closes the connection, and gRPC cannot say why. What the
// client has shown leaves few reasons. A connection notes it in the status of the failed call, and
// CauseOf (transport.h) reads it there. Pure functions.
#ifndef ASSAY_CLIENT_LIB_SHOWN_H_
#define ASSAY_CLIENT_LIB_SHOWN_H_

#include "grpcpp/support/status.h"

namespace assay::client {

enum class Shown {
  kUnknown,      // nothing is noted
  kPlaintext,    // no TLS
  kTls,          // TLS, without a certificate of the client's own
  kCertificate,  // TLS with a certificate of the client's own
  kExpired,      // the same, and the certificate has expired
};

// Notes it in a status that has no details yet. It stays where other details are.
void NoteShown(Shown shown, grpc::Status& status);

Shown ShownOf(const grpc::Status& status);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_LIB_SHOWN_H_
