#include "kernels/validate/runner.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kernels/bench/roofline.h"
#include "kernels/bench/sampler.h"
#include "kernels/numerics/cat.h"
#include "kernels/numerics/convert.h"
#include "kernels/numerics/poison.h"
#include "kernels/validate/host_inputs.h"
#include "kernels/validate/provenance.h"
#include "kernels/validate/recheck.h"
#include "kernels/validate/verdict.h"

namespace assay {
namespace {

constexpr double kShortLaunch = 0.01;  // [seconds]
constexpr int kWarmLaunches = 2;

// A step that cannot go on ends the case with a verdict of its own.
struct Ended {
  Verdict verdict;
  std::string reason;
  std::string message;
};

// The end that a status of the device or the provider means.
Ended EndedBy(const absl::Status& status, std::string_view what) {
  const std::string message = Cat(what, ": ", status.message());
  switch (status.code()) {
    case absl::StatusCode::kUnimplemented:
      return {Verdict::kUnsupported, "unsupported", Cat(status.message())};
    case absl::StatusCode::kResourceExhausted:
      return {Verdict::kInconclusive, "memory", message};
    default:
      return {Verdict::kError, "fault", message};
  }
}

// One case on its way through the device.
class Run {
 public:
  Run(const Case& c, Device& device, const Registry& registry, Ceilings* ceilings,
      PhaseObserver& observer)
      : case_(c),
        seed_(c.seed.value_or(1)),
        device_(device),
        registry_(registry),
        ceilings_(ceilings),
        observer_(observer) {}

  CaseOutcome Go() {
    if (std::optional<Ended> ended = Steps()) {
      outcome_.verdict = ended->verdict;
      outcome_.findings = {{std::move(ended->reason), std::move(ended->message)}};
    }
    Leave();
    observer_.Enter(Phase::kIdle);
    return std::move(outcome_);
  }

 private:
  using End = std::optional<Ended>;

  End Steps() {
    Enter(Phase::kPlan);
    if (End end = MakePlan()) return end;
    Enter(Phase::kPrepare);
    if (End end = FindKernel()) return end;
    if (End end = Allocate()) return end;
    Enter(Phase::kFill);
    if (End end = Fill()) return end;
    if (case_.mode == Mode::kBenchmark) {
      if (End end = Benchmark()) return end;
      if (End end = Inputs()) return end;
      if (End end = Reference()) return end;
      if (End end = Compare()) return end;
    } else {
      if (End end = ValidatedLaunches()) return end;
      if (End end = Inputs()) return end;
      if (End end = Reference()) return end;
      if (End end = Compare()) return end;
      if (case_.mode == Mode::kBoth) {
        if (End end = Benchmark()) return end;
        if (End end = Inputs()) return end;
        if (End end = CompareLast()) return end;
      }
    }
    Enter(Phase::kRecheck);
    return Conclude();
  }

  void Enter(Phase phase) {
    Leave();
    phase_ = phase;
    phase_begin_ = device_.Now();
    observer_.Enter(phase);
  }

  void Leave() {
    if (phase_ == Phase::kIdle) return;
    const double seconds = device_.Now() - phase_begin_;
    for (PhaseTime& p : outcome_.phases) {
      if (p.phase == PhaseName(phase_)) {
        p.seconds += seconds;
        phase_ = Phase::kIdle;
        return;
      }
    }
    outcome_.phases.push_back({PhaseName(phase_), seconds});
    phase_ = Phase::kIdle;
  }

  End MakePlan() {
    const Op* op = FindOp(OpName(case_.problem));
    if (op == nullptr) {
      return Ended{Verdict::kUnsupported, "unsupported",
                   Cat("no operator \"", OpName(case_.problem), "\" in this build")};
    }
    op_ = op;
    absl::StatusOr<Plan> plan = op_->MakePlan(case_);
    if (!plan.ok()) return EndedBy(plan.status(), "plan");
    outcome_.plan = *std::move(plan);
    return std::nullopt;
  }

  End FindKernel() {
    const DeviceInfo& info = device_.info();
    entry_ = registry_.Find(op_->name(), case_.provider, info.backend);
    if (entry_ == nullptr) {
      return Ended{
          Verdict::kUnsupported, "unsupported",
          Cat("provider \"", case_.provider, "\" has no ", op_->name(), " on ", info.backend)};
    }
    if (!entry_->unavailable_reason.empty()) {
      return Ended{Verdict::kUnsupported, "unsupported", entry_->unavailable_reason};
    }
    const std::vector<DType>& dtypes = entry_->dtypes;
    if (std::find(dtypes.begin(), dtypes.end(), case_.dtype) == dtypes.end()) {
      std::vector<std::string_view> names;
      for (const DType t : dtypes) names.push_back(Name(t));
      return Ended{Verdict::kUnsupported, "unsupported",
                   Cat(entry_->provider, " ", op_->name(), " takes ", Join(names, ", "), " on ",
                       info.backend, ", not ", Name(case_.dtype))};
    }
    device_.arena().Reset();
    absl::StatusOr<std::unique_ptr<Kernel>> kernel = entry_->make(case_, plan(), device_);
    if (!kernel.ok()) return EndedBy(kernel.status(), entry_->provider);
    kernel_ = *std::move(kernel);
    outcome_.implementation = kernel_->implementation();
    outcome_.plan->intermediate_roundoff = kernel_->intermediate_roundoff();
    return std::nullopt;
  }

  absl::StatusOr<TensorView> AllocateOperand(const Operand& operand) {
    TensorView view{nullptr, operand.dtype, operand.extents};
    absl::StatusOr<Block> block = device_.arena().Allocate(view.bytes(), /*guarded=*/true);
    if (!block.ok()) return block.status();
    view.data = block->data;
    return view;
  }

  absl::StatusOr<double*> AllocateDoubles(std::int64_t count) {
    absl::StatusOr<Block> block =
        device_.arena().Allocate(count * static_cast<std::int64_t>(sizeof(double)), false);
    if (!block.ok()) return block.status();
    return static_cast<double*>(block->data);
  }

  End Allocate() {
    for (const Operand& operand : plan().inputs) {
      absl::StatusOr<TensorView> view = AllocateOperand(operand);
      if (!view.ok()) return EndedBy(view.status(), operand.name);
      inputs_.push_back(*view);
    }
    absl::StatusOr<TensorView> output = AllocateOperand(plan().output);
    if (!output.ok()) return EndedBy(output.status(), "output");
    output_ = *output;
    absl::StatusOr<double*> value = AllocateDoubles(output_.count());
    if (!value.ok()) return EndedBy(value.status(), "reference");
    reference_.value = *value;
    if (plan().exact) return std::nullopt;
    absl::StatusOr<double*> allowance = AllocateDoubles(output_.count());
    if (!allowance.ok()) return EndedBy(allowance.status(), "error bounds");
    reference_.allowance = *allowance;
    return std::nullopt;
  }

  End Fill() {
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const FillSpec spec{plan().inputs[i].pattern, seed_, static_cast<std::uint32_t>(i), 0};
      absl::Status status = device_.Fill(spec, inputs_[i]);
      if (status.ok()) status = device_.GuardPadding(inputs_[i]);
      if (!status.ok()) return EndedBy(status, plan().inputs[i].name);
    }
    return Digests(inputs_, input_digests_);
  }

  End Digests(const std::vector<TensorView>& views, std::vector<TensorDigest>& out) {
    out.clear();
    for (const TensorView& view : views) {
      absl::StatusOr<TensorDigest> digest = device_.Digest(view);
      if (!digest.ok()) return EndedBy(digest.status(), "digest");
      out.push_back(*digest);
    }
    return std::nullopt;
  }

  // Poisons and guards, then launches once; `seconds` is the launch alone.
  absl::Status Launch(Poison poison, double* seconds) {
    Enter(Phase::kFill);
    absl::Status status = device_.PoisonTensor(poison, output_);
    if (status.ok()) status = device_.GuardPadding(output_);
    if (status.ok()) status = device_.WriteGuards();
    if (status.ok()) status = device_.Synchronize();
    if (!status.ok()) return status;
    Enter(Phase::kKernel);
    const double begin = device_.Now();
    status = kernel_->Launch(inputs_, output_);
    if (status.ok()) status = device_.Synchronize();
    *seconds = device_.Now() - begin;
    if (!status.ok()) return status;
    Enter(Phase::kGuards);
    return CountGuards();
  }

  absl::Status CountGuards() {
    absl::StatusOr<std::int64_t> bands = device_.CheckGuards();
    if (!bands.ok()) return bands.status();
    std::int64_t hits = *bands;
    const auto padding = [&](const TensorView& view) -> absl::Status {
      absl::StatusOr<std::int64_t> changed = device_.CheckPadding(view);
      if (!changed.ok()) return changed.status();
      hits += *changed;
      return absl::OkStatus();
    };
    for (const TensorView& view : inputs_) {
      if (absl::Status status = padding(view); !status.ok()) return status;
    }
    if (absl::Status status = padding(output_); !status.ok()) return status;
    outcome_.guard_hits = std::max(outcome_.guard_hits, hits);
    return absl::OkStatus();
  }

  // The launch that is judged, those that must agree with it, and for formats
  // that have no value to spare for a poison one with the complementary poison.
  End ValidatedLaunches() {
    const int repeats = std::max(1, case_.repeats);
    const bool complementary = !HasPoisonPayload(plan().output.dtype);
    std::set<std::pair<std::uint64_t, std::uint64_t>> variants;
    for (int i = 0; i < repeats; ++i) {
      double seconds = 0;
      const absl::Status status = Launch(Poison::kFirst, &seconds);
      if (!status.ok()) return EndedBy(status, entry_->provider);
      seconds_.push_back(seconds);
      if (repeats == 1 && !complementary) break;
      absl::StatusOr<TensorDigest> digest = device_.Digest(output_);
      if (!digest.ok()) return EndedBy(digest.status(), "digest");
      variants.insert({digest->raw[0], digest->raw[1]});
      last_digest_ = *digest;
    }
    if (repeats == 1 && seconds_[0] < kShortLaunch) {
      if (End end = WarmLaunches()) return end;
    }
    launches_ = repeats;
    variants_ = std::max<int>(1, static_cast<int>(variants.size()));
    if (repeats > 1) outcome_.deterministic = variants_ == 1;
    if (!complementary) return std::nullopt;
    return ComplementaryLaunch();
  }

  // A first launch pays for what the library puts off (code generation, thread
  // start); a short one is launched again, poisoned and guarded like the first, and
  // timed without it. The last output is the one that is judged.
  End WarmLaunches() {
    seconds_.clear();
    for (int i = 0; i < kWarmLaunches; ++i) {
      double seconds = 0;
      const absl::Status status = Launch(Poison::kFirst, &seconds);
      if (!status.ok()) return EndedBy(status, entry_->provider);
      seconds_.push_back(seconds);
    }
    return std::nullopt;
  }

  // What both poisons survive in was never written. Equal outputs of the two
  // launches prove that there is no such element; only otherwise are they read.
  End ComplementaryLaunch() {
    double seconds = 0;
    absl::Status status = Launch(Poison::kSecond, &seconds);
    if (!status.ok()) return EndedBy(status, entry_->provider);
    absl::StatusOr<TensorDigest> second = device_.Digest(output_);
    if (!second.ok()) return EndedBy(second.status(), "digest");
    outcome_.unwritten = 0;
    if (*second == *last_digest_) return std::nullopt;
    const std::int64_t count = output_.count();
    const auto bytes = static_cast<std::size_t>(StorageBytes(output_.dtype, count));
    std::vector<unsigned char> with_second(bytes), with_first(bytes);
    status = device_.ToHost(output_, 0, count, with_second.data());
    if (status.ok()) status = Launch(Poison::kFirst, &seconds);
    if (status.ok()) status = device_.ToHost(output_, 0, count, with_first.data());
    if (!status.ok()) return EndedBy(status, "output");
    outcome_.unwritten = CountUnwritten(output_.dtype, count, with_first, with_second);
    return std::nullopt;
  }

  static std::int64_t CountUnwritten(DType dtype, std::int64_t count,
                                     const std::vector<unsigned char>& first,
                                     const std::vector<unsigned char>& second) {
    const std::uint64_t poison_first = PoisonBits(dtype, /*second=*/false);
    const std::uint64_t poison_second = PoisonBits(dtype, /*second=*/true);
    std::int64_t unwritten = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const bool both = LoadBits(dtype, first.data(), i) == poison_first &&
                        LoadBits(dtype, second.data(), i) == poison_second;
      unwritten += both ? 1 : 0;
    }
    return unwritten;
  }

  End Benchmark() {
    Enter(Phase::kBench);
    absl::Status failed = absl::OkStatus();
    const LaunchTimes times = TimeLaunches(SamplerOptions{}, [&]() -> std::optional<double> {
      double seconds = 0;
      absl::Status status = Launch(Poison::kFirst, &seconds);
      if (status.ok()) return seconds;
      failed = std::move(status);
      return std::nullopt;
    });
    if (!failed.ok()) return EndedBy(failed, entry_->provider);
    Enter(Phase::kBench);  // the ceilings are measured here, once
    outcome_.bench = MakeBenchStats(plan(), case_.dtype, times, ceilings_);
    if (case_.mode == Mode::kBoth || HasPoisonPayload(plan().output.dtype)) return std::nullopt;
    absl::StatusOr<TensorDigest> digest = device_.Digest(output_);
    if (!digest.ok()) return EndedBy(digest.status(), "digest");
    last_digest_ = *digest;
    return ComplementaryLaunch();
  }

  // The output of the last timed launch, where it is not the one that was judged:
  // the worse of the two counts.
  End CompareLast() {
    absl::StatusOr<TensorDigest> digest = device_.Digest(output_);
    if (!digest.ok()) return EndedBy(digest.status(), "digest");
    const CompareResult first = *outcome_.compare;
    if (digest->raw[0] == first.digest_raw[0] && digest->raw[1] == first.digest_raw[1]) {
      return std::nullopt;
    }
    if (End end = Compare()) return end;
    const auto wrong = [](const CompareResult& r) {
      return r.beyond_proven + r.beyond_probable + r.class_mismatches + r.mismatches;
    };
    if (wrong(first) > wrong(*outcome_.compare)) outcome_.compare = first;
    return std::nullopt;
  }

  // A kernel that writes into its inputs would be judged against what it wrote.
  End Inputs() {
    Enter(Phase::kGuards);
    std::vector<TensorDigest> now;
    if (End end = Digests(inputs_, now)) return end;
    for (std::size_t i = 0; i < now.size(); ++i) {
      if (now[i].raw[0] == input_digests_[i].raw[0] && now[i].raw[1] == input_digests_[i].raw[1]) {
        continue;
      }
      changed_inputs_.insert(std::string(plan().inputs[i].name));
    }
    if (changed_inputs_.empty()) return std::nullopt;
    Enter(Phase::kFill);
    return Fill();
  }

  End Reference() {
    Enter(Phase::kReference);
    absl::Status status = op_->Reference(case_, plan(), device_, inputs_, reference_);
    if (status.ok()) status = device_.Synchronize();
    if (!status.ok()) return EndedBy(status, "reference");
    if (reference_.max_abs_score > 0) outcome_.max_abs_score = reference_.max_abs_score;
    return std::nullopt;
  }

  End Compare() {
    Enter(Phase::kCompare);
    CompareRequest request;
    request.output = output_;
    request.reference = reference_.value;
    request.allowance = reference_.allowance;
    request.proven_factor = plan().proven_factor;
    request.exact = plan().exact;
    request.flushes_subnormals = std::any_of(
        plan().inputs.begin(), plan().inputs.end(),
        [](const Operand& operand) { return operand.pattern.kind == PatternKind::kDenormal; });
    gating_ = MakeGating(case_, plan(), 0.0);
    const auto pass = [&]() -> End {
      request.gate = gating_.gate;
      request.atol = gating_.atol;
      request.rtol = gating_.rtol;
      request.max_ulp = gating_.max_ulp;
      absl::StatusOr<CompareResult> result = device_.Compare(request);
      if (!result.ok()) return EndedBy(result.status(), "compare");
      outcome_.compare = *std::move(result);
      return std::nullopt;
    };
    if (End end = pass()) return end;
    if (case_.criterion == Criterion::kDerived) {
      // Its absolute tolerance scales with the largest magnitude, known only now.
      gating_ = MakeGating(case_, plan(), outcome_.compare->max_abs_expected);
      if (End end = pass()) return end;
    }
    return std::nullopt;
  }

  End Conclude() {
    const RegeneratedInputs host(plan(), seed_);
    absl::StatusOr<Recheck> recheck =
        RecheckOnHost(case_, *op_, plan(), device_, output_, reference_.value, reference_.allowance,
                      host, *outcome_.compare);
    if (!recheck.ok()) return EndedBy(recheck.status(), "recheck");
    if (!outcome_.unwritten) outcome_.unwritten = outcome_.compare->unwritten;
    if (!outcome_.bench) {
      outcome_.bench = MakeBenchStats(plan(), case_.dtype, LaunchTimes{seconds_}, nullptr);
    }
    Evidence evidence;
    evidence.compare = &*outcome_.compare;
    evidence.gating = gating_;
    evidence.guard_hits = outcome_.guard_hits;
    evidence.unwritten = *outcome_.unwritten;
    evidence.launches = launches_;
    evidence.variants = variants_;
    evidence.rechecked = recheck->elements;
    evidence.recheck_fault = recheck->fault;
    evidence.changed_inputs.assign(changed_inputs_.begin(), changed_inputs_.end());
    evidence.efficiency = outcome_.bench->efficiency;
    Judgement judgement = Judge(case_, plan(), evidence);
    outcome_.verdict = judgement.verdict;
    outcome_.findings = std::move(judgement.findings);
    outcome_.bias_z = judgement.bias_z;
    outcome_.reports_ulp = case_.criterion == Criterion::kUlp ||
                           case_.criterion == Criterion::kBitwise || case_.max_ulp.has_value();
    if (gating_.uses_tolerances) {
      outcome_.atol = gating_.atol;
      outcome_.rtol = gating_.rtol;
    }
    outcome_.provenance = TraceNonFinite(plan(), host, *outcome_.compare, *outcome_.unwritten);
    return std::nullopt;
  }

  const Plan& plan() const { return *outcome_.plan; }

  const Case& case_;
  const std::uint64_t seed_;
  Device& device_;
  const Registry& registry_;
  Ceilings* const ceilings_;
  PhaseObserver& observer_;

  CaseOutcome outcome_;
  Phase phase_ = Phase::kIdle;
  double phase_begin_ = 0;
  const Op* op_ = nullptr;
  const KernelEntry* entry_ = nullptr;
  std::unique_ptr<Kernel> kernel_;
  std::vector<TensorView> inputs_;
  std::vector<TensorDigest> input_digests_;
  std::set<std::string> changed_inputs_;
  TensorView output_;
  ReferenceBuffers reference_;
  Gating gating_;
  std::vector<double> seconds_;  // of the validated launches that count
  int launches_ = 1;
  int variants_ = 1;
  std::optional<TensorDigest> last_digest_;
};

}  // namespace

std::string_view PhaseName(Phase phase) {
  switch (phase) {
    case Phase::kIdle:
      return "idle";
    case Phase::kPlan:
      return "plan";
    case Phase::kFill:
      return "fill";
    case Phase::kPrepare:
      return "prepare";
    case Phase::kKernel:
      return "kernel";
    case Phase::kGuards:
      return "guards";
    case Phase::kReference:
      return "reference";
    case Phase::kCompare:
      return "compare";
    case Phase::kRecheck:
      return "recheck";
    case Phase::kBench:
      return "bench";
  }
  return "idle";
}

CaseOutcome CaseRunner::Run(const Case& c, PhaseObserver& observer) {
  return assay::Run(c, device_, registry_, ceilings_, observer).Go();
}

}  // namespace assay
