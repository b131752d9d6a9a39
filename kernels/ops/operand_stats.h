// Counts and moments of one input's elements, where they help to explain a result.
#ifndef ASSAY_KERNELS_OPS_OPERAND_STATS_H_
#define ASSAY_KERNELS_OPS_OPERAND_STATS_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>

namespace assay::inline kernels {

struct OperandStats {
  std::string_view name;
  std::int64_t count = 0;
  std::int64_t nan_count = 0;
  std::int64_t inf_count = 0;
  std::int64_t zero_count = 0;
  std::int64_t subnormal_count = 0;
  // Of the finite elements; absent if there are none.
  std::optional<double> min;
  std::optional<double> max;
  std::optional<double> mean;
  std::optional<double> rms;

  // The largest magnitude of a finite element; 0 if there is none.
  double largest() const { return std::max(std::abs(min.value_or(0)), std::abs(max.value_or(0))); }
  bool finite() const { return nan_count + inf_count == 0; }
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_OPERAND_STATS_H_
