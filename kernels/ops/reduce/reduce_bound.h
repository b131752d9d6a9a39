// One output of a reduction from the elements of its slice, taken one after the other, on host and
// device; the formulas are in reduce_reference.h. std-only.
#ifndef ASSAY_KERNELS_OPS_REDUCE_REDUCE_BOUND_H_
#define ASSAY_KERNELS_OPS_REDUCE_REDUCE_BOUND_H_

#include <cmath>
#include <cstdint>

#include "kernels/numerics/host_device.h"
#include "kernels/ops/common/arithmetic.h"

namespace assay::inline kernels {

// The sum of a slice, and what its allowance is made of.
struct SliceSum {
  double sum = 0;
  double absolute = 0;  // Σ|x|

  ASSAY_HOST_DEVICE void Take(double x) {
    sum += x;
    absolute += std::abs(x);
  }
  ASSAY_HOST_DEVICE double Allowance(const ProductBound& bound) const {
    return std::isfinite(sum) ? bound.Allowance(absolute) : 0.0;
  }
};

// Whether x comes before the largest element so far. A NaN counts as larger than all numbers, and
// of equal elements the first stays.
ASSAY_HOST_DEVICE inline bool Beats(double x, double largest) {
  return x > largest || (x != x && largest == largest);
}

// Whether an element is as large as the largest: equal, or both are NaN.
ASSAY_HOST_DEVICE inline bool Ties(double x, double largest) {
  return x == largest || (x != x && largest != largest);
}

// The largest element of a slice, and the first index that it is at.
struct SliceLargest {
  double value = 0;
  std::int64_t index = -1;

  ASSAY_HOST_DEVICE void Take(double x, std::int64_t i) {
    if (index >= 0 && !Beats(x, value)) return;
    value = x;
    index = i;
  }
};

// The element of a slice that an output of an argmax names; -1: the output is no index.
ASSAY_HOST_DEVICE inline std::int64_t IndexNamed(double output, std::int64_t length) {
  const bool index = output >= 0 && output < static_cast<double>(length);
  return index ? static_cast<std::int64_t>(output) : -1;
}

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_REDUCE_REDUCE_BOUND_H_
