// Judges one element of a comparison (compare.h). The plain pass is a loop of this rule, which
// specifies the result. The SIMD and GPU passes use it for the elements that they cannot judge
// quickly. Host and device share this source.
//
// CompareRule holds the constants of the output's format. The host takes them from the format's row
// in kFormats once. In exact mode and for integer outputs, the expected value is r rounded to the
// output's format, and T = 0. So the correctly rounded result of an exact sum is the only one that
// is accepted.
#ifndef ASSAY_KERNELS_RUNTIME_COMPARE_RULE_H_
#define ASSAY_KERNELS_RUNTIME_COMPARE_RULE_H_

#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/numerics/convert.h"
#include "kernels/numerics/host_device.h"
#include "kernels/numerics/poison.h"
#include "kernels/runtime/compare.h"

namespace assay::inline kernels::internal {

// The constants of a request.
struct CompareRule {
  explicit inline CompareRule(const CompareRequest& request);

  DType dtype;
  Gate gate;
  bool is_integer;
  bool has_inf;
  bool exact;            // T = 0, and r rounded is expected
  bool payload;          // the poison shows unwritten elements
  std::uint64_t poison;  // bits of the poison
  int mantissa_bits;
  double ulp_scale;  // 2^-mantissa_bits
  double max_finite;
  double min_normal;
  double overflow;       // least magnitude that rounds beyond max_finite; +Inf: none
  double max_ulp_size;   // ulp of max_finite
  double min_subnormal;  // η
  double u;              // u_o
  double eta_half;       // OutputRounding::half_quantum (bound.h)
  double e_factor;       // 1 + u_o
  double proven_factor;  // (1 + u_o)·κ
  double atol;
  double rtol;
  double max_ulp;
};

enum class ValueClass : std::uint8_t { kFinite, kPosInf, kNegInf, kNan };

// The judgement of one element.
struct Judgement {
  double actual;
  double expected;  // r, or r rounded in exact mode
  std::uint64_t expected_bits;
  double rounded;  // value of expected_bits
  ValueClass actual_class;
  ValueClass expected_class;  // of r rounded
  bool class_ok;
  bool pair;  // classes agree and the output is finite, so there is an error
  double error;
  double bound;         // T
  double bound_proven;  // T_proven
  double rho;           // error / T; Inf if T is 0 and the error is not
  double rho_proven;
  double ulps;  // |o - r rounded| / ulp(r rounded); Inf is one ulp past the largest
  double gate_bound;
  bool mismatch;
};

inline constexpr double kInfiniteRatio = std::bit_cast<double>(kDoubleInf);

// fabs, because GPU instructions take |v| as an operand. Clearing the sign bit would cost an
// instruction.
ASSAY_HOST_DEVICE inline double Magnitude(double v) { return std::fabs(v); }
ASSAY_HOST_DEVICE inline bool IsFinite(double v) {
  return (std::bit_cast<std::uint64_t>(v) & kDoubleInf) != kDoubleInf;
}
// As std::max: returns b only if b is larger.
ASSAY_HOST_DEVICE inline double LargerOf(double a, double b) { return a < b ? b : a; }

ASSAY_HOST_DEVICE inline ValueClass ClassOf(double v) {
  if (IsFinite(v)) return ValueClass::kFinite;
  if (v != v) return ValueClass::kNan;
  return v > 0 ? ValueClass::kPosInf : ValueClass::kNegInf;
}

// error / bound. The ratio is at most 1 exactly if the error is accepted. NaN is rejected.
ASSAY_HOST_DEVICE inline double ErrorRatio(double error, double bound) {
  if (error <= bound) {
    if (error == bound) return error == 0.0 ? 0.0 : 1.0;
    return error / bound;
  }
  const double ratio = error / bound;
  return ratio >= 1.0 ? ratio : kInfiniteRatio;
}

// The distance between neighbours of the format at |v|. v is finite and may be subnormal.
ASSAY_HOST_DEVICE inline double UlpAt(const CompareRule& rule, double v) {
  if (rule.is_integer) return 1.0;
  const double magnitude = LargerOf(Magnitude(v), rule.min_normal);
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(magnitude) & kDoubleInf) *
         rule.ulp_scale;
}

// Whether class c is the class that a value past the overflow threshold rounds to.
ASSAY_HOST_DEVICE inline bool IsOverflowOf(const CompareRule& rule, ValueClass c, bool negative) {
  if (rule.has_inf) return c == (negative ? ValueClass::kNegInf : ValueClass::kPosInf);
  return c == ValueClass::kNan;
}

// The distance of the output from r rounded, in ulps. Values past the largest finite number count
// as one ulp above it.
ASSAY_HOST_DEVICE inline double UlpDistance(const CompareRule& rule, const Judgement& j) {
  const bool actual_finite = j.actual_class == ValueClass::kFinite;
  const bool expected_finite = j.expected_class == ValueClass::kFinite;
  if (actual_finite && expected_finite) {
    return Magnitude(j.actual - j.rounded) / UlpAt(rule, j.rounded);
  }
  if (!j.class_ok) return kInfiniteRatio;
  if (!actual_finite && !expected_finite) return 0.0;
  const double finite = actual_finite ? j.actual : j.rounded;
  return (rule.max_finite - Magnitude(finite)) / rule.max_ulp_size + 1.0;
}

ASSAY_HOST_DEVICE inline Judgement JudgeElement(const CompareRule& rule, std::uint64_t bits,
                                                double r, double e) {
  Judgement j;
  j.actual = ToDouble(rule.dtype, bits);
  j.expected_bits = RoundToFormat(r, rule.dtype);
  j.rounded = ToDouble(rule.dtype, j.expected_bits);
  j.expected = rule.exact ? j.rounded : r;
  j.actual_class = ClassOf(j.actual);
  // A format without NaN rounds NaN to a number, which must not be accepted.
  j.expected_class = r != r ? ValueClass::kNan : ClassOf(j.rounded);

  // The SIMD and GPU passes use fused multiply-adds, too, so that all agree to the last bit.
  const double magnitude = Magnitude(j.expected);
  const double rounding = std::fma(rule.u, magnitude, rule.eta_half);
  j.bound = rule.exact ? 0.0 : std::fma(rule.e_factor, e, rounding);
  j.bound_proven = rule.exact ? 0.0 : std::fma(rule.proven_factor, e, rounding);

  j.class_ok = j.actual_class == j.expected_class;
  if (!j.class_ok && !rule.exact && IsFinite(r)) {
    const bool probable = rule.gate == Gate::kBoundProbable;
    if (j.actual_class == ValueClass::kFinite) {
      j.class_ok = magnitude - (probable ? j.bound : j.bound_proven) <= rule.overflow;
    } else if (j.expected_class == ValueClass::kFinite) {
      // Arithmetic may carry a result over the threshold, but its last rounding may not: 65504, to
      // within nothing, does not become Inf. Past the largest finite number the conversion decides
      // (one to 8 bits saturates or does not).
      double reach = (probable ? rule.e_factor : rule.proven_factor) * e;
      // Another tensor's values are rounded already: a tolerance reaches an ulp further, at most.
      double tolerance = 0;
      if (rule.gate == Gate::kAllClose) tolerance = std::fma(rule.rtol, magnitude, rule.atol);
      if (rule.gate == Gate::kUlp) tolerance = rule.max_ulp * rule.max_ulp_size;
      reach = LargerOf(reach, tolerance < rule.max_ulp_size ? tolerance : rule.max_ulp_size);
      j.class_ok = IsOverflowOf(rule, j.actual_class, r < 0) &&
                   (magnitude > rule.max_finite || magnitude + reach >= rule.overflow);
    }
  }
  j.pair = j.class_ok && j.actual_class == ValueClass::kFinite;
  j.error = j.pair ? Magnitude(j.actual - j.expected) : 0.0;
  j.rho = j.pair ? ErrorRatio(j.error, j.bound) : 0.0;
  j.rho_proven = j.pair ? ErrorRatio(j.error, j.bound_proven) : 0.0;
  j.ulps = UlpDistance(rule, j);

  switch (rule.gate) {
    case Gate::kBound:
      j.gate_bound = j.bound_proven;
      j.mismatch = !(j.class_ok && (!j.pair || j.error <= j.bound_proven));
      break;
    case Gate::kBoundProbable:
      j.gate_bound = j.bound;
      j.mismatch = !(j.class_ok && (!j.pair || j.error <= j.bound));
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

ASSAY_HOST_DEVICE inline ElementSample SampleOf(const Judgement& j, std::int64_t index,
                                                std::uint64_t bits) {
  return ElementSample{index, j.actual, j.expected, j.gate_bound, bits, j.expected_bits};
}

// Adds element `index` to every statistic but the digests and the samples. Elements must come in
// ascending order.
ASSAY_HOST_DEVICE inline Judgement AddToTotals(const CompareRule& rule, std::int64_t index,
                                               std::uint64_t bits, double r, double e,
                                               CompareTotals* totals) {
  const Judgement j = JudgeElement(rule, bits, r, e);
  CompareTotals& c = *totals;
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
  if (IsFinite(j.expected)) {
    c.max_abs_expected = LargerOf(c.max_abs_expected, Magnitude(j.expected));
  }

  const bool first_of_class = !j.class_ok && c.class_mismatches++ == 0;
  const bool worst_so_far =
      c.class_mismatches == 0 && j.pair && (c.worst.index < 0 || j.rho > c.rho);
  if (first_of_class || worst_so_far) c.worst = SampleOf(j, index, bits);
  if (j.mismatch) ++c.mismatches;
  if (!j.pair) return j;

  ++c.finite_pairs;
  // The condition is negated so that a NaN bound counts.
  if (!(j.error <= j.bound)) ++c.beyond_probable;
  if (!(j.error <= j.bound_proven)) ++c.beyond_proven;
  c.rho = LargerOf(c.rho, j.rho);
  c.rho_proven = LargerOf(c.rho_proven, j.rho_proven);
  c.max_abs_error = LargerOf(c.max_abs_error, j.error);
  c.sum_abs_error += j.error;
  c.sum_squared_error = std::fma(j.error, j.error, c.sum_squared_error);
  const double magnitude = Magnitude(j.expected);
  if (magnitude != 0.0) c.max_rel_error = LargerOf(c.max_rel_error, j.error / magnitude);
  c.dot = std::fma(j.actual, j.expected, c.dot);
  c.sum_squared_actual = std::fma(j.actual, j.actual, c.sum_squared_actual);
  c.sum_squared_expected = std::fma(j.expected, j.expected, c.sum_squared_expected);
  if (rule.is_integer) return j;
  c.max_ulp = LargerOf(c.max_ulp, j.ulps);
  if (!rule.exact && rule.u * magnitude >= 4.0 * e && magnitude >= rule.min_normal &&
      magnitude <= rule.max_finite) {
    const double signed_error = r < 0 ? j.expected - j.actual : j.actual - j.expected;
    const double t = signed_error / UlpAt(rule, r);
    ++c.bias_count;
    c.bias_sum += t;
    c.bias_sum_squared = std::fma(t, t, c.bias_sum_squared);
  }
  return j;
}

// The storage index of a logical index.
ASSAY_HOST_DEVICE inline std::int64_t StorageIndex(const Extents& e, std::int64_t logical) {
  const bool dense =
      (e.rows == 1 || e.ld == e.cols) && (e.batch == 1 || e.batch_stride == e.rows * e.cols);
  if (dense) return logical;
  const std::int64_t row = logical / e.cols;
  return (row / e.rows) * e.batch_stride + (row % e.rows) * e.ld + logical % e.cols;
}

inline CompareRule::CompareRule(const CompareRequest& request)
    : dtype(request.output.dtype), gate(request.gate) {
  const FormatInfo& f = Info(dtype);
  is_integer = f.is_integer;
  has_inf = f.has_inf;
  exact = request.exact || f.is_integer;
  payload = request.poisoned && HasPoisonPayload(dtype);
  poison = PoisonBits(dtype, Poison::kFirst);
  mantissa_bits = f.mantissa_bits;
  ulp_scale = std::ldexp(1.0, -f.mantissa_bits);
  max_finite = f.max_finite;
  min_normal = f.min_normal;
  max_ulp_size = f.is_integer ? 1.0 : std::ldexp(1.0, std::ilogb(f.max_finite) - f.mantissa_bits);
  // Half an ulp above the largest finite value. From there rounding to nearest leaves the finite
  // numbers. Infinite for formats that saturate, and for fp64.
  overflow =
      f.is_integer || !(f.has_inf || f.has_nan) ? kInfiniteRatio : f.max_finite + max_ulp_size / 2;
  min_subnormal = f.min_subnormal;
  u = exact ? 0.0 : f.unit_roundoff;
  eta_half =
      exact ? 0.0 : (request.flushes_subnormals ? f.min_normal : min_subnormal - min_subnormal / 2);
  e_factor = exact ? 0.0 : 1.0 + f.unit_roundoff;
  proven_factor = exact ? 0.0 : (1.0 + f.unit_roundoff) * request.proven_factor;
  atol = request.atol;
  rtol = request.rtol;
  max_ulp = request.max_ulp;
}

}  // namespace assay::kernels::internal

#endif  // ASSAY_KERNELS_RUNTIME_COMPARE_RULE_H_
