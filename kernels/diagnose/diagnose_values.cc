// What the wrong values are: zeros, multiples, sums with too few digits.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "kernels/diagnose/anatomy_words.h"
#include "kernels/diagnose/diagnose_rules.h"
#include "kernels/judge/verdict.h"
#include "kernels/ops/common/diagnosing.h"
#include "kernels/ops/op.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels::internal {
namespace {

// A factor and its names within this are the same.
constexpr double kSameFactor = 2e-3;

// Elements whose errors tell a truncation from a chance.
constexpr std::int64_t kBiased = 64;

// Errors of a row that do not follow one another: less of them survives in its sum.
constexpr double kIncoherent = 0.35;

// "0.75", "0.99"; a factor that two digits do not tell from 1, by how far it is off: "1 + 0.0001".
std::string FactorText(double factor) {
  constexpr double kNear = 0.0095;
  const double more = factor - 1;
  if (more == 0 || std::abs(more) >= kNear) return absl::StrFormat("%.4g", factor);
  return absl::StrFormat("1 %c %.3g", more > 0 ? '+' : '-', std::abs(more));
}

std::string RangeText(const LineFit& fit) {
  return absl::StrFormat("%.4g to %.4g", fit.least, fit.most);
}

// What a factor is, where it is a number of the case: "1/alpha", "√dim".
std::string NameOf(double factor, const Symptoms& s) {
  std::vector<std::pair<std::string, double>> known = {{"2", 2.0}, {"1/2", 0.5}, {"-1", -1.0}};
  const auto both = [&](const std::string& name, double value) {
    if (value == 1.0 || value == 0.0) return;
    known.emplace_back(name, value);
    known.emplace_back("1/" + name, 1.0 / value);
  };
  for (const auto& [name, value] : OperatorsOwn(s).Factors(s.c)) both(name, value);
  for (const auto& [name, value] : known) {
    if (std::abs(factor / value - 1.0) < kSameFactor) return name;
  }
  return "";
}

// Zero elements among the wrong ones that are all of a kind: small ones.
bool SmallOnesVanish(const Anatomy& a) {
  return a.zeroed >= 4 && 2 * a.zeroed >= a.finite && a.least_kept > 0 &&
         a.most_zeroed < 64 * a.least_kept;
}

bool HasInput(const Symptoms& s, std::string_view name) {
  return std::any_of(s.plan.inputs.begin(), s.plan.inputs.end(),
                     [&](const Operand& o) { return o.name == name; });
}

// Sparse sums of so many terms are exact in bf16, and sums of small integers of so many in no
// format of 16 bits.
constexpr std::int64_t kFewTerms = 256;
constexpr std::int64_t kManyTerms = 512;

// Cuts give errors from 0 to one unit, all to one side: 0.5 on average. Another error whose mean
// is as large has elements beyond a unit, for it grows with the digits of the result.
constexpr double kMeanOfCut = 0.5;
constexpr double kMeanIsNear = 0.1;

// Whether a wrong element is off by more than a unit and what its arithmetic may cost beside
// the one rounding.
bool BeyondAUnit(const Anatomy& a, DType format) {
  return std::any_of(a.samples.begin(), a.samples.end(), [format](const WrongElement& e) {
    if (e.expected == 0.0) return false;
    const double unit = UnitAt(format, e.expected);
    const double arithmetic = e.bound - Info(format).unit_roundoff * std::abs(e.expected);
    return std::abs(e.actual - e.expected) > 1.001 * unit + std::max(0.0, arithmetic);
  });
}

// A line that is all 0 was left out, or is stored from elsewhere: no scale is wrong.
bool IsZero(const std::optional<LineFit>& factors) {
  return factors.has_value() && factors->least == 0 && factors->most == 0;
}

const ProbeOutcome* ProbeNamed(const Symptoms& s, std::string_view name) {
  for (const ProbeOutcome& p : s.outcome.probes) {
    if (p.name == name) return &p;
  }
  return nullptr;
}

// Whether one rounding to bf16, the format with the fewest digits that sums are kept in, is as far
// off as the element that the probe names. Then the sum itself may be right.
bool OneRoundingExplains(const ProbeOutcome& probe) {
  if (!probe.first.has_value()) return false;
  const ElementSample& e = *probe.first;
  return std::abs(e.actual - e.expected) <=
         2 * Info(DType::kBF16).unit_roundoff * std::abs(e.expected);
}

}  // namespace

bool RoundsASingleTerm(const Symptoms& s) {
  const bool few = s.plan.accumulations <= kFewTerms;
  return std::any_of(s.outcome.probes.begin(), s.outcome.probes.end(), [few](const auto& p) {
    return p.verdict == Verdict::kFailed &&
           ((few && p.name == "exact-sparse") || p.name.starts_with("exact-significand"));
  });
}

bool SumsAreRight(const Symptoms& s) {
  const ProbeOutcome* integers = ProbeNamed(s, "exact-integers");
  return s.plan.accumulations >= kManyTerms && integers != nullptr &&
         integers->verdict == Verdict::kPassed;
}

std::optional<Reading> ZeroOutput(const Symptoms& s) {
  const CompareResult& r = *s.outcome.compare;
  // Zeros in place of NaN are another fault (NanIsLost).
  if (s.anatomy == nullptr || r.zero_count < r.count ||
      r.reference_zero_count + r.reference_nan_count == r.count) {
    return std::nullopt;
  }
  return Reading{
      "every element is 0: the result is never added up, or never stored",
      "look at whether the accumulator reaches the store, and at which buffer is stored"};
}

std::optional<Reading> ConstantOutput(const Symptoms& s) {
  if (s.anatomy == nullptr || !s.anatomy->constant || s.anatomy->samples.empty()) {
    return std::nullopt;
  }
  return Reading{Cat("every element is ", s.anatomy->samples.front().actual,
                     ": one value is stored everywhere"),
                 "look at the index of what is stored, and at what each thread loads"};
}

std::optional<Reading> TailUnderflows(const Symptoms& s) {
  if (s.anatomy == nullptr || !OperatorsOwn(s).Exponentials()) return std::nullopt;
  const Anatomy& a = *s.anatomy;
  if (!SmallOnesVanish(a)) return std::nullopt;
  return Reading{
      absl::StrFormat("small values come out as 0: %s of %s wrong elements, all up to %.2g, and no "
                      "larger one: exponentials underflow in a 16-bit format (fp16 ends at 6e-08)",
                      Grouped(a.zeroed), Grouped(a.wrong), a.most_zeroed),
      "keep exponentials and their sum in FP32; where they must be stored in 16 bits take bf16, "
      "which has fp32's range"};
}

std::optional<Reading> WrongScale(const Symptoms& s) {
  if (s.anatomy == nullptr || !s.anatomy->factor.has_value()) return std::nullopt;
  const double factor = *s.anatomy->factor;
  const std::string name = NameOf(factor, s);
  return Reading{Cat("every value is ", FactorText(factor), " times what it should be",
                     name.empty() ? "" : Cat(" (", name, ")"), ": a scale is wrong"),
                 "look at where the result is scaled: a factor left out, applied twice, or rounded "
                 "to a narrow format"};
}

std::optional<Reading> ColumnScale(const Symptoms& s) {
  if (s.anatomy == nullptr || !s.anatomy->column_factors.has_value()) return std::nullopt;
  if (IsZero(s.anatomy->column_factors)) return std::nullopt;
  const std::string what = Cat("each column is its own factor too large or too small (",
                               RangeText(*s.anatomy->column_factors), ")");
  if (!HasInput(s, "channel_scale") && !HasInput(s, "weight")) {
    return Reading{what, "look at what is loaded once a column"};
  }
  const std::string_view name = HasInput(s, "weight") ? "weight" : "channel_scale";
  return Reading{Cat(what, ": ", name, " is left out or taken from a wrong place"),
                 Cat("look at where ", name, "[j] is loaded and applied")};
}

std::optional<Reading> MissingBias(const Symptoms& s) {
  if (s.anatomy == nullptr || !s.anatomy->column_offsets.has_value()) return std::nullopt;
  const LineFit& fit = *s.anatomy->column_offsets;
  if (fit.lines == s.anatomy->axes.back().extent && fit.least == fit.most) {
    return Reading{absl::StrFormat("every element is off by the same %.6g", fit.least),
                   "look for what is added to all of them"};
  }
  const std::string what = Cat("each column is off by its own constant (", RangeText(fit), ")");
  if (!HasInput(s, "bias")) return Reading{what, "look at what is added once a column"};
  return Reading{Cat(what, ": the bias is left out, added twice, or taken from a wrong place"),
                 "look at where bias[j] is loaded and added"};
}

std::optional<Reading> RowFactor(const Symptoms& s) {
  if (s.anatomy == nullptr || !s.anatomy->row_factors.has_value()) return std::nullopt;
  if (IsZero(s.anatomy->row_factors)) return std::nullopt;
  const std::string range = RangeText(*s.anatomy->row_factors);
  Reading reading = OperatorsOwn(s).RowFactor(s.c);
  reading.reads_as = Cat("each row is its own factor off (", range, ")", reading.reads_as);
  return reading;
}

std::optional<Reading> ZeroLines(const Symptoms& s) {
  if (s.anatomy == nullptr) return std::nullopt;
  const bool columns = IsZero(s.anatomy->column_factors);
  if (!columns && !IsZero(s.anatomy->row_factors)) return std::nullopt;
  const std::string_view line = columns ? "column" : "row";
  return Reading{
      Cat("each wrong ", line, " is all 0: its result is never added up, or never stored"),
      Cat("look at which ", line, "s are computed, and at what each thread stores")};
}

std::optional<Reading> NarrowSums(const Symptoms& s) {
  const ProbeOutcome* integers = ProbeNamed(s, "exact-integers");
  const ProbeOutcome* sparse = ProbeNamed(s, "exact-sparse");
  if (integers == nullptr || sparse == nullptr || integers->verdict != Verdict::kFailed ||
      sparse->verdict != Verdict::kPassed) {
    return std::nullopt;
  }
  return Reading{
      Cat("sums of small integers that FP32 holds exactly come out wrong, sums of few terms "
          "do not: the accumulator is not FP32",
          OneRoundingExplains(*integers)
              ? ", or the results pass through a narrower format on their way"
              : ""),
      "accumulate in FP32 (the library's compute type) and round once at the end"};
}

std::optional<Reading> NarrowBf16(const Symptoms& s) {
  if (s.anatomy == nullptr || s.plan.output.dtype != DType::kBF16) return std::nullopt;
  // A single term with bf16's digits passes through bf16 unchanged.
  if (RoundsASingleTerm(s)) return std::nullopt;
  const Anatomy& a = *s.anatomy;
  const double u = Info(DType::kBF16).unit_roundoff;
  // Everywhere, and of the size that a few roundings to bf16 have.
  const bool everywhere = 20 * a.wrong >= a.seen;
  if (!everywhere || !(a.rms_expected > 0)) return std::nullopt;
  // Roundings point both ways; one cause a row, or for all, points one way.
  if (!(a.coherence < kIncoherent)) return std::nullopt;
  const double relative = a.rms_error / a.rms_expected;
  if (!(relative >= 0.5 * u && relative <= 32 * u)) return std::nullopt;
  const bool declares =
      OpOf(s.c).traits().intermediates && s.c.intermediate_dtype == DType::kUnspecified;
  return Reading{
      absl::StrFormat("errors of %.1f bf16 roundings everywhere: the bound already allows the one "
                      "that bf16 must make (8 times fp16's), so intermediates or sums have too few "
                      "digits, as they have if they are held in bf16",
                      relative / u),
      Cat("keep accumulators and intermediates in FP32, and round to bf16 once, at the end",
          declares ? "; or, if it is meant so, declare it: --intermediate-dtype bf16" : "")};
}

std::optional<Reading> Truncation(const Symptoms& s) {
  const CompareResult& r = *s.outcome.compare;
  const auto n = static_cast<double>(r.bias_count);
  const double mean = n > 0 ? r.bias_sum / n : 0;
  if (!(std::abs(std::abs(mean) - kMeanOfCut) < kMeanIsNear)) return std::nullopt;
  if (s.anatomy != nullptr && BeyondAUnit(*s.anatomy, s.plan.output.dtype)) return std::nullopt;
  if (FindingOf(s, Reason::kBias) == nullptr) {
    // What is wrong otherwise is no bias, too: errors from 0 to one unit, to one side, alone.
    if (s.anatomy == nullptr || r.bias_count < kBiased) return std::nullopt;
    const double spread = std::sqrt(std::max(0.0, r.bias_sum_squared / n - mean * mean));
    if (!(spread < 0.35)) return std::nullopt;
  }
  if (mean < 0) {
    return Reading{absl::StrFormat("results are cut towards 0, not rounded (mean error %.2f of the "
                                   "last place)",
                                   mean),
                   "round to nearest even when the accumulator is converted to the output's "
                   "format; a shift or a bit mask cuts"};
  }
  return Reading{absl::StrFormat("results are rounded away from 0 (mean error %+.2f of the last "
                                 "place)",
                                 mean),
                 "round to nearest even when the accumulator is converted to the output's format"};
}

}  // namespace assay::kernels::internal
