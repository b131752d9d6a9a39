#include "client/report/selftest.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/lib/words.h"
#include "client/report/columns.h"
#include "client/report/units.h"

namespace assay::client {
namespace {

double Share(int of, int all) {
  return all > 0 ? static_cast<double>(of) / static_cast<double>(all) : 0.0;
}

std::vector<std::string> Words(const google::protobuf::RepeatedPtrField<std::string>& words) {
  return {words.begin(), words.end()};
}

Json RowJson(const v1::SelftestRow& row) {
  Json json;
  json["defect"] = row.defect();
  json["op"] = row.op();
  json["dtype"] = Word(row.dtype());
  json["provider"] = row.provider();
  json["caught"] = row.caught();
  json["caught_by"] = Words(row.caught_by());
  json["others"] = {{"allclose", row.allclose_catches()},
                    {"derived", row.derived_catches()},
                    {"legacy", row.legacy_catches()}};
  json["device"] = row.device();
  json["magnitude"] = row.magnitude();
  json["check"] = row.check();
  json["required_rate"] = Number(row.required_rate());
  json["trials"] = row.trials();
  json["detected"] = row.detected();
  if (row.trials() > 0) json["rate"] = Number(Share(row.detected(), row.trials()));
  if (row.has_rate_low()) json["rate_low"] = Number(row.rate_low());
  json["probes"] = Words(row.probes());
  if (row.judged() > 0) {
    json["other_rates"] = {{"allclose", Share(row.allclose(), row.judged())},
                           {"derived", Share(row.derived(), row.judged())},
                           {"legacy", Share(row.legacy(), row.judged())}};
  }
  return json;
}

// A line of the table: one defect, and the formats for which the same came of it.
struct Line {
  std::string op, defect, check, caught, rate_low, caught_by, allclose, derived, legacy, magnitude;
  std::vector<std::string> dtypes;

  bool Same(const Line& other) const {
    return op == other.op && defect == other.defect && check == other.check &&
           caught == other.caught && rate_low == other.rate_low && caught_by == other.caught_by &&
           allclose == other.allclose && derived == other.derived && legacy == other.legacy;
  }
};

// The end of a confidence interval, which may be far below 1 %.
std::string EndText(double rate) { return absl::StrFormat("%.3g %%", 100 * rate); }

std::string Rate(int of, int all) { return all > 0 ? PercentText(Share(of, all)) : "–"; }

Line LineOf(const v1::SelftestRow& row) {
  Line line;
  line.op = row.op();
  line.defect = row.defect();
  line.check = row.check();
  line.caught = row.caught()
                    ? Rate(row.detected(), row.trials())
                    : absl::StrCat("MISSED ", row.trials() - row.detected(), " of ", row.trials());
  line.rate_low = row.has_rate_low() ? EndText(row.rate_low()) : "–";
  std::vector<std::string> by = Words(row.caught_by());
  // The check that must find it first, then the others.
  std::stable_partition(by.begin(), by.end(),
                        [&](const std::string& word) { return word == row.check(); });
  line.caught_by = absl::StrJoin(by, " ");
  line.allclose = Rate(row.allclose(), row.judged());
  line.derived = Rate(row.derived(), row.judged());
  line.legacy = Rate(row.legacy(), row.judged());
  line.magnitude = row.magnitude();
  line.dtypes = {Word(row.dtype())};
  return line;
}

std::vector<Line> LinesOf(const Report& report) {
  std::vector<Line> lines;
  for (const Run& run : report.runs) {
    for (const v1::SelftestRow& row : run.job.selftest().rows()) {
      Line line = LineOf(row);
      const auto same = std::find_if(lines.begin(), lines.end(),
                                     [&](const Line& other) { return other.Same(line); });
      if (same == lines.end()) {
        lines.push_back(std::move(line));
      } else if (std::find(same->dtypes.begin(), same->dtypes.end(), line.dtypes.front()) ==
                 same->dtypes.end()) {
        same->dtypes.push_back(line.dtypes.front());
      }
    }
  }
  return lines;
}

struct Totals {
  int rows = 0;
  int missed = 0;
  int runs = 0;
  int false_alarms = 0;
  std::set<std::pair<std::string, std::string>> defects;
};

Totals TotalsOf(const Report& report) {
  Totals totals;
  for (const Run& run : report.runs) {
    for (const v1::SelftestRow& row : run.job.selftest().rows()) {
      ++totals.rows;
      totals.missed += row.caught() ? 0 : 1;
      totals.defects.insert({row.op(), row.defect()});
    }
    for (const v1::SelftestCorrect& correct : run.job.selftest().correct()) {
      totals.runs += correct.runs();
      totals.false_alarms += correct.false_alarms();
    }
  }
  return totals;
}

class DocumentSink : public Sink {
 public:
  DocumentSink(const Surface& surface, ReportWriter writer, ReportSummary summary)
      : surface_(surface), writer_(writer), summary_(summary) {}

  void OnProgress(const Run&, const v1::CaseProgress& progress) override {
    if (!surface_.live) return;
    Clear();
    drawn_ = Shorten(absl::StrCat(progress.done(), " of ", progress.total(), "  ", progress.name()),
                     surface_.width > 0 ? static_cast<std::size_t>(surface_.width) - 1 : 79);
    surface_.out << drawn_ << std::flush;
  }
  void OnNote(std::string_view note) override {
    Clear();
    surface_.err << note << '\n' << std::flush;
  }
  void OnEnd(const Report& report) override {
    Clear();
    writer_(report, surface_.out);
    surface_.out << std::flush;
    for (const Run& run : report.runs) {
      for (const v1::CaseResult& result : run.results) Alarm(result);
    }
    surface_.err << summary_(report) << '\n' << std::flush;
  }
  void OnLeave() override { Clear(); }

 private:
  // The command that shows a false alarm again.
  void Alarm(const v1::CaseResult& result) {
    const bool wrong =
        result.verdict() == v1::VERDICT_FAILED || result.verdict() == v1::VERDICT_ERROR;
    const std::string& provider = result.spec().provider();
    const bool on_purpose = (provider.starts_with("planted/") && provider != "planted/correct") ||
                            (provider.starts_with("cheat/") && !provider.ends_with("-twin"));
    if (!wrong || on_purpose) return;
    surface_.err << "false alarm: " << result.name() << ": "
                 << (result.findings().empty() ? "" : result.findings(0).message()) << "\n  "
                 << result.repro() << '\n';
  }

  void Clear() {
    if (drawn_.empty()) return;
    surface_.out << '\r' << std::string(DisplayWidth(drawn_), ' ') << '\r' << std::flush;
    drawn_.clear();
  }

  Surface surface_;
  ReportWriter writer_;
  ReportSummary summary_;
  std::string drawn_;
};

void WriteSelftestJson(const Report& report, std::ostream& out) {
  out << Indented(SelftestJson(report)) << '\n';
}

}  // namespace

Json SelftestJson(const Report& report) {
  const Totals totals = TotalsOf(report);
  Json json;
  json["schema"] = "assay.selftest/v1";
  json["rows"] = Json::array();
  for (const Run& run : report.runs) {
    for (const v1::SelftestRow& row : run.job.selftest().rows()) {
      Json& added = json["rows"].emplace_back(RowJson(row));
      if (report.runs.size() > 1) added["target"] = run.target;
    }
  }
  json["correct"] = {{"runs", totals.runs}, {"false_alarms", totals.false_alarms}};
  const bool bounded =
      report.runs.size() == 1 && report.runs[0].job.selftest().has_false_alarm_rate_high();
  if (bounded) {
    json["correct"]["false_alarm_rate_high"] =
        Number(report.runs[0].job.selftest().false_alarm_rate_high());
  }
  json["jobs"] = Json::array();
  for (const Run& run : report.runs) {
    Json job;
    job["target"] = run.target;
    job["name"] = run.job.name();
    job["verdict"] = Word(run.job.verdict());
    job["duration_seconds"] = Number(absl::ToDoubleSeconds(Elapsed(run.job)));
    json["jobs"].push_back(std::move(job));
  }
  return json;
}

void WriteSelftestTable(const Report& report, std::ostream& out) {
  std::vector<Cells> rows = {
      {"OP", "DEFECT", "TYPES", "CAUGHT", "AT LEAST", "BY", "ALLCLOSE", "DERIVED", "LEGACY"}};
  for (const Line& line : LinesOf(report)) {
    rows.push_back({line.op, line.defect, absl::StrJoin(line.dtypes, " "), line.caught,
                    line.rate_low, line.caught_by, line.allclose, line.derived, line.legacy});
  }
  WriteAligned(
      rows, "", [](std::size_t column) { return column == 3 || column == 4 || column > 5; }, out);
}

void WriteSelftestMarkdown(const Report& report, std::ostream& out) {
  out << "| op | defect | magnitude | types | caught | at least | by | allclose | derived | legacy "
         "|\n"
         "|---|---|---|---|---|---|---|---|---|---|\n";
  for (const Line& line : LinesOf(report)) {
    out << "| " << line.op << " | " << line.defect << " | " << line.magnitude << " | "
        << absl::StrJoin(line.dtypes, ", ") << " | " << line.caught << " | " << line.rate_low
        << " | " << line.caught_by << " | " << line.allclose << " | " << line.derived << " | "
        << line.legacy << " |\n";
  }
  out << '\n' << SelftestSummary(report) << '\n';
}

std::string SelftestSummary(const Report& report) {
  const Totals totals = TotalsOf(report);
  absl::Duration longest;
  for (const Run& run : report.runs) longest = std::max(longest, Elapsed(run.job));
  std::string text = absl::StrCat(
      CountText(totals.rows), totals.rows == 1 ? " row of " : " rows of ", totals.defects.size(),
      totals.defects.size() == 1 ? " defect: " : " defects: ",
      totals.rows == 0     ? std::string("none was run")
      : totals.missed == 0 ? std::string("all caught")
                           : absl::StrCat(CountText(totals.missed), " MISSED"),
      "; ", CountText(totals.runs),
      totals.runs == 1 ? " run of right kernels: " : " runs of right kernels: ",
      CountText(totals.false_alarms), totals.false_alarms == 1 ? " false alarm" : " false alarms");
  if (report.runs.size() == 1 && report.runs[0].job.selftest().has_false_alarm_rate_high()) {
    absl::StrAppend(&text, " (a rate of at most ",
                    EndText(report.runs[0].job.selftest().false_alarm_rate_high()), ")");
  }
  if (longest > absl::ZeroDuration()) {
    absl::StrAppend(&text, "; ", SecondsText(absl::ToDoubleSeconds(longest)));
  }
  return text;
}

std::unique_ptr<Sink> MakeDocumentSink(const Surface& surface, ReportWriter writer,
                                       ReportSummary summary) {
  return std::make_unique<DocumentSink>(surface, writer, summary);
}

std::unique_ptr<Sink> MakeSelftestSink(Format format, const Surface& surface) {
  switch (format) {
    case Format::kTable:
      return MakeDocumentSink(surface, &WriteSelftestTable, &SelftestSummary);
    case Format::kJson:
      return MakeDocumentSink(surface, &WriteSelftestJson, &SelftestSummary);
    case Format::kMarkdown:
      return MakeDocumentSink(surface, &WriteSelftestMarkdown, &SelftestSummary);
    default:
      return nullptr;
  }
}

}  // namespace assay::client
