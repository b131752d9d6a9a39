#include "client/fleet/judgement.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/fleet/differences.h"
#include "client/fleet/jobs.h"
#include "client/fleet/kinds.h"
#include "client/report/units.h"

namespace assay::client {
namespace {

constexpr std::size_t kShownDigits = 12;  // of 32

Evidence Against(Charge charge, std::string case_name, std::string provider) {
  Evidence evidence;
  evidence.charge = charge;
  evidence.case_name = std::move(case_name);
  evidence.provider = std::move(provider);
  return evidence;
}

Evidence DigestEvidence(const Fleet& fleet, const DigestSuspect& suspect) {
  Evidence evidence =
      Against(Charge::kAccused, fleet.text(suspect.vote.name), fleet.text(suspect.vote.provider));
  evidence.probe = fleet.text(suspect.vote.probe);
  evidence.of_output = suspect.vote.of_output;
  evidence.digest = DigestText(suspect.vote.digest);
  if (suspect.expected_known) evidence.expected = DigestText(suspect.expected);
  evidence.agree = suspect.agree;
  evidence.differ = suspect.differ;
  switch (suspect.by) {
    case DigestSuspect::By::kGolden:
      evidence.decided_by = "golden";
      break;
    case DigestSuspect::By::kProvider:
      evidence.decided_by = "devices with this provider";
      break;
    case DigestSuspect::By::kAllProviders:
      evidence.decided_by = "devices with any provider";
      break;
  }
  // As many digits as tell the two apart.
  std::size_t digits = kShownDigits;
  if (evidence.digest.starts_with(evidence.expected.substr(0, digits))) digits = 32;
  const auto shown = [&](const std::string& digest) {
    return digest.size() > digits ? digest.substr(0, digits) + "…" : digest;
  };
  evidence.text = absl::StrCat(evidence.probe, " gave ", shown(evidence.digest), ", ");
  if (!suspect.expected_known) {
    absl::StrAppend(&evidence.text, "which is not the suite's own digest");
    return evidence;
  }
  absl::StrAppend(&evidence.text, shown(evidence.expected),
                  suspect.by == DigestSuspect::By::kGolden ? " is the suite's own digest"
                                                           : " is what the others gave",
                  " (", CountText(suspect.agree),
                  suspect.agree == 1 ? " other device agrees" : " other devices agree",
                  suspect.right_otherwise ? ", and this one by another provider)" : ")");
  return evidence;
}

Evidence PrecisionEvidence(const Fleet& fleet, const InexactCase& inexact) {
  const PrecisionRow& row = inexact.row;
  Evidence evidence = Against(Charge::kAccused, fleet.text(row.name), fleet.text(row.provider));
  evidence.reason = "precision";
  evidence.rms = row.rms;
  evidence.peers_rms = inexact.peers_rms;
  evidence.peer_count = inexact.peer_count;
  evidence.text =
      absl::StrCat("rms error ", RatioText(row.rms), " times what rounding makes likely");
  if (!std::isnan(row.bits)) absl::StrAppendFormat(&evidence.text, ", %.1f bits", row.bits);
  absl::StrAppend(&evidence.text, "; ", RatioText(inexact.peers_rms), " is the median of ",
                  inexact.peer_count, " peers");
  return evidence;
}

std::string DeviationsText(const Standing& standing) {
  return standing.deviations < 1000 ? absl::StrFormat("%.1f deviations", standing.deviations)
                                    : std::string("peers do not spread");
}

Evidence SlowEvidence(const Fleet& fleet, const SlowCase& slow) {
  const TimedRow& row = slow.row;
  Evidence evidence = Against(Charge::kSlow, fleet.text(row.name), fleet.text(row.provider));
  evidence.standing = slow.standing;
  evidence.rate = row.work / row.median;
  evidence.peers_rate = row.work * slow.peers.median;
  evidence.flops = row.flops;
  evidence.peer_count = slow.peer_count;
  const auto rate = [&](double per_second) {
    if (row.work <= 0) return SecondsText(1 / per_second);
    return RateText(per_second * row.work, row.flops ? "FLOP" : "B");
  };
  evidence.text = absl::StrFormat(
      "%.1f %% under the median of its model (%s against %s), %s, similarity %.3f, %d peers",
      100 * slow.standing.shortfall, rate(1 / row.median), rate(slow.peers.median),
      DeviationsText(slow.standing), slow.standing.similarity, slow.peer_count);
  if (row.clock_hertz > 0 && slow.clock_hertz > 0 &&
      std::abs(static_cast<double>(row.clock_hertz) / slow.clock_hertz - 1) > 0.02) {
    absl::StrAppendFormat(&evidence.text, "; core clock %.2f GHz against %.2f GHz",
                          static_cast<double>(row.clock_hertz) / 1e9, slow.clock_hertz / 1e9);
  }
  if (const std::string& why = fleet.text(row.throttled); !why.empty()) {
    absl::StrAppend(&evidence.text, "; throttled: ", why);
  }
  const std::string& mine = fleet.text(row.implementation);
  const std::string& theirs = fleet.text(slow.implementation);
  if (!mine.empty() && !theirs.empty() && mine != theirs) {
    absl::StrAppend(&evidence.text, "; kernel ", mine, " against ", theirs);
  }
  return evidence;
}

// The device on the whole: of no case.
Evidence PaceEvidence(const SlowDevice& slow) {
  Evidence evidence = Against(Charge::kSlow, "", "");
  evidence.standing = slow.standing;
  evidence.cases = slow.cases;
  evidence.peer_count = slow.peer_count;
  evidence.text = absl::StrFormat(
      "over %d timed cases together %.1f %% under the median of its model, %s, similarity %.3f, "
      "%d peers",
      slow.cases, 100 * slow.standing.shortfall, DeviationsText(slow.standing),
      slow.standing.similarity, slow.peer_count);
  return evidence;
}

// How much a piece of evidence weighs among others of its kind.
double Weight(const Evidence& evidence) {
  return evidence.standing ? evidence.standing->shortfall : evidence.agree;
}

// Devices with one kernel that did not end in its time.
std::set<std::uint32_t> LateOnce(const Fleet& fleet) {
  std::map<std::uint32_t, int> late;
  for (const FailedRow& row : fleet.failures) late[row.device] += row.late() ? 1 : 0;
  std::set<std::uint32_t> once;
  for (const auto& [device, count] : late) {
    if (count == 1) once.insert(device);
  }
  return once;
}

Evidence JobEvidence(const JobGroup& group, const JobRow& row) {
  Evidence evidence = Against(Charge::kFailed, "", "");
  evidence.reason = row.reason;
  evidence.text = absl::StrCat("its job FAILED: ", row.message);
  if (group.ran == 1) {
    absl::StrAppend(&evidence.text, "; nobody else ran the suite");
  } else {
    absl::StrAppend(&evidence.text, "; ", group.ran - group.targets, " of ", group.ran,
                    " nodes that ran the suite did not fail by that");
  }
  return evidence;
}

// A failed case that `failed` of the `ran` devices with it have in common.
Evidence FailureEvidence(const Fleet& fleet, const FailedRow& row, std::size_t failed,
                         std::uint32_t ran) {
  Evidence evidence = Against(Charge::kFailed, fleet.text(row.name), fleet.text(row.provider));
  evidence.reason = row.reason;
  evidence.text = absl::StrCat(row.error ? "ERROR" : "FAILED", row.reason.empty() ? "" : " ",
                               row.reason, row.message.empty() ? "" : ": ", row.message);
  if (ran == 1) {
    absl::StrAppend(&evidence.text, "; nobody else ran it");
  } else {
    absl::StrAppend(&evidence.text, "; ", ran - failed, " of ", ran,
                    " devices that ran it did not fail");
  }
  return evidence;
}

// Fills one judgement, step by step.
class Judging {
 public:
  explicit Judging(const Fleet& fleet)
      : fleet_(fleet), kinds_(fleet), late_once_(LateOnce(fleet)) {}

  Judgement Take(absl::Time now) {
    judgement_.digests = CompareDigests(fleet_);
    judgement_.throughput = CompareThroughput(fleet_);
    judgement_.precision = ComparePrecision(fleet_);
    judgement_.undecided = judgement_.digests.undecided;
    judgement_.divided = judgement_.digests.divided;
    judgement_.everywhere = judgement_.digests.everywhere;
    judgement_.differences = Differences(fleet_, now);
    for (const DigestSuspect& suspect : judgement_.digests.suspects) {
      Accuse(suspect.vote.device, suspect.vote.what, DigestEvidence(fleet_, suspect));
    }
    for (const InexactCase& inexact : judgement_.precision.inexact) {
      Accuse(inexact.row.device, inexact.row.key, PrecisionEvidence(fleet_, inexact));
    }
    JudgeJobs();
    JudgeFailures();
    JudgeVerdicts();
    JudgeTimes();
    WatchUnsettled();
    RankAccused();
    JudgeSilence();
    return std::move(judgement_);
  }

 private:
  // Without a case: the device as a whole.
  void Accuse(std::uint32_t device, Evidence evidence) {
    accused_[device].device = device;
    accused_[device].evidence.push_back(std::move(evidence));
  }
  void Accuse(std::uint32_t device, std::uint32_t what, Evidence evidence) {
    evidence.key = fleet_.text(what);
    Accuse(device, std::move(evidence));
  }
  void Watch(std::uint32_t device, const Evidence& evidence, const char* why = "") {
    judgement_.watch.push_back(absl::StrCat(fleet_.devices[device].name(), ": ", evidence.case_name,
                                            evidence.case_name.empty() ? "" : ": ", evidence.text,
                                            why));
  }

  // What the jobs say of themselves.
  void JudgeJobs() {
    for (const JobGroup& group : GroupJobs(fleet_)) {
      if (group.everywhere() && group.failed()) {
        judgement_.everywhere.push_back(
            absl::StrCat(group.rows.front()->what, "; on all ", group.ran,
                         " nodes: look at the library and the configuration, not at a card"));
        continue;
      }
      for (const JobRow* row : group.rows) {
        if (!group.failed()) {
          judgement_.unproven.push_back(JobLine(*row));
          continue;
        }
        if (row->devices.empty()) judgement_.jobs.push_back(JobLine(*row));
        for (const std::uint32_t device : row->devices) Accuse(device, JobEvidence(group, *row));
      }
    }
  }

  void JudgeFailures() {
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<const FailedRow*>> failures;
    for (const FailedRow& row : fleet_.failures) {
      failures[{fleet_.CaseOf(row), row.provider}].push_back(&row);
    }
    for (const auto& [what, rows] : failures) JudgeFailure(what.first, what.second, rows);
  }

  // One case with one provider, and where it failed.
  void JudgeFailure(std::uint32_t what, std::uint32_t provider,
                    const std::vector<const FailedRow*>& rows) {
    std::set<std::uint32_t> failed, ran;
    std::map<std::string, std::set<std::uint32_t>> alike;  // those that failed for a reason
    for (const FailedRow* row : rows) {
      failed.insert(row->device);
      // One that was late may have had no time, whatever the others did.
      if (!row->late()) alike[row->reason].insert(row->device);
    }
    for (std::uint32_t device = 0; device < fleet_.devices.size(); ++device) {
      if (failed.contains(device) || fleet_.HasRun(device, what, provider)) ran.insert(device);
    }
    const auto count = static_cast<std::uint32_t>(ran.size());
    std::set<std::string> told;
    std::map<std::pair<std::string, std::string>, std::string> known;  // by reason and kind
    for (const FailedRow* row : rows) {
      const bool all = count > 1 && failed.size() == count;
      std::string kind;
      if (!all && !row->late()) {
        const auto [place, is_new] =
            known.try_emplace({row->reason, kinds_.NarrowestOf(row->device)});
        if (is_new) place->second = kinds_.WhollyBad(row->device, alike[row->reason], ran);
        kind = place->second;
      }
      if (all || !kind.empty()) {
        if (told.insert(all ? "" : absl::StrCat(kind, row->reason)).second) {
          judgement_.everywhere.push_back(absl::StrCat(
              fleet_.text(row->name), ": ", row->error ? "ERROR" : "FAILED", " on all ",
              all ? absl::StrCat(count, " devices") : absl::StrCat("devices of ", kind),
              " that ran it (", row->reason, "): look at the kernel, not at a card"));
        }
        Hold(*row);
        continue;
      }
      Evidence evidence = FailureEvidence(fleet_, *row, failed.size(), count);
      if (row->late() && late_once_.contains(row->device)) {
        Watch(row->device, evidence, "; once, and other work may be why");
        continue;
      }
      Accuse(row->device, row->what, std::move(evidence));
      Hold(*row);
    }
  }

  // The row is held against its device or its kernel.
  void Hold(const FailedRow& row) { held_.emplace(row.device, fleet_.text(row.job)); }

  // Lists the jobs that are not PASSED and of which no case is held against a device or a kernel.
  void JudgeVerdicts() {
    for (const JobRow& row : fleet_.verdicts) {
      const bool told = row.failed && std::any_of(row.devices.begin(), row.devices.end(),
                                                  [&](std::uint32_t device) {
                                                    return held_.contains({device, row.job});
                                                  });
      if (told) continue;
      (row.failed ? judgement_.jobs : judgement_.unproven).push_back(JobLine(row));
      judgement_.verdicts.push_back(row);
    }
  }

  void JudgeTimes() {
    const ThroughputFindings& throughput = judgement_.throughput;
    std::set<std::uint32_t> slow_throughout;
    for (const SlowDevice& slow : throughput.slow_devices) {
      slow_throughout.insert(slow.device);
      Accuse(slow.device, PaceEvidence(slow));
    }
    for (const SlowCase& slow : throughput.outliers) {
      Accuse(slow.row.device, slow.row.what, SlowEvidence(fleet_, slow));
    }
    for (const SlowDevice& slow : throughput.watch_devices) Watch(slow.device, PaceEvidence(slow));
    for (const SlowCase& slow : throughput.watch) {
      // If the device is slow throughout, it is no chance that its cases are slow.
      if (slow_throughout.contains(slow.row.device)) {
        Accuse(slow.row.device, slow.row.what, SlowEvidence(fleet_, slow));
      } else {
        Watch(slow.row.device, SlowEvidence(fleet_, slow));
      }
    }
  }

  // Noisy times are not compared. If most of a device's are such, and most of the fleet's are not,
  // something holds the device back.
  void WatchUnsettled() {
    std::map<std::uint32_t, std::size_t> settled;
    for (const TimedRow& row : fleet_.timed) ++settled[row.device];
    if (static_cast<std::size_t>(fleet_.noisy) > fleet_.timed.size()) return;
    for (const auto& [device, noisy] : fleet_.noisy_of) {
      const std::size_t all = noisy + settled[device];
      if (all < kFewestPacedCases || 2 * noisy <= all) continue;
      judgement_.watch.push_back(
          absl::StrCat(fleet_.devices[device].name(), ": ", noisy, " of ", all,
                       " times did not settle, or others disturbed them: they were not compared"));
    }
  }

  // The worst evidence of each, and the worst of them, first.
  void RankAccused() {
    for (auto& [device, one] : accused_) {
      std::stable_sort(one.evidence.begin(), one.evidence.end(),
                       [](const Evidence& a, const Evidence& b) {
                         return std::tuple(a.charge, a.cases == 0, -Weight(a)) <
                                std::tuple(b.charge, b.cases == 0, -Weight(b));
                       });
      one.charge = one.evidence.front().charge;
      one.unlike = UnlikePeers(fleet_, device);
      judgement_.accused.push_back(std::move(one));
    }
    std::stable_sort(judgement_.accused.begin(), judgement_.accused.end(),
                     [](const Accused& a, const Accused& b) {
                       if (a.charge != b.charge) return a.charge < b.charge;
                       if (a.charge == Charge::kSlow) {
                         return Weight(a.evidence.front()) > Weight(b.evidence.front());
                       }
                       return a.evidence.size() > b.evidence.size();
                     });
  }

  void JudgeSilence() {
    std::set<std::uint32_t> accused;
    for (const auto& [device, one] : accused_) accused.insert(device);
    SilenceFindings silence = FindSilence(fleet_, judgement_.throughput, accused);
    judgement_.unjudged = std::move(silence.unjudged);
    judgement_.differences.insert(judgement_.differences.end(), silence.partly.begin(),
                                  silence.partly.end());
  }

  const Fleet& fleet_;
  const Kinds kinds_;
  const std::set<std::uint32_t> late_once_;
  std::map<std::uint32_t, Accused> accused_;
  std::set<std::pair<std::uint32_t, std::string>> held_;  // device, job
  Judgement judgement_;
};

}  // namespace

const char* ChargeWord(Charge charge) {
  switch (charge) {
    case Charge::kAccused:
      return "SUSPECT";
    case Charge::kFailed:
      return "FAILED";
    case Charge::kSlow:
      return "SLOW";
  }
  return "";
}

Judgement JudgeFleet(const Fleet& fleet, absl::Time now) { return Judging(fleet).Take(now); }

}  // namespace assay::client
