// Secures the daemon's ports: which addresses may be plaintext, and how the others take their
// certificates from the CertificateStore. Thread-safe.
#ifndef ASSAY_SERVER_AUTH_CREDENTIALS_H_
#define ASSAY_SERVER_AUTH_CREDENTIALS_H_

#include <grpcpp/security/server_credentials.h>
#include <openssl/ssl.h>

#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/auth/certificate_store.h"

namespace assay::server {

// Whether only this node reaches the address: "127.0.0.1:7575", "[::1]:0", "localhost:1" and
// "unix:/…".
bool IsLocalAddress(std::string_view address);

// The credentials of a gRPC port. If `certificates` is null, the port is plaintext:
// INVALID_ARGUMENT if the address is not local and `insecure` is not set. `certificates` must
// outlive the server, which uses them at each handshake.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> PortCredentials(
    std::string_view address, const std::shared_ptr<CertificateStore>& certificates, bool insecure);

// Whether the metrics port may serve on `address`. INVALID_ARGUMENT if the address is not local and
// neither `tls` nor `insecure` is set.
absl::Status CheckMetricsPort(std::string_view address, bool tls, bool insecure);

// Whether the health port, which is always plaintext, may serve on `address`. INVALID_ARGUMENT if
// the address is not local and `insecure` is not set.
absl::Status CheckHealthPort(std::string_view address, bool insecure);

// Makes an OpenSSL server, the metrics port, take its certificate from `certificates` at each
// handshake. If there are client authorities, the server asks for the client's certificate.
// `certificates` must outlive the context. Returns false if OpenSSL refuses.
bool UseCertificates(CertificateStore& certificates, SSL_CTX* context);

}  // namespace assay::server

#endif  // ASSAY_SERVER_AUTH_CREDENTIALS_H_
