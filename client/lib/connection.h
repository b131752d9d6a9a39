// Connection: a daemon's address, the credentials for it, and the stub.
//
// A target is HOST:PORT, HOST (port 7575) or unix:PATH. A list comes from
// --target, else from ASSAY_TARGET, else it is 127.0.0.1:7575. A word that names
// a table of the targets file stands for that table:
//
//     [targets.lab]
//     address = "a07:7575"            # or a list of addresses
//     tls-ca = "/etc/assay/ca.pem"    # and tls-cert, tls-key, tls-server-name
#ifndef ASSAY_CLIENT_LIB_CONNECTION_H_
#define ASSAY_CLIENT_LIB_CONNECTION_H_

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "assay/v1/service.grpc.pb.h"

namespace assay {

// Files of PEM; all empty: plaintext.
struct TlsOptions {
  std::string ca;           // roots the daemon's certificate must go back to; empty: the system's
  std::string cert;         // this client's certificate; empty: none is shown
  std::string key;          // its private key
  std::string server_name;  // the name the daemon's certificate must carry; empty: the host's

  bool enabled() const {
    return !ca.empty() || !cert.empty() || !key.empty() || !server_name.empty();
  }
};

// One daemon to talk to.
struct Target {
  std::string address;  // as messages and reports name it
  TlsOptions tls;
};

// What the command line says about targets.
struct TargetOptions {
  std::string targets;  // comma list; empty: ASSAY_TARGET, else 127.0.0.1:7575
  std::string file;     // TOML; empty: ASSAY_TARGETS, else ~/.config/assay/targets.toml if there
  TlsOptions tls;       // overrides the file's, field by field
};

// The daemons meant. INVALID_ARGUMENT for a malformed address, a file that
// cannot be read, or a certificate without its key.
absl::StatusOr<std::vector<Target>> ResolveTargets(const TargetOptions& options);

// A channel to one daemon and its stub. Thread-safe, as gRPC's stubs are. No
// packet is sent before the first call.
class Connection {
 public:
  // INVALID_ARGUMENT where a PEM file cannot be read.
  static absl::StatusOr<std::unique_ptr<Connection>> Open(const Target& target);

  const std::string& target() const { return target_; }
  // Valid while the connection lives, Renew or not.
  v1::ValidationService::Stub& stub() { return *stub_.load(); }

  // Has later calls of stub() make a channel of their own, which knows nothing of the one
  // before.
  void Renew();

 private:
  using MakeChannel = std::function<std::shared_ptr<grpc::Channel>()>;
  Connection(std::string target, MakeChannel make);

  std::string target_;
  MakeChannel make_;
  std::mutex mutex_;  // guards stubs_
  std::vector<std::unique_ptr<v1::ValidationService::Stub>> stubs_;
  std::atomic<v1::ValidationService::Stub*> stub_;  // the last of them
};

// Longest wait for the answer of a call that is not a stream.
inline constexpr absl::Duration kCallDeadline = absl::Seconds(30);

// Sets kCallDeadline on a call.
void SetDeadline(grpc::ClientContext& context, absl::Duration wait = kCallDeadline);

}  // namespace assay

#endif  // ASSAY_CLIENT_LIB_CONNECTION_H_
