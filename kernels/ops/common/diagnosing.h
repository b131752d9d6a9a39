// Causes of wrong results that several operators share.
#ifndef ASSAY_KERNELS_OPS_COMMON_DIAGNOSING_H_
#define ASSAY_KERNELS_OPS_COMMON_DIAGNOSING_H_

#include <optional>
#include <string>
#include <string_view>

#include "kernels/ops/diagnostics.h"

namespace assay::inline kernels {

// "NaN", "Inf" or "NaN and Inf": what the output holds and should not.
std::string UnexpectedKinds(const CompareResult& compare);

// exp overflows in the format that it is taken in: fp32 (fp64 for fp64 inputs), or else
// fp16. Nothing if exp of `largest` is finite in both. `what`: "score is".
std::optional<Reading> ExpOverflows(const Case& c, double largest, std::string_view what);

// A probe of large scores came out as NaN or Inf where the result is finite.
std::optional<Reading> ScoresOverflow(std::string_view probe, const ElementSample* first);

// The row factor of an operator whose output is a softmax.
Reading SoftmaxRowFactor();

// The largest finite sum of products of the first two inputs; infinite if they were not
// measured.
double LargestSum(const Signs& signs);
// A sum of products passes the range of fp16, as it does in an accumulator that is not fp32.
std::optional<Reading> SumOverflows(const Signs& signs);

// One unit in the last place of `format` at v, which is not 0. Subnormal numbers have larger ones.
double UnitAt(DType format, double v);

// log of the largest fp16: exp of no smaller number overflows in any format.
double ExpLimit();

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_COMMON_DIAGNOSING_H_
