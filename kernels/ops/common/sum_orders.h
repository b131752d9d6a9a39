// Sums a row's addends in FP32 in several orders, to see how far right kernels are off on the data
// at hand: data that repeat or are sorted make the roundings of a sum add up. The orders:
//   sequential   one addend after the other
//   lanes        32 lanes that take turns; then one lane after the other
//   blocks       128 addends after one another; then one block after the other
// SumOrders does it on the host, and sum_orders_gpu.h on a GPU, with the same bits. std-only.
#ifndef ASSAY_KERNELS_OPS_COMMON_SUM_ORDERS_H_
#define ASSAY_KERNELS_OPS_COMMON_SUM_ORDERS_H_

#include <cmath>
#include <cstdint>

#include "kernels/numerics/host_device.h"

namespace assay {

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

class SumOrders {
 public:
  // The addend is rounded to FP32 first, which is no error of the sum.
  void Add(double addend) {
    const auto v = static_cast<float>(addend);
    exact_ += static_cast<double>(v);
    lanes_[count_ % kOrderLanes] += v;
    orders_.Add(v, ++count_);
  }

  OrderedSums Sums() const {
    float lanes = 0;
    for (const float lane : lanes_) lanes += lane;
    return {exact_, orders_.sequential, lanes, orders_.blocks + orders_.block};
  }

 private:
  double exact_ = 0;
  SequentialOrders orders_;
  float lanes_[kOrderLanes] = {};
  std::int64_t count_ = 0;
};

}  // namespace assay

#endif  // ASSAY_KERNELS_OPS_COMMON_SUM_ORDERS_H_
