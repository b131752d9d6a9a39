#include "server/auth/client_limits.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace assay::server {
namespace {

// How soon a place may be free again is not known.
constexpr absl::Duration kPlaceAgain = absl::Seconds(5);
// Of a client's name, in the table and in messages.
constexpr std::size_t kMostNameBytes = 128;
// The entry of all clients for which the table has no room. No name of a client is like it.
constexpr std::string_view kShared = "clients without an entry of their own";

// Connections beyond the limit that are served, to tell their client why they are not.
constexpr std::size_t kMostBeyond = 16;
// Connections of a client that is within the limit are looked at when there are twice as many as at
// the last look, and at least so many.
constexpr std::size_t kLeastLooked = 64;

std::uint64_t SocketOf(int fd) {
  struct stat about {};
  return fstat(fd, &about) == 0 && S_ISSOCK(about.st_mode) ? about.st_ino : 0;
}

absl::Duration SteadyNow() {
  return absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

}  // namespace

std::string PrintableClient(std::string_view name) {
  std::string shown(name.substr(0, kMostNameBytes));
  std::replace_if(
      shown.begin(), shown.end(), [](char c) { return c < 0x20 || c > 0x7e; }, '?');
  return shown;
}

struct ClientLimits::Table : std::enable_shared_from_this<Table> {
  struct Open {
    int fd = -1;
    std::uint64_t socket = 0;
    std::string peer;
    bool beyond = false;
  };
  struct Client {
    std::int64_t waiting_jobs = 0;
    std::int64_t watchers = 0;
    std::int64_t uploads = 0;
    std::int64_t comparisons = 0;
    double cases = 0;               // used of the bucket
    absl::Duration filled;          // when `cases` was worked out
    std::vector<Open> connections;  // some are closed
    std::size_t look_at = kLeastLooked;

    // Lets the bucket fill up to now.
    void Fill(absl::Duration now, std::int64_t per_minute) {
      const double minutes = absl::FDivDuration(now - filled, absl::Minutes(1));
      cases = per_minute > 0 ? std::max(0.0, cases - minutes * static_cast<double>(per_minute)) : 0;
      filled = now;
    }
    bool Idle() const {
      return waiting_jobs == 0 && watchers == 0 && uploads == 0 && comparisons == 0 && cases <= 0 &&
             connections.empty();
    }
  };

  mutable std::mutex mutex;
  ClientLimitValues values;
  std::size_t most_clients = 0;
  std::unordered_map<std::string, Client> clients;
  std::int64_t watchers = 0;  // of all
  std::function<std::uint64_t(int)> socket_of;
  std::unordered_map<std::string, std::string> beyond;  // peer -> its client's name here

  // Forgets the connections that are closed.
  void Look(Client& client) {
    std::erase_if(client.connections, [this](const Open& open) {
      if (socket_of(open.fd) == open.socket) return false;
      if (open.beyond) beyond.erase(open.peer);
      return true;
    });
    client.look_at = std::max(kLeastLooked, 2 * client.connections.size());
  }
  static std::size_t CountBeyond(const Client& client) {
    return static_cast<std::size_t>(std::count_if(client.connections.begin(),
                                                  client.connections.end(),
                                                  [](const Open& open) { return open.beyond; }));
  }

  // The client's entry, and its name there.
  std::pair<const std::string, Client>& Of(std::string_view name, absl::Duration now) {
    std::string key = PrintableClient(name);
    if (const auto found = clients.find(key); found != clients.end()) return *found;
    if (clients.size() >= most_clients) {
      for (auto entry = clients.begin(); entry != clients.end();) {
        entry->second.Fill(now, values.cases_per_minute);
        Look(entry->second);
        entry = entry->second.Idle() ? clients.erase(entry) : std::next(entry);
      }
    }
    if (clients.size() >= most_clients) key = kShared;
    const auto [entry, is_new] = clients.try_emplace(std::move(key));
    if (is_new) entry->second.filled = now;
    return *entry;
  }

  // A place that gives back one of `count` of the client, and of `all` if it is not null.
  Place Take(const std::string& name, std::int64_t Client::*count,
             std::int64_t Table::*all = nullptr) {
    ++(clients.at(name).*count);
    if (all != nullptr) ++(this->*all);
    return {this, [table = shared_from_this(), name, count, all](void*) {
              const std::lock_guard lock(table->mutex);
              // An entry that has something is never forgotten.
              --(table->clients.at(name).*count);
              if (all != nullptr) --(*table.*all);
            }};
  }
};

ClientLimits::ClientLimits(ClientLimitOptions options)
    : clock_(options.clock ? std::move(options.clock) : SteadyNow),
      refused_(std::move(options.refused)),
      table_(std::make_shared<Table>()) {
  table_->values = options.values;
  table_->most_clients = std::max<std::size_t>(options.most_clients, 1);
  table_->socket_of = options.socket_of ? std::move(options.socket_of) : SocketOf;
}

void ClientLimits::Set(const ClientLimitValues& values) {
  const std::lock_guard lock(table_->mutex);
  const absl::Duration now = clock_();
  for (auto& [name, client] : table_->clients) client.Fill(now, table_->values.cases_per_minute);
  table_->values = values;
}

absl::StatusOr<Place> ClientLimits::AdmitJob(std::string_view name, std::int64_t cases) {
  std::optional<Reached> reached;
  std::string who;
  {
    const std::lock_guard lock(table_->mutex);
    const ClientLimitValues& values = table_->values;
    const absl::Duration now = clock_();
    auto& [known, client] = table_->Of(name, now);
    client.Fill(now, values.cases_per_minute);
    const auto rate = static_cast<double>(values.cases_per_minute);
    const double needed = std::min(static_cast<double>(cases), rate);
    who = known;
    if (values.waiting_jobs > 0 && client.waiting_jobs >= values.waiting_jobs) {
      reached = Reached{Limit::kClientWaitingJobs, who, values.waiting_jobs, 0, kPlaceAgain};
    } else if (rate > 0 && client.cases + needed > rate) {
      reached = Reached{Limit::kClientCases, who, values.cases_per_minute, cases,
                        absl::Minutes((client.cases + needed - rate) / rate)};
    } else {
      if (rate > 0) client.cases += static_cast<double>(cases);
      return table_->Take(who, &Table::Client::waiting_jobs);
    }
  }
  if (refused_) refused_(reached->limit);
  return LimitReached(*reached);
}

void ClientLimits::GiveBackCases(std::string_view name, std::int64_t cases) {
  const std::lock_guard lock(table_->mutex);
  auto& [known, client] = table_->Of(name, clock_());
  client.cases = std::max(0.0, client.cases - static_cast<double>(cases));
}

absl::StatusOr<Place> ClientLimits::AdmitWatcher(std::string_view name) {
  std::optional<Reached> reached;
  std::string who;
  {
    const std::lock_guard lock(table_->mutex);
    const ClientLimitValues& values = table_->values;
    auto& [known, client] = table_->Of(name, clock_());
    who = known;
    if (values.watchers > 0 && client.watchers >= values.watchers) {
      reached = Reached{Limit::kClientWatchers, who, values.watchers, 0, kPlaceAgain};
    } else if (values.all_watchers > 0 && table_->watchers >= values.all_watchers) {
      reached = Reached{Limit::kWatchers, "", values.all_watchers, 0, kPlaceAgain};
    } else {
      return table_->Take(who, &Table::Client::watchers, &Table::watchers);
    }
  }
  if (refused_) refused_(reached->limit);
  return LimitReached(*reached);
}

absl::StatusOr<Place> ClientLimits::AdmitUpload(std::string_view name) {
  return Admit(name, Limit::kClientUploads, &ClientLimitValues::uploads, &Table::Client::uploads);
}

absl::StatusOr<Place> ClientLimits::AdmitComparison(std::string_view name) {
  return Admit(name, Limit::kClientComparisons, &ClientLimitValues::comparisons,
               &Table::Client::comparisons);
}

template <class Count>
absl::StatusOr<Place> ClientLimits::Admit(std::string_view name, Limit limit,
                                          std::int64_t ClientLimitValues::*value, Count count) {
  std::string who;
  std::int64_t most = 0;
  {
    const std::lock_guard lock(table_->mutex);
    most = table_->values.*value;
    auto& [known, client] = table_->Of(name, clock_());
    who = known;
    if (most <= 0 || client.*count < most) return table_->Take(who, count);
  }
  if (refused_) refused_(limit);
  return LimitReached({limit, who, most, 0, kPlaceAgain});
}

ClientLimits::Connection ClientLimits::TakeConnection(std::string_view name, std::string_view peer,
                                                      int fd) {
  Connection taken = Connection::kServe;
  {
    const std::lock_guard lock(table_->mutex);
    auto& [who, client] = table_->Of(name, clock_());
    table_->beyond.erase(std::string(peer));  // of an earlier connection from the same port
    const auto most = static_cast<std::size_t>(table_->values.connections);
    const auto full = [&, &known = client] {
      return most > 0 && known.connections.size() - Table::CountBeyond(known) >= most;
    };
    if (client.connections.size() >= client.look_at || full()) table_->Look(client);
    if (full()) {
      taken = Table::CountBeyond(client) < kMostBeyond ? Connection::kRefuse : Connection::kClose;
    }
    if (taken != Connection::kClose) {
      const bool beyond = taken == Connection::kRefuse;
      client.connections.push_back({fd, table_->socket_of(fd), std::string(peer), beyond});
      if (beyond) table_->beyond[std::string(peer)] = who;
    }
  }
  if (taken == Connection::kClose && refused_) refused_(Limit::kClientConnections);
  return taken;
}

absl::Status ClientLimits::CheckConnection(std::string_view peer) {
  std::string who;
  std::int64_t most = 0;
  {
    const std::lock_guard lock(table_->mutex);
    if (table_->beyond.empty()) return absl::OkStatus();
    const auto found = table_->beyond.find(std::string(peer));
    if (found == table_->beyond.end()) return absl::OkStatus();
    who = found->second;
    Table::Client& client = table_->clients.at(who);
    table_->Look(client);
    most = table_->values.connections;
    const std::size_t within = client.connections.size() - Table::CountBeyond(client);
    const auto open = std::find_if(client.connections.begin(), client.connections.end(),
                                   [&](const Table::Open& one) { return one.peer == peer; });
    if (open == client.connections.end()) return absl::OkStatus();
    if (most <= 0 || within < static_cast<std::size_t>(most)) {  // there is room now
      open->beyond = false;
      table_->beyond.erase(std::string(peer));
      return absl::OkStatus();
    }
  }
  if (refused_) refused_(Limit::kClientConnections);
  return LimitReached({Limit::kClientConnections, who, most, 0, kPlaceAgain});
}

void ClientLimits::CutConnection(std::string_view peer) {
  const std::lock_guard lock(table_->mutex);
  for (const auto& [name, client] : table_->clients) {
    for (const Table::Open& open : client.connections) {
      if (open.peer != peer) continue;
      // Only a descriptor of its own stays the same socket while gRPC may close the other.
      const int own = dup(open.fd);
      if (own < 0) continue;
      if (table_->socket_of(own) == open.socket) shutdown(own, SHUT_RDWR);
      close(own);
    }
  }
}

std::size_t ClientLimits::clients() const {
  const std::lock_guard lock(table_->mutex);
  return table_->clients.size();
}

}  // namespace assay::server
