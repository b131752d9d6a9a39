#include "server/auth/client_limits.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

namespace assay::server {
namespace {

// How soon a place may be free again is not known.
constexpr absl::Duration kPlaceAgain = absl::Seconds(5);
// Of a client's name, in the table and in messages.
constexpr std::size_t kMostNameBytes = 128;
// The entry of all clients for which the table has no room. No name of a client is like it.
constexpr std::string_view kShared = "clients without an entry of their own";

absl::Duration SteadyNow() {
  return absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

// A certificate may have any bytes in its name.
std::string Printable(std::string_view name) {
  std::string shown(name.substr(0, kMostNameBytes));
  std::replace_if(
      shown.begin(), shown.end(), [](char c) { return c < 0x20 || c > 0x7e; }, '?');
  return shown;
}

}  // namespace

struct ClientLimits::Table : std::enable_shared_from_this<Table> {
  struct Client {
    std::int64_t waiting_jobs = 0;
    std::int64_t watchers = 0;
    double cases = 0;       // used of the bucket
    absl::Duration filled;  // when `cases` was worked out

    // Lets the bucket fill up to now.
    void Fill(absl::Duration now, std::int64_t per_minute) {
      const double minutes = absl::FDivDuration(now - filled, absl::Minutes(1));
      cases = per_minute > 0 ? std::max(0.0, cases - minutes * static_cast<double>(per_minute)) : 0;
      filled = now;
    }
    bool Idle() const { return waiting_jobs == 0 && watchers == 0 && cases <= 0; }
  };

  mutable std::mutex mutex;
  ClientLimitValues values;
  std::size_t most_clients = 0;
  std::unordered_map<std::string, Client> clients;
  std::int64_t watchers = 0;  // of all

  // The client's entry, and its name there.
  std::pair<const std::string, Client>& Of(std::string_view name, absl::Duration now) {
    std::string key = Printable(name);
    if (const auto found = clients.find(key); found != clients.end()) return *found;
    if (clients.size() >= most_clients) {
      for (auto entry = clients.begin(); entry != clients.end();) {
        entry->second.Fill(now, values.cases_per_minute);
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

std::size_t ClientLimits::clients() const {
  const std::lock_guard lock(table_->mutex);
  return table_->clients.size();
}

}  // namespace assay::server
