// The certificates that the daemon serves, and which of its clients' certificates are revoked.
//
// Certificates are read again when their files change. A new set is taken only if it is whole: the
// chain parses, the key fits it, and the client authorities parse. Until then, new connections use
// the old set. Open connections continue. No thread of the store's watches the files: each
// handshake and each heartbeat of the daemon looks at them, at most once a second, and warns in the
// log, once a day, of a chain that ends soon.
//
// Thread-safe.
#ifndef ASSAY_SERVER_AUTH_CERTIFICATE_STORE_H_
#define ASSAY_SERVER_AUTH_CERTIFICATE_STORE_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/auth/pem.h"

namespace assay::server {

struct TlsFiles {
  std::string cert;          // PEM, chain of the server
  std::string key;           // PEM
  std::string client_ca;     // PEM; empty: clients need no certificate
  std::string client_crl{};  // PEM, lists of revoked certificates; empty: none is revoked
};

// The lists of revoked certificates and the authorities that signed them.
struct Revocations {
  std::vector<openssl::RevocationList> lists;
  std::vector<openssl::Certificate> authorities;

  // Whether a list has the certificate or an authority above it. True, too, if an issuer is not
  // among the authorities.
  bool Cover(X509* certificate) const;

 private:
  // Whether the list of the certificate's issuer has the certificate.
  bool Have(X509* certificate) const;
  X509* IssuerOf(X509* certificate) const;
};

// The texts of one set of files, in PEM.
struct TlsMaterial {
  std::string cert;
  std::string key;
  std::string client_ca;
  std::string client_crl;
  std::shared_ptr<const Revocations> revocations;  // null: no certificate is revoked
  std::int64_t list_expires = 0;                   // [s since 1970] the first of the lists; 0: none
  std::int64_t expires = 0;  // [s since 1970] when the first certificate of the chain does
};

// A chain that ends within this time is worth a warning.
inline constexpr std::chrono::hours kExpiresSoon{14 * 24};

// Whether `material` is whole, and its chain has not expired. Each list of revoked certificates
// must be a full one, and its issuer an authority of the clients that signed it. A list that has
// expired is taken, and the log warns: it says more than none. Sets all that is not text.
absl::Status CheckMaterial(const TlsFiles& files, TlsMaterial& material);

class CertificateStore {
 public:
  // Reads the first set. INVALID_ARGUMENT or NOT_FOUND, with the file, if the set is not whole, or
  // if others than its owner and group may read the key.
  static absl::StatusOr<std::shared_ptr<CertificateStore>> Open(TlsFiles files);

  // The newest whole set.
  std::shared_ptr<const TlsMaterial> Current();
  // The same, even if the files were looked at less than a second ago.
  void LookNow();
  // Why the files as they are now are not taken; empty if they are the current set.
  std::string Refused();
  const TlsFiles& files() const { return files_; }

  // Whether a client's certificate, in PEM, has expired, or the newest lists have it or an
  // authority above it. With lists, every authority of a client's chain must be in --tls-client-ca:
  // a certificate whose issuer is not there counts as revoked, and so does what is no certificate.
  bool IsVoid(const std::string& certificate);

  // Tells `listener` of the current set now, and of each new one.
  void TellOfNew(std::function<void(const TlsMaterial&)> listener);

  // AddPort gives a port's number. NewFor returns the newest whole set if it is another set than
  // the last one that it returned for `port`, else null.
  int AddPort();
  // Keeps an object alive for as long as the store lives.
  void Keep(std::shared_ptr<void> what);
  std::shared_ptr<const TlsMaterial> NewFor(int port);

 private:
  explicit CertificateStore(TlsFiles files) : files_(std::move(files)) {}
  void WarnLocked();

  const TlsFiles files_;
  std::mutex mutex_;
  std::shared_ptr<const TlsMaterial> current_;
  std::string stamp_;          // of the files when current_ was read from them
  std::string refused_stamp_;  // of the files when they were refused
  std::string refused_;        // why
  std::chrono::steady_clock::time_point looked_{};
  std::vector<std::shared_ptr<const TlsMaterial>> given_;  // to each port
  std::vector<std::shared_ptr<void>> kept_;                // by mutex_
  std::function<void(const TlsMaterial&)> listener_;       // by mutex_
  std::chrono::system_clock::time_point warned_{};         // of the end of the chain
  // To look into a certificate takes longer than the rest of a small call, and each call asks.
  std::unordered_map<std::string, std::int64_t> ends_;  // by mutex_: PEM -> [s since 1970] its end
  std::shared_ptr<const TlsMaterial> ends_of_;          // by mutex_: the set that they hold for
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_AUTH_CERTIFICATE_STORE_H_
