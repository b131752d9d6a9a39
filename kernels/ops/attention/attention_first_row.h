// "first-row": checks, element by element, the row of a query that sees one key alone. One source
// for host and device. The weight of the key is 1, except for rounding:
// exp2(fma(s, c, −m·c)) with rounded m·c is 1 + u·|s|.
//
// The sum of weights keeps this error. Weights that are rounded to the input's format before they
// meet V lose it.
#ifndef ASSAY_KERNELS_OPS_ATTENTION_ATTENTION_FIRST_ROW_H_
#define ASSAY_KERNELS_OPS_ATTENTION_ATTENTION_FIRST_ROW_H_

#include <cstdint>

#include "kernels/numerics/convert.h"
#include "kernels/numerics/dtype.h"
#include "kernels/numerics/host_device.h"

namespace assay::inline kernels {

// Roundoffs of one exponential, reciprocal, product and quotient, the first two to 2 ulp.
inline constexpr double kSoftmaxRoundings = 10;

// The constants of a case.
struct FirstRowRule {
  std::int64_t query = 0;  // that sees key 0 alone
  double score_scale = 1;
  double value_scale = 1;     // a power of two
  double u = 0;               // roundoff of the accumulator
  double input_roundoff = 0;  // unit roundoffs
  double sum_roundings = 0;   // of a score's products and sums
  double min_normal = 0;      // of the output's format
  bool flushes = false;       // subnormal outputs may be 0
  DType output = DType::kUnspecified;
};

// How far the mean of n rows of V is from what a right kernel makes of it before it
// rounds it to the output, relative to it, where their scores are equal.
ASSAY_HOST_DEVICE inline double MeanDeviation(double u, double input_roundoff, double score,
                                              double n) {
  const double magnitude = score < 0 ? -score : score;
  const double deviation = u * (magnitude + 2 * n + kSoftmaxRoundings);
  // Beyond half a roundoff weights round to other than 1.
  return deviation < input_roundoff / 2 ? deviation : deviation + input_roundoff;
}

// From the sum of a row's products of query and key, and that of their magnitudes: the
// deviation of the largest score that a kernel's sum can make of them.
ASSAY_HOST_DEVICE inline double FirstRowDeviation(const FirstRowRule& rule, double sum,
                                                  double magnitudes) {
  const double largest = (sum < 0 ? -sum : sum) + rule.u * rule.sum_roundings * magnitudes;
  const double deviation =
      MeanDeviation(rule.u, rule.input_roundoff, rule.score_scale * largest, 1);
  return deviation < 1.0 ? deviation : 1.0;  // where a score is not finite too
}

enum class FirstRowElement { kLeftOut, kHolds, kBroken };

// `key_value`: of V. A score that is not finite makes the row NaN; the reference knows.
ASSAY_HOST_DEVICE inline FirstRowElement JudgeFirstRow(const FirstRowRule& rule, double deviation,
                                                       double key_value, double reference,
                                                       double actual) {
  const double v = rule.value_scale * key_value;
  if (!(reference == v)) return FirstRowElement::kLeftOut;
  const double expected = Quantise(v, rule.output);
  const double size = expected < 0 ? -expected : expected;
  if (actual == expected || (rule.flushes && actual == 0 && size < rule.min_normal)) {
    return FirstRowElement::kHolds;
  }
  // What a right kernel may round.
  const double a = Quantise(v - deviation * v, rule.output);
  const double b = Quantise(v + deviation * v, rule.output);
  const double least = b < a ? b : a, most = a < b ? b : a;
  return least <= actual && actual <= most ? FirstRowElement::kHolds : FirstRowElement::kBroken;
}

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_ATTENTION_ATTENTION_FIRST_ROW_H_
