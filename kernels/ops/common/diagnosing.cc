#include "kernels/ops/common/diagnosing.h"

#include <cmath>
#include <limits>

#include "absl/strings/str_format.h"
#include "kernels/numerics/grouped.h"
#include "kernels/ops/case.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {

std::string UnexpectedKinds(const CompareResult& compare) {
  if (compare.unexpected_nan > 0 && compare.unexpected_inf > 0) return "NaN and Inf";
  return compare.unexpected_nan > 0 ? "NaN" : "Inf";
}

std::optional<Reading> ExpOverflows(const Case& c, double largest, std::string_view what) {
  const DType wide = c.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  for (const DType format : {wide, DType::kF16}) {
    const double limit = std::log(Info(format).max_finite);
    if (largest <= limit || (wide == DType::kF64 && format != wide)) continue;
    return Reading{
        absl::StrFormat("exp overflows: the largest %s %.4g, and exp is Inf beyond %.1f in %s: "
                        "the row's maximum is not subtracted",
                        std::string(what), largest, limit, std::string(Name(format))),
        format == DType::kF16
            ? "subtract the row's maximum before exp, and take exp and the sum in FP32"
            : "subtract the row's maximum before exp; keep the sum in FP32",
        "exp-overflows"};
  }
  return std::nullopt;
}

std::optional<Reading> ScoresOverflow(std::string_view probe, const ElementSample* first) {
  if (first == nullptr || std::isfinite(first->actual) || !std::isfinite(first->expected)) {
    return std::nullopt;
  }
  return Reading{Cat(std::isnan(first->actual) ? "NaN" : "Inf", " on the large values of ", probe,
                     ", whose result is finite: exp overflows, for the row's maximum is not "
                     "subtracted"),
                 "subtract the row's maximum before exp, and sum in FP32"};
}

Reading SoftmaxRowFactor() {
  return {", so that it does not sum to 1: the sum of the exponentials is wrong",
          "keep the row's sum in FP32, over all columns, with the maximum that the "
          "exponentials have"};
}

double LargestSum(const Signs& signs) {
  if (signs.inputs.size() < 2) return std::numeric_limits<double>::infinity();
  return static_cast<double>(signs.plan.accumulations) * signs.inputs[0].largest() *
         signs.inputs[1].largest();
}

std::optional<Reading> SumOverflows(const Signs& signs) {
  if (!signs.made_by_kernel || signs.compare.unexpected_inf == 0) return std::nullopt;
  const double fp16 = Info(DType::kF16).max_finite;
  const double sum = LargestSum(signs);
  if (signs.c.dtype == DType::kF64 || !(sum > fp16 && sum < Info(DType::kF32).max_finite)) {
    return std::nullopt;
  }
  // No sum of these operands passes the largest fp32; some may pass the largest fp16.
  return Reading{absl::StrFormat("%s Inf though every result is finite: a sum may pass %.0f, the "
                                 "largest fp16, on its way, which an accumulator in FP32 holds",
                                 Grouped(signs.compare.unexpected_inf), fp16),
                 "accumulate in FP32; scale before the sum, not behind it", "sum-overflows"};
}

double UnitAt(DType format, double v) {
  return std::exp2(std::ilogb(v) - Info(format).mantissa_bits);
}

double ExpLimit() { return std::log(Info(DType::kF16).max_finite); }

}  // namespace assay::kernels
