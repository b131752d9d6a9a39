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
#include "client/report/units.h"

namespace assay {
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
      Against(Charge::kSuspect, fleet.text(suspect.vote.name), fleet.text(suspect.vote.provider));
  evidence.probe = fleet.text(suspect.vote.probe);
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

// What the jobs say of themselves. `accuse` takes a device and what is held against it.
template <class Accuse>
void JudgeJobs(const Fleet& fleet, const Accuse& accuse, Judgement& judgement) {
  for (const JobGroup& group : GroupJobs(fleet)) {
    if (group.everywhere() && group.failed()) {
      judgement.everywhere.push_back(
          absl::StrCat(group.rows.front()->what, "; on all ", group.ran,
                       " nodes: look at the library and the configuration, not at a card"));
      continue;
    }
    for (const JobRow* row : group.rows) {
      if (!group.failed()) {
        judgement.unproven.push_back(JobLine(*row));
        continue;
      }
      if (row->devices.empty()) judgement.jobs.push_back(JobLine(*row));
      Evidence evidence = Against(Charge::kFailed, "", "");
      evidence.reason = row->reason;
      evidence.text = absl::StrCat("its job FAILED: ", row->message);
      if (group.ran == 1) {
        absl::StrAppend(&evidence.text, "; nobody else ran the suite");
      } else {
        absl::StrAppend(&evidence.text, "; ", group.ran - group.targets, " of ", group.ran,
                        " nodes that ran the suite did not fail by that");
      }
      for (const std::uint32_t device : row->devices) accuse(device, evidence);
    }
  }
}

using DeviceAndJob = std::pair<std::uint32_t, std::string>;

// Lists the jobs that are not PASSED where no case of theirs is among those that were `held`
// against a device or a kernel.
void JudgeVerdicts(const Fleet& fleet, const std::set<DeviceAndJob>& held, Judgement& judgement) {
  for (const JobRow& row : fleet.verdicts) {
    const bool told = row.failed && std::any_of(row.devices.begin(), row.devices.end(),
                                                [&](std::uint32_t device) {
                                                  return held.contains({device, row.job});
                                                });
    if (told) continue;
    (row.failed ? judgement.jobs : judgement.unproven).push_back(JobLine(row));
    judgement.verdicts.push_back(row);
  }
}

}  // namespace

const char* ChargeWord(Charge charge) {
  switch (charge) {
    case Charge::kSuspect:
      return "SUSPECT";
    case Charge::kFailed:
      return "FAILED";
    case Charge::kSlow:
      return "SLOW";
  }
  return "";
}

Judgement JudgeFleet(const Fleet& fleet, absl::Time now) {
  Judgement judgement;
  judgement.digests = CompareDigests(fleet);
  judgement.throughput = CompareThroughput(fleet);
  judgement.undecided = judgement.digests.undecided;
  judgement.divided = judgement.digests.divided;
  judgement.differences = Differences(fleet, now);

  std::map<std::uint32_t, Accused> accused;
  const auto accuse = [&](std::uint32_t device, std::uint32_t what, Evidence evidence) {
    Accused& one = accused[device];
    one.device = device;
    evidence.key = fleet.text(what);
    one.evidence.push_back(std::move(evidence));
  };
  for (const DigestSuspect& suspect : judgement.digests.suspects) {
    accuse(suspect.vote.device, suspect.vote.what, DigestEvidence(fleet, suspect));
  }
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<const FailedRow*>> failures;
  for (const FailedRow& row : fleet.failures) {
    failures[{fleet.CaseOf(row), row.provider}].push_back(&row);
  }
  const auto accuse_whole = [&](std::uint32_t device, Evidence evidence) {
    Accused& one = accused[device];
    one.device = device;
    one.evidence.push_back(std::move(evidence));
  };
  JudgeJobs(fleet, accuse_whole, judgement);
  const std::set<std::uint32_t> late_once = LateOnce(fleet);
  std::set<DeviceAndJob> held;
  for (const auto& [what, rows] : failures) {
    std::uint32_t ran = fleet.DevicesThatRan(what.first, what.second);
    std::set<std::uint32_t> failed;
    for (const FailedRow* row : rows) {
      const bool fresh = failed.insert(row->device).second;
      if (fresh && !fleet.HasRun(row->device, what.first, what.second)) ++ran;
    }
    if (ran > 1 && failed.size() == ran) {
      judgement.everywhere.push_back(absl::StrCat(
          fleet.text(rows[0]->name), ": ", rows[0]->error ? "ERROR" : "FAILED", " on all ", ran,
          " devices that ran it (", rows[0]->reason, "): look at the kernel, not at a card"));
      for (const FailedRow* row : rows) held.emplace(row->device, fleet.text(row->job));
      continue;
    }
    for (const FailedRow* row : rows) {
      Evidence evidence =
          Against(Charge::kFailed, fleet.text(row->name), fleet.text(row->provider));
      evidence.reason = row->reason;
      evidence.text = absl::StrCat(row->error ? "ERROR" : "FAILED", row->reason.empty() ? "" : " ",
                                   row->reason, row->message.empty() ? "" : ": ", row->message);
      if (ran == 1) {
        absl::StrAppend(&evidence.text, "; nobody else ran it");
      } else {
        absl::StrAppend(&evidence.text, "; ", ran - failed.size(), " of ", ran,
                        " devices that ran it did not fail");
      }
      if (row->late() && late_once.contains(row->device)) {
        judgement.watch.push_back(absl::StrCat(fleet.devices[row->device].name(), ": ",
                                               evidence.case_name, ": ", evidence.text,
                                               "; once, and other work may be why"));
        continue;
      }
      accuse(row->device, row->what, std::move(evidence));
      held.emplace(row->device, fleet.text(row->job));
    }
  }
  JudgeVerdicts(fleet, held, judgement);
  std::set<std::uint32_t> slow_throughout;
  for (const SlowDevice& slow : judgement.throughput.slow_devices) {
    slow_throughout.insert(slow.device);
    accuse_whole(slow.device, PaceEvidence(slow));
  }
  for (const SlowCase& slow : judgement.throughput.outliers) {
    accuse(slow.row.device, slow.row.what, SlowEvidence(fleet, slow));
  }
  for (const SlowDevice& slow : judgement.throughput.watch_devices) {
    judgement.watch.push_back(
        absl::StrCat(fleet.devices[slow.device].name(), ": ", PaceEvidence(slow).text));
  }
  for (const SlowCase& slow : judgement.throughput.watch) {
    // That the device is slow is no chance: what its cases are slow by belongs to that.
    if (slow_throughout.contains(slow.row.device)) {
      accuse(slow.row.device, slow.row.what, SlowEvidence(fleet, slow));
      continue;
    }
    const Evidence evidence = SlowEvidence(fleet, slow);
    judgement.watch.push_back(absl::StrCat(fleet.devices[slow.row.device].name(), ": ",
                                           evidence.case_name, ": ", evidence.text));
  }
  std::set<std::uint32_t> suspected;
  for (auto& [device, one] : accused) {
    suspected.insert(device);
    std::stable_sort(one.evidence.begin(), one.evidence.end(),
                     [](const Evidence& a, const Evidence& b) {
                       return std::tuple(a.charge, a.cases == 0, -Weight(a)) <
                              std::tuple(b.charge, b.cases == 0, -Weight(b));
                     });
    one.charge = one.evidence.front().charge;
    one.unlike = UnlikePeers(fleet, device);
    judgement.accused.push_back(std::move(one));
  }
  std::stable_sort(judgement.accused.begin(), judgement.accused.end(),
                   [](const Accused& a, const Accused& b) {
                     if (a.charge != b.charge) return a.charge < b.charge;
                     if (a.charge == Charge::kSlow) {
                       return Weight(a.evidence.front()) > Weight(b.evidence.front());
                     }
                     return a.evidence.size() > b.evidence.size();
                   });
  SilenceFindings silence = FindSilence(fleet, judgement.throughput, suspected);
  judgement.unjudged = std::move(silence.unjudged);
  judgement.differences.insert(judgement.differences.end(), silence.partly.begin(),
                               silence.partly.end());
  return judgement;
}

}  // namespace assay
