#include "kernels/runtime/cpu/compare_element.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "kernels/numerics/convert.h"
#include "kernels/numerics/poison.h"

namespace assay::internal {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Half an ulp above the largest finite value: round-to-nearest leaves the finite
// numbers there. Infinite for formats that saturate, and for fp64.
double OverflowThreshold(const FormatInfo& f, double ulp) {
  if (f.is_integer || !(f.has_inf || f.has_nan)) return kInfinity;
  return f.max_finite + ulp / 2;
}

double LargestUlp(const FormatInfo& f) {
  if (f.is_integer) return 1.0;
  return std::ldexp(1.0, std::ilogb(f.max_finite) - f.mantissa_bits);
}

// What rounding makes of a magnitude past the threshold.
bool IsOverflowOf(const FormatInfo& f, ValueClass c, bool negative) {
  if (f.has_inf) return c == (negative ? ValueClass::kNegInf : ValueClass::kPosInf);
  return c == ValueClass::kNan;
}

// Position of a value on the format's own number line, with everything past the
// largest finite number one step behind it.
double UlpDistance(const CompareRule& rule, const Judgement& j) {
  const bool actual_finite = j.actual_class == ValueClass::kFinite;
  const bool expected_finite = j.expected_class == ValueClass::kFinite;
  if (actual_finite && expected_finite) {
    return std::abs(j.actual - j.rounded) / UlpAt(rule, j.rounded);
  }
  if (!j.class_ok) return kInfinity;
  if (!actual_finite && !expected_finite) return 0.0;
  const double finite = actual_finite ? j.actual : j.rounded;
  return (rule.max_finite - std::abs(finite)) / rule.max_ulp_size + 1.0;
}

}  // namespace

CompareRule::CompareRule(const CompareRequest& request)
    : dtype(request.output.dtype), gate(request.gate) {
  const FormatInfo& f = Info(dtype);
  is_integer = f.is_integer;
  exact = request.exact || f.is_integer;
  payload = request.poisoned && HasPoisonPayload(dtype);
  poison = PoisonBits(dtype, /*second=*/false);
  mantissa_bits = f.mantissa_bits;
  max_finite = f.max_finite;
  min_normal = f.min_normal;
  max_ulp_size = LargestUlp(f);
  overflow = OverflowThreshold(f, max_ulp_size);
  min_subnormal = f.min_subnormal;
  u = exact ? 0.0 : f.unit_roundoff;
  eta_half = exact ? 0.0 : (request.flushes_subnormals ? f.min_normal : f.min_subnormal / 2);
  e_factor = exact ? 0.0 : 1.0 + f.unit_roundoff;
  proven_factor = exact ? 0.0 : (1.0 + f.unit_roundoff) * request.proven_factor;
  atol = request.atol;
  rtol = request.rtol;
  max_ulp = request.max_ulp;
}

ValueClass ClassOf(double v) {
  if (std::isnan(v)) return ValueClass::kNan;
  if (std::isinf(v)) return v > 0 ? ValueClass::kPosInf : ValueClass::kNegInf;
  return ValueClass::kFinite;
}

double ErrorRatio(double error, double bound) {
  if (error <= bound) {
    if (error == bound) return error == 0.0 ? 0.0 : 1.0;
    return error / bound;
  }
  const double ratio = error / bound;
  return ratio >= 1.0 ? ratio : kInfinity;
}

double UlpAt(const CompareRule& rule, double v) {
  if (rule.is_integer) return 1.0;
  const double magnitude = std::max(std::abs(v), rule.min_normal);
  return std::ldexp(1.0, std::ilogb(magnitude) - rule.mantissa_bits);
}

Judgement JudgeElement(const CompareRule& rule, std::uint64_t bits, double r, double e) {
  const FormatInfo& f = Info(rule.dtype);
  Judgement j;
  j.actual = ToDouble(rule.dtype, bits);
  j.expected_bits = RoundToFormat(r, rule.dtype);
  j.rounded = ToDouble(rule.dtype, j.expected_bits);
  j.expected = rule.exact ? j.rounded : r;
  j.actual_class = ClassOf(j.actual);
  // A format without NaN rounds it to a number, which must not be accepted.
  j.expected_class = std::isnan(r) ? ValueClass::kNan : ClassOf(j.rounded);

  // Fused multiply-adds, as in the SIMD pass, so that both agree to the last bit.
  const double magnitude = std::abs(j.expected);
  const double rounding = std::fma(rule.u, magnitude, rule.eta_half);
  j.bound = rule.exact ? 0.0 : std::fma(rule.e_factor, e, rounding);
  j.bound_proven = rule.exact ? 0.0 : std::fma(rule.proven_factor, e, rounding);

  j.class_ok = j.actual_class == j.expected_class;
  if (!j.class_ok && !rule.exact && std::isfinite(r) && magnitude - j.bound <= rule.overflow &&
      magnitude + j.bound >= rule.overflow) {
    const bool actual_finite = j.actual_class == ValueClass::kFinite;
    const bool expected_finite = j.expected_class == ValueClass::kFinite;
    j.class_ok = (actual_finite && !expected_finite) ||
                 (expected_finite && IsOverflowOf(f, j.actual_class, r < 0));
  }
  j.pair = j.class_ok && j.actual_class == ValueClass::kFinite;
  j.error = j.pair ? std::abs(j.actual - j.expected) : 0.0;
  j.rho = j.pair ? ErrorRatio(j.error, j.bound) : 0.0;
  j.rho_proven = j.pair ? ErrorRatio(j.error, j.bound_proven) : 0.0;
  j.ulps = UlpDistance(rule, j);

  switch (rule.gate) {
    case Gate::kBound:
      j.gate_bound = j.bound_proven;
      j.mismatch = !(j.class_ok && j.error <= j.bound_proven);
      break;
    case Gate::kBoundProbable:
      j.gate_bound = j.bound;
      j.mismatch = !(j.class_ok && j.error <= j.bound);
      break;
    case Gate::kAllClose:
      j.gate_bound = std::fma(rule.rtol, magnitude, rule.atol);
      j.mismatch = !(j.class_ok && (!j.pair || j.error <= j.gate_bound));
      break;
    case Gate::kUlp:
      j.gate_bound =
          rule.max_ulp *
          UlpAt(rule, j.expected_class == ValueClass::kFinite ? j.rounded : rule.max_finite);
      j.mismatch = !(j.class_ok && j.ulps <= rule.max_ulp);
      break;
    case Gate::kBitwise: {
      const bool both_nan =
          j.actual_class == ValueClass::kNan && j.expected_class == ValueClass::kNan;
      j.gate_bound = 0.0;
      j.mismatch = !(both_nan || bits == j.expected_bits);
      break;
    }
  }
  return j;
}

void AddElement(const CompareRule& rule, std::int64_t index, std::uint64_t bits, double r, double e,
                CompareResult* result) {
  const Judgement j = JudgeElement(rule, bits, r, e);
  CompareResult& c = *result;
  ++c.count;

  const bool unwritten = rule.payload && bits == rule.poison;
  if (unwritten && c.unwritten++ == 0) c.first_unwritten = index;
  if (j.actual_class == ValueClass::kNan) {
    if (c.nan_count++ == 0) c.first_nan = index;
    if (j.expected_class != ValueClass::kNan && !unwritten && c.unexpected_nan++ == 0) {
      c.first_unexpected_nan = index;
    }
  } else if (j.actual_class != ValueClass::kFinite) {
    if (c.inf_count++ == 0) c.first_inf = index;
    if (j.expected_class != j.actual_class && c.unexpected_inf++ == 0) {
      c.first_unexpected_inf = index;
    }
  } else if (j.actual == 0.0) {
    ++c.zero_count;
  }
  if (j.expected_class == ValueClass::kNan) {
    ++c.reference_nan_count;
  } else if (j.expected_class != ValueClass::kFinite) {
    ++c.reference_inf_count;
  } else if (j.rounded == 0.0) {
    ++c.reference_zero_count;
  }
  if (std::isfinite(j.expected)) {
    c.max_abs_expected = std::max(c.max_abs_expected, std::abs(j.expected));
  }

  const bool first_of_class = !j.class_ok && c.class_mismatches++ == 0;
  const bool worst_so_far =
      c.class_mismatches == 0 && j.pair && (c.worst.index < 0 || j.rho > c.rho);
  if (first_of_class || worst_so_far || (j.mismatch && c.mismatches < kMismatchSamples)) {
    const ElementSample sample{index, j.actual, j.expected, j.gate_bound, bits, j.expected_bits};
    if (first_of_class || worst_so_far) c.worst = sample;
    if (j.mismatch && c.mismatches < kMismatchSamples) c.samples.push_back(sample);
  }
  if (j.mismatch) ++c.mismatches;
  if (!j.pair) return;

  ++c.finite_pairs;
  // Phrased so that a NaN bound counts.
  if (!(j.error <= j.bound)) ++c.beyond_probable;
  if (!(j.error <= j.bound_proven)) ++c.beyond_proven;
  c.rho = std::max(c.rho, j.rho);
  c.rho_proven = std::max(c.rho_proven, j.rho_proven);
  c.max_abs_error = std::max(c.max_abs_error, j.error);
  c.sum_abs_error += j.error;
  c.sum_squared_error = std::fma(j.error, j.error, c.sum_squared_error);
  const double magnitude = std::abs(j.expected);
  if (magnitude != 0.0) c.max_rel_error = std::max(c.max_rel_error, j.error / magnitude);
  c.dot = std::fma(j.actual, j.expected, c.dot);
  c.sum_squared_actual = std::fma(j.actual, j.actual, c.sum_squared_actual);
  c.sum_squared_expected = std::fma(j.expected, j.expected, c.sum_squared_expected);
  if (rule.is_integer) return;
  c.max_ulp = std::max(c.max_ulp, j.ulps);
  if (!rule.exact && rule.u * magnitude >= 4.0 * e && magnitude >= rule.min_normal &&
      magnitude <= rule.max_finite) {
    const double signed_error = r < 0 ? j.expected - j.actual : j.actual - j.expected;
    const double t = signed_error / UlpAt(rule, r);
    ++c.bias_count;
    c.bias_sum += t;
    c.bias_sum_squared = std::fma(t, t, c.bias_sum_squared);
  }
}

namespace {

void MergeFirst(std::int64_t next, std::int64_t* into) {
  if (*into < 0) *into = next;
}

}  // namespace

void MergeCompare(const CompareResult& next, CompareResult* into) {
  CompareResult& c = *into;
  for (const ElementSample& s : next.samples) {
    if (c.samples.size() < kMismatchSamples) c.samples.push_back(s);
  }
  // The first of a wrong class, else the largest ratio; the earlier of equals.
  const bool next_worse = next.class_mismatches > 0 || c.worst.index < 0 || next.rho > c.rho;
  if (next.worst.index >= 0 && c.class_mismatches == 0 && next_worse) c.worst = next.worst;

  c.count += next.count;
  c.mismatches += next.mismatches;
  c.beyond_probable += next.beyond_probable;
  c.beyond_proven += next.beyond_proven;
  c.rho = std::max(c.rho, next.rho);
  c.rho_proven = std::max(c.rho_proven, next.rho_proven);
  c.max_abs_error = std::max(c.max_abs_error, next.max_abs_error);
  c.sum_abs_error += next.sum_abs_error;
  c.sum_squared_error += next.sum_squared_error;
  c.max_rel_error = std::max(c.max_rel_error, next.max_rel_error);
  c.max_ulp = std::max(c.max_ulp, next.max_ulp);
  c.dot += next.dot;
  c.sum_squared_actual += next.sum_squared_actual;
  c.sum_squared_expected += next.sum_squared_expected;
  c.max_abs_expected = std::max(c.max_abs_expected, next.max_abs_expected);
  c.finite_pairs += next.finite_pairs;
  c.bias_count += next.bias_count;
  c.bias_sum += next.bias_sum;
  c.bias_sum_squared += next.bias_sum_squared;
  c.nan_count += next.nan_count;
  c.inf_count += next.inf_count;
  c.reference_nan_count += next.reference_nan_count;
  c.reference_inf_count += next.reference_inf_count;
  c.class_mismatches += next.class_mismatches;
  c.unwritten += next.unwritten;
  c.zero_count += next.zero_count;
  c.reference_zero_count += next.reference_zero_count;
  MergeFirst(next.first_nan, &c.first_nan);
  MergeFirst(next.first_inf, &c.first_inf);
  MergeFirst(next.first_unexpected_nan, &c.first_unexpected_nan);
  MergeFirst(next.first_unexpected_inf, &c.first_unexpected_inf);
  MergeFirst(next.first_unwritten, &c.first_unwritten);
  c.unexpected_nan += next.unexpected_nan;
  c.unexpected_inf += next.unexpected_inf;
  for (int k = 0; k < 2; ++k) {
    c.digest_raw[k] += next.digest_raw[k];
    c.digest_canonical[k] += next.digest_canonical[k];
  }
}

std::int64_t StorageIndex(const Extents& e, std::int64_t logical) {
  if (e.dense()) return logical;
  const std::int64_t row = logical / e.cols;
  return (row / e.rows) * e.batch_stride + (row % e.rows) * e.ld + logical % e.cols;
}

absl::Status CheckCompareRequest(const CompareRequest& request) {
  const TensorView& output = request.output;
  if (output.dtype == DType::kUnspecified) {
    return absl::InvalidArgumentError(
        "compare: output.dtype is unspecified; it must name the output's format");
  }
  if (output.count() < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("compare: output.extents hold ", output.count(), " elements; at least 0"));
  }
  if (output.count() > 0 && output.data == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("compare: output.data is null with ", output.count(), " elements"));
  }
  if (output.count() > 0 && request.reference == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("compare: reference is null with ", output.count(), " elements"));
  }
  if (!(request.proven_factor >= 1.0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("compare: proven_factor is ", request.proven_factor, "; at least 1"));
  }
  const double tolerances[] = {request.atol, request.rtol, request.max_ulp};
  const char* const names[] = {"atol", "rtol", "max_ulp"};
  for (int i = 0; i < 3; ++i) {
    if (!(tolerances[i] >= 0.0)) {
      return absl::InvalidArgumentError(
          absl::StrCat("compare: ", names[i], " is ", tolerances[i], "; at least 0"));
    }
  }
  return absl::OkStatus();
}

}  // namespace assay::internal
