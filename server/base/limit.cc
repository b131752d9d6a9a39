#include "server/base/limit.h"

#include <array>
#include <string>

#include "google/rpc/error_details.pb.h"
#include "kernels/text/cat.h"
#include "server/base/error_info.h"
#include "server/base/request_errors.h"

namespace assay::server {
namespace {

// What stands before and behind the value in the text of the error.
struct Row {
  Limit limit;
  std::string_view setting;
  std::string_view may;
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

absl::Status LimitReached(const Reached& reached) {
  const Row& row = RowOf(reached.limit);
  const absl::Duration again = absl::Ceil(reached.again, absl::Seconds(1));
  const bool never = again == absl::ZeroDuration();
  const std::string who = !reached.client.empty() ? std::string(reached.client)
                          : never                 ? "one request"
                                                  : "all clients together";
  const std::string what = Cat(who, " may have ", reached.value, " ",
                               reached.may.empty() ? row.may : reached.may, " (", row.setting, ")");
  const std::string sent =
      reached.wanted > 1 ? Cat("; this job has ", reached.wanted, " cases") : std::string();
  const std::string then =
      never ? std::string(reached.instead) : Cat("try again in ", absl::FormatDuration(again));
  absl::Status status =
      absl::ResourceExhaustedError(Cat("a limit is reached: ", what, sent, "; ", then));

  google::rpc::ErrorInfo info;
  info.set_domain(kErrorDomain);
  info.set_reason(std::string(Word(v1::ERROR_REASON_LIMIT_REACHED)));
  auto& metadata = *info.mutable_metadata();
  metadata["limit"] = std::string(row.setting);
  metadata["value"] = Cat(reached.value);
  if (!reached.client.empty()) metadata["client"] = std::string(reached.client);
  Attach(info, status);

  google::rpc::QuotaFailure quota;
  google::rpc::QuotaFailure::Violation& violation = *quota.add_violations();
  violation.set_subject(who);
  violation.set_description(what);
  Attach(quota, status);
  return never ? status : WithRetry(std::move(status), again);
}

}  // namespace assay::server
