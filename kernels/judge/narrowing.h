// Names a number format that is narrower than the one a kernel was asked for, if the kernel's
// errors are those of that format. No other statistic names one: a large error alone has many
// causes. The hints of a diagnosis (kernels/README.md, "Which format") have evidence of their own.
//
// Inputs: for each narrowing (narrowing_errors.h) and each side (both operands, A alone, B alone),
// the errors e = o − r of the sampled elements are fitted as e ≈ g·r + s·d by least squares, with
// the weight 1/σ² of each element. z is s divided by its standard error. A right kernel has s = 0,
// and a kernel with that narrowing has s = 1. The kernel is named if
//   0.9 <= s <= 1.1 and z > 12.
// The standard error is the largest of these: of independent errors of equal variance; of
// independent errors of different variances (HC3); and of errors that depend on one another within
// a row or a column of the sample. The narrowing with the smallest residual alone is considered. If
// the residual of another one is as small (by a likelihood ratio of 100), both are named, as "TF32
// or fp16 inputs".
//
// Output: every sampled o is a number of the narrower format; r, rounded to the output's own
// format, is not one in at least 3/4 of the elements; and half of those o are within one ulp of the
// narrower format. That is exact and needs no fit.
//
// Source of the fit: weighted least squares; HC3 and clustered errors: MacKinnon and White, J.
// Econometrics 29 (1985). Pure functions; any thread may call them.
#ifndef ASSAY_KERNELS_JUDGE_NARROWING_H_
#define ASSAY_KERNELS_JUDGE_NARROWING_H_

#include <cstdint>
#include <span>
#include <string>

#include "kernels/numerics/dtype.h"
#include "kernels/ops/products.h"

namespace assay::inline kernels {

inline constexpr std::int64_t kLeastNarrowingElements = 64;
inline constexpr double kNarrowingShare = 0.1;  // |s − 1| of a named narrowing
inline constexpr double kNarrowingZ = 12;

// Elements to sample if each is a sum of `terms` products: 1,024 of short sums, 4,096 of sums from
// 1,024 to 65,536 products, and fewer again of longer ones, but at least 1,024. Sums of 65,536
// positive products in order need them all: TF32 inputs then have z of about 24.
std::int64_t NarrowingSamples(std::int64_t terms);

struct Narrowing {
  std::string name;           // "TF32 inputs", "bf16 inputs (a only)"; empty: none
  double share = 0;           // s
  double z = 0;               // at most 1e6
  std::int64_t elements = 0;  // that were used
};

// `output` and `reference` have an element for each of products.elements. `deviation` holds σ of
// each, or is empty: σ then counts as proportional to the size of the products. An element is used
// if o, r and d are finite and σ is finite and above 0; of elements with equal inputs only one is.
// With fewer than 64 of those, or if all e or all d are 0, there is no name. Nor has a narrowing
// one that errs by no more than `declared`, the kernel's Plan::operand_roundoff.
Narrowing FindNarrowedInputs(const SampledProducts& products, std::span<const double> output,
                             std::span<const double> reference,
                             std::span<const double> deviation = {}, double declared = 0);

// share and z stay 0. An element is used if o and r are finite, and not both 0.
Narrowing FindNarrowedOutput(DType format, std::span<const double> output,
                             std::span<const double> reference);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_JUDGE_NARROWING_H_
