// Sums a row's addends in FP32 in several orders, to see how far right kernels are off on the data
// at hand: data that repeat or are sorted make the roundings of a sum add up. The orders:
//   sequential   one addend after the other
//   lanes        32 lanes that take turns; then one lane after the other
//   blocks       128 addends after one another; then one block after the other
// SumInOrders does it on the host, and sum_orders_gpu.h on a GPU, with the same bits. std-only.
#ifndef ASSAY_KERNELS_OPS_COMMON_SUM_ORDERS_H_
#define ASSAY_KERNELS_OPS_COMMON_SUM_ORDERS_H_

#include <cmath>
#include <cstdint>

#include "kernels/numerics/host_device.h"

namespace assay::inline kernels {

inline constexpr std::int64_t kOrderLanes = 32, kOrderBlock = 128;

// What the orders make of the same addends, on host and device.
struct OrderedSums {
  double exact = 0;
  float sequential = 0, lanes = 0, blocks = 0;

  // The largest error of an order, and the same relative to the sum. 0 if a sum is not finite.
  ASSAY_HOST_DEVICE double LargestError() const {
    double largest = Error(sequential);
    if (Error(lanes) > largest) largest = Error(lanes);
    if (Error(blocks) > largest) largest = Error(blocks);
    return largest;
  }
  ASSAY_HOST_DEVICE double RelativeError() const {
    return exact > 0 ? LargestError() / exact : 0.0;
  }

 private:
  ASSAY_HOST_DEVICE double Error(float sum) const {
    const double error = std::abs(static_cast<double>(sum) - exact);
    return std::isfinite(error) ? error : 0.0;
  }
};

// The orders that take one addend after the other, on host and device.
struct SequentialOrders {
  float sequential = 0, blocks = 0, block = 0;

  // `count` addends with this one.
  ASSAY_HOST_DEVICE void Add(float addend, std::int64_t count) {
    sequential += addend;
    block += addend;
    if (count % kOrderBlock != 0) return;
    blocks += block;
    block = 0;
  }
};

// So many rows are summed in the time of one: an addition waits for the one before it.
inline constexpr std::int64_t kRowsTogether = 8;

// Fills one result for each of `count` rows of n addends, with `stride` numbers from row to row.
// At most kRowsTogether rows.
void SumInOrders(const float* addends, std::int64_t stride, std::int64_t n, std::int64_t count,
                 OrderedSums* results);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_COMMON_SUM_ORDERS_H_
