// Decides who may make a call. A caller has the highest role that the roles file gives to what the
// caller shows: the names of its certificate, its user on a Unix socket, its bearer token. Nobody
// else may do anything.
//
// Without a file: whoever comes in plaintext from this node is admin, because only the daemon's own
// user reaches its Unix sockets, and the operator of the node chose the loopback port. Everyone
// else is operator: callers with a certificate of --tls-client-ca, those of a TLS port that asks
// for none, and those of a plaintext port that --insecure opened.
//
// The file is read again when it changes, by the next call, at most once a second. A file that is
// not whole is refused, and the roles before it stay.
//
// Thread-safe.
#ifndef ASSAY_SERVER_AUTH_ACCESS_H_
#define ASSAY_SERVER_AUTH_ACCESS_H_

#include <grpcpp/server_context.h>
#include <sys/types.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/auth/role.h"
#include "server/auth/roles_file.h"
#include "server/base/log.h"

namespace assay::server {

// What a caller shows of itself.
struct Shown {
  bool encrypted = false;
  bool unix_socket = false;          // of the daemon's own user, as the socket's mode says
  bool loopback = false;             // from this node
  std::vector<std::string> names{};  // of its certificate: the common name first
  std::optional<std::string> token{};
  std::string peer{};  // as gRPC names the address
};
Shown ShownBy(const grpc::ServerContextBase& context);

struct Caller {
  std::string name;  // for the log: "ops.example", "token nightly", "unix socket", an address
  Role role = Role::kNone;
};

class Access {
 public:
  // Reads the file. An empty path: no file. Errors as ReadRolesFile.
  static absl::StatusOr<std::unique_ptr<Access>> Open(std::string roles_file);

  // The caller of `call`, a name of NeededRoles(). UNAUTHENTICATED if the caller shows a token that
  // nobody has; PERMISSION_DENIED if its role is too low. A refusal is logged, few a second.
  absl::StatusOr<Caller> Admit(const Shown& shown, std::string_view call);

  // Who has which role without a file; for the log at start.
  bool has_file() const { return !path_.empty(); }

 private:
  Access(std::string path, Roles roles);

  std::shared_ptr<const Roles> Current();
  absl::StatusOr<Caller> Identify(const Shown& shown);

  const std::string path_;
  LogRateLimit refusals_{/*rate=*/5, /*burst=*/20};

  std::mutex mutex_;
  std::shared_ptr<const Roles> roles_;              // mutex_
  std::string stamp_;                               // mutex_; of the file when it was last read
  std::chrono::steady_clock::time_point looked_{};  // mutex_
};

// One line of the log for a call that changed something or used a device: who, what, of which job
// or device, and how it ended ("OK", "NOT_FOUND").
void Audit(const Caller& caller, std::string_view call, std::string_view target,
           std::string_view result);

}  // namespace assay::server

#endif  // ASSAY_SERVER_AUTH_ACCESS_H_
