// The table of a fleet's report: the worst first, the quiet majority counted.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/fleet/report.h"
#include "client/lib/text.h"
#include "client/report/columns.h"
#include "client/report/units.h"

namespace assay::client {
namespace {

constexpr std::size_t kShownEvidence = 3;
constexpr std::size_t kShownLines = 10;

template <class Count>
std::string Counted(Count count, const char* one) {
  return absl::StrCat(CountText(static_cast<std::int64_t>(count)), " ", one, count == 1 ? "" : "s");
}

// What the accused did, in half a line.
std::string Summary(const Accused& accused) {
  std::size_t digests = 0, inexact = 0, failed = 0, slow = 0, jobs = 0;
  double worst = 0, whole = 0;
  for (const Evidence& evidence : accused.evidence) {
    digests += evidence.charge == Charge::kAccused && !evidence.rms;
    inexact += evidence.rms ? 1 : 0;
    failed += evidence.charge == Charge::kFailed && !evidence.case_name.empty();
    jobs += evidence.charge == Charge::kFailed && evidence.case_name.empty();
    if (!evidence.standing) continue;
    if (evidence.cases > 0) {
      whole = evidence.standing->shortfall;
    } else {
      ++slow;
      worst = std::max(worst, evidence.standing->shortfall);
    }
  }
  std::vector<std::string> words;
  if (digests > 0) {
    words.push_back(absl::StrCat(Counted(digests, "exact digest"),
                                 digests == 1 ? " differs" : " differ", " from the others'"));
  }
  if (inexact > 0) {
    words.push_back(absl::StrCat(Counted(inexact, "case"), " less exact than its peers'"));
  }
  if (failed > 0) words.push_back(Counted(failed, "failed case"));
  if (jobs > 0) words.push_back("its job failed");
  if (whole > 0) {
    words.push_back(absl::StrCat("slow on the whole, ", PercentText(whole), " under the median"));
  }
  if (slow > 0) {
    words.push_back(absl::StrCat(Counted(slow, "slow case"), ", up to ", PercentText(worst),
                                 " under the median"));
  }
  return absl::StrJoin(words, "; ");
}

void WriteMore(std::size_t shown, std::size_t all, const char* indent, std::ostream& out) {
  if (shown < all) out << indent << "… " << all - shown << " more (--all)\n";
}

// Writes one report as a table.
class FleetTable {
 public:
  FleetTable(const FleetReport& report, bool colour, bool every, std::ostream& out)
      : report_(report),
        fleet_(report.fleet),
        judgement_(report.judgement),
        colour_(colour),
        every_(every),
        out_(out) {
    for (const Accused& one : judgement_.accused) Widen(NameOf(one.device));
    for (const Unjudged& one : judgement_.unjudged) Widen(NameOf(one.device));
    for (const MissingNode& missing : report_.missing) Widen(missing.target);
  }

  void Write() {
    out_ << Counted(fleet_.node_count(), "node") << ", " << Counted(fleet_.devices.size(), "device")
         << " · " << Counted(fleet_.reports, "report") << ", " << Counted(fleet_.results, "result")
         << " · " << Counted(judgement_.digests.compared, "exact digest") << " and "
         << Counted(judgement_.throughput.groups, "timed case") << " compared\n";
    for (const Accused& accused : judgement_.accused) WriteAccused(accused);
    WriteUnjudged();
    for (const MissingNode& missing : report_.missing) WriteMissing(missing);
    WriteNotes();
    WriteEnd();
  }

 private:
  std::string NameOf(std::uint32_t device) const { return fleet_.devices[device].name(); }
  void Widen(const std::string& name) { width_ = std::max(width_, DisplayWidth(Visible(name))); }

  // "  SUSPECT  a07 cuda:1  …". Anybody may have written a report: what a terminal obeys is not
  // printed.
  void Row(const char* word, const char* code, const std::string& name, const std::string& text) {
    out_ << "  " << Painted(PadRight(word, 9), code, colour_) << PadRight(Visible(name), width_)
         << "  " << Visible(text) << '\n';
  }

  void WriteAccused(const Accused& accused) {
    const char* indent = "             ";
    Row(ChargeWord(accused.charge), accused.charge == Charge::kSlow ? "33" : "31;1",
        NameOf(accused.device), Summary(accused));
    const std::size_t all = accused.evidence.size();
    const std::size_t shown = every_ ? all : std::min(all, kShownEvidence);
    for (std::size_t i = 0; i < shown; ++i) {
      const Evidence& evidence = accused.evidence[i];
      out_ << indent << Visible(evidence.case_name) << (evidence.case_name.empty() ? "" : ": ")
           << Visible(evidence.text) << '\n';
    }
    WriteMore(shown, all, indent, out_);
    if (!accused.unlike.empty()) {
      out_ << indent << "unlike its peers: " << Visible(absl::StrJoin(accused.unlike, "; "))
           << '\n';
    }
    for (const Rerun& rerun : accused.reruns) {
      out_ << indent << (rerun.sibling ? "sibling " : "rerun ")
           << Visible(absl::StrCat(rerun.node, " ", rerun.device, ": ", rerun.case_name, ": ",
                                   rerun.text))
           << '\n';
    }
    if (!accused.reads_as.empty()) out_ << indent << "reads as " << accused.reads_as << '\n';
  }

  void WriteUnjudged() {
    const std::size_t all = judgement_.unjudged.size();
    const std::size_t shown = every_ ? all : std::min(all, kShownLines);
    for (std::size_t i = 0; i < shown; ++i) {
      const Unjudged& one = judgement_.unjudged[i];
      Row("UNJUDGED", "33", NameOf(one.device), one.reason);
    }
    WriteMore(shown, all, "  ", out_);
  }

  void WriteMissing(const MissingNode& missing) {
    std::string text = missing.reason;
    if (missing.results > 0) {
      absl::StrAppend(&text, "; ", Counted(missing.results, "result"), " came before and ",
                      missing.results == 1 ? "is" : "are", " compared");
    }
    Row("MISSING", "33", missing.target, text);
  }

  void WriteLines(const char* heading, const std::vector<std::string>& lines) {
    if (lines.empty()) return;
    out_ << heading << '\n';
    const std::size_t shown = every_ ? lines.size() : std::min(lines.size(), kShownLines);
    for (std::size_t i = 0; i < shown; ++i) out_ << "  " << Visible(lines[i]) << '\n';
    WriteMore(shown, lines.size(), "  ", out_);
  }

  void WriteNotes() {
    WriteLines("not read:", report_.unread);
    WriteLines("fails on every device, so no device is accused:", judgement_.everywhere);
    WriteLines("jobs that failed:", judgement_.jobs);
    WriteLines("jobs that prove less than was asked for:", judgement_.unproven);
    WriteLines("undecided:", judgement_.undecided);
    WriteLines("divided:", judgement_.divided);
    WriteLines("to watch, within what chance may do:", judgement_.watch);
    WriteLines("given twice:", report_.GivenTwice());
    WriteLines("not the same everywhere:", judgement_.differences);
    if (judgement_.throughput.too_few_peers > 0) {
      out_ << "too few peers: " << Counted(judgement_.throughput.too_few_peers, "timed case")
           << " ran on less than " << kFewestPeers + 1
           << " devices of a model, and no time of theirs accuses anyone\n";
    }
    if (fleet_.noisy > 0) {
      out_ << "not compared: " << Counted(fleet_.noisy, "time")
           << " that did not settle, or that others disturbed\n";
    }
  }

  void WriteEnd() {
    const std::size_t accused = judgement_.accused.size(), unjudged = judgement_.unjudged.size();
    if (judgement_.compared() || accused > 0) {
      out_ << Counted(accused, "device") << " accused, "
           << CountText(static_cast<std::int64_t>(fleet_.devices.size() - accused - unjudged))
           << " not";
      if (unjudged > 0) {
        out_ << ", " << CountText(static_cast<std::int64_t>(unjudged)) << " not judged";
      }
    } else {
      out_ << "nothing could be compared: no two devices gave a digest of the same exact case, or "
              "a time with enough peers";
    }
    if (!report_.missing.empty())
      out_ << ", " << Counted(report_.missing.size(), "target") << " missing";
    if (!report_.unread.empty())
      out_ << ", " << Counted(report_.unread.size(), "report") << " not read";
    out_ << '\n';
  }

  const FleetReport& report_;
  const Fleet& fleet_;
  const Judgement& judgement_;
  const bool colour_, every_;
  std::ostream& out_;
  std::size_t width_ = 0;  // of names
};

}  // namespace

void WriteFleetTable(const FleetReport& report, bool colour, bool every, std::ostream& out) {
  FleetTable(report, colour, every, out).Write();
}

}  // namespace assay::client
