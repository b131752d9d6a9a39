#include "server/base/limit.h"

#include <array>
#include <string>

#include "kernels/text/cat.h"
#include "server/base/limit_error.h"

namespace assay::server {
namespace {

// What stands before and behind the value in the text of the error.
struct Row {
  Limit limit;
  std::string_view setting;
  std::string_view may;
  bool fixed = false;
  bool counted_at_end = fixed;
};

constexpr Row kRows[] = {
    {Limit::kWaitingJobs, "max-waiting-jobs", "jobs that wait"},
    {Limit::kClientWaitingJobs, "client-max-waiting-jobs", "jobs that wait"},
    {Limit::kClientCases, "client-cases-per-minute", "cases a minute"},
    {Limit::kClientWatchers, "client-max-watchers", "watchers"},
    {Limit::kWatchers, "max-watchers", "watchers"},
    {Limit::kClientConnections, "client-max-connections", "connections"},
    {Limit::kClientUploads, "client-max-uploads", "kernels on their way"},
    {Limit::kClientComparisons, "client-max-comparisons", "comparisons"},
    {Limit::kRequestBytes, "max-request-bytes", "bytes in a request"},
    {Limit::kKeptKernels, "user-kernels-keep", "users' kernels", false, true},
    {Limit::kKeptKernelBytes, "user-kernels-keep-bytes", "bytes of users' kernels", false, true},
    {Limit::kWaitingCalls, "waiting-calls", "calls that wait for the same thread", true},
    {Limit::kWaitingKernels, "waiting-kernels", "kernels that wait", true},
    {Limit::kWaitingComparisons, "waiting-comparisons", "comparisons that wait", true},
    {Limit::kBackups, "backups", "backups, one being made and the others waiting", true},
};

constexpr auto kLimits = [] {
  std::array<Limit, std::size(kRows)> limits{};
  for (std::size_t i = 0; i < limits.size(); ++i) {
    limits[i] = kRows[i].limit;
    if (static_cast<std::size_t>(limits[i]) != i) throw "the rows have the order of the enum";
  }
  return limits;
}();

const Row& RowOf(Limit limit) { return kRows[static_cast<std::size_t>(limit)]; }

}  // namespace

std::span<const Limit> Limits() { return kLimits; }

std::string_view Setting(Limit limit) { return RowOf(limit).setting; }

bool IsCountedAtEnd(Limit limit) { return RowOf(limit).counted_at_end; }

absl::Status LimitReached(const Reached& reached) {
  const Row& row = RowOf(reached.limit);
  const bool never = reached.again <= absl::ZeroDuration();
  return MakeLimitError(
      {.limit = row.setting,
       .fixed = row.fixed,
       .client = reached.client,
       .who = reached.client.empty() && never ? "one request" : "",
       .value = reached.value,
       .may = std::string(reached.may.empty() ? row.may : reached.may),
       .note = reached.wanted > 1 ? Cat("this job has ", reached.wanted, " cases") : "",
       .again = reached.again,
       .instead = reached.instead});
}

}  // namespace assay::server
