// How the daemon's ports are secured: which addresses may be plain, and the
// certificates of those that are not.
//
// Certificates are read again when their files change. A new set is taken only if
// it is whole (chain, key that fits it, client authorities that parse); until then
// connections are made with the set before, and those that are open run on. There
// is no watching thread: each handshake looks at the files, at most once a second.
//
// Thread-safe.
#ifndef ASSAY_SERVER_AUTH_CREDENTIALS_H_
#define ASSAY_SERVER_AUTH_CREDENTIALS_H_

#include <grpcpp/security/server_credentials.h>
#include <openssl/ssl.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace assay {

struct TlsFiles {
  std::string cert;       // PEM, chain of the server
  std::string key;        // PEM
  std::string client_ca;  // PEM; empty: clients need no certificate
};

// One whole, checked set; PEM text.
struct TlsMaterial {
  std::string cert;
  std::string key;
  std::string client_ca;
};

// Whether `material` can serve: INVALID_ARGUMENT names the file of `files` at fault.
absl::Status CheckMaterial(const TlsMaterial& material, const TlsFiles& files);

class CertificateStore {
 public:
  // INVALID_ARGUMENT or NOT_FOUND, with the file, where the first set is not whole.
  static absl::StatusOr<std::shared_ptr<CertificateStore>> Open(TlsFiles files);

  // The newest whole set.
  std::shared_ptr<const TlsMaterial> Current();
  const TlsFiles& files() const { return files_; }

  // For a port: the newest whole set if it is another than this returned before for
  // `port`, else null. `port` is what AddPort gave.
  int AddPort();
  // Holds something for as long as the store lives.
  void Keep(std::shared_ptr<void> what);
  std::shared_ptr<const TlsMaterial> NewFor(int port);

 private:
  explicit CertificateStore(TlsFiles files) : files_(std::move(files)) {}

  const TlsFiles files_;
  std::mutex mutex_;
  std::shared_ptr<const TlsMaterial> current_;
  std::string stamp_;  // of the files when they were last read
  std::chrono::steady_clock::time_point looked_{};
  std::vector<std::shared_ptr<const TlsMaterial>> given_;  // to each port
  std::vector<std::shared_ptr<void>> kept_;                // by mutex_
};

// "127.0.0.1:7575", "[::1]:0", "localhost:1" and "unix:/…": reached from this node only.
bool IsLocalAddress(std::string_view address);

// Credentials of a gRPC port. `certificates` null: plaintext, and INVALID_ARGUMENT
// where the address is not local and `insecure` is not set. `certificates` must
// outlive the server, which asks them at each handshake.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> PortCredentials(
    std::string_view address, const std::shared_ptr<CertificateStore>& certificates, bool insecure);

// Whether the metrics port may serve on `address`: INVALID_ARGUMENT where it is not
// local and neither `tls` nor `insecure` is set.
absl::Status CheckMetricsPort(std::string_view address, bool tls, bool insecure);

// Has an OpenSSL server (the metrics port) take its certificate from `certificates`
// at each handshake, and ask for the client's where there are client authorities.
// `certificates` must outlive the context. False where OpenSSL refuses.
bool UseCertificates(CertificateStore& certificates, SSL_CTX* context);

}  // namespace assay

#endif  // ASSAY_SERVER_AUTH_CREDENTIALS_H_
