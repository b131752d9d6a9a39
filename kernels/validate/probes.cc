#include "kernels/validate/probes.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "kernels/judge/phase_clock.h"
#include "kernels/judge/pieces.h"
#include "kernels/judge/recheck.h"
#include "kernels/judge/verdict.h"
#include "kernels/numerics/bound.h"
#include "kernels/ops/changed_fields.h"
#include "kernels/runtime/compare_rule.h"
#include "kernels/text/cat.h"
#include "kernels/text/hex.h"
#include "kernels/validate/host_inputs.h"

namespace assay::inline kernels {
namespace {

std::string Shown(const ElementSample& s, const Plan& plan) {
  const int digits = std::max(1, Info(plan.output.dtype).storage_bits / 4);
  const auto [actual, expected] = ToldApart(s.actual, s.expected);
  return absl::StrFormat("%s got %s (0x%0*x), expected %s (0x%0*x)",
                         Coordinates(s.index, plan.output.dims), actual, digits, s.actual_bits,
                         expected, digits, s.expected_bits);
}

constexpr std::string_view kDeclareIt =
    "; if the kernel splits its operands or transforms them by design, declare it: "
    "operand_roundoff, at most ";

// A declared transform that divides gives whole numbers back to within this much.
constexpr double kOfWhole = 0.25;

// The smallest normal numbers that an exponential may leave of 0, as in the bounds.
constexpr double kTiny = 2;

// f - 1, if all results are f times what they should be. Then the correlation of errors and results
// is near 1; its square is 0.97 in fp32 if f is 1 + 2^-23. If bits are cut off, it is 0.73.
std::optional<double> CommonFactor(const CompareResult& r) {
  constexpr double kParallel = 0.95;
  constexpr std::int64_t kLeast = 64;  // fewer results may agree by chance
  if (r.finite_pairs < kLeast) return {};
  const double along = r.dot - r.sum_squared_expected;
  if (!(along * along >= kParallel * r.sum_squared_error * r.sum_squared_expected)) return {};
  return along / r.sum_squared_expected;
}

// What is known of a significand that did not come through, from the largest relative error: an
// error of 2^-11 leaves 11 bits. Nothing if the first bits are wrong already, which rounding does
// not do.
std::string BitsRight(const CompareResult& r, const Plan& plan, int operand) {
  constexpr double kLargest = 0.25;
  if (!(r.max_rel_error > 0 && r.max_rel_error <= kLargest)) return "";
  const int whole = static_cast<int>(-std::log2(r.max_rel_error));
  const std::string error = Cat(", relative error up to 2^-", whole, ": ");
  if (const std::optional<double> factor = CommonFactor(r)) {
    return Cat(error, "all are too ", *factor > 0 ? "large" : "small", " by a factor of 1 ",
               *factor > 0 ? '+' : '-', " ", Digits(std::abs(*factor), 3));
  }
  return Cat(error, whole, " bits of ", plan.inputs[static_cast<std::size_t>(operand)].name,
             "'s significand come through");
}

// Whether a kernel says itself that it does not compute the data: by a refusal, an exception or an
// error code. One that ends its process does not say why.
bool Refuses(const Ended& end) {
  if (end.verdict == Verdict::kUnsupported) return true;
  const std::optional<KernelFailure>& failure = end.finding.failure;
  return failure.has_value() && failure->cause == DeathCause::kNone &&
         (failure->error == KernelError::kRaised || failure->error == KernelError::kUnusable);
}

class Prober {
 public:
  Prober(const ProbeSubject& subject, Device& device, PhaseObserver& observer)
      : s_(subject), device_(device), clock_(device, observer) {}

  ProbeReport Run() {
    clock_.Enter(Phase::kCompare);
    Identities();
    std::vector<KernelProbe> probes = s_.op.Probes(s_.c, s_.plan);
    // The case's own launch had NaN there.
    for (std::size_t i = 0; i < probes.size(); ++i) {
      probes[i].data.poison = i % 2 == 0 ? Poison::kHigh : Poison::kLow;
    }
    for (const KernelProbe& p : probes) Keep(p);
    for (std::size_t i = 0; i < probes.size(); ++i) {
      ProbeOutcome outcome;
      outcome.name = probes[i].name;
      if (!probes[i].skipped.empty()) {
        Skip(outcome, probes[i].skipped);
      } else if (!IsOurs() && !OnlyShapesDiffer(s_.op, s_.c, probes[i].data)) {
        Skip(outcome, "it changes a field of the problem, which a kernel may be made for");
      } else {
        Try(probes[i], outcome);
      }
      report_.outcomes.push_back(std::move(outcome));
    }
    for (const PhaseTime& time : clock_.Finish()) report_.seconds += time.seconds;
    return std::move(report_);
  }

 private:
  // A kernel of Assay's or of a library reads every field of the problem.
  bool IsOurs() const { return s_.c.elsewhere == nullptr && s_.launched.kernel().trusted(); }

  void Fail(Reason reason, std::string message, ProbeOutcome& outcome,
            const std::string& operand = "") {
    report_.findings.push_back({reason, Cat(outcome.name, ": ", message), outcome.name, operand});
    if (report_.verdict != Verdict::kError) report_.verdict = Verdict::kFailed;
    if (outcome.verdict != Verdict::kFailed) outcome.message = std::move(message);
    outcome.verdict = Verdict::kFailed;
  }

  static void Skip(ProbeOutcome& outcome, std::string why) {
    outcome.verdict = Verdict::kSkipped;
    outcome.message = std::move(why);
  }

  // A probe that could not run to its end: what a kernel refuses, and what does not fit,
  // says nothing of it; a launch or a device that fails does.
  void Conclude(const KernelProbe& probe, const Ended& end, ProbeOutcome& outcome) {
    if (end.verdict != Verdict::kError) {
      Skip(outcome, end.finding.message);
      outcome.refused = !(probe.may_refuse && Refuses(end));
      return;
    }
    Fail(end.finding.reason, end.finding.message, outcome);
    report_.findings.back().blame = end.finding.blame;
    report_.findings.back().failure = end.finding.failure;
    report_.verdict = Verdict::kError;
  }

  void Try(const KernelProbe& probe, ProbeOutcome& outcome) {
    const std::size_t findings = report_.findings.size();
    const Verdict verdict = report_.verdict;
    if (End end = RunOne(probe, outcome)) {
      Conclude(probe, *end, outcome);
    } else if (outcome.verdict == Verdict::kUnspecified) {
      outcome.verdict = Verdict::kPassed;
    }
    if (outcome.verdict != Verdict::kFailed || IsOurs() || TakesExtents(probe)) return;
    report_.findings.erase(report_.findings.begin() + static_cast<std::ptrdiff_t>(findings),
                           report_.findings.end());
    report_.verdict = verdict;
    ProbeOutcome refused;
    refused.name = outcome.name;
    refused.refused = true;
    Skip(refused, "the kernel does not compute the case's own data in these extents, either");
    outcome = std::move(refused);
  }

  // Whether a user's kernel computes the extents of a probe that it has failed, judged by the
  // case's own data. It may be made for those of the case.
  bool TakesExtents(const KernelProbe& probe) {
    KernelProbe own{"own-data", probe.data};
    own.data.pattern = s_.c.pattern;
    own.data.seed = s_.c.seed;
    own.data.exact = false;
    own.data.significand = -1;
    const absl::StatusOr<Plan> plan = s_.op.MakePlan(own.data);
    if (!plan.ok() || SameShapes(*plan, s_.plan)) return true;
    const ProbeReport before = report_;
    where_failed_ = std::exchange(compared_.samples, {});
    ProbeOutcome outcome;
    const End end = RunOne(own, outcome);
    const auto asked = static_cast<std::int64_t>(std::exchange(where_failed_, {}).size());
    const bool by_result_alone = report_.findings.size() == before.findings.size() + 1;
    report_ = before;
    const bool refuses =
        end && (end->verdict == Verdict::kUnsupported ||
                (end->verdict == Verdict::kError && end->finding.blame == Blame::kKernel));
    if (refuses) return false;
    if (outcome.verdict != Verdict::kFailed) return true;
    // The own data may show the defect of a kernel that does compute these extents. Then they are
    // right in most elements, and in most of those where the probe is wrong. In 8 bits many slices
    // have the same result, so that what is right says little.
    constexpr std::int64_t kMost = 8;  // no more than one of so many is wrong
    return by_result_alone && Info(s_.c.dtype).storage_bits > 8 &&
           compared_.mismatches <= compared_.count / kMost && 2 * right_there_ > asked;
  }

  // How many of the elements where a probe has failed are right in this output.
  std::int64_t RightWhereFailed(const CompareRequest& request) const {
    const internal::CompareRule rule(request);
    const std::int64_t count = request.output.count();
    // A view has no constant data. These are only read.
    const auto read = [&](const double* from, std::int64_t at, std::vector<double>& to) {
      return ReadValues(device_, DoublesView(const_cast<double*>(from), count), at, 1, to).ok();
    };
    std::vector<std::uint64_t> bits;
    std::vector<double> reference, allowance = {0.0};
    return std::count_if(where_failed_.begin(), where_failed_.end(), [&](const ElementSample& s) {
      return ReadBits(device_, request.output, s.index, 1, bits).ok() &&
             read(request.reference, s.index, reference) &&
             (request.allowance == nullptr || read(request.allowance, s.index, allowance)) &&
             !JudgeElement(rule, bits[0], reference[0], allowance[0]).mismatch;
    });
  }

  void Identities() {
    absl::StatusOr<std::vector<Identity>> identities =
        s_.op.CheckIdentities(s_.c, s_.plan, device_, s_.launched.inputs(), s_.launched.output(),
                              s_.launched.reference());
    if (!identities.ok()) {
      // A backend that cannot look has nothing to say; one that tried and could not has.
      if (absl::IsUnimplemented(identities.status())) return;
      report_.findings.push_back(
          {Reason::kFault, Cat("identities: ", identities.status().message())});
      report_.verdict = Verdict::kError;
      return;
    }
    for (Identity& identity : *identities) {
      ProbeOutcome outcome;
      outcome.name = identity.name;
      outcome.count = identity.count;
      outcome.mismatches = identity.broken;
      if (identity.count == 0) {
        Skip(outcome,
             identity.message.empty() ? "nothing of the output is finite" : identity.message);
      } else if (identity.broken == 0) {
        outcome.verdict = Verdict::kPassed;
      } else {
        Fail(identity.bitwise ? Reason::kExact : Reason::kBound,
             Cat(Grouped(identity.broken), " of ", Grouped(identity.count),
                 " do not hold; first: ", identity.message),
             outcome);
      }
      report_.outcomes.push_back(std::move(outcome));
    }
  }

  // What a probe of equal elements is held against: elements of the case's own output, kept
  // while probes take its place on the device. No operator has two such probes.
  void Keep(const KernelProbe& probe) {
    if (probe.same_elements.empty()) return;
    const DType output = s_.plan.output.dtype;
    KeepRequest request;
    request.output = s_.launched.output();
    request.reference = s_.launched.reference().value;
    request.allowance = s_.launched.reference().allowance;
    request.rule = {OutputRoundingOf(output, s_.plan.flushes_subnormals), s_.plan.proven_factor,
                    Info(output).max_finite};
    request.at = probe.same_elements;
    // What decides about the next launch does not lie where that launch can change it.
    absl::StatusOr<KeptElements> kept = s_.launched.kernel().reaches_device_memory()
                                            ? device_.Device::KeepElements(request)
                                            : device_.KeepElements(request);
    if (kept.ok()) {
      kept_ = *std::move(kept);
    } else if (!absl::IsUnimplemented(kept.status())) {  // one that cannot look says nothing
      report_.findings.push_back(
          {Reason::kFault, Cat("elements of the output: ", kept.status().message())});
      report_.verdict = Verdict::kError;
    }
  }

  End RunOne(const KernelProbe& probe, ProbeOutcome& outcome) {
    compared_ = {};
    right_there_ = 0;
    clock_.Enter(Phase::kPlan);
    absl::StatusOr<Plan> made = s_.op.MakePlan(probe.data);
    if (!made.ok()) return RefusedBy(made.status(), "plan");
    Plan plan = *std::move(made);
    clock_.Enter(Phase::kPrepare);
    Launcher launcher(probe.data, device_, clock_);
    if (End end = launcher.Prepare(s_.entry, plan, s_.kept)) return end;
    if (End end = launcher.Fill()) return end;
    absl::StatusOr<double> seconds = launcher.Launch(probe.data.poison);
    if (!seconds.ok()) {
      End end = EndedBy(seconds.status(), s_.c.provider);
      if (probe.may_refuse && Refuses(*end)) {
        Skip(outcome, end->finding.message);
        return std::nullopt;
      }
      // Other data are no reason to refuse what the kernel has computed already.
      if (end->verdict != Verdict::kUnsupported || !SameShapes(plan, s_.plan)) return end;
      Fail(Reason::kExact,
           Cat("the kernel refuses other data of this problem: ", end->finding.message), outcome);
      return std::nullopt;
    }
    if (End end = launcher.RestoreInputs()) return end;
    if (launcher.guard_hits() > 0) {
      Fail(Reason::kGuard,
           Cat(Grouped(launcher.guard_hits()), " bytes outside the operands were written"),
           outcome);
    }
    if (!launcher.changed_inputs().empty()) {
      const std::string inputs = Join(launcher.changed_inputs(), ", ");
      Fail(Reason::kGuard, Cat("the kernel changed its input ", inputs), outcome, inputs);
    }
    if (!probe.same_elements.empty()) return HoldAgainst(probe, launcher, outcome);
    return JudgeWhole(probe, plan, launcher, outcome);
  }

  static void Allow(double deviation, const Plan& plan, CompareRequest& request) {
    const OutputRounding rounding = OutputRoundingOf(plan.output.dtype, plan.flushes_subnormals);
    request.exact = false;
    request.gate = Gate::kAllClose;
    request.atol = rounding.half_quantum;
    const DType wide = plan.output.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
    if (!plan.exact) request.atol += kTiny * Info(wide).min_normal;
    request.rtol = rounding.u + (1 + rounding.u) * deviation;
  }

  // Widens the request by what a transform of the operands may leave of an exact result, or of one
  // product. Its errors are relative to the neighbours, too, of which `largest` is the largest.
  // Returns false if there is nothing to allow.
  bool AllowTransform(const Case& probe, const Plan& plan, double largest,
                      CompareRequest& request) const {
    const bool divides = s_.op.traits().transforms_divide;
    if (Transforms(plan) && (divides || probe.significand >= 0)) {
      const double declared = probe.significand >= 0 ? plan.operand_roundoff : 0;
      Allow(declared, plan, request);
      request.atol += declared > 0 ? declared * largest : kOfWhole;
      return true;
    }
    const FormatInfo& output = Info(plan.output.dtype);
    if (!divides || output.is_integer || output.storage_bits > 32) return false;
    // In 16 bits half of the whole numbers between two of the format's lie in the middle of them.
    if (output.storage_bits <= 16) {
      Allow(0, plan, request);
    } else {
      request.gate = Gate::kAllClose;
      request.atol = request.rtol = 0;
    }
    request.atol += kOfDouble * std::max(1.0, largest);
    return true;
  }

  // The comparison of the whole output with the probe's own reference.
  static CompareRequest WholeRequest(const KernelProbe& probe, const Plan& plan,
                                     Launcher& launcher) {
    CompareRequest request;
    request.output = launcher.output();
    request.reference = launcher.reference().value;
    request.allowance = launcher.reference().allowance;
    request.proven_factor = plan.proven_factor;
    // Operands that are split show in the significands alone: whole numbers stay exact.
    // The bound of a probe that is not exact has room for it.
    const double declared = plan.exact && probe.data.significand >= 0 ? plan.operand_roundoff : 0;
    const double held =
        Info(plan.output.dtype).is_integer && plan.exact ? plan.intermediate_roundoff : 0;
    const double deviation = std::max({probe.deviation, declared, held});
    request.exact = plan.exact && (deviation == 0 || Transforms(plan));
    request.flushes_subnormals = plan.flushes_subnormals;
    request.gate = Gate::kBound;
    if (!request.exact && deviation > 0) Allow(deviation, plan, request);
    return request;
  }

  // The whole output against the probe's own reference.
  End JudgeWhole(const KernelProbe& probe, const Plan& plan, Launcher& launcher,
                 ProbeOutcome& outcome) {
    clock_.Enter(Phase::kReference);
    absl::Status status =
        s_.op.Reference(probe.data, plan, device_, launcher.inputs(), launcher.reference());
    if (status.ok()) status = device_.Synchronize();
    if (!status.ok()) return RefusedBy(status, "reference");
    clock_.Enter(Phase::kCompare);
    CompareRequest request = WholeRequest(probe, plan, launcher);
    absl::StatusOr<CompareResult> compared = device_.Compare(request);
    const bool transformed = Transforms(plan) && probe.data.significand >= 0;
    if (compared.ok() && (request.exact || transformed) && compared->mismatches > 0 &&
        AllowTransform(probe.data, plan, compared->max_abs_expected, request)) {
      compared = device_.Compare(request);
    }
    if (!compared.ok()) return EndedBy(compared.status(), "compare");
    CompareResult& r = *compared;
    // What is allowed and not exact has neither the host's bits nor the golden digest: right,
    // but with no digest that others could be held against.
    const bool other = (Info(plan.output.dtype).is_integer ? r.max_abs_error : r.max_ulp) > 0;
    if (other) r.beyond_proven = std::max<std::int64_t>(r.beyond_proven, 1);
    outcome.count = r.count;
    outcome.mismatches = r.mismatches;
    compared_ = r;
    if (!where_failed_.empty()) right_there_ = RightWhereFailed(request);
    const bool rounds_otherwise = r.mismatches == 0 && other;
    const bool one_result = plan.exact && !rounds_otherwise && !s_.op.SeveralRight(probe.data);
    if (one_result) outcome.digest = Hex128(r.digest_canonical);

    clock_.Enter(Phase::kRecheck);
    const RegeneratedInputs host(plan, probe.data.seed.value_or(1), s_.draws);
    absl::StatusOr<Recheck> recheck = RecheckOnHost(
        probe.data, s_.op, plan, device_, launcher.output(), launcher.reference().value,
        launcher.reference().allowance, host, r, plan.flushes_subnormals, kProbeRecheckSamples);
    if (!recheck.ok()) return EndedBy(recheck.status(), "recheck");
    // A kernel that wrote outside its operands may have spoiled what it is judged by.
    // The data of probes lie far inside FP64's range: no overflow excuses anything.
    if (std::string fault = recheck->fault + recheck->excuse;
        !fault.empty() && launcher.guard_hits() == 0) {
      return Ended{Verdict::kError, {Reason::kFault, std::move(fault)}};
    }
    if (r.mismatches > 0) {
      const ElementSample& sample = r.samples.empty() ? r.worst : r.samples.front();
      outcome.first = sample;
      const int operand = probe.data.significand;
      Fail(plan.exact ? Reason::kExact : Reason::kBound,
           Cat(Grouped(r.mismatches), " of ", Grouped(r.count),
               plan.exact ? " elements are not the exact result"
                          : " elements are beyond their bound",
               operand >= 0 && plan.exact && !Info(plan.output.dtype).is_integer
                   ? BitsRight(r, plan, operand)
                   : "",
               "; first ", Shown(sample, plan),
               r.class_mismatches > 0 ? "" : ByDesign(probe.data, plan, r)),
           outcome);
    }
    CheckDigest(r, outcome);
    return std::nullopt;
  }

  // What a caller may declare, if that could allow the error.
  std::string ByDesign(const Case& probe, const Plan& plan, const CompareResult& r) const {
    const OpTraits traits = s_.op.traits();
    const double most = traits.most_operand_roundoff * plan.accumulator_roundoff;
    if (IsOurs() || !plan.exact || plan.operand_roundoff >= most) return "";
    const double rounding = Info(plan.output.dtype).unit_roundoff * r.max_abs_expected;
    bool could = false;
    if (probe.significand < 0) {
      could = traits.transforms_divide && r.max_abs_error <= kOfWhole + rounding;
    } else if (traits.most_operand_roundoff > kSplitRoundoff) {
      could = r.max_abs_error <= 2 * most * r.max_abs_expected + rounding;
    } else {
      could = r.max_rel_error <= most;
    }
    return could ? Cat(kDeclareIt, Shortest(most)) : "";
  }

  void CheckDigest(const CompareResult& r, ProbeOutcome& outcome) {
    const auto golden = s_.c.golden.find(outcome.name);
    if (golden == s_.c.golden.end() || outcome.digest.empty()) return;
    outcome.golden = outcome.digest == golden->second;
    // An output that is wrong, or rounded otherwise within what is allowed, has another.
    const bool right = r.beyond_proven == 0 && r.class_mismatches == 0;
    if (*outcome.golden || !right) return;
    Fail(Reason::kDigest,
         Cat("the device finds its output exact, but its digest ", outcome.digest,
             " is not the golden one, ", golden->second,
             ": the data or the reference of this device are not those of others"),
         outcome);
  }

  // Elements against those of the case's own output, within both bounds.
  End HoldAgainst(const KernelProbe& probe, const Launcher& launcher, ProbeOutcome& outcome) {
    clock_.Enter(Phase::kCompare);
    if (!kept_) {
      Skip(outcome, "the output it is held against could not be read");
      return std::nullopt;
    }
    const absl::StatusOr<HeldFindings> held = device_.HoldAgainst(*kept_, launcher.output());
    if (!held.ok()) return EndedBy(held.status(), "compare");
    outcome.count = held->compared;
    outcome.mismatches = held->mismatches;
    if (outcome.count == 0) Skip(outcome, "no element is finite and far from overflow");
    if (outcome.mismatches > 0) {
      const std::int64_t index = probe.same_elements[static_cast<std::size_t>(held->first)];
      const auto [actual, kept] = ToldApart(held->actual, held->kept.value);
      Fail(Reason::kBound,
           Cat(Grouped(outcome.mismatches), " of ", Grouped(outcome.count),
               " elements differ from the case's own output; first ",
               Coordinates(index, s_.plan.output.dims), " is ", actual, ", the case's own output ",
               kept, " ± ", Digits(held->kept.bound, 3)),
           outcome);
    }
    return std::nullopt;
  }

  const ProbeSubject& s_;
  Device& device_;
  PhaseClock clock_;
  ProbeReport report_;
  std::optional<KeptElements> kept_;
  CompareResult compared_;  // of the last launch
  // Of the probe whose extents are asked for.
  std::vector<ElementSample> where_failed_;
  std::int64_t right_there_ = 0;  // by the case's own data
};

}  // namespace

ProbeReport CheckProbes(const ProbeSubject& subject, Device& device, PhaseObserver& observer) {
  return Prober(subject, device, observer).Run();
}

}  // namespace assay::kernels
