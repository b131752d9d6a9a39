#include "client/report/cheats.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "client/lib/words.h"
#include "client/report/columns.h"
#include "client/report/selftest.h"

namespace assay::client {
namespace {

std::string WhyImpossible(v1::Barrier barrier) {
  switch (barrier) {
    case v1::BARRIER_MEMORY:
      return "cannot: not in its memory";
    case v1::BARRIER_FILES:
      return "cannot: opens no file";
    case v1::BARRIER_NETWORK:
      return "cannot: has no network";
    case v1::BARRIER_PROCESSES:
      return "cannot: starts no process";
    case v1::BARRIER_SIGNALS:
      return "cannot: its signals reach nobody";
    case v1::BARRIER_LEFTOVERS:
      return "cannot: leaves nothing behind";
    case v1::BARRIER_CLOCK:
      return "cannot: the clock is the judge's";
    case v1::BARRIER_LAUNCHES:
      return "cannot: stopped while a launch is prepared";
    case v1::BARRIER_SYSTEM:
      return "cannot: the system refuses it";
    default:  // of a newer daemon
      return absl::StrCat("cannot: ", Word(barrier));
  }
}

// It is right, and passes: its result names the libraries that it had loaded.
bool IsShown(const v1::CheatRow& row) {
  return row.stopped() && row.verdict() == v1::VERDICT_PASSED;
}

std::string StoppedBy(const v1::CheatRow& row) {
  if (!row.stopped()) {
    const bool won = row.verdict() == v1::VERDICT_PASSED;
    const std::string verdict = Word(row.verdict());
    return absl::StrCat(won ? "NOT STOPPED: " : "NOT PROVEN: ",
                        verdict.empty() ? "it did not run" : verdict);
  }
  if (IsShown(row)) return "shown: the result names the library";
  if (row.barrier() != v1::BARRIER_UNSPECIFIED) return WhyImpossible(row.barrier());
  return Word(row.reason());
}

// "stale", "memory" or "shown".
std::string WordOfWhatStopped(const v1::CheatRow& row) {
  if (IsShown(row)) return "shown";
  return row.barrier() != v1::BARRIER_UNSPECIFIED ? Word(row.barrier()) : Word(row.reason());
}

std::string Twin(const v1::CheatRow& row) {
  if (row.twin() == v1::VERDICT_PASSED) return "passed";
  return row.twin() == v1::VERDICT_UNSPECIFIED ? "did not run" : Word(row.twin());
}

// "library" for KERNEL_FORM_LIBRARY.
std::string Way(const v1::CheatRow& row) { return Word(row.way()); }

Json CheatJson(const v1::CheatRow& row) {
  Json json;
  json["cheat"] = row.cheat();
  json["way"] = Way(row);
  json["op"] = row.op();
  if (row.verdict() != v1::VERDICT_UNSPECIFIED) json["verdict"] = Word(row.verdict());
  if (row.stopped()) json["stopped_by"] = WordOfWhatStopped(row);
  json["impossible"] = row.barrier() != v1::BARRIER_UNSPECIFIED;
  json["stopped"] = row.stopped();
  if (row.twin() != v1::VERDICT_UNSPECIFIED) json["twin"] = Word(row.twin());
  json["provider"] = row.provider();
  json["device"] = row.device();
  if (!row.message().empty()) json["message"] = row.message();
  return json;
}

template <class Each>
void EachCheat(const Report& report, Each each) {
  for (const Run& run : report.runs) {
    for (const v1::CheatRow& row : run.job.selftest().cheats()) each(run, row);
  }
}

struct CheatTotals {
  int cheats = 0;
  int found = 0;
  int impossible = 0;
  int shown = 0;
  int twins = 0;  // that passed
};

CheatTotals TotalsOfCheats(const Report& report) {
  CheatTotals totals;
  EachCheat(report, [&totals](const Run&, const v1::CheatRow& row) {
    ++totals.cheats;
    if (IsShown(row)) {
      ++totals.shown;
    } else if (row.stopped()) {
      ++(row.barrier() == v1::BARRIER_UNSPECIFIED ? totals.found : totals.impossible);
    }
    totals.twins += row.twin() == v1::VERDICT_PASSED ? 1 : 0;
  });
  return totals;
}

// "cache by pointer".
std::string InWords(const std::string& cheat) { return absl::StrReplaceAll(cheat, {{"-", " "}}); }

// The cheats that were not stopped, and twins that did not pass, with their reasons.
std::vector<std::string> Complaints(const Report& report) {
  std::vector<std::string> lines;
  EachCheat(report, [&lines](const Run&, const v1::CheatRow& row) {
    if (row.message().empty()) return;
    lines.push_back(absl::StrCat(row.cheat(), ": ", row.message()));
  });
  return lines;
}

void WriteCheatsJson(const Report& report, std::ostream& out) {
  out << Indented(CheatsJson(report)) << '\n';
}

}  // namespace

Json CheatsJson(const Report& report) {
  Json json;
  json["schema"] = "assay.adversarial/v1";
  json["rows"] = Json::array();
  EachCheat(report, [&](const Run& run, const v1::CheatRow& row) {
    Json& added = json["rows"].emplace_back(CheatJson(row));
    if (report.runs.size() > 1) added["target"] = run.target;
  });
  const CheatTotals totals = TotalsOfCheats(report);
  json["summary"] = {{"cheats", totals.cheats},
                     {"found", totals.found},
                     {"impossible", totals.impossible},
                     {"shown", totals.shown},
                     {"twins_passed", totals.twins}};
  json["jobs"] = Json::array();
  for (const Run& run : report.runs) {
    Json job;
    job["target"] = run.target;
    job["name"] = run.job.name();
    job["verdict"] = Word(run.job.verdict());
    json["jobs"].push_back(std::move(job));
  }
  return json;
}

void WriteCheatsTable(const Report& report, std::ostream& out) {
  std::vector<Cells> rows = {{"CHEAT", "WAY", "STOPPED BY", "HONEST TWIN"}};
  EachCheat(report, [&rows](const Run&, const v1::CheatRow& row) {
    rows.push_back({InWords(row.cheat()), Way(row), StoppedBy(row), Twin(row)});
  });
  WriteAligned(
      rows, "", [](std::size_t) { return false; }, out);
}

void WriteCheatsMarkdown(const Report& report, std::ostream& out) {
  out << "| cheat | way | op | stopped by | honest twin |\n|---|---|---|---|---|\n";
  EachCheat(report, [&out](const Run&, const v1::CheatRow& row) {
    out << "| " << InWords(row.cheat()) << " | " << Way(row) << " | " << row.op() << " | "
        << StoppedBy(row) << " | " << Twin(row) << " |\n";
  });
  out << '\n' << CheatsSummary(report) << '\n';
}

std::string CheatsSummary(const Report& report) {
  const CheatTotals totals = TotalsOfCheats(report);
  std::string text;
  for (const std::string& line : Complaints(report)) absl::StrAppend(&text, line, "\n");
  absl::StrAppend(&text, totals.cheats, " cheats: ", totals.found, " found, ", totals.impossible,
                  " impossible");
  if (totals.shown > 0) absl::StrAppend(&text, ", ", totals.shown, " shown");
  const int open = totals.cheats - totals.found - totals.impossible - totals.shown;
  if (open > 0) absl::StrAppend(&text, ", ", open, " NOT STOPPED");
  absl::StrAppend(&text, "; ", totals.twins);
  if (totals.twins != totals.cheats) absl::StrAppend(&text, " of ", totals.cheats);
  absl::StrAppend(&text, " honest twins passed");
  return text;
}

std::unique_ptr<Sink> MakeCheatsSink(Format format, const Surface& surface) {
  switch (format) {
    case Format::kTable:
      return MakeDocumentSink(surface, &WriteCheatsTable, &CheatsSummary);
    case Format::kJson:
      return MakeDocumentSink(surface, &WriteCheatsJson, &CheatsSummary);
    case Format::kMarkdown:
      return MakeDocumentSink(surface, &WriteCheatsMarkdown, &CheatsSummary);
    default:
      return nullptr;
  }
}

}  // namespace assay::client
