#include "kernels/validate/compare_tensors.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "kernels/diagnose/anatomy.h"
#include "kernels/diagnose/explain.h"
#include "kernels/judge/gating.h"
#include "kernels/judge/overflow.h"
#include "kernels/judge/phase_clock.h"
#include "kernels/judge/precision_evidence.h"
#include "kernels/judge/provenance.h"
#include "kernels/judge/received.h"
#include "kernels/judge/recheck.h"
#include "kernels/judge/rounded_reference.h"
#include "kernels/judge/slices.h"
#include "kernels/judge/verdict.h"
#include "kernels/numerics/convert.h"
#include "kernels/ops/common/arithmetic.h"
#include "kernels/ops/common/load.h"
#include "kernels/text/cat.h"
#include "kernels/text/hex.h"

namespace assay::inline kernels {
namespace {

// Where one tensor's bytes go: as they are, or each element as FP64.
class Landing {
 public:
  Landing(Device& device, const TensorSpec& spec, void* at, bool as_doubles)
      : device_(device),
        dtype_(spec.dtype),
        count_(spec.count()),
        bytes_(spec.bytes()),
        at_(static_cast<char*>(at)),
        as_doubles_(as_doubles && spec.dtype != DType::kF64) {
    if (!as_doubles_) return;
    stage_.resize(kStageBytes / sizeof(double));
    values_.resize(kStageBytes * 8 / static_cast<std::size_t>(Info(dtype_).storage_bits));
  }

  std::int64_t expected() const { return bytes_; }
  std::int64_t received() const { return received_; }

  absl::Status Add(std::string_view bytes) {
    const std::int64_t begin = received_;
    received_ += static_cast<std::int64_t>(bytes.size());
    if (!as_doubles_) {
      return device_.FromHost(bytes.data(), received_ - begin, at_ + begin);
    }
    while (!bytes.empty()) {
      const std::size_t n = std::min(bytes.size(), kStageBytes - staged_);
      std::memcpy(Stage() + staged_, bytes.data(), n);
      staged_ += n;
      bytes.remove_prefix(n);
      if (absl::Status s = Convert(); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

 private:
  static constexpr std::size_t kStageBytes = std::size_t{64} << 10;

  char* Stage() { return reinterpret_cast<char*>(stage_.data()); }

  // Whole elements of the stage to the device; a part of one stays.
  absl::Status Convert() {
    const auto bits = static_cast<std::size_t>(Info(dtype_).storage_bits);
    const std::int64_t elements =
        std::min(static_cast<std::int64_t>(staged_ * 8 / bits), count_ - converted_);
    LoadDoubles(dtype_, stage_.data(), 0, elements, values_.data());
    constexpr std::int64_t kDouble = sizeof(double);
    absl::Status s =
        device_.FromHost(values_.data(), elements * kDouble, at_ + converted_ * kDouble);
    converted_ += elements;
    const std::size_t used = bits >= 8 ? staged_ / (bits / 8) * (bits / 8) : staged_;
    std::memmove(Stage(), Stage() + used, staged_ - used);
    staged_ -= used;
    return s;
  }

  Device& device_;
  const DType dtype_;
  const std::int64_t count_;
  const std::int64_t bytes_;
  char* const at_;
  const bool as_doubles_;
  std::int64_t received_ = 0;
  std::int64_t converted_ = 0;  // elements
  std::vector<double> stage_;   // doubles for their alignment
  std::size_t staged_ = 0;      // bytes
  std::vector<double> values_;
};

// Operands as they lie on the device.
class DeviceInputs final : public HostInputs {
 public:
  DeviceInputs(Device& device, std::span<const TensorView> views)
      : device_(device), views_(views) {}

  void Read(int operand, std::int64_t begin, std::int64_t count, double* out) const override {
    const TensorView& view = views_[static_cast<std::size_t>(operand)];
    const auto bytes = static_cast<std::size_t>(StorageBytes(view.dtype, count));
    std::vector<double> packed(bytes / sizeof(double) + 1);
    if (!device_.ToHost(view, begin, count, packed.data()).ok()) {
      std::fill(out, out + count, std::nan(""));  // agrees with no reference
      return;
    }
    LoadDoubles(view.dtype, packed.data(), 0, count, out);
  }

 private:
  Device& device_;
  std::span<const TensorView> views_;
};

class Comparing final : public TensorComparison {
 public:
  Comparing(const Comparison& c, Plan plan, Device& device, PhaseObserver& observer)
      : c_(c), case_(JudgedCase(c)), device_(device), clock_(device, observer) {
    op_dims_ = std::exchange(plan.output.dims, c.actual.shape);
    outcome_.plan = std::move(plan);
  }
  ~Comparing() override { device_.arena().Reset(); }

  absl::Status Take() {
    clock_.Enter(Phase::kFill);
    device_.arena().Reset();
    const std::int64_t needed = ArenaBytes(c_, plan());
    const std::int64_t there = device_.arena().capacity_bytes();
    if (needed > there) {
      return absl::ResourceExhaustedError(Cat("the tensors and their reference need ", needed,
                                              " bytes, the arena of ", device_.info().id, " has ",
                                              there));
    }
    landings_.resize(static_cast<std::size_t>(c_.numbers()));
    if (absl::Status s = Take(0, plan().output, &output_); !s.ok()) return s;
    if (by_digest()) return absl::OkStatus();
    if (absl::Status s = TakeDoubles(&reference_.value); !s.ok()) return s;
    if (!c_.has_operation) {
      landings_[1].emplace(device_, *c_.expected, reference_.value, /*as_doubles=*/true);
      return absl::OkStatus();
    }
    if (!plan().exact) {
      if (absl::Status s = TakeDoubles(&reference_.allowance); !s.ok()) return s;
    }
    if (c_.expected) {
      Operand like_output = plan().output;
      like_output.dtype = c_.expected->dtype;
      if (absl::Status s = Take(1, like_output, &expected_); !s.ok()) return s;
    }
    inputs_.resize(c_.inputs.size());
    for (std::size_t i = 0; i < inputs_.size() && !c_.empty(); ++i) {
      absl::Status s = Take(2 + static_cast<int>(i), plan().inputs[i], &inputs_[i]);
      if (!s.ok()) return s;
    }
    if (c_.empty()) return absl::OkStatus();
    const ResidualModel model = OpOf(case_).Residuals(case_, plan());
    const absl::Status room = AllocateDeviations(case_, model, plan(), device_, reference_);
    // Beside another rule the precision decides nothing.
    const bool decides =
        case_.criterion == Criterion::kBound || case_.criterion == Criterion::kUnspecified;
    return decides && !room.ok()
               ? absl::ResourceExhaustedError(Cat("usual errors: ", room.message()))
               : absl::OkStatus();
  }

  absl::Status Add(std::int64_t tensor, std::string_view bytes) override {
    const auto size = static_cast<std::int64_t>(bytes.size());
    if (size == 0 || size > kMostPieceBytes) {
      return absl::InvalidArgumentError(
          Cat("a piece has 1 to ", kMostPieceBytes, " bytes, got ", size));
    }
    // Nothing will be compared: operands that are not empty are not kept.
    if (c_.empty() && tensor >= 2 && c_.tensor(tensor) != nullptr) return absl::OkStatus();
    if (c_.tensor(tensor) == nullptr || !landings_[static_cast<std::size_t>(tensor)]) {
      return absl::InvalidArgumentError(Cat("there is no tensor ", tensor, " in the header"));
    }
    Landing& landing = *landings_[static_cast<std::size_t>(tensor)];
    if (size > landing.expected() - landing.received()) {
      return absl::InvalidArgumentError(Cat("tensor ", tensor, " has ", landing.expected(),
                                            " bytes by its header, got at least ",
                                            landing.received() + size));
    }
    return landing.Add(bytes);
  }

  absl::StatusOr<CaseOutcome> Finish() override {
    for (std::size_t i = 0; i < landings_.size(); ++i) {
      if (!landings_[i] || landings_[i]->received() == landings_[i]->expected()) continue;
      return absl::InvalidArgumentError(Cat("tensor ", i, " has ", landings_[i]->expected(),
                                            " bytes by its header, got ",
                                            landings_[i]->received()));
    }
    absl::Status status = by_digest() ? JudgeByDigest() : JudgeByReference();
    outcome_.last_phase = clock_.now();
    outcome_.phases = clock_.Finish();
    if (!status.ok()) return status;
    return std::move(outcome_);
  }

 private:
  const Plan& plan() const { return *outcome_.plan; }
  bool by_digest() const { return !c_.expected_digest.empty(); }
  std::int64_t count() const { return c_.actual.count(); }

  absl::Status Take(int number, const Operand& operand, TensorView* view) {
    *view = TensorView{nullptr, operand.dtype, operand.extents};
    absl::StatusOr<Block> block =
        device_.arena().Allocate(StorageBytes(operand.dtype, operand.extents.count()), false);
    if (!block.ok()) return block.status();
    view->data = block->data;
    landings_[static_cast<std::size_t>(number)].emplace(device_, *c_.tensor(number), block->data,
                                                        /*as_doubles=*/false);
    return absl::OkStatus();
  }

  absl::Status TakeDoubles(double** at) {
    absl::StatusOr<Block> block =
        device_.arena().Allocate(count() * static_cast<std::int64_t>(sizeof(double)), false);
    if (!block.ok()) return block.status();
    *at = static_cast<double*>(block->data);
    return absl::OkStatus();
  }

  // Every bit of a stored result, or of its canonical form, is in its digest.
  absl::Status JudgeByDigest() {
    clock_.Enter(Phase::kCompare);
    absl::StatusOr<TensorDigest> digest = device_.Digest(output_);
    if (!digest.ok()) return digest.status();
    CompareResult& r = outcome_.compare.emplace();
    r.count = count();
    std::copy(digest->raw, digest->raw + 2, r.digest_raw);
    std::copy(digest->canonical, digest->canonical + 2, r.digest_canonical);
    if (count() == 0) {
      Add(Verdict::kInconclusive, Reason::kEmpty,
          "the tensor has no elements: nothing was compared");
      return absl::OkStatus();
    }
    const std::string wanted = absl::AsciiStrToLower(c_.expected_digest);
    if (wanted == Hex128(digest->raw) || wanted == Hex128(digest->canonical)) {
      outcome_.verdict = Verdict::kPassed;
    } else {
      Add(Verdict::kFailed, Reason::kExact,
          Cat("the digest is ", Hex128(digest->canonical), " (canonical) and ", Hex128(digest->raw),
              " (raw bits), expected ", wanted));
    }
    return absl::OkStatus();
  }

  absl::Status JudgeByReference() {
    const bool computed = c_.has_operation && !c_.empty();
    if (computed) {
      if (absl::Status s = ComputeReference(); !s.ok()) return s;
    }
    clock_.Enter(Phase::kCompare);
    if (absl::Status s = Compare(); !s.ok()) return s;
    if (absl::Status s = FindWorst(); !s.ok()) return s;
    Evidence evidence;
    evidence.compare = &*outcome_.compare;
    evidence.gating = gating_;
    evidence.computed = computed;
    evidence.received = true;
    const DeviceInputs host(device_, inputs_);
    if (computed) {
      if (absl::Status s = TakeSecondOpinion(host, evidence); !s.ok()) return s;
      if (absl::Status s = WeighErrors(host, evidence); !s.ok()) return s;
    }
    Judgement judgement = Judge(case_, plan(), evidence);
    if (computed && judgement.verdict == Verdict::kFailed &&
        judgement.findings.front().reason == Reason::kBound) {
      absl::StatusOr<bool> explains = NarrowSumsExplain();
      if (explains.ok() && *explains) {
        DoubtForNarrowSums(case_.dtype, judgement);
      } else if (explains.ok()) {
        explains = FlushingExplains();
        if (explains.ok() && *explains) DoubtForFlushing(judgement);
        if (explains.ok() && !*explains && op_->traits().transforms_divide) {
          explains = TransformExplains(device_, Request(output_, gating_), /*in_double=*/false);
          if (explains.ok() && *explains) DoubtForTransform(judgement);
        }
      }
      if (!explains.ok()) return explains.status();
    }
    if (!computed && case_.criterion == Criterion::kDerived) SayAccumulations(judgement.findings);
    outcome_.verdict = judgement.verdict;
    outcome_.findings = std::move(judgement.findings);
    outcome_.bias_z = judgement.bias_z;
    const bool bits = case_.criterion == Criterion::kBitwise;
    if (outcome_.verdict == Verdict::kPassed && !bits &&
        outcome_.compare->nan_count == outcome_.compare->count) {
      Add(Verdict::kInconclusive, Reason::kSuspect,
          "every element of both is NaN: no number was compared (--criterion bitwise holds their "
          "bits against each other)");
    }
    if (absl::Status s = ExplainResult(computed, host); !s.ok()) return s;
    outcome_.reports_ulp = true;
    if (gating_.uses_tolerances) {
      outcome_.atol = gating_.atol;
      outcome_.rtol = gating_.rtol;
    }
    return computed && c_.expected ? JudgeExpected() : absl::OkStatus();
  }

  absl::Status RecheckAll(const DeviceInputs& host, Evidence& evidence) {
    clock_.Enter(Phase::kRecheck);
    absl::StatusOr<Recheck> recheck =
        RecheckOnHost(case_, *op_, plan(), device_, output_, reference_.value, reference_.allowance,
                      host, *outcome_.compare, /*flushes=*/false);
    if (!recheck.ok()) return recheck.status();
    evidence.rechecked = recheck->elements;
    evidence.unbounded = recheck->unbounded;
    evidence.unproven = recheck->unproven;
    evidence.recheck_fault = recheck->fault;
    evidence.recheck_excuse = recheck->excuse;
    return absl::OkStatus();
  }

  // The host's second opinion, and what the errors of all elements together tell.
  absl::Status TakeSecondOpinion(const DeviceInputs& host, Evidence& evidence) {
    if (absl::Status s = RecheckAll(host, evidence); !s.ok()) return s;
    if (absl::Status s = TellPrecision(evidence); !s.ok()) return s;
    const absl::StatusOr<bool> biased =
        RightOutputIsBiased(device_, Request(output_, gating_), *outcome_.compare);
    if (!biased.ok()) return biased.status();
    evidence.right_is_biased = *biased;
    const absl::StatusOr<std::int64_t> unbounded =
        CountUnbounded(case_, device_, Request(output_, gating_));
    if (!unbounded.ok()) return unbounded.status();
    evidence.all_unbounded = *unbounded;
    return absl::OkStatus();
  }

  // Elements beyond their bound, and fp64 references that disagree: whether what is known of the
  // received operands explains them.
  absl::Status WeighErrors(const DeviceInputs& host, Evidence& evidence) {
    const CompareResult& compared = *outcome_.compare;
    const bool disagree = case_.dtype == DType::kF64 && !evidence.recheck_fault.empty();
    if (compared.beyond_proven == 0 && compared.class_mismatches == 0 && !disagree) {
      return absl::OkStatus();
    }
    const absl::StatusOr<ReceivedOperands> received =
        WeighOperands(case_, *op_, plan(), device_, inputs_, output_, host, compared);
    if (!received.ok()) return received.status();
    outcome_.plan->largest_intermediate = received->largest_intermediate;
    outcome_.plan->overflow_allowance = received->overflow_allowance;
    evidence.flushing_explains = received->flushing_explains;
    evidence.undecided = received->undecided;
    absl::StatusOr<std::optional<Unexplained>> unexplained =
        CountUnexplained(case_, plan(), device_, Request(output_, gating_), compared);
    if (!unexplained.ok()) return unexplained.status();
    evidence.unexplained = *unexplained;
    // Infinite operands make infinite references without an overflow.
    return disagree && received->all_finite ? RecheckAll(host, evidence) : absl::OkStatus();
  }

  absl::Status TellPrecision(Evidence& evidence) {
    const DeviceInputs host(device_, inputs_);
    absl::StatusOr<PrecisionReading> reading = assay::TellPrecision(PrecisionSubject{
        case_, *op_, plan(), device_, output_, reference_, host, /*received=*/true});
    if (!reading.ok()) return reading.status();
    outcome_.precision = std::move(reading->precision);
    evidence.precision = std::move(reading->findings);
    return absl::OkStatus();
  }

  // The derived tolerance is that of as many products as the request says, and without
  // operands nothing else tells how many made an element.
  void SayAccumulations(std::vector<Finding>& findings) {
    for (Finding& finding : findings) {
      if (finding.reason != Reason::kThreshold) continue;
      const std::int64_t k = case_.accumulations;
      Append(&finding.message, "; the tolerance is that of ", std::max<std::int64_t>(k, 1),
             k > 1 ? " products an element" : " product an element");
      if (k > 0) continue;
      Append(&finding.message, ", as accumulations does not say how many");
      outcome_.next_step =
          "the tolerance is that of 1 product an element: where each is a sum of K products, set "
          "accumulations to K";
    }
  }

  absl::Status ComputeReference() {
    clock_.Enter(Phase::kReference);
    op_ = FindOp(OpName(case_.problem));
    reference_.output = output_;
    absl::Status status = op_->Reference(case_, plan(), device_, inputs_, reference_);
    if (status.ok()) status = device_.Synchronize();
    if (reference_.max_abs_score > 0) outcome_.max_abs_score = reference_.max_abs_score;
    return status;
  }

  // Of a kernel elsewhere nothing is known of what it sums 8-bit floats in: whether all of the
  // output would be within the bound of the narrowest sums that hardware has.
  absl::StatusOr<bool> NarrowSumsExplain() {
    if (!MayBeSummedNarrowly(case_.dtype)) return false;
    Plan narrow = plan();
    op_->HoldTo(case_, NarrowestAccumulator(), narrow);
    return Explains(narrow);
  }

  // Nor whether it takes subnormal products, sums and results for 0.
  absl::StatusOr<bool> FlushingExplains() {
    // Far more than sums of subnormal numbers lose: the reference is computed for less alone.
    constexpr double kLarge = 0x1p-60;
    const ElementSample& worst = outcome_.compare->worst;
    if (worst.index < 0 || !(std::abs(worst.actual - worst.expected) < kLarge)) return false;
    // A kernel that gives 0 for them has no subnormal results.
    const double result = std::abs(worst.actual);
    if (result > 0 && result < Info(output_.dtype).min_normal) return false;
    Plan flushing = plan();
    flushing.flushes_subnormals = true;
    return Explains(flushing);
  }

  // Whether all of the output would be within the bound of this plan.
  absl::StatusOr<bool> Explains(const Plan& other) {
    const Plan own = plan();
    const CompareResult compared = *outcome_.compare;
    outcome_.plan = other;
    absl::Status status = ComputeReference();
    clock_.Enter(Phase::kCompare);
    if (status.ok()) status = Compare();
    const CompareResult by_other = *outcome_.compare;
    outcome_.plan = own;
    outcome_.compare = compared;
    if (status.ok()) status = ComputeReference();
    if (!status.ok()) return status;
    return by_other.beyond_proven == 0 && by_other.class_mismatches == 0;
  }

  CompareRequest Request(const TensorView& output, const Gating& gating) const {
    CompareRequest request;
    request.output = output;
    request.reference = reference_.value;
    request.allowance = reference_.allowance;
    request.proven_factor = plan().proven_factor;
    request.exact = plan().exact;
    // Formats with less range than the accumulator are seldom flushed, and their smallest normal
    // number is not small.
    request.flushes_subnormals =
        plan().flushes_subnormals &&
        Info(output.dtype).min_normal <= ArithmeticOf(case_.dtype).min_normal;
    request.gate = gating.gate;
    request.atol = gating.atol;
    request.rtol = gating.rtol;
    request.max_ulp = gating.max_ulp;
    request.poisoned = false;
    return request;
  }

  absl::Status Compare() {
    gating_ = MakeGating(case_, plan(), 0.0);
    absl::StatusOr<CompareResult> result = device_.Compare(Request(output_, gating_));
    if (result.ok() && case_.criterion == Criterion::kDerived) {
      // Its absolute tolerance scales with the largest magnitude, known only now.
      gating_ = MakeGating(case_, plan(), result->max_abs_expected);
      result = device_.Compare(Request(output_, gating_));
    }
    if (!result.ok()) return result.status();
    outcome_.compare = *std::move(result);
    return absl::OkStatus();
  }

  // The compare pass orders elements by their rounding, which without operands is not
  // what a tolerance allows them: where some are beyond it, the worst is looked for.
  absl::Status FindWorst() {
    CompareResult& r = *outcome_.compare;
    const bool by_tolerance = !c_.has_operation && gating_.gate == Gate::kAllClose;
    if (!by_tolerance || r.class_mismatches > 0 || r.mismatches == 0) return absl::OkStatus();
    constexpr std::int64_t kRun = 1 << 14;
    const DType dtype = output_.dtype;
    const TensorView reference{reference_.value, DType::kF64, Extents::Dense(1, 1, count())};
    std::vector<double> expected(kRun), packed(kRun), actual(kRun);
    double worst = 0.0;
    for (std::int64_t begin = 0; begin < count(); begin += kRun) {
      const std::int64_t n = std::min(kRun, count() - begin);
      absl::Status s = device_.ToHost(reference, begin, n, expected.data());
      if (s.ok()) s = device_.ToHost(output_, begin, n, packed.data());
      if (!s.ok()) return s;
      LoadDoubles(dtype, packed.data(), 0, n, actual.data());
      for (std::int64_t i = 0; i < n; ++i) {
        const auto at = static_cast<std::size_t>(i);
        const double e = Info(dtype).is_integer ? Quantise(expected[at], dtype) : expected[at];
        if (!std::isfinite(actual[at]) || !std::isfinite(e)) continue;
        const double bound = gating_.atol + gating_.rtol * std::abs(e);
        const double error = std::abs(actual[at] - e);
        // Where nothing is allowed the largest error itself is the worst.
        const double excess = bound > 0 ? error / bound : error * 0x1p200;
        if (!(excess > worst)) continue;
        worst = excess;
        r.worst = {begin + i,
                   actual[at],
                   e,
                   bound,
                   LoadBits(dtype, packed.data(), i),
                   RoundToFormat(e, dtype)};
      }
    }
    return absl::OkStatus();
  }

  // What the operands held, where NaN and infinities came from, how the errors lie and
  // what they read as.
  absl::Status ExplainResult(bool computed, const HostInputs& host) {
    const CompareRequest request = Request(output_, gating_);
    if (computed) {
      // A scalar has no axis of its own.
      if (c_.actual.shape.empty()) outcome_.plan->output.dims = op_dims_;
      absl::StatusOr<Examination> examination =
          Examine(case_, *op_, device_, inputs_, host, request, outcome_);
      if (examination.ok()) AddDiagnosis(case_, *examination, /*received=*/true, outcome_);
      // Slices are asked for by the operation's axes.
      outcome_.plan->output.dims = op_dims_;
      absl::StatusOr<std::vector<Slice>> slices =
          ReadSlices(case_, plan(), device_, inputs_, request, {});
      outcome_.plan->output.dims = c_.actual.shape;
      if (!examination.ok()) return examination.status();
      if (!slices.ok()) return slices.status();
      outcome_.slices = *std::move(slices);
      return absl::OkStatus();
    }
    outcome_.provenance = TraceNonFinite(*outcome_.compare, /*unwritten=*/0, {});
    if (outcome_.compare->mismatches == 0 || c_.actual.shape.empty()) return absl::OkStatus();
    absl::StatusOr<Anatomy> anatomy = Dissect(case_, plan(), device_, request);
    if (anatomy.ok()) outcome_.pattern_of_errors = anatomy->words;
    return anatomy.status();
  }

  // Holds EXPECTED itself against the computed reference: a comparison with a wrong
  // one proves nothing.
  absl::Status JudgeExpected() {
    Gating bound;
    bound.gate = Gate::kBound;
    absl::StatusOr<CompareResult> r = device_.Compare(Request(expected_, bound));
    if (!r.ok()) return r.status();
    if (r->mismatches == 0) return absl::OkStatus();
    const ElementSample& s = r->samples.front();
    const auto [expected, computed] = ToldApart(s.actual, s.expected);
    Add(outcome_.verdict == Verdict::kPassed ? Verdict::kInconclusive : outcome_.verdict,
        Reason::kSuspect,
        absl::StrFormat("EXPECTED is not what the operands give: %s of its %s elements are beyond "
                        "their proven bound, first %s is %s, computed %s ± %s",
                        Grouped(r->mismatches), Grouped(r->count),
                        Coordinates(s.index, plan().output.dims), expected, computed,
                        Digits(s.bound, 3)));
    return absl::OkStatus();
  }

  void Add(Verdict verdict, Reason reason, std::string message) {
    outcome_.verdict = verdict;
    outcome_.findings.push_back({reason, std::move(message)});
  }

  const Comparison c_;
  const Case case_;
  Device& device_;
  PhaseClock clock_;
  CaseOutcome outcome_;
  const Op* op_ = nullptr;
  std::vector<std::int64_t> op_dims_;  // the result's axes as the operation has them
  Gating gating_;
  TensorView output_;
  TensorView expected_;             // beside an operation
  std::vector<TensorView> inputs_;  // of the operation
  ReferenceBuffers reference_;
  std::vector<std::optional<Landing>> landings_;  // by the wire's number
};

}  // namespace

absl::StatusOr<std::unique_ptr<TensorComparison>> TensorComparison::Begin(
    const Comparison& comparison, Device& device, PhaseObserver& observer) {
  observer.Enter(Phase::kPlan);
  absl::StatusOr<Plan> plan = PlanOf(comparison);
  if (!plan.ok()) return plan.status();
  auto comparing = std::make_unique<Comparing>(comparison, *std::move(plan), device, observer);
  if (absl::Status s = comparing->Take(); !s.ok()) return s;
  return std::unique_ptr<TensorComparison>(std::move(comparing));
}

}  // namespace assay::kernels
