#include "server/worker/profiler_output.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "kernels/text/cat.h"

namespace assay::server {
namespace {

constexpr std::array<std::string_view, 6> kPerfCounters = {
    "cycles", "instructions", "cache-references", "cache-misses", "branch-misses", "task-clock"};

// Share of the memory's peak, arithmetic, and why warps wait, by cause. The causes are Nsight
// Compute's warp states. Their unit is waiting warps for each warp that issues.
constexpr std::string_view kNcuTime = "gpu__time_duration.sum";
constexpr std::array<std::string_view, 11> kNcuCounters = {
    kNcuTime,
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

constexpr std::array<std::string_view, 3> kRocprofCounters = {"SQ_INSTS_VALU", "GRBM_COUNT",
                                                              "MemUnitBusy"};

// Every kernel of the sources that is no provider's, without those of the ending below. A test
// holds the list against the sources.
// clang-format off
constexpr std::array<std::string_view, 46> kChecking = {
    "AttentionTiles", "BeginWatch", "CheckHeads", "CheckRows",
    "ChecksumParts", "ChecksumTiles", "ClearCounts",
    "ClearFindings", "ClearLargest", "CompareBlocks",
    "CompareMerge", "CompareSmall", "ConvTiles",
    "CopyChunks", "CopyElements", "DigestWords",
    "FillAny", "FillDense", "FillKeyGroups",
    "GemmLines", "GemmSquareScales", "GemmTiles",
    "HalfChains", "Hold", "Keep",
    "KeyGroupMeans", "LogitRows", "LogitTiles",
    "MatrixProducts", "MultiplyAddChains", "Recheck",
    "ResidualColumns", "ResidualMerge", "ResidualRows",
    "ResidualTiles", "SetCode", "ShowFirst",
    "Spin", "StreamCopy", "StreamRead",
    "StreamTriad", "SumKeySquares", "Sweep", "TakeLook",
    "VisitGaps", "VisitRanges"};
// clang-format on
// So ends the name of an operator's reference.
constexpr std::string_view kReferenceEnding = "Reference";

using Cells = std::vector<std::string>;

// Splits one line of RFC 4180. A quote that never closes ends with the line.
Cells SplitCsv(std::string_view line) {
  Cells cells(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quoted && c == '"' && i + 1 < line.size() && line[i + 1] == '"') {
      cells.back() += '"';
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      cells.emplace_back();
    } else {
      cells.back() += c;
    }
  }
  return cells;
}

std::vector<std::string_view> Lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
  }
  return lines;
}

// Reads a finite number, with or without commas between thousands.
std::optional<double> Number(std::string text) {
  std::erase(text, ',');
  double value = 0;
  if (!absl::SimpleAtod(text, &value) || !std::isfinite(value)) return std::nullopt;
  return value;
}

void Say(std::string& note, std::string_view what) {
  Append(&note, note.empty() ? "" : "; ", what);
}

// "counters a, b not supported". Empty if there are none.
void SayOf(std::string& note, const std::vector<std::string>& names, std::string_view what) {
  if (names.empty()) return;
  std::string list;
  for (const std::string& name : names) Append(&list, list.empty() ? "" : ", ", name);
  Say(note, Cat(names.size() == 1 ? "counter " : "counters ", list, " ", what));
}

Profile ReadPerf(std::string_view text) {
  Profile profile;
  std::vector<std::string> unsupported, uncounted;
  for (const std::string_view line : Lines(text)) {
    if (line.empty() || line.front() == '#') continue;
    // value, unit, event, time it ran, share of the time in per cent, …
    const Cells cells = SplitCsv(line);
    if (cells.size() < 3 || cells[2].empty()) continue;
    const std::string& event = cells[2];
    if (cells[0] == "<not supported>") {
      unsupported.push_back(event);
    } else if (cells[0] == "<not counted>") {
      uncounted.push_back(event);
    } else if (const std::optional<double> value = Number(cells[0])) {
      profile.counters[event] = *value;
      const std::optional<double> share = cells.size() > 4 ? Number(cells[4]) : std::nullopt;
      if (share && *share < 99.5) {
        Say(profile.note,
            Cat("counter ", event, " is an estimate: it counted ", cells[4], " % of the time"));
      }
    }
  }
  SayOf(profile.note, unsupported, "not supported");
  SayOf(profile.note, uncounted, "not counted");
  return profile;
}

// The launch of a kernel, as a GPU's profiler saw it.
struct Dispatch {
  std::string kernel;
  double duration = 0;  // in any unit, the same for all
  std::map<std::string, double> counters;
};

// Takes the counters of the longest launch that does not belong to the checks.
Profile OfLongest(std::vector<Dispatch> dispatches, std::span<const std::string_view> wanted,
                  std::string_view profiler) {
  Profile profile;
  std::erase_if(dispatches, [](const Dispatch& d) { return IsCheckingKernel(d.kernel); });
  if (dispatches.empty()) {
    profile.note = Cat(profiler, " saw no kernel under test");
    return profile;
  }
  const auto longest = std::max_element(
      dispatches.begin(), dispatches.end(),
      [](const Dispatch& a, const Dispatch& b) { return a.duration < b.duration; });
  profile.counters = std::move(longest->counters);
  std::vector<std::string> missing;
  for (const std::string_view name : wanted) {
    if (!profile.counters.contains(std::string(name))) missing.emplace_back(name);
  }
  SayOf(profile.note, missing, "not supported");
  return profile;
}

std::optional<std::size_t> Column(const Cells& header, std::string_view name) {
  const auto found = std::find(header.begin(), header.end(), name);
  if (found == header.end()) return std::nullopt;
  return static_cast<std::size_t>(found - header.begin());
}

Profile ReadNcu(std::string_view text) {
  std::vector<Dispatch> dispatches;
  Cells header;
  for (const std::string_view line : Lines(text)) {
    if (line.empty() || line.starts_with("==")) continue;  // its own messages
    Cells cells = SplitCsv(line);
    if (header.empty()) {
      if (cells.front() == "ID") header = std::move(cells);
      continue;
    }
    const std::optional<std::size_t> name = Column(header, "Kernel Name");
    // The row with the units has no ID.
    if (!name || cells.size() != header.size() || cells.front().empty()) continue;
    Dispatch& dispatch = dispatches.emplace_back();
    dispatch.kernel = cells[*name];
    for (const std::string_view counter : kNcuCounters) {
      const std::optional<std::size_t> at = Column(header, counter);
      const std::optional<double> value = at ? Number(cells[*at]) : std::nullopt;
      if (value) dispatch.counters[std::string(counter)] = *value;
      if (value && counter == kNcuTime) dispatch.duration = *value;
    }
  }
  return OfLongest(std::move(dispatches), kNcuCounters, "ncu");
}

double Span(const Cells& header, const Cells& cells, std::string_view from, std::string_view to) {
  const std::optional<std::size_t> begin = Column(header, from), end = Column(header, to);
  if (!begin || !end) return 0;
  const std::optional<double> b = Number(cells[*begin]), e = Number(cells[*end]);
  return b && e ? *e - *b : 0;
}

// Reads a table with one row for each kernel and one column for each counter.
std::vector<Dispatch> ReadWide(const Cells& header, const std::vector<Cells>& rows) {
  std::vector<Dispatch> dispatches;
  dispatches.reserve(rows.size());
  for (const Cells& cells : rows) {
    Dispatch& dispatch = dispatches.emplace_back();
    dispatch.kernel = cells[*Column(header, "KernelName")];
    dispatch.duration = Span(header, cells, "BeginNs", "EndNs");
    for (const std::string_view counter : kRocprofCounters) {
      const std::optional<std::size_t> at = Column(header, counter);
      const std::optional<double> value = at ? Number(cells[*at]) : std::nullopt;
      if (value) dispatch.counters[std::string(counter)] = *value;
    }
  }
  return dispatches;
}

// Reads a table with one row for each counter of each dispatch.
std::vector<Dispatch> ReadLong(const Cells& header, const std::vector<Cells>& rows) {
  const auto id = Column(header, "Dispatch_Id"), kernel = Column(header, "Kernel_Name");
  const auto name = Column(header, "Counter_Name"), value = Column(header, "Counter_Value");
  if (!id || !kernel || !name || !value) return {};
  std::map<std::string, Dispatch> by_id;
  for (const Cells& cells : rows) {
    Dispatch& dispatch = by_id[cells[*id]];
    dispatch.kernel = cells[*kernel];
    dispatch.duration = Span(header, cells, "Start_Timestamp", "End_Timestamp");
    if (const auto counted = Number(cells[*value])) dispatch.counters[cells[*name]] = *counted;
  }
  std::vector<Dispatch> dispatches;
  dispatches.reserve(by_id.size());
  for (auto& [key, dispatch] : by_id) dispatches.push_back(std::move(dispatch));
  return dispatches;
}

Profile ReadRocprof(std::string_view text) {
  Cells header;
  std::vector<Cells> rows;
  for (const std::string_view line : Lines(text)) {
    if (line.empty()) continue;
    Cells cells = SplitCsv(line);
    if (header.empty()) {
      header = std::move(cells);
    } else if (cells.size() == header.size()) {
      rows.push_back(std::move(cells));
    }
  }
  const bool wide = Column(header, "KernelName").has_value();
  return OfLongest(wide ? ReadWide(header, rows) : ReadLong(header, rows), kRocprofCounters,
                   "rocprof");
}

}  // namespace

std::span<const std::string_view> CountersOf(Profiler profiler) {
  switch (profiler) {
    case Profiler::kPerf:
      return kPerfCounters;
    case Profiler::kNcu:
      return kNcuCounters;
    case Profiler::kRocprof:
      return kRocprofCounters;
  }
  return {};
}

Profile ReadProfile(Profiler profiler, std::string_view text) {
  Profile profile;
  switch (profiler) {
    case Profiler::kPerf:
      profile = ReadPerf(text);
      break;
    case Profiler::kNcu:
      profile = ReadNcu(text);
      break;
    case Profiler::kRocprof:
      profile = ReadRocprof(text);
      break;
  }
  if (profile.counters.empty() && profile.note.empty()) {
    profile.note = Cat(Name(profiler), " counted nothing");
  }
  return profile;
}

std::string Refusal(Profiler profiler, std::string_view text, std::string_view paranoid) {
  const auto says = [text](std::string_view words) { return text.find(words) != text.npos; };
  switch (profiler) {
    case Profiler::kPerf:
      if (!says("perf_event_paranoid") && !says("Permission denied") &&
          !says("Operation not permitted") && !says("No permission")) {
        return "";
      }
      if (paranoid.empty()) return "perf: no permission to count";
      // With a value up to 2, the kernel lets every user count in user mode.
      if (int level = 0;
          absl::SimpleAtoi(absl::string_view(paranoid.data(), paranoid.size()), &level) &&
          level <= 2) {
        return Cat("perf: no permission to count, though kernel.perf_event_paranoid is ", paranoid,
                   ": a container or a system call filter may forbid perf_event_open");
      }
      return Cat("perf: no permission: kernel.perf_event_paranoid is ", paranoid);
    case Profiler::kNcu:
      if (!says("ERR_NVGPUCTRPERM")) return "";
      return "ncu: no permission: the driver keeps the counters to administrators "
             "(ERR_NVGPUCTRPERM)";
    case Profiler::kRocprof:
      if (!says("Permission denied") && !says("Operation not permitted")) return "";
      return "rocprof: no permission to count";
  }
  return "";
}

std::string_view FunctionName(std::string_view kernel_name) {
  std::string_view name = kernel_name;
  // What stands for a namespace without a name begins as a list of arguments does.
  for (const std::string_view anonymous :
       {"(anonymous namespace)::", "<unnamed>::", "_GLOBAL__N__"}) {
    if (const std::size_t at = name.rfind(anonymous); at != name.npos && at < name.find('*')) {
      name.remove_prefix(at + anonymous.size());
    }
  }
  name = name.substr(0, name.find_first_of("<(["));
  if (const std::size_t at = name.rfind("::"); at != name.npos) name.remove_prefix(at + 2);
  while (name.ends_with(' ')) name.remove_suffix(1);
  if (const std::size_t at = name.rfind(' '); at != name.npos) name.remove_prefix(at + 1);
  return name.ends_with(".kd") ? name.substr(0, name.size() - 3) : name;
}

bool IsCheckingKernel(std::string_view kernel_name) {
  const std::string_view function = FunctionName(kernel_name);
  return function.ends_with(kReferenceEnding) ||
         std::find(kChecking.begin(), kChecking.end(), function) != kChecking.end();
}

std::span<const std::string_view> CheckingKernels() { return kChecking; }

}  // namespace assay::server
