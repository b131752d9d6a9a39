#include "client/report/side_by_side.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/lib/operators.h"
#include "client/lib/words.h"
#include "client/report/column_unit.h"
#include "client/report/columns.h"
#include "client/report/profile.h"
#include "client/report/row.h"
#include "client/report/units.h"

namespace assay::client {
namespace {

constexpr std::size_t kGroupGap = 3;  // [columns] between groups

// One provider's of one case.
struct CaseCell {
  std::string time, operations, bytes, of_roof, best, change;
  std::string instead;                            // of all of them: "FAILED bound", "unsupported"
  std::optional<double> seconds{};                // that may be ranked
  std::optional<double> operations_per_second{};  // one of the two
  std::optional<double> bytes_per_second{};
  bool noisy = false;
  std::string profile{};  // on a line of its own
};

// A case, whoever's kernel runs it.
struct CaseLine {
  std::string name;
  std::map<std::string, CaseCell> cells;  // by provider
};

// The case's name without the provider, and what else tells results apart.
std::string NameOf(const Report& report, const Run& run, const v1::CaseResult& result) {
  const v1::CaseSpec& spec = result.spec();
  std::string name = result.name();
  const std::string suffix = " " + spec.provider();
  if (const std::size_t at = name.rfind(suffix); at != std::string::npos) {
    const std::size_t end = at + suffix.size();
    if (end == name.size() || name[end] == ' ') name.erase(at, suffix.size());
  }
  if (run.job.devices_size() > 1) absl::StrAppend(&name, " ", result.device());
  if (report.runs.size() > 1) absl::StrAppend(&name, " ", run.target);
  return name;
}

bool HasReason(const v1::CaseResult& result, std::string_view reason) {
  return std::any_of(result.findings().begin(), result.findings().end(),
                     [&](const auto& finding) { return finding.reason() == reason; });
}

// `by_operations`: the rate is said in those, where it is known.
CaseCell CellOf(const v1::CaseResult& result, bool by_operations) {
  CaseCell cell;
  const Row row = RowOf(result);
  const v1::BenchStats& bench = result.bench();
  if (bench.has_median_seconds() &&
      (result.verdict() == v1::VERDICT_PASSED || OnlyOfTime(result))) {
    cell.change = row.change;
    cell.of_roof = row.of_roof;
    cell.seconds = bench.median_seconds();
    if (by_operations && bench.has_flops_per_second()) {
      cell.operations_per_second = bench.flops_per_second();
    } else if (bench.has_bytes_per_second()) {
      cell.bytes_per_second = bench.bytes_per_second();
    }
    cell.noisy = bench.noisy() || HasReason(result, "noisy");
    cell.profile = ProfileText(bench);
    return cell;
  }
  cell.instead = row.verdict;
  if (result.verdict() != v1::VERDICT_UNSUPPORTED && result.findings_size() > 0) {
    absl::StrAppend(&cell.instead, " ", result.findings(0).reason());
  }
  return cell;
}

struct Table {
  std::vector<std::string> providers;  // in the order of their first case
  std::vector<CaseLine> lines;         // likewise
  ColumnUnit time, operations, bytes;
  bool any_operations = false;
  bool any_bytes = false;
  bool roofs = false;
  bool changes = false;
  bool noisy = false;
};

// The words of all figures, each column's in one unit.
void Write(Table& table, bool integers) {
  std::vector<double> seconds, operations, bytes;
  for (const CaseLine& line : table.lines) {
    for (const auto& [provider, cell] : line.cells) {
      if (cell.seconds) seconds.push_back(*cell.seconds);
      if (cell.operations_per_second) operations.push_back(*cell.operations_per_second);
      if (cell.bytes_per_second) bytes.push_back(*cell.bytes_per_second);
    }
  }
  table.any_operations = !operations.empty();
  table.any_bytes = !bytes.empty();
  table.time = TimeUnit(std::move(seconds));
  table.operations = RateUnit(std::move(operations), integers ? "OP" : "FLOP");
  table.bytes = RateUnit(std::move(bytes), "B");
  for (CaseLine& line : table.lines) {
    for (auto& [provider, cell] : line.cells) {
      if (!cell.seconds) continue;
      cell.time = InUnit(*cell.seconds, table.time);
      // Beside one that is noisy the digits stand below its digits.
      if (table.noisy) absl::StrAppend(&cell.time, cell.noisy ? "~" : " ");
      if (cell.operations_per_second) {
        cell.operations = InUnit(*cell.operations_per_second, table.operations);
      }
      if (cell.bytes_per_second) cell.bytes = InUnit(*cell.bytes_per_second, table.bytes);
    }
  }
}

// What passes over its data a time or two: whatever the size, its rate is one of bytes.
// The roof would not tell: a small product's is the memory, a large one's is not, and sizes
// are to compare.
bool MovesData(const v1::CaseSpec& spec) { return InfoOf(spec).rate_in_bytes(); }

Table Collect(const Report& report) {
  Table table;
  bool integers = false;                  // some operations are no floating-point ones
  std::map<std::string, std::size_t> at;  // case -> its lines' index, the last of them
  for (const Run& run : report.runs) {
    for (const v1::CaseResult& result : run.results) {
      const std::string& provider = result.spec().provider();
      if (std::find(table.providers.begin(), table.providers.end(), provider) ==
          table.providers.end()) {
        table.providers.push_back(provider);
      }
      const std::string name = NameOf(report, run, result);
      const auto found = at.find(name);
      // The same name again, as with several seeds, is another line.
      const bool fresh = found == at.end() || table.lines[found->second].cells.contains(provider);
      if (fresh) {
        at[name] = table.lines.size();
        table.lines.push_back({name, {}});
      }
      table.changes = table.changes || result.bench().has_baseline();
      const CaseCell& cell = table.lines[at[name]].cells[provider] =
          CellOf(result, !MovesData(result.spec()));
      table.roofs = table.roofs || !cell.of_roof.empty();
      table.noisy = table.noisy || (cell.seconds && cell.noisy);
      integers = integers || IsInteger(result.spec().dtype());
    }
  }
  for (CaseLine& line : table.lines) {
    std::optional<double> best;
    for (const auto& [provider, cell] : line.cells) {
      if (cell.seconds && (!best || *cell.seconds < *best)) best = cell.seconds;
    }
    for (auto& [provider, cell] : line.cells) {
      if (cell.seconds) cell.best = absl::StrFormat("%.2f×", *cell.seconds / *best);
    }
  }
  Write(table, integers);
  return table;
}

// The columns of a group; the ratio means something from two providers on.
struct ProviderColumn {
  std::string heading;
  std::string CaseCell::*cell;
};
std::vector<ProviderColumn> ColumnsOf(const Table& table) {
  std::vector<ProviderColumn> columns = {
      {absl::StrCat("TIME ", table.time.name, table.noisy ? " " : ""), &CaseCell::time}};
  if (table.any_operations) columns.push_back({table.operations.name, &CaseCell::operations});
  if (table.any_bytes) columns.push_back({table.bytes.name, &CaseCell::bytes});
  if (table.roofs) columns.push_back({"OF ROOF", &CaseCell::of_roof});
  if (table.providers.size() > 1) columns.push_back({"OF BEST", &CaseCell::best});
  if (table.changes) columns.push_back({"CHANGE", &CaseCell::change});
  return columns;
}

struct Group {
  std::vector<std::size_t> widths;
  std::size_t width = 0;
};

// Wide enough for its columns and for what stands in place of them.
Group Measure(const Table& table, const std::vector<ProviderColumn>& columns,
              const std::vector<std::string>& providers) {
  Group group;
  for (const ProviderColumn& column : columns) group.widths.push_back(DisplayWidth(column.heading));
  std::size_t least = 0;
  for (const std::string& provider : providers) {
    if (providers.size() == 1) least = std::max(least, DisplayWidth(provider));
    for (const CaseLine& line : table.lines) {
      const auto cell = line.cells.find(provider);
      if (cell == line.cells.end()) continue;
      least = std::max(least, DisplayWidth(cell->second.instead));
      for (std::size_t i = 0; i < columns.size(); ++i) {
        group.widths[i] = std::max(group.widths[i], DisplayWidth(cell->second.*(columns[i].cell)));
      }
    }
  }
  const auto total = [&group] {
    std::size_t sum = 2 * (group.widths.size() - 1);
    for (const std::size_t width : group.widths) sum += width;
    return sum;
  };
  if (total() < least) group.widths.front() += least - total();
  group.width = total();
  return group;
}

bool Figures(std::size_t) { return true; }

std::string Text(const CaseCell* cell, const std::vector<ProviderColumn>& columns,
                 const Group& group) {
  if (cell == nullptr) return std::string(group.width, ' ');
  if (!cell->instead.empty()) return PadRight(cell->instead, group.width);
  Cells row;
  for (const ProviderColumn& column : columns) row.push_back(cell->*(column.cell));
  return AlignedRow(row, group.widths, Figures);
}

std::string Headings(const std::vector<ProviderColumn>& columns, const Group& group) {
  Cells row;
  for (const ProviderColumn& column : columns) row.push_back(column.heading);
  return AlignedRow(row, group.widths, Figures);
}

void Put(std::string line, std::ostream& out) { out << WithoutBlanks(std::move(line)) << '\n'; }

// A group beside a group.
bool WriteWide(const Table& table, const std::vector<ProviderColumn>& columns,
               std::size_t name_width, std::size_t room, std::ostream& out) {
  std::vector<Group> groups;
  std::size_t total = 2 + name_width;
  for (const std::string& provider : table.providers) {
    groups.push_back(Measure(table, columns, {provider}));
    total += kGroupGap + groups.back().width;
  }
  if (room > 0 && total > room) return false;
  const std::string gap(kGroupGap, ' ');
  std::string names = "  " + std::string(name_width, ' ');
  std::string headings = "  " + PadRight("CASE", name_width);
  for (std::size_t i = 0; i < groups.size(); ++i) {
    absl::StrAppend(&names, gap, PadRight(table.providers[i], groups[i].width));
    absl::StrAppend(&headings, gap, Headings(columns, groups[i]));
  }
  Put(names, out);
  Put(headings, out);
  for (const CaseLine& line : table.lines) {
    std::string text = "  " + PadRight(line.name, name_width);
    for (std::size_t i = 0; i < groups.size(); ++i) {
      const auto cell = line.cells.find(table.providers[i]);
      absl::StrAppend(&text, gap,
                      Text(cell == line.cells.end() ? nullptr : &cell->second, columns, groups[i]));
    }
    Put(text, out);
    for (const std::string& provider : table.providers) {
      const auto cell = line.cells.find(provider);
      if (cell == line.cells.end() || cell->second.profile.empty()) continue;
      Put("    " + provider + ": " + cell->second.profile, out);
    }
  }
  return true;
}

// A line a provider under the case's name.
void WriteTall(const Table& table, const std::vector<ProviderColumn>& columns, std::ostream& out) {
  const Group group = Measure(table, columns, table.providers);
  std::size_t width = 0;
  for (const std::string& provider : table.providers) {
    width = std::max(width, DisplayWidth(provider));
  }
  Put("  CASE", out);
  Put("    " + std::string(width, ' ') + "  " + Headings(columns, group), out);
  for (const CaseLine& line : table.lines) {
    Put("  " + line.name, out);
    for (const std::string& provider : table.providers) {
      const auto cell = line.cells.find(provider);
      if (cell == line.cells.end()) continue;
      Put("    " + PadRight(provider, width) + "  " + Text(&cell->second, columns, group), out);
      if (!cell->second.profile.empty()) Put("      " + cell->second.profile, out);
    }
  }
}

}  // namespace

void WriteSideBySide(const Report& report, const Surface& surface) {
  const Table table = Collect(report);
  if (table.lines.empty()) return;
  const std::vector<ProviderColumn> columns = ColumnsOf(table);
  std::size_t name_width = DisplayWidth("CASE");
  for (const CaseLine& line : table.lines)
    name_width = std::max(name_width, DisplayWidth(line.name));
  const auto room = static_cast<std::size_t>(std::max(surface.width, 0));
  if (!WriteWide(table, columns, name_width, room, surface.out)) {
    WriteTall(table, columns, surface.out);
  }
  if (table.noisy) {
    surface.out << "  ~ noisy: its launches did not settle, or others disturbed them\n";
  }
}

}  // namespace assay::client
