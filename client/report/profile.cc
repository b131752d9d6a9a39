#include "client/report/profile.h"

#include <cmath>
#include <map>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "client/report/units.h"

namespace assay::client {
namespace {

constexpr std::string_view kPerf[] = {"cycles",       "instructions",  "cache-references",
                                      "cache-misses", "branch-misses", "task-clock"};
constexpr std::string_view kNcu[] = {
    "gpu__time_duration.sum",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "smsp__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
    "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio",
    "smsp__average_warps_issue_stalled_lg_throttle_per_issue_active.ratio",
    "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio",
    "smsp__average_warps_issue_stalled_math_pipe_throttle_per_issue_active.ratio",
    "smsp__average_warps_issue_stalled_mio_throttle_per_issue_active.ratio",
    "smsp__average_warps_issue_stalled_short_scoreboard_per_issue_active.ratio"};
constexpr std::string_view kRocprof[] = {"SQ_INSTS_VALU", "GRBM_COUNT", "MemUnitBusy"};

struct Label {
  std::string name;
  std::string unit;
};

// A metric is unit__name.rollup; a share of a peak says so at its end.
Label LabelOf(std::string_view counter) {
  constexpr std::string_view kStalled = "smsp__average_warps_issue_stalled_";
  constexpr std::string_view kPerIssue = "_per_issue_active.ratio";
  if (counter.starts_with(kStalled) && counter.ends_with(kPerIssue)) {
    counter.remove_prefix(kStalled.size());
    counter.remove_suffix(kPerIssue.size());
    return {absl::StrCat("stalled ", std::string(counter)), ""};
  }
  if (const std::size_t at = counter.find(".avg.pct_of_peak_sustained"); at != counter.npos) {
    return {std::string(counter.substr(0, at)), " %"};
  }
  if (counter == "gpu__time_duration.sum") return {"gpu__time_duration", " ns"};
  if (counter == "task-clock") return {"task-clock", " ms"};
  if (counter == "MemUnitBusy") return {"MemUnitBusy", " %"};
  return {std::string(counter), ""};
}

std::string NumberText(double value) {
  const bool whole = value == std::floor(value) && std::abs(value) < 1e15;
  return whole ? CountText(static_cast<std::int64_t>(value)) : ValueText(value);
}

}  // namespace

std::string ProfileText(const v1::BenchStats& bench) {
  const std::map<std::string, double> counters(bench.profile().begin(), bench.profile().end());
  std::string text;
  for (const auto& [counter, value] : counters) {
    const Label label = LabelOf(counter);
    absl::StrAppend(&text, text.empty() ? "" : ", ", label.name, " ", NumberText(value),
                    label.unit);
  }
  if (!bench.profile_note().empty()) {
    absl::StrAppend(&text, text.empty() ? "" : "; ", bench.profile_note());
  }
  return text;
}

std::span<const std::string_view> CountersOf(std::string_view profiler) {
  if (profiler == "perf") return kPerf;
  if (profiler == "ncu") return kNcu;
  if (profiler == "rocprof") return kRocprof;
  return {};
}

}  // namespace assay::client
