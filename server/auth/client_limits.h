// Limits what one client may have of the daemon: jobs that wait, cases a minute, watchers,
// connections, uploads, comparisons. One client then cannot take the daemon from the others.
//
// When a connection is made, only its address is known, or its user on a Unix socket. That is the
// client whose connections are counted. A connection beyond the limit is served all the same, and
// every call on it is refused, so that the client learns why. A few are; the others are closed.
//
// A client is known by a name: its certificate, token or user, else its address (ClientOf). Clients
// are kept in a table of bounded size. A client that has nothing open and has not used its cases is
// forgotten when there is no room for a new one. If nobody can be forgotten, new clients share one
// entry, and so one client's limits.
//
// Cases are counted by a bucket that holds the cases of a minute and fills at that rate. A job is
// taken if the bucket has as many cases as the job, or if it is full. So a job of more cases than a
// minute's is taken once, and the client waits for as long as its cases count.
//
// Thread-safe. Places may outlive the object.
#ifndef ASSAY_SERVER_AUTH_CLIENT_LIMITS_H_
#define ASSAY_SERVER_AUTH_CLIENT_LIMITS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/base/limit.h"

namespace assay::server {

// Something that a client has. It is given back when the last copy is gone.
using Place = std::shared_ptr<void>;

// A client's name as it stands in errors: a certificate may have any bytes in its name.
std::string PrintableClient(std::string_view name);

struct ClientLimitOptions {
  ClientLimitValues values{};
  // A clock that never goes back: the time since any fixed moment.
  std::function<absl::Duration()> clock{};  // empty: the system's steady clock
  // Told of each refusal, without a lock; may be empty.
  std::function<void(Limit)> refused{};
  std::size_t most_clients = 4096;
  // The number of the socket that has a descriptor, 0 if none has. Empty: asks the system. gRPC
  // closes connections without a word, so the limits look whether those that they know are there.
  std::function<std::uint64_t(int fd)> socket_of{};
};

class ClientLimits {
 public:
  explicit ClientLimits(ClientLimitOptions options = {});

  // Takes new values. What clients have stays theirs.
  void Set(const ClientLimitValues& values);

  // Places of `client`. RESOURCE_EXHAUSTED as LimitReached says. A job holds its place while it
  // waits; its cases count once.
  absl::StatusOr<Place> AdmitJob(std::string_view client, std::int64_t cases);
  absl::StatusOr<Place> AdmitWatcher(std::string_view client);
  // Takes back that so many cases count, because their job was admitted and not taken.
  void GiveBackCases(std::string_view client, std::int64_t cases);
  absl::StatusOr<Place> AdmitUpload(std::string_view client);
  absl::StatusOr<Place> AdmitComparison(std::string_view client);

  // What to do with a connection.
  enum class Connection { kServe, kRefuse, kClose };

  // Takes note of a connection from `peer`, as gRPC names it, before gRPC gets its descriptor.
  // kRefuse: it is beyond the limit, and so CheckConnection refuses its calls.
  Connection TakeConnection(std::string_view client, std::string_view peer, int fd);
  // RESOURCE_EXHAUSTED if the connection from `peer` is beyond the limit.
  absl::Status CheckConnection(std::string_view peer);

  // Ends the connection from `peer`, whose other end takes nothing any more. gRPC then ends all
  // calls on it.
  void CutConnection(std::string_view peer);

  // How many clients are known now.
  std::size_t clients() const;

 private:
  struct Table;

  // A place that counts for the client alone.
  template <class Count>
  absl::StatusOr<Place> Admit(std::string_view client, Limit limit,
                              std::int64_t ClientLimitValues::*value, Count count);

  const std::function<absl::Duration()> clock_;
  const std::function<void(Limit)> refused_;
  const std::shared_ptr<Table> table_;
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_AUTH_CLIENT_LIMITS_H_
