#include "kernels/validate/case_run.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "absl/strings/str_format.h"
#include "kernels/bench/roofline.h"
#include "kernels/judge/slices.h"
#include "kernels/numerics/change.h"
#include "kernels/numerics/poison.h"
#include "kernels/text/cat.h"
#include "kernels/validate/probes.h"
#include "kernels/validate/repeats.h"
#include "kernels/validate/timing.h"

namespace assay::inline kernels {
namespace {

// A first launch pays for what a library puts off (code generation, thread start).
// One shorter than this is launched again and timed without it.
constexpr double kShortLaunch = 0.01;  // [seconds]
constexpr Poison kWarmPoisons[] = {Poison::kLow, Poison::kHigh};

// What is small: less than a launch and a copy take on a device that is worth sharing them.
constexpr double kSmallBytes = 1 << 20;         // of the operands
constexpr std::int64_t kSmallOutput = 1 << 14;  // [elements]

}  // namespace

// ---- the stages

bool CaseRun::Begin() {
  clock_.Enter(Phase::kPlan);
  return Take(Plan());
}

bool CaseRun::Prepare() { return Take(MakeKernel(/*kept=*/0)) && Take(launcher_.Fill()); }

bool CaseRun::Launch() { return Take(LaunchAll()); }

bool CaseRun::Verify() {
  if (ByChecksum()) return Take(VerifyByChecksum());
  return MakeReference() && Take(CompareOutput());
}

bool CaseRun::Conclude() {
  return Take(GiveVerdict()) && Take(JudgeOthers()) && Take(LaunchAgain()) &&
         Take(ExamineOutcome());
}

CaseOutcome CaseRun::Finish() {
  outcome_.seed = launcher_.seed();
  if (launcher_.has_kernel()) outcome_.loaded_libraries = launcher_.kernel().loaded_libraries();
  outcome_.last_phase = clock_.now();
  outcome_.phases = clock_.Finish();
  if (!ended_) {
    RunProbes();
    AddDiagnosis(case_, examination_, /*received=*/false, outcome_);
  }
  return std::move(outcome_);
}

bool CaseRun::Take(End end) {
  if (!end) return true;
  outcome_.verdict = end->verdict;
  outcome_.findings = {std::move(end->finding)};
  // Code of a user's that faults takes the device's context with it, and is no fault of the device.
  Finding& finding = outcome_.findings.front();
  if (finding.reason == Reason::kFault && launcher_.has_kernel() &&
      launcher_.kernel().reaches_device_memory()) {
    finding.blame = Blame::kKernel;
  }
  ended_ = true;
  return false;
}

// ---- beside others

bool CaseRun::MayShare() const {
  return case_.kernel_file.empty() && !timed() && repeats() == 1 && !ByChecksum() &&
         case_.criterion != Criterion::kDerived && HasPoisonPayload(plan().output.dtype) &&
         plan().bytes <= kSmallBytes && plan().output.extents.count() <= kSmallOutput;
}

bool CaseRun::PrepareBeside() {
  beside_others_ = true;
  return Take(MakeKernel(device_.arena().blocks().size()));
}

bool CaseRun::EnqueueFills() { return Take(launcher_.EnqueueFills()); }

void CaseRun::Filled(const Fingerprint& inputs, double seconds) {
  launcher_.Filled(inputs);
  clock_.Add(Phase::kFill, seconds);
}

bool CaseRun::MakeReference() { return Take(Reference()); }

CompareRequest CaseRun::Asked() {
  gating_ = MakeGating(case_, plan(), 0.0);
  return Request();
}

bool CaseRun::Compared(CompareResult result, double seconds) {
  clock_.Add(Phase::kCompare, seconds);
  clock_.Enter(Phase::kCompare);
  return Take(TakeCompared(std::move(result)));
}

// ---- the steps

int CaseRun::repeats() const { return std::max(1, case_.repeats); }

bool CaseRun::timed() const { return case_.mode == Mode::kBenchmark || case_.mode == Mode::kBoth; }

End CaseRun::MakeKernel(std::size_t kept) {
  clock_.Enter(Phase::kPrepare);
  if (End end = FindKernel()) return end;
  if (End end = launcher_.Prepare(*entry_, *outcome_.plan, kept)) return end;
  if (End end = launcher_.PrepareDeviations(plan())) return end;
  outcome_.implementation = launcher_.kernel().implementation();
  DescribeArithmetic();
  if (!ByChecksum()) return std::nullopt;
  return checksum_.Prepare(*op_, plan());
}

End CaseRun::LaunchAll() {
  if (End end = only_timed() ? Benchmark() : Validate(repeats())) return end;
  if (End end = FindUnwritten()) return end;
  return launcher_.RestoreInputs();
}

// The launch that is judged, again: timed, or without what a first one pays for.
End CaseRun::LaunchAgain() {
  // What is wrong already needs no timing.
  const bool wrong = outcome_.verdict == Verdict::kFailed || outcome_.verdict == Verdict::kError;
  // The reference of these inputs lies there now, so code that could read it is not launched on
  // them again.
  const bool warm =
      !timed() && seconds_[0] < kShortLaunch && !launcher_.kernel().reaches_device_memory();
  // Of a kernel that is not trusted, one judged launch on known data says little.
  const bool secret = !timed() && !launcher_.kernel().trusted();
  if (only_timed() || wrong || !(timed() || warm || secret)) return std::nullopt;
  if (End end = timed() ? Benchmark() : secret ? LaunchOnSecretDraw() : std::nullopt) return end;
  if (wrong_on_draw_) return std::nullopt;  // it has its verdict
  if (warm) {
    if (End end = WarmLaunches()) return end;
  }
  if (End end = launcher_.RestoreInputs()) return end;
  if (End end = JudgeLast()) return end;
  return JudgeOthers();
}

// Judges the output that lies there now, after another one had its verdict.
End CaseRun::JudgeLast() {
  const CompareResult compared = *outcome_.compare;
  if (End end = CompareLast()) return end;
  const Verdict first = outcome_.verdict;
  std::vector<Finding> findings = outcome_.findings;
  if (End end = GiveVerdict()) return end;
  if (outcome_.verdict != Verdict::kPassed) return std::nullopt;
  // A launch that is in order takes back nothing of what was found before. The worse is shown.
  outcome_.verdict = first;
  outcome_.findings = std::move(findings);
  const auto wrong = [](const CompareResult& r) {
    return std::tuple(r.mismatches, r.class_mismatches, r.beyond_proven, r.beyond_probable);
  };
  if (first != Verdict::kPassed || wrong(compared) > wrong(*outcome_.compare)) {
    outcome_.compare = compared;
  }
  return std::nullopt;
}

End CaseRun::Plan() {
  op_ = FindOp(OpName(case_.problem));
  if (op_ == nullptr) {
    return Unsupported(Cat("no operator \"", OpName(case_.problem), "\" in this build"));
  }
  absl::StatusOr<assay::Plan> plan = op_->MakePlan(case_);
  if (!plan.ok()) return RefusedBy(plan.status(), "plan");
  outcome_.plan = *std::move(plan);
  return std::nullopt;
}

// What a kernel declares widens what it is judged by: it is never silent.
void CaseRun::DescribeArithmetic() {
  std::string& text = outcome_.implementation;
  const auto add = [&text](std::string_view what) {
    Append(&text, text.empty() ? "" : ", ", what);
  };
  const Accumulator& a = plan().accumulator;
  if (a.roundoff > AccumulatorRoundoff(case_.dtype)) {
    add(absl::StrFormat("sums %d products to a relative 2^%g", a.block, std::log2(a.roundoff)));
  }
  if (plan().operand_roundoff > 0) {
    add(absl::StrFormat("takes operands to a relative 2^%g", std::log2(plan().operand_roundoff)));
  }
  if (case_.intermediate_dtype != DType::kUnspecified) {
    add(Cat("holds intermediate results in ", Name(case_.intermediate_dtype)));
  }
  if (case_.flushes_subnormals) add("gives 0 for subnormal results");
  const TruncatingUnit& t = a.truncation;
  if (!(t.roundoff > 0)) return;
  std::string cut = absl::StrFormat("cuts sums off at a relative 2^%g", std::log2(t.roundoff));
  if (t.further_bits >= 0) {
    cut += absl::StrFormat(", blocks of %d with %d further bits", t.block, t.further_bits);
  }
  if (t.promoted > 0) cut += absl::StrFormat(", up to %d products", t.promoted);
  add(cut);
}

End CaseRun::FindKernel() {
  const std::string& backend = device_.info().backend;
  entry_ = registry_.Find(op_->name(), case_.provider, backend);
  if (entry_ == nullptr) {
    return Unsupported(
        Cat("provider \"", case_.provider, "\" has no ", op_->name(), " on ", backend));
  }
  if (!entry_->unavailable_reason.empty()) return Unsupported(entry_->unavailable_reason);
  const std::vector<DType>& dtypes = entry_->dtypes;
  if (std::find(dtypes.begin(), dtypes.end(), case_.dtype) != dtypes.end()) return std::nullopt;
  std::vector<std::string_view> names;
  names.reserve(dtypes.size());
  for (const DType t : dtypes) names.push_back(Name(t));
  return Unsupported(Cat(case_.provider, " ", op_->name(), " takes ", Join(names, ", "), " on ",
                         backend, ", not ", Name(case_.dtype)));
}

Ended CaseRun::Unsupported(std::string message) {
  return {Verdict::kUnsupported, {Reason::kUnsupported, std::move(message)}};
}

// The launch that is judged, last, after those that must agree with it.
End CaseRun::Validate(int repeats) {
  absl::StatusOr<Repeated> repeated = LaunchRepeatedly(launcher_, device_, plan(), repeats);
  if (!repeated.ok()) return EndedBy(repeated.status(), case_.provider);
  seconds_ = std::move(repeated->seconds);
  if (repeats == 1) return std::nullopt;
  launches_ = repeats;
  variants_ = repeated->variants;
  if (repeated->deviation) deviation_ = Text(*repeated->deviation, plan());
  outcome_.deterministic = variants_ == 1;
  outcome_.launches = repeats;
  outcome_.odd_launches = repeated->odd_launches;
  return std::nullopt;
}

// Launched again, poisoned, guarded and judged like the first, timed without it.
End CaseRun::WarmLaunches() {
  std::vector<double> warm;
  for (const Poison poison : kWarmPoisons) {
    if (!launcher_.kernel().trusted()) {
      // An output that differs is the last, which is judged.
      const absl::StatusOr<TensorDigest> digest = launcher_.OutputDigest();
      if (!digest.ok()) return EndedBy(digest.status(), "digest");
      if (!std::ranges::equal(digest->raw, outcome_.compare->digest_raw)) break;
    }
    absl::StatusOr<double> seconds = launcher_.Launch(poison);
    if (!seconds.ok()) return EndedBy(seconds.status(), case_.provider);
    warm.push_back(*seconds);
  }
  if (!warm.empty()) seconds_ = std::move(warm);
  return std::nullopt;
}

End CaseRun::Benchmark() {
  clock_.Enter(Phase::kBench);
  if (!launcher_.kernel().trusted()) return BenchmarkByDraws();
  std::optional<TensorDigest> judged;
  if (outcome_.compare) {
    judged.emplace();
    std::ranges::copy(outcome_.compare->digest_raw, judged->raw);
  }
  TimedOutputs outputs(launcher_, device_);
  if (absl::Status status = outputs.Begin(judged); !status.ok()) {
    return EndedBy(status, case_.provider);
  }
  const BenchTiming timing = TimeCase(launcher_, plan(), device_, ceilings_, conditions_, &outputs);
  if (!timing.failed.ok()) return EndedBy(timing.failed, case_.provider);
  if (End end = LookAtTimed(outputs)) return end;
  TakeTiming(timing);
  return std::nullopt;
}

// What the outputs of timed launches tell before the last one is judged.
End CaseRun::LookAtTimed(TimedOutputs& outputs) {
  const absl::StatusOr<WatchFindings> found = outputs.Finish();
  if (!found.ok()) return EndedBy(found.status(), "digest");
  if (found->others == 0) return std::nullopt;
  outcome_.deterministic = false;
  const std::string counts = Cat("of ", found->looks, " outputs of timed launches ", found->others,
                                 found->others == 1 ? " was" : " were", " unlike the first");
  for (const TensorView& kept : found->kept) others_.push_back({{}, kept, Cat("; ", counts)});
  if (found->unkept == 0) return std::nullopt;
  if (found->kept.empty()) {
    doubts_.push_back(
        {Reason::kMemory, Cat(counts, ", and there was no memory to keep one to be judged")});
    return std::nullopt;
  }
  std::string& how = outcome_.implementation;
  Append(&how, how.empty() ? "" : ", ", "judged ", found->kept.size(),
         " varying outputs, and not those of ", found->unkept, " samples");
  return std::nullopt;
}

void CaseRun::TakeTiming(const BenchTiming& timing) {
  clock_.Enter(Phase::kBench);  // the ceilings are measured here, once
  outcome_.bench = MakeBenchStats(plan(), case_.dtype, timing.times, ceilings_);
  outcome_.bench->conditions = timing.conditions;
  outcome_.bench->noisy |= WaitingRatio(*outcome_.bench) > kMostWaiting;
  std::string& how = outcome_.implementation;
  Append(&how, how.empty() ? "" : ", ", DescribeTiming(*outcome_.bench));
  timed_ = true;
}

End CaseRun::FindUnwritten() {
  if (HasPoisonPayload(plan().output.dtype)) return std::nullopt;
  absl::StatusOr<OtherPoison> other = launcher_.LaunchOnOtherPoison();
  if (!other.ok()) return EndedBy(other.status(), case_.provider);
  outcome_.unwritten = other->unwritten;
  if (!other->differs) return std::nullopt;
  outcome_.deterministic = false;
  others_.push_back({std::move(other->output), {}, {}});
  // Where agreement was asked for, this launch is one of those that must agree.
  if (case_.repeats > 1) ++variants_;
  return std::nullopt;
}

// The outputs of launches that differ from the one that was judged.
End CaseRun::JudgeOthers() {
  for (const Other& other : std::exchange(others_, {})) {
    const bool wrong = outcome_.verdict == Verdict::kFailed || outcome_.verdict == Verdict::kError;
    if (wrong) return std::nullopt;
    const absl::Status status = other.kept.data != nullptr
                                    ? device_.Copy(other.kept, launcher_.output())
                                    : launcher_.PutOutput(other.dense);
    if (!status.ok()) return EndedBy(status, case_.provider);
    if (End end = JudgeLast()) return end;
    if (outcome_.verdict == Verdict::kFailed) outcome_.findings.front().message += other.of;
  }
  return std::nullopt;
}

End CaseRun::ExamineOutcome() {
  absl::StatusOr<Examination> examination =
      Examine(case_, *op_, device_, launcher_.inputs(), Host(), Request(), outcome_);
  if (!examination.ok()) return EndedBy(examination.status(), "examination");
  examination_ = *std::move(examination);
  absl::StatusOr<std::vector<Slice>> slices = ReadSlices(
      case_, plan(), device_, launcher_.inputs(), Request(), launcher_.kernel().debug_buffer());
  if (!slices.ok()) return EndedBy(slices.status(), "slices");
  outcome_.slices = *std::move(slices);
  return std::nullopt;
}

// Last, for they take the arena. Checksums are for screening, which probes would slow.
void CaseRun::RunProbes() {
  if (!case_.probes || ByChecksum() || outcome_.verdict == Verdict::kError) return;
  const std::size_t kept = beside_others_ ? device_.arena().blocks().size() : 0;
  Case own = case_;
  for (const double seconds : seconds_) own.slowest_launch = std::max(own.slowest_launch, seconds);
  ProbeReport report = CheckProbes(
      ProbeSubject{own, *op_, plan(), *entry_, launcher_, kept, SharedDraws()}, device_, observer_);
  if (!report.outcomes.empty()) outcome_.phases.push_back({"probes", report.seconds});
  outcome_.probes = std::move(report.outcomes);
  if (!ProbesShow(plan(), outcome_)) {
    outcome_.verdict = Verdict::kInconclusive;
    outcome_.findings.insert(outcome_.findings.begin(), AllZeros());
  }
  if (report.verdict == Verdict::kUnspecified) return;
  // A case that has failed stays so; else what a probe found comes first.
  std::vector<Finding>& findings = outcome_.findings;
  const bool failed = outcome_.verdict == Verdict::kFailed;
  findings.insert(failed ? findings.end() : findings.begin(), report.findings.begin(),
                  report.findings.end());
  if (!failed) outcome_.verdict = report.verdict;
}

}  // namespace assay::kernels
