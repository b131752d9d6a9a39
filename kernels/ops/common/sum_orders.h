// Sums a row's addends in FP32 in several orders, to see how far right kernels are off on the data
// at hand: data that repeat or are sorted make the roundings of a sum add up.
#ifndef ASSAY_KERNELS_OPS_COMMON_SUM_ORDERS_H_
#define ASSAY_KERNELS_OPS_COMMON_SUM_ORDERS_H_

#include <cstdint>

namespace assay {

// Sums of the same FP32 numbers.
struct SumOrders {
  double exact = 0;      // in FP64
  float sequential = 0;  // one after the other
  float lanes = 0;       // 32 lanes that take turns
  float blocks = 0;      // blocks of 128, one after the other

  // The largest error of an order, and the same relative to the sum. 0 if a sum is not finite.
  double LargestError() const;
  double RelativeError() const { return exact > 0 ? LargestError() / exact : 0.0; }
};

// So many rows are summed in the time of one: an addition waits for the one before it.
inline constexpr std::int64_t kRowsTogether = 4;

// Fills one result for each of `count` rows of n addends, with `stride` numbers from row to row.
// At most kRowsTogether rows.
void SumInOrders(const float* addends, std::int64_t stride, std::int64_t n, std::int64_t count,
                 SumOrders* results);

}  // namespace assay

#endif  // ASSAY_KERNELS_OPS_COMMON_SUM_ORDERS_H_
