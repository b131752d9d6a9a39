// What softmax knows of wrong results of its kernels.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "kernels/numerics/convert.h"
#include "kernels/ops/case.h"
#include "kernels/ops/common/diagnosing.h"
#include "kernels/ops/common/row_suspects.h"
#include "kernels/ops/diagnostics.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

// exp(x) is 0 in fp32 below this.
constexpr double kExpVanishes = -103.97;

double Largest(const std::vector<double>& row) { return *std::max_element(row.begin(), row.end()); }

// Exponentials of a row rounded to `terms`, their sum kept in `sum`.
Simulate NarrowSoftmax(DType terms, DType sum) {
  return [terms, sum](const std::vector<double>& row, std::size_t at) {
    const double max = Largest(row);
    double total = 0;
    for (const double v : row) total = Quantise(total + Quantise(std::exp(v - max), terms), sum);
    return Quantise(std::exp(row[at] - max), terms) / total;
  };
}

// What is usually wrong with the sums of a row.
std::vector<Suspect> SoftmaxSuspects(const Scene& scene) {
  std::vector<Suspect> suspects;
  const std::string sum_in_32 =
      "keep the row's sum in FP32 and round the quotient once, at the end";
  // From coarse to fine: what a coarse sum explains a finer one does not.
  for (const DType format : {DType::kBF16, DType::kF16}) {
    suspects.push_back(Simulated(scene, NarrowSoftmax(DType::kF32, format),
                                 Cat("the sum of a row's exponentials is kept in ", Name(format),
                                     ": terms below half of its last place are lost"),
                                 sum_in_32));
    suspects.push_back(Simulated(
        scene, NarrowSoftmax(format, DType::kF32),
        Cat("the exponentials are held in ", Name(format),
            ": small ones lose their digits or become 0"),
        "keep the exponentials in FP32 until they are divided; where they must be stored in 16 "
        "bits, bf16 keeps small ones that fp16 does not"));
    suspects.push_back(Simulated(scene, NarrowSoftmax(format, format),
                                 Cat("exponentials and their sum are kept in ", Name(format)),
                                 sum_in_32));
  }
  return suspects;
}

class OfSoftmax final : public Diagnostics {
 public:
  std::optional<Reading> NonFinite(const Signs& signs) const override {
    if (!signs.made_by_kernel) return std::nullopt;
    const double largest = signs.inputs.front().max.value_or(0);
    if (largest >= kExpVanishes) return ExpOverflows(signs.c, largest, "input is");
    return Reading{
        absl::StrFormat("exp underflows: the largest input is %.4g, exp is 0 below %.0f in fp32, "
                        "and the row's sum is 0: the row's maximum is not subtracted",
                        largest, kExpVanishes),
        "subtract the row's maximum before exp, and sum in FP32", "exp-overflows"};
  }

  bool StaysFinite(const Signs& signs) const override {
    return signs.inputs.front().largest() < ExpLimit();
  }

  Reading RowFactor(const Case&) const override { return SoftmaxRowFactor(); }
  bool Exponentials() const override { return true; }

  std::optional<Reading> FailedProbe(std::string_view name,
                                     const ElementSample* first) const override {
    if (name == "shift") {
      if (auto overflow = ScoresOverflow(name, first)) return overflow;
      return Reading{
          "rows far above 0 come out wrong (shift): the values are limited, or exp is taken of "
          "arguments that are rounded too much",
          "subtract the row's largest element from the values as they are"};
    }
    if (name == "falling") {
      return Reading{
          "rows that fall steeply from 0 come out wrong (falling): a constant is added to the "
          "row's sum, or the maximum that is subtracted is not the row's largest element",
          "divide by the sum alone, which is never below 1, and subtract the largest element"};
    }
    if (name == "rows-apart") {
      return Reading{
          "rows whose values are far below 0, or far from those of other rows, come out wrong "
          "(rows-apart): the maximum that is subtracted is not the row's own, it begins too high, "
          "or it is taken over another axis",
          "take the maximum of each row for itself, along the axis that is summed over"};
    }
    if (name == "each-column") {
      return Reading{
          "rows come out wrong where one column is by far the largest (each-column): the maximum "
          "begins too high, or a column is left out of the row's maximum or of its sum",
          "begin the maximum at -Inf, and have both loops over a row visit every column"};
    }
    if (name == "last-column") {
      return Reading{
          "rows come out wrong where the last column is by far the largest (last-column): it is "
          "left out of the row's maximum or of its sum, or the maximum is limited",
          "have both loops over a row end behind its last column, and take the maximum as it is"};
    }
    return std::nullopt;
  }

  std::vector<Suspect> Suspects(const Scene& scene) const override {
    return SoftmaxSuspects(scene);
  }

  std::int64_t ReadFor(const Case&, const Plan& plan, std::int64_t elements) const override {
    return plan.output.extents.cols * elements;
  }
};

}  // namespace

const Diagnostics& SoftmaxDiagnostics() {
  static const OfSoftmax diagnostics;
  return diagnostics;
}

}  // namespace assay::kernels
