#include "kernels/validate/runner.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "kernels/text/cat.h"
#include "kernels/validate/case_run.h"

namespace assay::inline kernels {
namespace {

// A case among others.
struct Member {
  std::unique_ptr<CaseRun> run;
  bool goes_on = true;  // else it has ended
  std::string suspicion = {};
};

// What is said against a case. That it does not fit beside others, or is supported nowhere, or
// has no verdict yet, is nothing.
std::string SuspicionOf(Verdict verdict, const std::vector<Finding>& findings) {
  const bool wrong = verdict == Verdict::kFailed || verdict == Verdict::kError ||
                     verdict == Verdict::kInconclusive;
  if (!wrong) return "";
  if (findings.empty()) return "no reason was given";
  if (findings[0].reason == Reason::kMemory) return "";
  return Cat(ReasonWord(findings[0].reason), ": ", findings[0].message);
}

// Cases that go through their stages side by side, all of them through one before any begins
// the next.
class Group {
 public:
  Group(std::vector<Member> members, Device& device, PhaseObserver& observer)
      : members_(std::move(members)), device_(device), observer_(observer) {}

  std::vector<LedOutcome> Go() {
    std::vector<LedOutcome> led(members_.size());
    const bool judged = Judge();
    const std::size_t kept = device_.arena().blocks().size();
    for (std::size_t i = 0; i < members_.size(); ++i) {
      Member& member = members_[i];
      observer_.Turn(static_cast<int>(i));
      if (judged && member.goes_on && !lost_ && member.suspicion.empty()) {
        CaseOutcome outcome = member.run->Finish();
        device_.arena().ResetTo(kept);
        LookAfter(i, SuspicionOf(outcome.verdict, outcome.findings));
        // What had no room beside others may have it alone.
        const bool whole = std::none_of(outcome.probes.begin(), outcome.probes.end(),
                                        [](const ProbeOutcome& probe) { return probe.refused; });
        if (outcome.verdict == Verdict::kPassed && whole && member.suspicion.empty()) {
          led[i].outcome = std::move(outcome);
        }
      }
      member.run.reset();  // in its own turn: the kernel is a third party's
    }
    for (std::size_t i = 0; i < members_.size(); ++i) {
      led[i].suspicion = std::move(members_[i].suspicion);
    }
    return led;
  }

 private:
  bool Judge() {
    device_.arena().Reset();
    Each(&CaseRun::PrepareBeside);
    if (!Fill()) return false;
    Each(&CaseRun::Launch);
    Each(&CaseRun::MakeReference);
    if (!Compare()) return false;
    Each(&CaseRun::Conclude);
    return !lost_;
  }

  void Each(bool (CaseRun::*stage)()) {
    for (std::size_t i = 0; i < members_.size() && !lost_; ++i) {
      Member& member = members_[i];
      if (!member.goes_on) continue;
      observer_.Turn(static_cast<int>(i));
      member.goes_on = (*member.run.*stage)();
      member.run->Pause();
      LookAfter(i, SuspicionOf(member.run->verdict(), member.run->findings()));
    }
  }

  // After a turn: what it has enqueued is waited for, so that a fault is not the next one's.
  void LookAfter(std::size_t i, std::string suspicion) {
    Member& member = members_[i];
    const absl::Status status = device_.Synchronize();
    lost_ = !device_.health().ok();
    if (suspicion.empty() && !status.ok()) suspicion = Cat("fault: ", status.message());
    if (suspicion.empty()) return;
    member.suspicion = std::move(suspicion);
    observer_.Suspect(static_cast<int>(i));
  }

  // The places of those that go on.
  std::vector<std::size_t> Going() const {
    std::vector<std::size_t> going;
    for (std::size_t i = 0; i < members_.size(); ++i) {
      if (members_[i].goes_on) going.push_back(i);
    }
    return going;
  }

  bool Fill() {
    if (lost_) return false;
    for (std::size_t i = 0; i < members_.size(); ++i) {
      Member& member = members_[i];
      if (!member.goes_on) continue;
      observer_.Turn(static_cast<int>(i));
      member.goes_on = member.run->EnqueueFills();
      member.run->Pause();
    }
    const std::vector<std::size_t> going = Going();
    std::vector<std::vector<TensorView>> inputs;
    inputs.reserve(going.size());
    for (const std::size_t i : going) inputs.push_back(members_[i].run->inputs());
    observer_.Turn(kAllTogether);
    observer_.Enter(Phase::kFill);
    const double begin = device_.Now();
    const absl::StatusOr<std::vector<Fingerprint>> filled = device_.FingerprintsOf(inputs);
    if (!filled.ok()) return false;
    const double share = (device_.Now() - begin) / static_cast<double>(going.size());
    for (std::size_t i = 0; i < going.size(); ++i) {
      members_[going[i]].run->Filled((*filled)[i], share);
    }
    return true;
  }

  bool Compare() {
    if (lost_) return false;
    const std::vector<std::size_t> going = Going();
    std::vector<CompareRequest> requests;
    requests.reserve(going.size());
    for (const std::size_t i : going) requests.push_back(members_[i].run->Asked());
    observer_.Turn(kAllTogether);
    observer_.Enter(Phase::kCompare);
    const double begin = device_.Now();
    absl::StatusOr<std::vector<CompareResult>> results = device_.CompareAll(requests);
    if (!results.ok()) return false;
    const double share = (device_.Now() - begin) / static_cast<double>(going.size());
    for (std::size_t i = 0; i < going.size() && !lost_; ++i) {
      Member& member = members_[going[i]];
      observer_.Turn(static_cast<int>(going[i]));
      member.goes_on = member.run->Compared(std::move((*results)[i]), share);
      member.run->Pause();
      LookAfter(going[i], SuspicionOf(member.run->verdict(), member.run->findings()));
    }
    return !lost_;
  }

  std::vector<Member> members_;
  Device& device_;
  PhaseObserver& observer_;
  bool lost_ = false;
};

}  // namespace

CaseOutcome CaseRunner::Run(const Case& c, PhaseObserver& observer) {
  CaseRun run(c, device_, registry_, ceilings_, conditions_, draws_, observer);
  run.Begin() && run.Prepare() && run.Launch() && run.Verify() && run.Conclude();
  return run.Finish();
}

std::vector<LedOutcome> CaseRunner::RunLeading(std::span<const Case> cases,
                                               PhaseObserver& observer) {
  std::vector<Member> members;
  for (std::size_t i = 0; i < std::min(cases.size(), kMostTogether); ++i) {
    if (!device_.shares_launches()) break;
    observer.Turn(static_cast<int>(i));
    auto run = std::make_unique<CaseRun>(cases[i], device_, registry_, ceilings_, conditions_,
                                         draws_, observer);
    const bool shares = run->Begin() && run->MayShare();
    run->Pause();
    if (!shares) break;
    members.push_back({.run = std::move(run)});
  }
  if (members.size() > 1) return Group(std::move(members), device_, observer).Go();
  observer.Turn(0);
  std::vector<LedOutcome> alone(1);
  alone[0].outcome = Run(cases[0], observer);
  return alone;
}

}  // namespace assay::kernels
