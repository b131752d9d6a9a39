// What a case's output is held against, and the verdict.
#include <algorithm>
#include <utility>

#include "kernels/bench/roofline.h"
#include "kernels/judge/criteria.h"
#include "kernels/judge/input_stats.h"
#include "kernels/judge/overflow.h"
#include "kernels/judge/precision_evidence.h"
#include "kernels/judge/received.h"
#include "kernels/judge/rounded_reference.h"
#include "kernels/judge/verdict.h"
#include "kernels/numerics/poison.h"
#include "kernels/text/cat.h"
#include "kernels/validate/case_run.h"

namespace assay::inline kernels {
namespace {

constexpr std::string_view kDeclareIt =
    "; if this kernel cuts its sums off by design, declare it: cuts_off_sums";

}  // namespace

const RegeneratedInputs& CaseRun::Host() {
  if (!host_) host_.emplace(plan(), launcher_.seed(), SharedDraws());
  return *host_;
}

End CaseRun::VerifyByChecksum() {
  if (End end = checksum_.Verify(launcher_.inputs(), launcher_.output(), Host(), MayFlush(),
                                 checksum_findings_)) {
    return end;
  }
  absl::StatusOr<TensorDigest> digest = launcher_.OutputDigest();
  if (!digest.ok()) return EndedBy(digest.status(), "digest");
  outcome_.checksum = checksum_findings_.outcome;
  outcome_.compare = checksum_findings_.compared;
  std::ranges::copy(digest->raw, outcome_.compare->digest_raw);
  std::ranges::copy(digest->canonical, outcome_.compare->digest_canonical);
  return std::nullopt;
}

End CaseRun::Reference() {
  clock_.Enter(Phase::kReference);
  absl::Status status =
      op_->Reference(case_, plan(), device_, launcher_.inputs(), launcher_.reference());
  if (status.ok()) status = device_.Synchronize();
  if (!status.ok()) return RefusedBy(status, "reference");
  const double score = launcher_.reference().max_abs_score;
  if (score > 0) outcome_.max_abs_score = score;
  return std::nullopt;
}

End CaseRun::CompareOutput() {
  clock_.Enter(Phase::kCompare);
  gating_ = MakeGating(case_, plan(), 0.0);
  if (End end = ComparePass()) return end;
  if (outcome_.compare->class_mismatches > 0) {
    const absl::Status status =
        op_->CheckReference(case_, plan(), device_, launcher_.output(), launcher_.reference());
    if (!status.ok()) return EndedBy(status, "reference");
  }
  if (case_.criterion != Criterion::kDerived) return std::nullopt;
  // Its absolute tolerance scales with the largest magnitude, known only now.
  gating_ = MakeGating(case_, plan(), outcome_.compare->max_abs_expected);
  return ComparePass();
}

CompareRequest CaseRun::Request() {
  CompareRequest request;
  request.output = launcher_.output();
  request.reference = launcher_.reference().value;
  request.allowance = launcher_.reference().allowance;
  request.proven_factor = plan().proven_factor;
  request.exact = plan().exact;
  request.flushes_subnormals = flushed_;
  request.gate = gating_.gate;
  request.atol = gating_.atol;
  request.rtol = gating_.rtol;
  request.max_ulp = gating_.max_ulp;
  return request;
}

End CaseRun::ComparePass() {
  CompareRequest request = Request();
  request.flushes_subnormals = false;
  absl::StatusOr<CompareResult> result = device_.Compare(request);
  if (!result.ok()) return EndedBy(result.status(), "compare");
  return TakeCompared(*std::move(result));
}

End CaseRun::TakeCompared(CompareResult compared) {
  // Only who needs it is taken for one that flushes.
  flushed_ = compared.beyond_probable > 0 && MayFlush();
  outcome_.compare = std::move(compared);
  if (!flushed_) return std::nullopt;
  absl::StatusOr<CompareResult> result = device_.Compare(Request());
  if (!result.ok()) return EndedBy(result.status(), "compare");
  outcome_.compare = *std::move(result);
  return std::nullopt;
}

// The output of the last launch, where it is not the one that was judged.
End CaseRun::CompareLast() {
  absl::StatusOr<TensorDigest> digest = launcher_.OutputDigest();
  if (!digest.ok()) return EndedBy(digest.status(), "digest");
  if (std::ranges::equal(digest->raw, outcome_.compare->digest_raw)) return std::nullopt;
  outcome_.deterministic = false;
  // Where agreement was asked for, this launch is one of those that must agree.
  if (case_.repeats > 1) ++variants_;
  if (ByChecksum()) return VerifyByChecksum();
  // A launch that wrote outside its operands may have spoiled the reference, and a reference with
  // several right values follows the output.
  if (launcher_.guard_hits() > 0 || op_->SeveralRight(case_)) {
    if (End end = Reference()) return end;
  }
  return CompareOutput();
}

absl::StatusOr<Recheck> CaseRun::RecheckLast() {
  clock_.Enter(Phase::kRecheck);
  return RecheckOnHost(case_, *op_, plan(), device_, launcher_.output(),
                       launcher_.reference().value, launcher_.reference().allowance, Host(),
                       *outcome_.compare, MayFlush());
}

End CaseRun::GiveVerdict() {
  if (case_.all_criteria && !ByChecksum()) {
    absl::StatusOr<std::vector<CriterionOutcome>> criteria =
        JudgeByAll(case_, plan(), device_, Request(), *outcome_.compare);
    if (!criteria.ok()) return EndedBy(criteria.status(), "compare");
    outcome_.criteria = *std::move(criteria);
  }
  Evidence evidence;
  if (End end = GatherEvidence(evidence)) return end;
  Judgement judgement = ByChecksum() ? JudgeChecksums(case_, plan(), checksum_findings_, evidence)
                                     : Judge(case_, plan(), evidence);
  if (case_.elsewhere != nullptr || launcher_.kernel().reaches_device_memory()) {
    if (End end = DoubtIfNarrow(judgement)) return end;
    if (End end = DoubtIfCutOff(judgement)) return end;
  }
  outcome_.verdict = judgement.verdict;
  outcome_.findings = std::move(judgement.findings);
  outcome_.bias_z = judgement.bias_z;
  Doubt();
  return std::nullopt;
}

// What the verdict rests on; what of it is shown goes into the outcome.
End CaseRun::GatherEvidence(Evidence& evidence) {
  absl::StatusOr<Recheck> recheck = ByChecksum() ? Recheck{} : RecheckLast();
  if (!recheck.ok()) return EndedBy(recheck.status(), "recheck");
  if (HasPoisonPayload(plan().output.dtype)) outcome_.unwritten = outcome_.compare->unwritten;
  if (!timed_) {
    outcome_.bench = MakeBenchStats(plan(), case_.dtype, LaunchTimes{seconds_}, nullptr);
  }
  outcome_.guard_hits = launcher_.guard_hits();
  outcome_.reports_ulp = case_.criterion == Criterion::kUlp ||
                         case_.criterion == Criterion::kBitwise || case_.max_ulp.has_value();
  if (gating_.uses_tolerances) {
    outcome_.atol = gating_.atol;
    outcome_.rtol = gating_.rtol;
  }
  evidence.compare = &*outcome_.compare;
  evidence.gating = gating_;
  evidence.guard_hits = outcome_.guard_hits;
  evidence.unwritten = *outcome_.unwritten;
  evidence.launches = launches_;
  evidence.variants = std::min(variants_, launches_);
  evidence.deviation = deviation_;
  evidence.flushed = flushed_;
  evidence.rechecked = recheck->elements;
  evidence.unbounded = recheck->unbounded;
  evidence.unproven = recheck->unproven;
  evidence.recheck_fault = recheck->fault;
  evidence.recheck_excuse = recheck->excuse;
  evidence.changed_inputs.assign(launcher_.changed_inputs().begin(),
                                 launcher_.changed_inputs().end());
  evidence.efficiency = outcome_.bench->efficiency;
  evidence.undisturbed_efficiency = UndisturbedEfficiency(*outcome_.bench);
  evidence.in_cache = outcome_.bench->roof == "cache";
  // An efficiency is asked of the timed launches, once they are in.
  evidence.efficiency_due = timed_ || case_.mode == Mode::kValidate;
  return ByChecksum() ? std::nullopt : GatherFromOutput(evidence);
}

// What further passes over the output say.
End CaseRun::GatherFromOutput(Evidence& evidence) {
  absl::StatusOr<std::optional<Unexplained>> unexplained =
      CountUnexplained(case_, plan(), device_, Request(), *outcome_.compare);
  if (!unexplained.ok()) return EndedBy(unexplained.status(), "compare");
  evidence.unexplained = *unexplained;
  const absl::StatusOr<std::int64_t> unbounded = CountUnbounded(case_, device_, Request());
  if (!unbounded.ok()) return EndedBy(unbounded.status(), "compare");
  evidence.all_unbounded = *unbounded;
  if (outcome_.compare->class_mismatches > 0) {
    absl::StatusOr<std::vector<OperandStats>> stats =
        MeasureInputs(device_, plan(), launcher_.inputs());
    if (!stats.ok()) return EndedBy(stats.status(), "compare");
    evidence.undecided = op_->Undecided(case_, *stats);
  }
  const absl::StatusOr<bool> biased = RightOutputIsBiased(device_, Request(), *outcome_.compare);
  if (!biased.ok()) return EndedBy(biased.status(), "compare");
  evidence.right_is_biased = *biased;
  const bool declared = Transforms(plan());
  const FormatInfo& output = Info(plan().output.dtype);
  const bool in_double = !declared && op_->traits().transforms_divide && !output.is_integer &&
                         output.storage_bits <= 32;
  if ((declared || in_double) && outcome_.compare->beyond_proven > 0) {
    const absl::StatusOr<bool> explains = TransformExplains(device_, Request(), in_double);
    if (!explains.ok()) return EndedBy(explains.status(), "compare");
    evidence.transform_explains = *explains;
  }
  return TellPrecision(evidence);
}

// What was found beside the output that was just judged.
void CaseRun::Doubt() {
  if (outcome_.verdict == Verdict::kPassed && !doubts_.empty()) {
    outcome_.verdict = Verdict::kInconclusive;
    outcome_.findings = doubts_;
  }
  if (timed_ && outcome_.bench->clock_failed && outcome_.verdict == Verdict::kPassed) {
    outcome_.verdict = Verdict::kInconclusive;
    outcome_.findings = {
        {Reason::kNoisy,
         "a time was asked for and the device's clock stood still or went backwards"}};
  }
  if (!launcher_.kernel().trusted()) JudgeTimes();
  if (timed_) TimedBesideOthers();
}

End CaseRun::TellPrecision(Evidence& evidence) {
  clock_.Enter(Phase::kCompare);
  absl::StatusOr<PrecisionReading> reading = assay::TellPrecision(PrecisionSubject{
      case_, *op_, plan(), device_, launcher_.output(), launcher_.reference(), Host()});
  if (!reading.ok()) return EndedBy(reading.status(), "residuals");
  outcome_.precision = std::move(reading->precision);
  evidence.precision = std::move(reading->findings);
  return std::nullopt;
}

End CaseRun::LookHeldTo(const Accumulator& other, absl::FunctionRef<End()> look) {
  const assay::Plan own = plan();
  const auto compared = outcome_.compare;
  const auto precision = outcome_.precision;
  const bool flushed = flushed_;
  op_->HoldTo(case_, other, *outcome_.plan);
  End end = Reference();
  if (!end) end = look();
  outcome_.plan = own;
  outcome_.compare = compared;
  outcome_.precision = precision;
  flushed_ = flushed;
  return end ? end : Reference();
}

End CaseRun::DoubtIfNarrow(Judgement& judgement) {
  if (ByChecksum() || !MayBeSummedNarrowly(case_.dtype) || judgement.verdict != Verdict::kFailed ||
      judgement.findings.front().reason != Reason::kBound || stale_) {
    return std::nullopt;
  }
  CompareResult narrow;
  End end = LookHeldTo(NarrowestAccumulator(), [&] {
    End failed = ComparePass();
    narrow = *outcome_.compare;
    return failed;
  });
  if (end) return end;
  if (narrow.beyond_proven == 0 && narrow.class_mismatches == 0) {
    DoubtForNarrowSums(case_.dtype, judgement);
  }
  return std::nullopt;
}

End CaseRun::DoubtIfCutOff(Judgement& judgement) {
  const auto of_sums = [](const Finding& f) {
    return f.reason == Reason::kPrecision || f.reason == Reason::kStructure ||
           f.reason == Reason::kSuspect;
  };
  if (!MayBeCutOff(case_.dtype) || judgement.verdict != Verdict::kFailed ||
      !std::all_of(judgement.findings.begin(), judgement.findings.end(), of_sums)) {
    return std::nullopt;
  }
  Evidence cut;
  End end = LookHeldTo(CutOffAccumulator(case_.dtype), [&] { return TellPrecision(cut); });
  if (end) return end;
  if (std::all_of(cut.precision.begin(), cut.precision.end(),
                  [](const PrecisionFinding& f) { return f.verdict != Verdict::kFailed; })) {
    DoubtForCutOffSums(case_.dtype, judgement);
    if (judgement.verdict == Verdict::kInconclusive && !MayBeSummedNarrowly(case_.dtype)) {
      judgement.findings.front().message += kDeclareIt;
    }
  }
  return std::nullopt;
}

// What other processes do on the device takes time that is not the kernel's.
void CaseRun::TimedBesideOthers() {
  const auto& seen = outcome_.bench->conditions;
  const std::int64_t held = seen ? seen->others_bytes.value_or(0) : 0;
  const bool only_slow =
      outcome_.verdict == Verdict::kFailed &&
      std::all_of(outcome_.findings.begin(), outcome_.findings.end(),
                  [](const Finding& f) { return f.reason == Reason::kEfficiency; });
  if (held <= 0 || (outcome_.verdict != Verdict::kPassed && !only_slow)) return;
  outcome_.verdict = Verdict::kInconclusive;
  outcome_.findings.insert(
      outcome_.findings.begin(),
      {Reason::kNoisy, Cat("other processes held ", Grouped((held + (1 << 20) - 1) >> 20),
                           " MiB of the device while it was timed")});
}

bool CaseRun::MayFlush() const {
  return plan().flushes_subnormals ||
         std::any_of(plan().inputs.begin(), plan().inputs.end(), [](const Operand& operand) {
           return operand.pattern.kind == PatternKind::kDenormal;
         });
}

}  // namespace assay::kernels
