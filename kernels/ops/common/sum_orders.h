// Sums a row's addends in FP32 in several orders, to see how far right kernels are off on the data
// at hand: data that repeat or are sorted make the roundings of a sum add up.
#ifndef ASSAY_KERNELS_OPS_COMMON_SUM_ORDERS_H_
#define ASSAY_KERNELS_OPS_COMMON_SUM_ORDERS_H_

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace assay {

// Orders: one after the other; 32 lanes that take turns; blocks of 128, one after the other.
class SumOrders {
 public:
  // The addend is rounded to FP32 first, which is no error of the sum.
  void Add(double addend) {
    const auto v = static_cast<float>(addend);
    exact_ += static_cast<double>(v);
    sequential_ += v;
    lanes_[count_ % kLanes] += v;
    block_ += v;
    if (++count_ % kBlock == 0) {
      blocks_ += block_;
      block_ = 0;
    }
  }

  // The largest error of an order, and the same relative to the sum. 0 if a sum is not finite.
  double RelativeError() const { return exact_ > 0 ? LargestError() / exact_ : 0.0; }
  double LargestError() const {
    float lanes = 0;
    for (const float lane : lanes_) lanes += lane;
    double largest = 0;
    for (const float sum : {sequential_, lanes, blocks_ + block_}) {
      const double error = std::abs(static_cast<double>(sum) - exact_);
      if (std::isfinite(error)) largest = std::max(largest, error);
    }
    return largest;
  }

 private:
  static constexpr std::int64_t kLanes = 32, kBlock = 128;
  double exact_ = 0;
  float sequential_ = 0, blocks_ = 0, block_ = 0;
  float lanes_[kLanes] = {};
  std::int64_t count_ = 0;
};

}  // namespace assay

#endif  // ASSAY_KERNELS_OPS_COMMON_SUM_ORDERS_H_
