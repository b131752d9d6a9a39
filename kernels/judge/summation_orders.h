// Emulates the usual orders of an fp32 sum on sampled output elements. It shows by how much the
// order alone can move the errors of right kernels on the data at hand.
//
// The model σ of an element (kernels/numerics/deviation.h) holds if the products come in random
// order. A user's own tensors may be sorted, smooth or alternating, and then some right kernels err
// more. For each order,
//   R = √(mean of e²/σ²)    σ² = (factor·u)²/3·(V + Q) + ulp²/12
//   g = Σ(e·r/σ²)/Σ(r²/σ²)
// over the sampled elements, where e is the error of the emulated sum, rounded to the output's
// format. λ is the largest R of all orders. Data in random order have λ of at most 0.74, so a
// threshold F that was set for such data becomes F·max(1, λ/0.74). g is the relative error that all
// elements share. It is near 0 for such data. Sums of few distinct products of one sign round them
// in the same way in all elements: nearly all of their error is shared, however small R is.
//
// For contiguous orders (sequential, pairwise, blocks, split-K) there is a model that needs no
// emulation: with W = max − min of the prefix sums, 0 among them, Σs² <= K·W² for every contiguous
// tree, so σ_W² = u²/3·(K·W² + Q). It does not hold for strided lanes.
//
// Work: 20 sums of each sampled element, with at most 2^24 products each, on all cores.
#ifndef ASSAY_KERNELS_JUDGE_SUMMATION_ORDERS_H_
#define ASSAY_KERNELS_JUDGE_SUMMATION_ORDERS_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/numerics/dtype.h"
#include "kernels/ops/products.h"

namespace assay::inline kernels {

// The largest R of the usual orders on data in random order.
inline constexpr double kUsualOrderRms = 0.74;

struct OrderEffect {
  std::int64_t elements = 0;  // that were used; 0: nothing is known, and the rest means nothing
  double largest_rms = 0;     // λ
  std::string_view order;     // the order that has it: "sequential", "2 lanes"
  double prefix_rms = 0;      // √(mean of σ_W²/σ²)
  double largest_gain = 0;    // the largest |g|, less what a sample may have by chance
  // What thresholds are multiplied by: max(1, λ/0.74).
  double factor = 1;
};

// Elements that EmulateOrders uses at most if each is a sum of `terms` products: 256, and fewer for
// sums of more than 65,536.
std::int64_t OrderSamples(std::int64_t terms);

// Takes OrderSamples of the elements, spread evenly over the sample. Elements with values that are
// not finite, with sums beyond fp32, or with products that are all 0 are left out. For fp64 and
// integers, whose sums are not fp32's, nothing is known.
OrderEffect EmulateOrders(const SampledProducts& products, DType output);

// The same of these elements of the sample.
OrderEffect EmulateOrders(const SampledProducts& products, DType output,
                          std::span<const std::int64_t> elements);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_JUDGE_SUMMATION_ORDERS_H_
