#include "client/report/comparison.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/lib/words.h"
#include "client/report/columns.h"
#include "client/report/csv.h"
#include "client/report/document.h"
#include "client/report/units.h"

namespace assay::client {
namespace {

constexpr std::size_t kMostNames = 20;  // of cases that only one side has, in a table

int Rank(v1::Change change) {
  switch (change) {
    case v1::CHANGE_SLOWER:
      return 0;
    case v1::CHANGE_AMBIGUOUS:
      return 1;
    case v1::CHANGE_FASTER:
      return 2;
    case v1::CHANGE_SAME:
      return 3;
    default:
      return 4;
  }
}

// "1.020", or "0.960 to 1.310" where threads waited for processors that long.
std::string RatioRange(const v1::BaselineChange& change) {
  constexpr double kWorthTelling = 1.01;
  const double least = change.has_least_ratio() ? change.least_ratio() : change.ratio();
  const double most = change.has_most_ratio() ? change.most_ratio() : change.ratio();
  const bool told = change.change() == v1::CHANGE_AMBIGUOUS && most > kWorthTelling * least;
  return told ? absl::StrFormat("%.3f to %.3f", least, most)
              : absl::StrFormat("%.3f", change.ratio());
}

std::vector<std::string> CellsOf(const v1::BaselineChange& change) {
  return {Word(change.change()),         change.name(),      SecondsText(change.baseline_seconds()),
          SecondsText(change.seconds()), RatioRange(change), "± " + PercentText(change.noise())};
}
const std::vector<std::string> kHeadings = {"CHANGE", "CASE", "BASELINE", "NOW", "RATIO", "NOISE"};
constexpr std::size_t kFirstNumber = 2;  // columns from here on are set right

void WriteTable(const Comparison& comparison, std::ostream& out) {
  const auto changes = WorstFirst(comparison);
  std::vector<Cells> rows = {kHeadings};
  for (const auto* change : changes) rows.push_back(CellsOf(*change));
  WriteAligned(
      rows, "  ", [](std::size_t column) { return column >= kFirstNumber; }, out);
  const auto list = [&out](const std::vector<std::string>& names, const std::string& where) {
    for (std::size_t i = 0; i < std::min(names.size(), kMostNames); ++i) {
      out << "  only in " << where << ": " << names[i] << '\n';
    }
    if (names.size() > kMostNames) {
      out << "  … and " << CountText(static_cast<std::int64_t>(names.size() - kMostNames))
          << " more only in " << where << '\n';
    }
  };
  for (const v1::CaseResult& lost : comparison.lost) out << "  " << LostText(lost) << '\n';
  list(comparison.missing, comparison.baseline);
  list(comparison.added, comparison.current);
  out << comparison.current << " against " << comparison.baseline << ": "
      << ChangeSummary(comparison) << '\n';
}

Json ChangeJson(const v1::BaselineChange& change) {
  Json json;
  json["name"] = change.name();
  const Json fields = MessageJson(change);
  for (const auto& [key, value] : fields.items()) json[key] = value;
  return json;
}

Json LostJson(const v1::CaseResult& lost) {
  return {{"name", lost.name()},
          {"verdict", Word(lost.verdict())},
          {"findings", MessageJson(lost).value("findings", Json::array())}};
}

Json Document(const Comparison& comparison) {
  Json json;
  json["schema"] = "assay.comparison/v1";
  json["baseline"] = comparison.baseline;
  json["current"] = comparison.current;
  std::map<v1::Change, int> counts;
  for (const auto& change : comparison.changes) ++counts[change.change()];
  for (const v1::Change change :
       {v1::CHANGE_SLOWER, v1::CHANGE_AMBIGUOUS, v1::CHANGE_FASTER, v1::CHANGE_SAME}) {
    json[Word(change)] = counts[change];
  }
  json["lost_count"] = comparison.lost.size();
  json["missing_count"] = comparison.missing.size();
  json["added_count"] = comparison.added.size();
  json["changes"] = Json::array();
  for (const auto* change : WorstFirst(comparison)) json["changes"].push_back(ChangeJson(*change));
  json["missing"] = comparison.missing;
  json["added"] = comparison.added;
  json["lost"] = Json::array();
  for (const v1::CaseResult& lost : comparison.lost) json["lost"].push_back(LostJson(lost));
  return json;
}

// A line a case, as Document's, with a change of its own where only one side has a time.
void WriteLines(const Comparison& comparison, std::ostream& out) {
  for (const auto* change : WorstFirst(comparison)) out << Compact(ChangeJson(*change)) << '\n';
  for (const v1::CaseResult& lost : comparison.lost) {
    Json json = LostJson(lost);
    json["change"] = "lost";
    out << Compact(json) << '\n';
  }
  const auto list = [&out](const std::vector<std::string>& names, const char* how) {
    for (const std::string& name : names) {
      out << Compact({{"name", name}, {"change", how}}) << '\n';
    }
  };
  list(comparison.missing, "missing");
  list(comparison.added, "added");
}

void WriteCsv(const Comparison& comparison, std::ostream& out) {
  constexpr const char* kColumns[] = {"name",        "change",    "baseline", "baseline_seconds",
                                      "seconds",     "ratio",     "noise",    "threshold",
                                      "least_ratio", "most_ratio"};
  out << absl::StrJoin(kColumns, ",") << "\r\n";
  for (const auto* change : WorstFirst(comparison)) {
    const Json json = ChangeJson(*change);
    std::vector<std::string> cells;
    for (const char* column : kColumns) {
      const auto it = json.find(column);
      cells.push_back(it == json.end()  ? ""
                      : it->is_string() ? CsvField(it->get<std::string>())
                                        : Compact(*it));
    }
    out << absl::StrJoin(cells, ",") << "\r\n";
  }
  const auto unpaired = [&](const std::string& name, const std::string& how) {
    out << CsvField(name) << ',' << how << std::string(std::size(kColumns) - 2, ',') << "\r\n";
  };
  for (const v1::CaseResult& lost : comparison.lost) unpaired(lost.name(), "lost");
  for (const std::string& name : comparison.missing) unpaired(name, "missing");
  for (const std::string& name : comparison.added) unpaired(name, "added");
}

void WriteMarkdown(const Comparison& comparison, std::ostream& out) {
  out << "## " << EscapeMarkdown(comparison.current) << " against "
      << EscapeMarkdown(comparison.baseline) << "\n\n**" << ChangeSummary(comparison) << "**\n\n"
      << "| Change | Case | Baseline | Now | Ratio | Noise |\n|---|---|--:|--:|--:|--:|\n";
  for (const auto* change : WorstFirst(comparison)) {
    for (const std::string& cell : CellsOf(*change)) out << "| " << EscapeMarkdown(cell) << ' ';
    out << "|\n";
  }
  out << '\n';
  for (const v1::CaseResult& lost : comparison.lost) {
    out << "- " << EscapeMarkdown(LostText(lost)) << '\n';
  }
  const auto list = [&out](const std::vector<std::string>& names, const std::string& where) {
    for (const std::string& name : names) {
      out << "- only in " << EscapeMarkdown(where) << ": " << EscapeMarkdown(name) << '\n';
    }
  };
  list(comparison.missing, comparison.baseline);
  list(comparison.added, comparison.current);
}

}  // namespace

std::vector<const v1::BaselineChange*> WorstFirst(const Comparison& comparison) {
  std::vector<const v1::BaselineChange*> changes;
  for (const auto& change : comparison.changes) changes.push_back(&change);
  std::stable_sort(changes.begin(), changes.end(), [](const auto* a, const auto* b) {
    if (Rank(a->change()) != Rank(b->change())) return Rank(a->change()) < Rank(b->change());
    return a->ratio() > b->ratio();
  });
  return changes;
}

std::string LostText(const v1::CaseResult& lost) {
  const std::string why = lost.findings().empty() ? "" : " " + lost.findings(0).reason();
  return absl::StrCat(lost.name(), ": no time now, ", Word(lost.verdict()), why);
}

std::string ChangeText(const v1::BaselineChange& change) {
  const std::string word = Word(change.change());
  if (change.change() == v1::CHANGE_SAME) {
    return change.runs() > 1 ? absl::StrCat(word, " in ", change.runs(), " runs") : word;
  }
  std::string text = absl::StrFormat("%s %s×", word, RatioRange(change));
  if (change.change() == v1::CHANGE_AMBIGUOUS) {
    absl::StrAppend(&text, " ± ", PercentText(change.noise()));
  }
  return change.runs() > 1 ? absl::StrCat(text, " in ", change.runs(), " runs") : text;
}

std::string ChangeSummary(const Comparison& comparison) {
  const std::size_t lost = comparison.lost.size();
  if (comparison.changes.empty()) {
    return lost == 0 ? "no case in common"
                     : absl::StrFormat("%d lost, no other case in common", lost);
  }
  std::map<v1::Change, int> counts;
  for (const auto& change : comparison.changes) ++counts[change.change()];
  return absl::StrFormat("%d slower, %d ambiguous, %d faster, %d same, %d lost (threshold %s)",
                         counts[v1::CHANGE_SLOWER], counts[v1::CHANGE_AMBIGUOUS],
                         counts[v1::CHANGE_FASTER], counts[v1::CHANGE_SAME], lost,
                         PercentText(comparison.changes.front().threshold()));
}

void WriteComparison(const Comparison& comparison, Format format, std::ostream& out) {
  switch (format) {
    case Format::kTable:
      WriteTable(comparison, out);
      break;
    case Format::kJson:
      out << Indented(Document(comparison)) << '\n';
      break;
    case Format::kJsonl:
      WriteLines(comparison, out);
      break;
    case Format::kCsv:
      WriteCsv(comparison, out);
      break;
    case Format::kMarkdown:
      WriteMarkdown(comparison, out);
      break;
    case Format::kJunit:
    case Format::kHtml:
      break;
  }
  out << std::flush;
}

}  // namespace assay::client
