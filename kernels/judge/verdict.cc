#include "kernels/judge/verdict.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "kernels/judge/overflow.h"
#include "kernels/numerics/bound.h"
#include "kernels/ops/op.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

// A sample's mean signed error must be this many of its own standard errors, and
// this large in units in the last place, before it is called a bias: round to
// nearest gives 0 ± 0.29/√n, truncation −0.5. Errors of one kind of rounding spread
// over a unit (deviation 0.29); a sample that does not is one value seen many times.
constexpr double kBiasZ = 8.0;
constexpr double kBiasUlp = 0.2;
constexpr double kBiasSpread = 0.2;
// Of data nothing is known of. Errors of round to nearest lie in ±0.5: so large a mean with that
// spread takes one nearly all of whose elements are ties, and all to the same side.
constexpr double kTruncationUlp = 0.4;
constexpr std::int64_t kBiasSamples = 256;

// Share of zeros in an output beyond which it proves nothing, for ops whose
// outputs are not legitimately sparse.
constexpr double kMostlyZero = 0.99;

// Share of the results, by magnitude, that the error bound may say nothing of.
constexpr double kMostUnproven = 0.5;

// Why a norm with hardly an eps has no agreed result.
constexpr std::string_view kUnderflow =
    "; squares of a row may underflow in the accumulator of a right kernel, and eps does not "
    "outweigh them: no result is agreed on";

struct Bias {
  double mean = 0;    // [ulp]
  double spread = 0;  // standard deviation of the sample [ulp]
  double z = 0;
};

std::optional<Bias> MeasureBias(const CompareResult& r) {
  if (r.bias_count < kBiasSamples) return std::nullopt;
  const auto n = static_cast<double>(r.bias_count);
  const double mean = r.bias_sum / n;
  const double variance = std::max(0.0, r.bias_sum_squared / n - mean * mean);
  const double spread = std::sqrt(variance);
  // Never less than the rounding's own, so that z stays a finite figure.
  const double deviation = std::max(spread, 1.0 / std::sqrt(12.0));
  return Bias{mean, spread, mean / (deviation / std::sqrt(n))};
}

std::string Element(const ElementSample& s, const Plan& plan) {
  const int digits = std::max(1, Info(plan.output.dtype).storage_bits / 4);
  const auto [actual, expected] = ToldApart(s.actual, s.expected);
  if (s.actual_bits == s.expected_bits && s.actual != s.expected) {
    // Only a tolerance below the format's own rounding tells them apart.
    return absl::StrFormat("%s got %s (0x%0*x), which is what the expected %s ± %s rounds to",
                           Coordinates(s.index, plan.output.dims), actual, digits, s.actual_bits,
                           expected, Digits(s.bound, 3));
  }
  return absl::StrFormat("%s got %s (0x%0*x), expected %s (0x%0*x) ± %s",
                         Coordinates(s.index, plan.output.dims), actual, digits, s.actual_bits,
                         expected, digits, s.expected_bits, Digits(s.bound, 3));
}

// "12.3 %", and "0.042 %" of what would round to nothing.
std::string SharePercent(double share) {
  const double percent = 100 * share;
  return percent >= 0.1 || percent == 0 ? absl::StrFormat("%.1f %%", percent)
                                        : absl::StrFormat("%.2g %%", percent);
}

// Whether elements lie beside far larger ones.
bool IsUneven(PatternKind kind) {
  switch (kind) {
    case PatternKind::kSparse:
    case PatternKind::kBernoulli:
    case PatternKind::kDiagonal:
    case PatternKind::kOneHot:
    case PatternKind::kOneLarge:
    case PatternKind::kLargeSmall:
    case PatternKind::kExactSparse:
    case PatternKind::kExactInts:
    case PatternKind::kSequential:
    case PatternKind::kRowVary:
    case PatternKind::kColVary:
      return true;
    default:
      return false;
  }
}

class Jury {
 public:
  Jury(const Case& c, const Plan& plan, const Evidence& e)
      : case_(c), plan_(plan), e_(e), r_(*e.compare) {}

  Judgement Run() {
    // A kernel that wrote outside its operands may have spoiled what it is judged by:
    // then a disagreement is its doing and not the device's.
    if (!e_.recheck_fault.empty() && e_.guard_hits == 0) {
      Add(Verdict::kError, Reason::kFault, e_.recheck_fault);
      return std::move(judgement_);
    }
    Memory();
    Classes();
    Criteria();
    BiasTest();
    Precision();
    Thresholds();
    Repeats();
    if (judgement_.verdict != Verdict::kFailed) {
      References();
      Proof();
    }
    if (judgement_.verdict == Verdict::kUnspecified) judgement_.verdict = Verdict::kPassed;
    return std::move(judgement_);
  }

 private:
  void Add(Verdict verdict, Reason reason, std::string message) {
    // FAILED and ERROR outrank INCONCLUSIVE, whatever the order of the checks.
    const bool decided = judgement_.verdict == Verdict::kFailed;
    if (!decided) judgement_.verdict = verdict;
    if (verdict == Verdict::kFailed && IsLimit(reason)) judgement_.beyond_limit = true;
    judgement_.findings.push_back({reason, std::move(message)});
  }

  // "<headline>; worst [1,2] …<rest>".
  void AddWorst(Verdict verdict, Reason reason, const std::string& headline,
                std::string_view rest = "") {
    const bool known = r_.worst.index >= 0;
    Add(verdict, reason,
        Cat(headline, known ? Cat("; worst ", Element(r_.worst, plan_)) : "", rest));
    if (known) judgement_.findings.back().headline = headline.size();
  }

  void Memory() {
    if (e_.guard_hits > 0) {
      Add(Verdict::kFailed, Reason::kGuard,
          Cat(Grouped(e_.guard_hits),
              " bytes outside the operands were written: guard bands or padding changed"));
    }
    if (!e_.changed_inputs.empty()) {
      const std::string inputs = Join(e_.changed_inputs, ", ");
      Add(Verdict::kFailed, Reason::kGuard, Cat("the kernel changed its input ", inputs));
      judgement_.findings.back().operand = inputs;
    }
    if (e_.unwritten > 0) {
      std::string where;
      if (r_.first_unwritten >= 0) {
        where = Cat(", first ", Coordinates(r_.first_unwritten, plan_.output.dims));
      }
      Add(Verdict::kFailed, Reason::kUnwritten,
          Cat(Grouped(e_.unwritten), " of ", Grouped(r_.count), " elements still hold the poison",
              where));
    }
  }

  void Classes() {
    const std::int64_t wrong = r_.class_mismatches - std::min(r_.class_mismatches, r_.unwritten);
    if (wrong <= 0) return;
    const std::string message =
        Cat(Grouped(wrong), " of ", Grouped(r_.count),
            " elements are of another class (NaN, +Inf, -Inf, finite) than the reference: ",
            Grouped(r_.nan_count - std::min(r_.nan_count, r_.unwritten)), " NaN where ",
            Grouped(r_.reference_nan_count), " were expected, ", Grouped(r_.inf_count),
            " Inf where ", Grouped(r_.reference_inf_count), " were");
    if (!e_.undecided.empty()) {
      AddWorst(Verdict::kInconclusive, Reason::kSuspect, message,
               Cat("; the operands have ", e_.undecided, ", which has no agreed result"));
      return;
    }
    std::string rest;
    const bool overflows = MayOverflowInside(case_, plan_);
    if (e_.unexplained && e_.unexplained->of_wrong_class > 0) {
      rest = Cat("; ", Grouped(e_.unexplained->of_wrong_class), " of them where no ",
                 overflows ? "sum overflows" : "square underflows");
    } else if (e_.unexplained && !overflows && OpOf(case_).SquaresMayVanish(case_)) {
      AddWorst(Verdict::kInconclusive, Reason::kSuspect, message, kUnderflow);
      return;
    } else if (overflows) {
      AddWorst(Verdict::kInconclusive, Reason::kSuspect, message,
               "; sums of these inputs may overflow in the accumulator of a right kernel");
      return;
    }
    AddWorst(Verdict::kFailed, Reason::kClass, message, rest);
  }

  void Criteria() {
    switch (case_.criterion) {
      case Criterion::kUnspecified:
      case Criterion::kBound:
        Bound();
        return;
      case Criterion::kDerived:
      case Criterion::kAllClose: {
        const std::int64_t beyond = r_.mismatches - r_.class_mismatches;
        if (beyond > 0) {
          AddWorst(
              Verdict::kFailed, Reason::kThreshold,
              absl::StrFormat("%s of %s elements beyond atol %.3g + rtol %.3g·|expected|",
                              Grouped(beyond), Grouped(r_.count), e_.gating.atol, e_.gating.rtol));
        }
        return;
      }
      case Criterion::kUlp:
        if (r_.mismatches > r_.class_mismatches || !(r_.max_ulp <= e_.gating.max_ulp)) {
          AddWorst(
              Verdict::kFailed, Reason::kThreshold,
              absl::StrFormat("%s of %s elements further than %.4g ulp from the rounded reference "
                              "(largest %.4g)",
                              Grouped(r_.mismatches - r_.class_mismatches), Grouped(r_.count),
                              e_.gating.max_ulp, r_.max_ulp));
        }
        return;
      case Criterion::kBitwise: {
        if (ReferenceRounds()) {
          Bound();
          Add(Verdict::kInconclusive, Reason::kSuspect,
              "an FP64 reference rounds where an fp64 result does: which bits are right is not "
              "known; exact data have one result (--pattern integers), and --criterion bound "
              "judges any");
          return;
        }
        const std::int64_t beyond = r_.mismatches - r_.class_mismatches;
        if (beyond > 0) {
          AddWorst(Verdict::kFailed, Reason::kExact,
                   absl::StrFormat("%s of %s elements differ from the rounded reference",
                                   Grouped(beyond), Grouped(r_.count)));
        }
        return;
      }
      case Criterion::kLegacy:
        if (!(r_.max_abs_error <= e_.gating.atol) || !(r_.max_rel_error <= e_.gating.rtol)) {
          Add(Verdict::kFailed, Reason::kThreshold,
              absl::StrFormat(
                  "max abs error %.3g (at most %.3g), max rel error %.3g (at most %.3g)",
                  r_.max_abs_error, e_.gating.atol, r_.max_rel_error, e_.gating.rtol));
        }
        return;
    }
  }

  // Whether the reference is no closer to the truth than the kernel may be.
  bool ReferenceRounds() const {
    if (plan_.exact || !e_.computed || plan_.output.dtype != DType::kF64) return false;
    if (!OpOf(case_).traits().sums_of_products) return true;
    return !std::all_of(plan_.inputs.begin(), plan_.inputs.end(), [](const Operand& o) {
      const Pattern& p = o.pattern;
      return p.kind == PatternKind::kIntegers || (p.kind == PatternKind::kOneHot && p.b == 0);
    });
  }

  bool BoundGates() const {
    return case_.criterion == Criterion::kUnspecified || case_.criterion == Criterion::kBound;
  }

  void Bound() {
    if (r_.beyond_proven > 0 && HasSubnormalInputs()) {
      AddWorst(Verdict::kInconclusive, Reason::kSuspect,
               absl::StrFormat(
                   "%s of %s elements beyond their bound on subnormal inputs, which a kernel may "
                   "take for 0",
                   Grouped(r_.beyond_proven), Grouped(r_.count)));
      return;
    }
    if (r_.beyond_proven > 0) {
      const std::string message =
          absl::StrFormat("%s of %s elements beyond %s (error/bound %.4g)",
                          Grouped(r_.beyond_proven), Grouped(r_.count),
                          plan_.exact ? "the exact result" : "their proven bound", r_.rho_proven);
      if (OverflowExplainsErrors()) {
        AddWorst(Verdict::kInconclusive, Reason::kSuspect, message,
                 "; a sum of these inputs may overflow in the accumulator of a right "
                 "kernel, and what follows may make a number of it");
        return;
      }
      if (!plan_.exact && (e_.transform_explains || (Transforms(plan_) && Uneven()))) {
        AddWorst(Verdict::kInconclusive, Reason::kSuspect, message,
                 Cat("; a transform of operands errs relative to their neighbours, which are far "
                     "larger here and there",
                     Uneven() ? ": judge it on even data, such as --pattern normal" : ""));
        return;
      }
      AddWorst(Verdict::kFailed, plan_.exact ? Reason::kExact : Reason::kBound, message,
               OpOf(case_).BoundRestsOn(case_));
      return;
    }
    if (r_.beyond_probable == 0) return;
    const std::string message = absl::StrFormat(
        "%s of %s elements beyond their probabilistic bound (error/bound %.4g), within the proven "
        "one",
        Grouped(r_.beyond_probable), Grouped(r_.count), r_.rho);
    if (plan_.zero_mean_random) {
      AddWorst(Verdict::kFailed, Reason::kBound, message);
    } else {
      AddWorst(Verdict::kInconclusive, Reason::kSuspect, message, OpOf(case_).BoundRestsOn(case_));
    }
  }

  // The bound of a declared transform counts the terms of an element alone, which may be far
  // smaller than their neighbours.
  bool Uneven() const {
    return std::any_of(plan_.inputs.begin(), plan_.inputs.end(),
                       [](const Operand& o) { return IsUneven(o.pattern.kind); });
  }

  // Measured whichever criterion gates; gates with those that follow from the formats.
  void BiasTest() {
    if (plan_.exact) return;
    const std::optional<Bias> bias = MeasureBias(r_);
    if (!bias) return;
    judgement_.bias_z = bias->z;
    if (!BoundGates() && case_.criterion != Criterion::kDerived) return;
    if (!LooksBiased(r_) || e_.right_is_biased) return;
    const std::string message = absl::StrFormat(
        "rounding is biased: mean signed error %.3f ulp over %s elements "
        "(z = %.1f); round to nearest gives 0, truncation -0.5",
        bias->mean, Grouped(r_.bias_count), bias->z);
    if (e_.received || OpOf(case_).traits().own_reference) {
      // What was sent, or an operator that nobody knows, may repeat a few values and their errors,
      // but hardly so.
      if (std::abs(bias->mean) > kTruncationUlp)
        Add(Verdict::kInconclusive, Reason::kBias, message);
    } else if (plan_.zero_mean_random && IndependentRoundings() &&
               std::abs(bias->mean) > kBiasUlp) {
      Add(Verdict::kFailed, Reason::kBias, message);
    }
  }

  // An element beyond its bound says more than the errors of all of them.
  void Precision() {
    if (!BoundGates() || judgement_.verdict == Verdict::kFailed) return;
    // Elements that a right kernel may flush to 0, or that an overflow makes 0, err by more than
    // rounding.
    if (r_.beyond_proven > 0 && (HasSubnormalInputs() || OverflowLeavesZeros())) return;
    for (const PrecisionFinding& f : e_.precision) {
      // The usual errors of small sums have no room for their neighbours'.
      if (e_.transform_explains && !f.names_format) continue;
      const bool doubtful = f.verdict == Verdict::kInconclusive;
      const bool decides = !doubtful && judgement_.verdict != Verdict::kFailed;
      Add(f.verdict, f.finding.reason,
          Cat(f.finding.message,
              doubtful ? "; whether the order of the terms or the arithmetic of the hardware "
                         "explains it is not known"
                       : ""));
      // What decides comes before what was only doubted.
      std::vector<Finding>& findings = judgement_.findings;
      if (decides) std::rotate(findings.begin(), findings.end() - 1, findings.end());
    }
  }

  // The test takes elements' rounding errors for independent draws. Values drawn from
  // a continuum are; a few distinct ones (sparse, extremes, integers) repeat one error. So do the
  // values of an 8-bit format, if an output is made of one of them and of what its row has in
  // common.
  bool IndependentRoundings() const {
    if (plan_.inputs.size() == 1 && Info(plan_.inputs[0].dtype).storage_bits < 16) return false;
    return std::all_of(plan_.inputs.begin(), plan_.inputs.end(), [](const Operand& o) {
      return Info(o.dtype).is_integer || o.pattern.kind == PatternKind::kNormal ||
             o.pattern.kind == PatternKind::kUniform;
    });
  }

  // Whether a sum that overflows in a right kernel, and what it makes of it, may be behind every
  // element beyond its proven bound.
  bool OverflowExplainsErrors() const {
    const bool explained = !e_.unexplained || e_.unexplained->beyond_proven == 0;
    return !plan_.exact && explained && OverflowMayEndFinite(case_, plan_);
  }

  // Whether each of them is 0 and should not be: a norm divided by an infinite deviation.
  bool OverflowLeavesZeros() const {
    return OverflowExplainsErrors() && r_.zero_count - r_.reference_zero_count >= r_.beyond_proven;
  }

  // Whether a device or kernel keeps subnormal numbers or flushes them is a property
  // to report, not a fault.
  bool HasSubnormalInputs() const {
    if (e_.flushing_explains) return *e_.flushing_explains;
    return std::any_of(plan_.inputs.begin(), plan_.inputs.end(),
                       [](const Operand& o) { return o.pattern.kind == PatternKind::kDenormal; });
  }

  void Thresholds() {
    const auto limit = [&](const std::optional<double>& most, double value, std::string_view what) {
      if (most && !(value <= *most)) {
        Add(Verdict::kFailed, Reason::kThreshold,
            absl::StrFormat("%s is %.4g, at most %.4g allowed", what, value, *most));
      }
    };
    limit(case_.max_abs_error, r_.max_abs_error, "max abs error");
    limit(case_.max_rel_error, r_.max_rel_error, "max rel error");
    if (case_.criterion != Criterion::kUlp) limit(case_.max_ulp, r_.max_ulp, "max ulp");
    if (!case_.min_efficiency || !e_.efficiency_due) return;
    if (e_.efficiency && !(*e_.efficiency >= *case_.min_efficiency)) {
      const std::string reached =
          absl::StrFormat("reached %s of the roof, at least %s asked for",
                          SharePercent(*e_.efficiency), SharePercent(*case_.min_efficiency));
      // A kernel that is fast enough where it is left alone is not slow: what disturbs it is.
      if (e_.undisturbed_efficiency && *e_.undisturbed_efficiency >= *case_.min_efficiency) {
        Add(Verdict::kInconclusive, Reason::kEfficiency,
            Cat(reached, "; undisturbed it may reach ", SharePercent(*e_.undisturbed_efficiency),
                ": too noisy to tell; time it again where nobody else uses the device"));
      } else {
        Add(Verdict::kFailed, Reason::kEfficiency, reached);
      }
    }
    if (!e_.efficiency) {
      Add(Verdict::kInconclusive, Reason::kEfficiency,
          case_.mode == Mode::kValidate ? "an efficiency was asked for and the case was not timed: "
                                          "it takes mode benchmark or "
                                          "both"
          : e_.in_cache
              ? "an efficiency was asked for and the data fit the cache, whose roof is not "
                "measured: ask it of a larger case"
              : "an efficiency was asked for and no roof could be measured");
    }
  }

  void Repeats() {
    if (e_.variants > 1) {
      Add(Verdict::kFailed, Reason::kNondeterministic,
          Cat(e_.variants, " different outputs in ", e_.launches, " launches on the same data",
              e_.deviation.empty() ? "" : Cat(": ", e_.deviation)));
    }
  }

  // Which of two references is right is not known, and one of them has judged the output.
  void References() {
    if (e_.recheck_excuse.empty()) return;
    Add(Verdict::kInconclusive, Reason::kSuspect, e_.recheck_excuse);
  }

  // As plan_.vacuous, but of the data and not of the problem.
  void BoundSaysLittle() {
    const bool sampled = e_.unbounded > 0;
    if (sampled || e_.all_unbounded > 0) {
      Add(Verdict::kInconclusive, Reason::kSuspect,
          Cat("at ", Grouped(sampled ? e_.unbounded : e_.all_unbounded), " of ",
              Grouped(sampled ? e_.rechecked : r_.count), sampled ? " sampled" : "",
              OpOf(case_).SquaresMayVanish(case_)
                  ? Cat(" elements any number is within the error bound", kUnderflow)
                  : " elements the terms overflow FP64, and the error bound with them: any number "
                    "is within it"));
      return;
    }
    // Beside data that are drawn here run further cases, of other data.
    const bool alone = e_.received || !case_.probes || case_.flushes_subnormals;
    // Attention in 8-bit floats averages values to less than its weights are rounded by.
    const bool averages = MayBeSummedNarrowly(case_.dtype);
    if (alone && !averages && e_.unproven > kMostUnproven) {
      Add(Verdict::kInconclusive, Reason::kSuspect,
          Cat("the error bound is as large as the results, for ", SharePercent(e_.unproven),
              " of them by magnitude: being within it proves little"));
    }
  }

  // A pass that proves nothing is none.
  void Proof() {
    if (r_.count == 0) {
      Add(Verdict::kInconclusive, Reason::kEmpty,
          "the output has no elements: nothing was compared");
      return;
    }
    const bool may_flush = e_.flushed || case_.flushes_subnormals;
    if (may_flush && BoundGates() && r_.finite_pairs > 0 &&
        r_.max_abs_expected <= Info(plan_.output.dtype).min_normal) {
      Add(Verdict::kInconclusive, Reason::kSuspect,
          absl::StrFormat("every result is at most %.3g, the smallest normal number, and some pass "
                          "only because a kernel may give 0 for subnormal numbers; any smaller "
                          "value would pass too",
                          Info(plan_.output.dtype).min_normal));
    }
    if (OpOf(case_).traits().own_reference && r_.nan_count == r_.count) {
      Add(Verdict::kInconclusive, Reason::kSuspect,
          "every element of output and reference is NaN: no number was compared");
      return;
    }
    if (BoundGates()) {
      std::string why = OpOf(case_).ProvesLittle(case_, plan_);
      if (!why.empty()) Add(Verdict::kInconclusive, Reason::kSuspect, std::move(why));
    }
    if (plan_.vacuous && BoundGates()) {
      Add(Verdict::kInconclusive, Reason::kSuspect,
          Cat(plan_.elementwise ? "" : Cat("sums of ", Grouped(plan_.accumulations), " terms: "),
              "the error bound is so wide that holding it proves little"));
    }
    if (BoundGates() && !plan_.vacuous) BoundSaysLittle();
    // Another criterion holds numbers to a tolerance, but an infinity only to the bound.
    if (!BoundGates() && OpOf(case_).SquaresMayVanish(case_) && e_.all_unbounded > 0 &&
        r_.inf_count > 0) {
      Add(Verdict::kInconclusive, Reason::kSuspect,
          Cat(Grouped(r_.inf_count), " elements are infinite", kUnderflow));
    }
    const double zeros = static_cast<double>(r_.zero_count) / static_cast<double>(r_.count);
    // The probes have other indices: see ProbesShow.
    if (plan_.indices && case_.probes && !e_.received) return;
    if (r_.zero_count == r_.count) {
      Add(Verdict::kInconclusive, Reason::kZeros,
          r_.reference_zero_count == r_.count
              ? AllZeros().message
              : "every output element is 0 and the reference is not: this criterion lets that by");
    } else if (zeros > kMostlyZero && !OpOf(case_).traits().sparse_output) {
      Add(Verdict::kInconclusive, Reason::kZeros,
          absl::StrFormat("%.1f %% of the output is 0 as it should be: too little was proven",
                          100 * zeros));
    }
  }

  const Case& case_;
  const Plan& plan_;
  const Evidence& e_;
  const CompareResult& r_;
  Judgement judgement_;
};

}  // namespace

bool LooksBiased(const CompareResult& compared) {
  const std::optional<Bias> bias = MeasureBias(compared);
  return bias && std::abs(bias->z) > kBiasZ && bias->spread > kBiasSpread;
}

Finding AllZeros() {
  return {Reason::kZeros, "every output element is 0 and so is the reference: nothing was proven"};
}

bool ProbesShow(const Plan& plan, const CaseOutcome& outcome) {
  if (outcome.verdict != Verdict::kPassed || !plan.indices || !outcome.compare) return true;
  if (outcome.compare->zero_count < outcome.compare->count) return true;
  return std::any_of(outcome.probes.begin(), outcome.probes.end(),
                     [](const ProbeOutcome& p) { return p.verdict == Verdict::kPassed; });
}

bool IsLimit(Reason reason) {
  return reason == Reason::kThreshold || reason == Reason::kEfficiency ||
         reason == Reason::kNondeterministic;
}

Judgement Judge(const Case& c, const Plan& plan, const Evidence& evidence) {
  return Jury(c, plan, evidence).Run();
}

std::string Coordinates(std::int64_t index, const std::vector<std::int64_t>& dims) {
  std::vector<std::string> parts;
  for (auto d = dims.rbegin(); d != dims.rend(); ++d) {
    parts.push_back(Cat(*d > 0 ? index % *d : 0));
    index = *d > 0 ? index / *d : 0;
  }
  std::string out = "[";
  for (auto p = parts.rbegin(); p != parts.rend(); ++p) {
    if (p != parts.rbegin()) out += ",";
    out += *p;
  }
  return out + "]";
}

}  // namespace assay::kernels
