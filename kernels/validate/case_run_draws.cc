// Launches of a kernel that is not trusted on data that it cannot foresee. Each is poisoned,
// guarded and judged. The timed launches are such launches. If nothing is timed, there is one of
// them.
#include <algorithm>
#include <optional>
#include <random>
#include <tuple>
#include <utility>

#include "absl/strings/str_format.h"
#include "kernels/text/cat.h"
#include "kernels/validate/case_run.h"
#include "kernels/validate/draws.h"
#include "kernels/validate/timing.h"

namespace assay::inline kernels {

class CaseRun::Draws final : public TimedLaunches {
 public:
  explicit Draws(CaseRun& run) : run_(run), rotation_(run.launcher_.seed()) {
    if (run_.only_timed() || !run_.outcome_.compare) return;
    TensorDigest judged;
    std::copy_n(run_.outcome_.compare->digest_raw, 2, judged.raw);
    std::copy_n(run_.outcome_.compare->digest_canonical, 2, judged.canonical);
    if (run_.outcome_.verdict == Verdict::kPassed) rotation_.Know(run_.launcher_.seed(), judged);
  }

  absl::Status Before() override {
    if (End end = run_.launcher_.Draw(rotation_.Next())) return EndWith(std::move(*end));
    run_.host_.reset();
    return absl::OkStatus();
  }

  absl::Status After(double seconds) override {
    if (End end = run_.launcher_.RestoreInputs()) return EndWith(std::move(*end));
    const absl::StatusOr<TensorDigest> digest = run_.launcher_.OutputDigest();
    if (!digest.ok()) return digest.status();
    const DrawRotation::Output output = rotation_.Take(*digest, seconds);
    const bool other = output == DrawRotation::Output::kOther;
    if (output == DrawRotation::Output::kKnown) return absl::OkStatus();
    if (!other && !rotation_.MustJudge()) return absl::OkStatus();
    return Judge(other);
  }

  // The status that ends the timing without a failure: the outcome says why.
  static absl::Status Over() { return absl::CancelledError("the case has its verdict"); }
  const End& end() const { return end_; }
  bool wrong() const { return wrong_; }
  bool Single() const override { return true; }
  bool Enough() const override { return rotation_.EnoughUnseen(); }
  // How many of the outputs were judged, if not all of those that were new.
  std::string Judged() const {
    if (rotation_.judged() == rotation_.varying()) return {};
    return Cat("judged ", rotation_.judged(), " of ", rotation_.varying(), " varying outputs");
  }
  std::optional<double> slow_on_unseen() const { return rotation_.SlowOnUnseen(); }

 private:
  absl::Status EndWith(Ended end) {
    end_ = std::move(end);
    return Over();
  }

  // In full, as the case's own output is. A right output leaves no trace in the outcome.
  absl::Status Judge(bool other) {
    CaseOutcome& outcome = run_.outcome_;
    const Verdict verdict = outcome.verdict;
    auto kept = std::make_tuple(outcome.compare, outcome.findings, outcome.checksum, outcome.bench,
                                outcome.precision, outcome.criteria, outcome.bias_z,
                                outcome.unwritten, run_.gating_, run_.checksum_findings_);
    const bool flushed = run_.flushed_;
    std::vector<Finding> doubts = std::exchange(run_.doubts_, {});  // this draw has its own
    if (!outcome.unwritten) outcome.unwritten = 0;
    run_.stale_ = other;  // if it is wrong
    if (End end = run_.VerifyHere()) return EndWith(std::move(*end));
    if (End end = run_.GiveVerdict()) return EndWith(std::move(*end));
    if (run_.timed()) run_.clock_.Enter(Phase::kBench);
    const std::string of_draw =
        Cat("; on data that the kernel could not foresee (--seed ", rotation_.seed(), ")");
    const bool own = rotation_.seed() == run_.case_.seed.value_or(1);
    if (outcome.verdict == Verdict::kFailed || outcome.verdict == Verdict::kError) {
      if (!own) outcome.findings.front().message += of_draw;
      wrong_ = true;
      return Over();
    }
    rotation_.Accept();
    run_.stale_ = false;
    // A doubt about data that the kernel could not foresee is one about the kernel.
    if (doubts.empty() && outcome.verdict == Verdict::kInconclusive) {
      doubts = outcome.findings;
      for (Finding& f : doubts) f.message += of_draw;
    }
    run_.doubts_ = std::move(doubts);
    outcome.verdict = verdict;
    run_.flushed_ = flushed;
    std::tie(outcome.compare, outcome.findings, outcome.checksum, outcome.bench, outcome.precision,
             outcome.criteria, outcome.bias_z, outcome.unwritten, run_.gating_,
             run_.checksum_findings_) = std::move(kept);
    return absl::OkStatus();
  }

  CaseRun& run_;
  DrawRotation rotation_;
  End end_;
  bool wrong_ = false;
};

End CaseRun::VerifyHere() {
  if (ByChecksum()) return VerifyByChecksum();
  if (End end = Reference()) return end;
  return CompareOutput();
}

End CaseRun::ReturnToOwnDraw() {
  host_.reset();
  // The result of other data stays in the output: a kernel that computes only over a poison leaves
  // it there. Device memory is overwritten for each draw.
  std::optional<Poison> poison = Poison::kFirst;
  if (outcome_.compare && !launcher_.kernel().reaches_device_memory()) {
    if (launcher_.seed() == case_.seed.value_or(1)) {  // the last timed draw may be the own one
      if (End end = launcher_.Draw(std::random_device{}())) return end;
      const absl::StatusOr<double> other = launcher_.Launch(Poison::kFirst);
      if (!other.ok()) return EndedBy(other.status(), case_.provider);
    }
    const absl::StatusOr<TensorDigest> left = launcher_.OutputDigest();
    if (!left.ok()) return EndedBy(left.status(), "digest");
    const bool same = std::equal(left->raw, left->raw + 2, outcome_.compare->digest_raw);
    if (!same) poison.reset();
  }
  if (End end = launcher_.Draw(case_.seed.value_or(1))) return end;
  const absl::StatusOr<double> last = launcher_.Launch(poison);
  if (!last.ok()) return EndedBy(last.status(), case_.provider);
  // The first launch has paid for what a first one pays for.
  if (!timed() && launcher_.kernel().reaches_device_memory()) seconds_ = {*last};
  if (only_timed() || ByChecksum()) return std::nullopt;
  // Before the reference: it is of these inputs, whatever the launch did to them.
  if (End end = launcher_.RestoreInputs()) return end;
  return Reference();
}

End CaseRun::LaunchOnSecretDraw() {
  Draws draws(*this);
  absl::Status status = draws.Before();  // the first draw of a rotation is a secret one
  if (status.ok()) {
    const absl::StatusOr<double> seconds = launcher_.Launch(Poison::kFirst);
    status = seconds.ok() ? draws.After(*seconds) : seconds.status();
  }
  if (draws.end()) return draws.end();
  wrong_on_draw_ = draws.wrong();  // the operands stay as they are
  if (wrong_on_draw_) return std::nullopt;
  if (!status.ok()) return EndedBy(status, case_.provider);
  return ReturnToOwnDraw();
}

End CaseRun::BenchmarkByDraws() {
  Draws draws(*this);
  const BenchTiming timing = TimeCase(launcher_, plan(), device_, ceilings_, conditions_, &draws);
  if (draws.end()) return draws.end();
  if (draws.wrong()) {
    // The operands stay as they are, for who looks at the wrong output.
    wrong_on_draw_ = true;
    return std::nullopt;
  }
  if (!timing.failed.ok()) return EndedBy(timing.failed, case_.provider);
  TakeTiming(timing);
  if (const std::string judged = draws.Judged(); !judged.empty()) {
    Append(&outcome_.implementation, ", ", judged);
  }
  if (const std::optional<double> slower = draws.slow_on_unseen()) {
    remembers_ = absl::StrFormat(
        "launches on data that the kernel had not seen took %.2g times as long as those on data "
        "that it had: the time is that of results that it kept",
        *slower);
  }
  return ReturnToOwnDraw();
}

// Findings of these launches beside those of the output.
void CaseRun::JudgeTimes() {
  if (stale_ && outcome_.verdict == Verdict::kFailed) {
    outcome_.findings.insert(
        outcome_.findings.begin(),
        {Reason::kStale,
         "a launch returned the result of other inputs, which the kernel had been given before"});
  }
  if (!timed_ || outcome_.verdict != Verdict::kPassed) return;
  const auto inconclusive = [&](Reason reason, std::string message) {
    outcome_.verdict = Verdict::kInconclusive;
    outcome_.findings.insert(outcome_.findings.begin(), {reason, std::move(message)});
  };
  if (!remembers_.empty()) return inconclusive(Reason::kStale, remembers_);
  const double least =
      ImpossibleBelow(*outcome_.bench, plan(), *op_, case_.dtype, device_.info(), ceilings_);
  if (outcome_.bench->median_seconds && *outcome_.bench->median_seconds < least) {
    inconclusive(
        Reason::kImpossible,
        absl::StrFormat("the median launch took %.3g s, and by the measured %s of this device no "
                        "kernel can take less than %.3g s",
                        *outcome_.bench->median_seconds,
                        outcome_.bench->roof == "compute" ? "arithmetic" : "memory", least));
  }
}

}  // namespace assay::kernels
