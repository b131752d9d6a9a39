#include "client/report/table.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/lib/operators.h"
#include "client/lib/steady.h"
#include "client/report/published.h"
#include "client/report/side_by_side.h"
#include "client/report/units.h"

namespace assay::client {
namespace {

// A terminal shows this many passed cases; more are counted.
constexpr std::size_t kMostPassedRows = 20;
constexpr int kBarWidth = 20;
constexpr std::size_t kNarrowBar = 6;  // narrower than this a bar shows nothing
// Redrawing more often than a screen does costs and shows nothing.
constexpr absl::Duration kRedraw = absl::Milliseconds(33);
// What the daemon adds to a case's name if all providers run it: a blank and a provider's name.
constexpr std::size_t kProviderRoom = 10;

// "probes    refused in 2 of 12 passed cases, …": a pass that rests on less must not
// look like the others. Empty where there is none.
std::string RefusedText(const Report& report) {
  std::int64_t passed = 0, refused = 0;
  std::string first;
  for (const Run& run : report.runs) {
    for (const v1::CaseResult& result : run.results) {
      if (result.verdict() != v1::VERDICT_PASSED) continue;
      ++passed;
      if (RefusedProbes(result).empty()) continue;
      ++refused;
      for (const v1::ProbeResult& probe : result.probes()) {
        if (!first.empty() || !probe.refused()) continue;
        first = absl::StrCat(result.name(), ": ", probe.name(), ": ", probe.message());
      }
    }
  }
  if (refused == 0) return "";
  return absl::StrCat("probes  refused in ", CountText(refused), " of ", CountText(passed),
                      passed == 1 ? " passed case" : " passed cases",
                      ", which rest on their error bounds; first: ", first);
}

// "checksums screened 3 passed cases, …": they are no full verification. Empty where
// there is none.
std::string ScreenedText(const Report& report) {
  std::int64_t screened = 0;
  for (const Run& run : report.runs) {
    for (const v1::CaseResult& result : run.results) {
      screened += result.verdict() == v1::VERDICT_PASSED && result.has_checksum() ? 1 : 0;
    }
  }
  if (screened == 0) return "";
  return absl::StrCat("screened ", CountText(screened),
                      screened == 1 ? " passed case" : " passed cases",
                      " by checksums alone: an error that is small against its row goes unseen");
}

class TableSink : public Sink {
 public:
  explicit TableSink(const Surface& surface)
      : surface_(surface), layout_(surface.width, surface.colour, !surface.side_by_side) {}

  void OnStart(const Run& run) override {
    number_width_ = std::max(number_width_, absl::StrCat(std::max(run.total - 1, 0)).size());
    ExpectNames(run);
    if (surface_.live) {
      Print(absl::StrCat(Shorten(Heading(run), Width()), "\n"));
    } else {
      surface_.err << Heading(run) << '\n' << std::flush;
    }
  }

  void OnProgress(const Run& run, const v1::CaseProgress& progress) override {
    current_ = progress.name();
    if (!progress.phase().empty()) {
      absl::StrAppend(&current_, " (", progress.phase(), ")");
      drawn_at_ = -absl::InfiniteDuration();  // it takes long: to be seen at once
      if (!surface_.live) {
        surface_.err << progress.name() << ": " << progress.phase() << '\n' << std::flush;
      }
    }
    total_[run.target] = progress.total();
    op_totals_[run.target] = run.op_totals;
    Redraw();
  }

  void OnResult(const Run& run, const v1::CaseResult& result) override {
    if (run.total > 0) total_[run.target] = run.total;
    Shown shown{result, Origin(run, result)};
    op_totals_[run.target] = run.op_totals;
    ++done_;
    ++ops_[OpOf(result.spec())].done;
    const bool plain = result.verdict() == v1::VERDICT_PASSED && !LookCloser(result);
    const bool quiet =
        result.verdict() == v1::VERDICT_UNSUPPORTED || result.verdict() == v1::VERDICT_SKIPPED;
    if (!plain && !quiet) ++ops_[OpOf(result.spec())].bad;
    if (surface_.side_by_side && (plain || quiet || result.verdict() == v1::VERDICT_PASSED)) {
      Redraw();  // its row comes with those of the other providers
      return;
    }
    if (surface_.live && !surface_.every_row && TotalCases() > static_cast<int>(kMostPassedRows) &&
        (plain || quiet)) {
      held_.push_back(std::move(shown));
      Redraw();
      return;
    }
    PrintRow(shown);
  }

  void OnNote(std::string_view note) override {
    if (surface_.live) {
      Print(absl::StrCat(std::string(note), "\n"));
    } else {
      surface_.err << note << '\n' << std::flush;
    }
  }

  void OnEnd(const Report& report) override {
    Erase();
    ShowHeld(report);
    if (surface_.side_by_side) WriteSideBySide(report, surface_);
    for (const Run& run : report.runs) {
      for (const auto& finding : run.job.findings()) {
        surface_.out << "  " << finding.reason() << "  " << finding.message() << '\n';
      }
    }
    if (const std::string text = RefusedText(report); !text.empty()) {
      surface_.out << "  " << text << '\n';
    }
    if (const std::string text = ScreenedText(report); !text.empty()) {
      surface_.out << "  " << text << '\n';
    }
    for (const PublishedTable& table : PublishedTables(report)) WriteText(table, surface_.out);
    surface_.out << Summary(report) << '\n' << std::flush;
  }

  void OnLeave() override {
    Erase();
    surface_.out << std::flush;
  }

 private:
  struct Shown {
    v1::CaseResult result;
    std::string origin;
  };
  struct OpProgress {
    int done = 0;
    int bad = 0;
  };

  std::size_t Width() const {
    return surface_.width > 0 ? static_cast<std::size_t>(surface_.width) : 10000;
  }

  int TotalCases() const {
    int total = 0;
    for (const auto& [target, cases] : total_) total += cases;
    return total;
  }

  // Which of several daemons or devices a result is of: their cases have the same names.
  std::string Origin(const Run& run, const v1::CaseResult& result) const {
    std::vector<std::string> parts;
    if (surface_.numbered) parts.push_back(PadLeft(absl::StrCat(result.index()), number_width_));
    if (surface_.several) parts.push_back(run.target);
    if (run.job.devices_size() > 1) parts.push_back(result.device());
    return absl::StrJoin(parts, " ");
  }

  // Names that are known before a row is written: those that the client gave, such as of held-out
  // shapes, and those of results that are there.
  void ExpectNames(const Run& run) {
    v1::CaseResult longest;
    for (const std::string& device : run.job.devices()) {
      if (device.size() > longest.device().size()) longest.set_device(device);
    }
    std::size_t width = 0;
    for (const v1::CaseSpec& spec : run.job.spec().cases().cases()) {
      if (spec.name().empty()) continue;
      const bool all = spec.provider().empty() || spec.provider() == "all";
      width = std::max(width, DisplayWidth(spec.name()) + (all ? kProviderRoom : 0));
    }
    for (const v1::CaseResult& result : run.results) {
      width = std::max(width, DisplayWidth(result.name()));
    }
    const std::string origin = Origin(run, longest);
    layout_.Expect(width + (origin.empty() ? 0 : DisplayWidth(origin) + 1));
  }

  void PutBlock(const Shown& shown) { surface_.out << layout_.Block(shown.result, shown.origin); }

  void PrintRow(const Shown& shown) {
    Erase();
    ShowHeader();
    PutBlock(shown);
    Draw();
    surface_.out << std::flush;
  }

  // Passed cases that were held back: the ones nearest to their bound, and how
  // many more there are; unsupported ones are in the summary's count.
  void ShowHeld(const Report& report) {
    std::vector<Shown> passed;
    for (const Shown& held : held_) {
      if (held.result.verdict() == v1::VERDICT_PASSED) passed.push_back(held);
    }
    if (passed.empty()) return;
    std::sort(passed.begin(), passed.end(),
              [](const Shown& a, const Shown& b) { return WorseThan(a.result, b.result); });
    const std::size_t shown = std::min(passed.size(), kMostPassedRows);
    ShowHeader();
    for (std::size_t i = 0; i < shown; ++i) PutBlock(passed[i]);
    if (passed.size() > shown) {
      surface_.out << "  … and " << CountText(static_cast<std::int64_t>(passed.size() - shown))
                   << " more passed, further from their bounds";
      if (report.runs.size() == 1)
        surface_.out << " (assay show " << report.runs[0].job.name() << ")";
      surface_.out << '\n';
    }
    held_.clear();
  }

  void ShowHeader() {
    if (header_shown_) return;
    header_shown_ = true;
    if (surface_.live) surface_.out << '\n';
    surface_.out << layout_.Header(
        surface_.numbered ? absl::StrCat(PadLeft("#", number_width_), " CASE") : "CASE");
  }

  // Text above the progress line.
  void Print(const std::string& text) {
    Erase();
    surface_.out << text;
    Draw();
    surface_.out << std::flush;
  }

  void Redraw() {
    if (!surface_.live) return;
    const absl::Duration now = SteadyNow();
    if (now - drawn_at_ < kRedraw) return;
    drawn_at_ = now;
    Erase();
    Draw();
    surface_.out << std::flush;
  }

  void Erase() {
    if (!drawn_) return;
    surface_.out << "\r\x1b[J";
    drawn_ = false;
  }

  static std::string Bar(int width, int done, int total) {
    const auto filled =
        static_cast<int>(static_cast<std::int64_t>(width) * std::min(done, total) / total);
    std::string bar;
    for (int i = 0; i < width; ++i) bar += i < filled ? "█" : "░";
    return bar;
  }

  // "gemm ████████ 72/72   conv ████████ 18/18   attention ███░░░░░ 12/27": a bar
  // an operator. Empty where the totals are not known or the line has no room.
  std::string OpBars() const {
    std::map<std::string, int> totals;
    for (const auto& [target, ops] : op_totals_) {
      for (const auto& [op, total] : ops) totals[op] += total;
    }
    std::erase_if(totals, [](const auto& entry) { return entry.second <= 0; });
    if (totals.empty()) return "";
    std::vector<std::pair<std::string, std::string>> texts;  // left and right of the bar
    std::vector<std::pair<int, int>> counts;
    std::size_t fixed = 3 * (totals.size() - 1);
    for (const auto& [op, total] : totals) {
      const auto it = ops_.find(op);
      const OpProgress progress = it == ops_.end() ? OpProgress{} : it->second;
      std::string right = absl::StrCat(" ", progress.done, "/", total);
      if (progress.bad > 0) absl::StrAppend(&right, " (", progress.bad, " to look at)");
      texts.emplace_back(absl::StrCat(op, " "), std::move(right));
      counts.emplace_back(progress.done, total);
      fixed += texts.back().first.size() + texts.back().second.size();
    }
    const std::size_t room = Width() - 1;
    if (room < fixed + totals.size() * kNarrowBar) return "";
    const int width =
        static_cast<int>(std::min<std::size_t>(kBarWidth, (room - fixed) / totals.size()));
    std::vector<std::string> bars;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      bars.push_back(absl::StrCat(texts[i].first, Bar(width, counts[i].first, counts[i].second),
                                  texts[i].second));
    }
    return absl::StrJoin(bars, "   ");
  }

  // "████████░░░░ 102/117  gemm 72 · conv 18 · attention 12".
  std::string OneBar(int total) const {
    std::string line = absl::StrCat(Bar(kBarWidth, done_, total), " ", done_, "/", total);
    std::vector<std::string> ops;
    for (const auto& [op, progress] : ops_) {
      ops.push_back(absl::StrCat(op, " ", progress.done));
      if (progress.bad > 0) absl::StrAppend(&ops.back(), " (", progress.bad, " to look at)");
    }
    if (!ops.empty()) absl::StrAppend(&line, "  ", absl::StrJoin(ops, " · "));
    return line;
  }

  // One line that fits, so that one carriage return takes it back; the case that
  // runs stands at its end, as far as there is room.
  void Draw() {
    if (!surface_.live) return;
    const int total = TotalCases();
    if (total == 0) return;
    std::string line = OpBars();
    if (line.empty()) line = OneBar(total);
    if (!current_.empty() && done_ < total) absl::StrAppend(&line, "   ", current_);
    surface_.out << Shorten(line, Width() - 1);
    drawn_ = true;
  }

  Surface surface_;
  RowLayout layout_;
  std::map<std::string, int> total_;                             // target -> cases
  std::map<std::string, std::map<std::string, int>> op_totals_;  // target -> operator -> cases
  std::map<std::string, OpProgress> ops_;
  std::vector<Shown> held_;
  std::string current_;
  int done_ = 0;
  std::size_t number_width_ = 1;
  bool header_shown_ = false;
  bool drawn_ = false;
  absl::Duration drawn_at_ = -absl::InfiniteDuration();
};

}  // namespace

std::unique_ptr<Sink> MakeTableSink(const Surface& surface) {
  return std::make_unique<TableSink>(surface);
}

std::string Summary(const Report& report) {
  const Counts counts = CountOf(report);
  std::string line = Describe(counts);
  absl::Duration elapsed;
  std::string why;
  int to_come = 0;
  std::ptrdiff_t required = 0;  // kernels that a suite requires, and nobody has
  for (const Run& run : report.runs) {
    required += std::count_if(run.job.findings().begin(), run.job.findings().end(),
                              [](const auto& f) { return f.reason() == "unsupported"; });
    const bool ended =
        run.job.state() != v1::JOB_STATE_QUEUED && run.job.state() != v1::JOB_STATE_RUNNING;
    if (!ended) to_come += run.job.counts().total() - static_cast<int>(run.results.size());
    elapsed = std::max(elapsed, Elapsed(run.job));
    if (why.empty()) why = Explain(run.job, counts);
  }
  if (required > 0) {
    absl::StrAppend(&line, ", ", required, required == 1 ? " required kernel" : " required kernels",
                    " missing");
  }
  if (to_come > 0) absl::StrAppend(&line, ", ", to_come, " still to come");
  if (elapsed > absl::ZeroDuration()) {
    absl::StrAppend(&line, " in ", SecondsText(absl::ToDoubleSeconds(elapsed)));
  }
  if (!why.empty()) absl::StrAppend(&line, ": ", why);
  return line;
}

}  // namespace assay::client
