// Decides who may make a call. A caller has the highest role that the roles file gives to what the
// caller shows: the names of its certificate, its user on a Unix socket, its bearer token. Nobody
// else may do anything.
//
// The daemon's own user and root are admin on a Unix socket, whatever the file says.
//
// Without a file: whoever comes in plaintext from this node is admin, because no other user reaches
// a Unix socket then, and the operator of the node chose the loopback port. Everyone else is
// operator: callers with a certificate of --tls-client-ca, those of a TLS port that asks
// for none, and those of a plaintext port that --insecure opened.
//
// The file is read again when it changes, by the next call, at most once a second. A file that is
// not whole is refused, and the roles before it stay.
//
// Not asked about: grpc.health.v1, /healthz of the metrics port, and reflection (--no-reflection),
// which tell nothing of jobs and devices. A stream that is open goes on when its caller loses its
// role.
//
// Thread-safe.
#ifndef ASSAY_SERVER_AUTH_ACCESS_H_
#define ASSAY_SERVER_AUTH_ACCESS_H_

#include <grpcpp/server_context.h>
#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "assay/v1/service.pb.h"
#include "server/auth/role.h"
#include "server/auth/roles_file.h"
#include "server/base/log.h"

namespace assay::server {

// What a caller shows of itself.
struct Shown {
  bool encrypted = false;
  std::optional<uid_t> user{};       // at the other end of a Unix socket
  bool loopback = false;             // from this node
  std::vector<std::string> names{};  // of its certificate: the common name first
  bool is_void = false;              // its certificate has expired or is revoked
  std::optional<std::string> token{};
  std::string peer{};  // as gRPC names the address
};

// The token of a header "Bearer TOKEN". Empty: the header has another form.
std::string BearerToken(std::string_view header);

struct Caller {
  // For the log: "certificate ops.example", "token nightly", "uid:1000", "address ipv4:10.0.0.1:4".
  std::string name;
  Role role = Role::kNone;
  std::string peer;  // the address
};

class Access {
 public:
  // A clock that never goes back.
  using Clock = std::function<std::chrono::steady_clock::time_point()>;

  // Reads the file. An empty path: no file. Errors as ReadRolesFile.
  static absl::StatusOr<std::unique_ptr<Access>> Open(std::string roles_file,
                                                      Clock clock = std::chrono::steady_clock::now);

  // `is_void` says of a client's certificate, in PEM, whether it has expired or is revoked. It is
  // asked at each call: open connections do not outlive that, and neither do TLS sessions, which
  // gRPC resumes without a look at the certificate. Set it before the first call.
  void AskWhetherVoid(std::function<bool(const std::string& certificate)> is_void) {
    is_void_ = std::move(is_void);
  }

  // Takes note of a connection to a Unix socket, with its descriptor, before gRPC gets it. Returns
  // false if the user is neither the daemon's, nor root, nor one of the file.
  bool TakeConnection(int descriptor, uid_t user);
  Shown ShownBy(const grpc::ServerContextBase& context);

  // The caller of `call`, a name of NeededRoles(). UNAUTHENTICATED if the caller shows a token that
  // nobody has, or a void certificate; PERMISSION_DENIED if its role is too low. A refusal is
  // logged, few a second.
  absl::StatusOr<Caller> Admit(const Shown& shown, std::string_view call);

  // Looks at the file now, even if it was looked at less than a second ago.
  void LookNow();

  // Why the file as it is now is not taken; empty if its roles are those that count.
  std::string Refused();

  // Whether the file may name users of Unix sockets, now or when it has changed.
  bool MayNameUsers() const { return !path_.empty(); }

 private:
  Access(std::string path, Roles roles, Clock clock);

  std::shared_ptr<const Roles> Current();
  absl::StatusOr<Caller> Identify(const Shown& shown);
  Role RoleOfUser(uid_t user);
  void LogRefusal(std::string_view call, std::string_view peer, std::string_view reason);

  const std::string path_;
  const Clock clock_;
  std::function<bool(const std::string&)> is_void_;
  LogRateLimit refusals_{/*rate=*/5, /*burst=*/20};

  std::mutex mutex_;
  std::shared_ptr<const Roles> roles_;  // mutex_
  std::string stamp_;                   // mutex_; of the file when roles_ was read from it
  std::string refused_stamp_;           // mutex_; of the file when it was refused
  std::string refused_;                 // mutex_; why
  std::chrono::steady_clock::time_point looked_{};  // mutex_
  // By descriptor; some are closed. gRPC closes a descriptor only once no call of its connection is
  // left, so that no call can have the user of a later connection.
  std::map<int, uid_t> users_;  // mutex_
};

// Whose limits a caller's calls count against: its name. Of an address it is the addresses that one
// machine may give itself, so that it is one client: an IPv4 address, all of 127.0.0.0/8, or the
// 64-bit network of an IPv6 address. An IPv4 address in an IPv6 one counts as itself.
std::string ClientOf(const Caller& caller);
// The same for a caller of whom only the address is known, as gRPC names it:
// "ipv6:%5B2001:db8::1%5D:4433" is "address ipv6:2001:db8::/64".
std::string ClientAt(std::string_view peer);

// One line of the log for a call that changed something or used a device: who, from where, what,
// the job, baseline or device that the call names, and how it ended ("OK", "NOT_FOUND"). Returns
// the same as an event that ended now.
v1::AuditEvent Audit(const Caller& caller, std::string_view call, std::string_view target,
                     std::string_view result);

}  // namespace assay::server

#endif  // ASSAY_SERVER_AUTH_ACCESS_H_
