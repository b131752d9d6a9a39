// The table of a fleet's report: the worst first, the quiet majority counted.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/fleet/report.h"
#include "client/report/units.h"

namespace assay {
namespace {

constexpr std::size_t kShownEvidence = 3;
constexpr std::size_t kShownLines = 10;

std::string Painted(const std::string& word, const char* code, bool colour) {
  return colour ? absl::StrCat("\x1b[", code, "m", word, "\x1b[0m") : word;
}

std::string Counted(std::int64_t count, const char* one) {
  return absl::StrCat(CountText(count), " ", one, count == 1 ? "" : "s");
}

// What the accused did, in half a line.
std::string Summary(const Accused& accused) {
  std::size_t digests = 0, failed = 0, slow = 0, jobs = 0;
  double worst = 0, whole = 0;
  for (const Evidence& evidence : accused.evidence) {
    digests += evidence.charge == Charge::kSuspect;
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
    words.push_back(absl::StrCat(Counted(static_cast<std::int64_t>(digests), "exact digest"),
                                 digests == 1 ? " differs" : " differ", " from the others'"));
  }
  if (failed > 0) words.push_back(Counted(static_cast<std::int64_t>(failed), "failed case"));
  if (jobs > 0) words.push_back("its job failed");
  if (whole > 0) {
    words.push_back(absl::StrCat("slow on the whole, ", PercentText(whole), " under the median"));
  }
  if (slow > 0) {
    words.push_back(absl::StrCat(Counted(static_cast<std::int64_t>(slow), "slow case"), ", up to ",
                                 PercentText(worst), " under the median"));
  }
  return absl::StrJoin(words, "; ");
}

void WriteLines(const char* heading, const std::vector<std::string>& lines, bool every,
                std::ostream& out) {
  if (lines.empty()) return;
  out << heading << '\n';
  const std::size_t shown = every ? lines.size() : std::min(lines.size(), kShownLines);
  for (std::size_t i = 0; i < shown; ++i) out << "  " << lines[i] << '\n';
  if (shown < lines.size()) out << "  … " << lines.size() - shown << " more (--all)\n";
}

}  // namespace

void WriteFleetTable(const FleetReport& report, bool colour, bool every, std::ostream& out) {
  const Fleet& fleet = report.fleet;
  const Judgement& judgement = report.judgement;
  out << Counted(static_cast<std::int64_t>(fleet.node_count()), "node") << ", "
      << Counted(static_cast<std::int64_t>(fleet.devices.size()), "device") << " · "
      << Counted(fleet.reports, "report") << ", " << Counted(fleet.results, "result") << " · "
      << Counted(judgement.digests.compared, "exact digest") << " and "
      << Counted(judgement.throughput.groups, "timed case") << " compared\n";
  std::size_t width = 0;
  for (const Accused& accused : judgement.accused) {
    width = std::max(width, DisplayWidth(fleet.devices[accused.device].name()));
  }
  for (const Unjudged& one : judgement.unjudged) {
    width = std::max(width, DisplayWidth(fleet.devices[one.device].name()));
  }
  for (const MissingNode& missing : report.missing) {
    width = std::max(width, DisplayWidth(missing.target));
  }
  for (const Accused& accused : judgement.accused) {
    const char* code = accused.charge == Charge::kSlow ? "33" : "31;1";
    out << "  " << Painted(PadRight(ChargeWord(accused.charge), 9), code, colour)
        << PadRight(fleet.devices[accused.device].name(), width) << "  " << Summary(accused)
        << '\n';
    const std::size_t shown =
        every ? accused.evidence.size() : std::min(accused.evidence.size(), kShownEvidence);
    for (std::size_t i = 0; i < shown; ++i) {
      const Evidence& evidence = accused.evidence[i];
      out << "             " << evidence.case_name << (evidence.case_name.empty() ? "" : ": ")
          << evidence.text << '\n';
    }
    if (shown < accused.evidence.size()) {
      out << "             … " << accused.evidence.size() - shown << " more (--all)\n";
    }
    if (!accused.unlike.empty()) {
      out << "             unlike its peers: " << absl::StrJoin(accused.unlike, "; ") << '\n';
    }
    for (const Rerun& rerun : accused.reruns) {
      out << "             " << (rerun.sibling ? "sibling " : "rerun ") << rerun.node << " "
          << rerun.device << ": " << rerun.case_name << ": " << rerun.text << '\n';
    }
    if (!accused.reads_as.empty()) out << "             reads as " << accused.reads_as << '\n';
  }
  const std::vector<Unjudged>& unjudged = judgement.unjudged;
  const std::size_t listed = every ? unjudged.size() : std::min(unjudged.size(), kShownLines);
  for (std::size_t i = 0; i < listed; ++i) {
    out << "  " << Painted(PadRight("UNJUDGED", 9), "33", colour)
        << PadRight(fleet.devices[unjudged[i].device].name(), width) << "  " << unjudged[i].reason
        << '\n';
  }
  if (listed < unjudged.size()) out << "  … " << unjudged.size() - listed << " more (--all)\n";
  for (const MissingNode& missing : report.missing) {
    out << "  " << Painted(PadRight("MISSING", 9), "33", colour) << PadRight(missing.target, width)
        << "  " << missing.reason;
    if (missing.results > 0) {
      out << "; " << Counted(missing.results, "result") << " came before and "
          << (missing.results == 1 ? "is" : "are") << " compared";
    }
    out << '\n';
  }
  WriteLines("not read:", report.unread, every, out);
  WriteLines("fails on every device, so no device is accused:", judgement.everywhere, every, out);
  WriteLines("jobs that failed:", judgement.jobs, every, out);
  WriteLines("jobs that prove less than was asked for:", judgement.unproven, every, out);
  WriteLines("undecided:", judgement.undecided, every, out);
  WriteLines("divided:", judgement.divided, every, out);
  WriteLines("to watch, within what chance may do:", judgement.watch, every, out);
  std::vector<std::string> duplicates = report.duplicates;
  duplicates.insert(duplicates.end(), fleet.duplicates.begin(), fleet.duplicates.end());
  WriteLines("given twice:", duplicates, every, out);
  WriteLines("not the same everywhere:", judgement.differences, every, out);
  if (judgement.throughput.too_few_peers > 0) {
    out << "too few peers: " << Counted(judgement.throughput.too_few_peers, "timed case")
        << " ran on less than " << kFewestPeers + 1
        << " devices of a model, and no time of theirs accuses anyone\n";
  }
  if (fleet.noisy > 0) {
    out << "not compared: " << Counted(fleet.noisy, "time") << " that did not settle\n";
  }
  if (judgement.compared() || !judgement.accused.empty()) {
    out << Counted(static_cast<std::int64_t>(judgement.accused.size()), "device") << " accused, "
        << CountText(static_cast<std::int64_t>(fleet.devices.size() - judgement.accused.size() -
                                               judgement.unjudged.size()))
        << " not";
    if (!judgement.unjudged.empty()) {
      out << ", " << CountText(static_cast<std::int64_t>(judgement.unjudged.size()))
          << " not judged";
    }
  } else {
    out << "nothing could be compared: no two devices gave a digest of the same exact case, or a "
           "time with enough peers";
  }
  if (!report.missing.empty()) {
    out << ", " << Counted(static_cast<std::int64_t>(report.missing.size()), "target")
        << " missing";
  }
  if (!report.unread.empty()) {
    out << ", " << Counted(static_cast<std::int64_t>(report.unread.size()), "report")
        << " not read";
  }
  out << '\n';
}

}  // namespace assay
