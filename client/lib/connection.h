// Connection: a channel to one daemon, with its credentials and its stub.
//
// A target is HOST:PORT, HOST (port 7575) or unix:PATH. The list of targets comes from --target. If
// the option is missing, it comes from ASSAY_TARGET. If that is missing too, it is 127.0.0.1:7575.
// If a word is the name of a table in the targets file, the table replaces the word:
//
//     [targets.lab]
//     address = "a07:7575"            # or a list of addresses
//     tls-ca = "/etc/assay/ca.pem"    # and tls-cert, tls-key, tls-server-name
//     token-file = "/etc/assay/token" # a bearer token, which names the caller as a certificate may
#ifndef ASSAY_CLIENT_LIB_CONNECTION_H_
#define ASSAY_CLIENT_LIB_CONNECTION_H_

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "assay/v1/service.grpc.pb.h"

namespace assay::client {

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
  std::string token_file{};  // empty: no token is shown
};

// What the command line says about targets.
struct TargetOptions {
  std::string targets;  // comma list; empty: ASSAY_TARGET, else 127.0.0.1:7575
  std::string file;     // TOML; empty: ASSAY_TARGETS, else ~/.config/assay/targets.toml if there
  TlsOptions tls;       // overrides the file's, field by field
  std::string token_file{};  // overrides the file's; empty: ASSAY_TOKEN_FILE, if the file has none
};

// The daemons meant. INVALID_ARGUMENT for a malformed address, a file that
// cannot be read, or a certificate without its key.
absl::StatusOr<std::vector<Target>> ResolveTargets(const TargetOptions& options);

// A channel to one daemon and its stub. Thread-safe, as gRPC's stubs are. No
// packet is sent before the first call.
class Connection {
 public:
  // INVALID_ARGUMENT where a PEM file or the token cannot be read, where others may read the token,
  // or where it would go over the network in plaintext.
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

// One call of the API that is not a stream: Ask(connection, &Stub::GetJob, request, &job).
using Stub = v1::ValidationService::Stub;
template <class Request, class Response>
grpc::Status Ask(Connection& connection,
                 grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                 const std::type_identity_t<Request>& request, Response* response,
                 absl::Duration wait = kCallDeadline) {
  grpc::ClientContext call;
  SetDeadline(call, wait);
  return (connection.stub().*method)(&call, request, response);
}

// Asks for one page after another, from the first. `take` gets each page and says whether it wants
// the next one.
template <class Request, class Page, class Take>
grpc::Status AskPages(Connection& connection,
                      grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Page*),
                      std::type_identity_t<Request> request, const Take& take) {
  for (;;) {
    Page page;
    if (grpc::Status s = Ask(connection, method, request, &page); !s.ok()) return s;
    request.set_page_token(page.next_page_token());
    if (!take(page) || request.page_token().empty()) return grpc::Status::OK;
  }
}

}  // namespace assay::client

#endif  // ASSAY_CLIENT_LIB_CONNECTION_H_
