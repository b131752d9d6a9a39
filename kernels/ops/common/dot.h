// The two sums behind an element of a matrix product.
#ifndef ASSAY_KERNELS_OPS_COMMON_DOT_H_
#define ASSAY_KERNELS_OPS_COMMON_DOT_H_

#include <cmath>
#include <cstdint>

namespace assay::inline kernels {

struct DotSums {
  double sum = 0;       // Σ a·b
  double absolute = 0;  // Σ |a|·|b|
};

// In four interleaved parts, since a single chain of additions would wait for itself. Two parts are
// a vector.
inline DotSums Dot(const double* a, const double* b, std::int64_t n) {
  using Pair [[gnu::vector_size(16)]] = double;
  using Bits [[gnu::vector_size(16)]] = std::int64_t;
  struct Sums {
    Pair sum = {}, absolute = {};
  } low, high;
  const auto load = [](const double* from) { return Pair{from[0], from[1]}; };
  const auto add = [](Pair product, Sums& to) {
    to.sum += product;
    to.absolute += reinterpret_cast<Pair>(reinterpret_cast<Bits>(product) & INT64_MAX);
  };
  std::int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    add(load(a + i) * load(b + i), low);
    add(load(a + i + 2) * load(b + i + 2), high);
  }
  for (int part = 0; i < n; ++i, ++part) {
    const double product = a[i] * b[i];
    add(part % 2 == 0 ? Pair{product, 0.0} : Pair{0.0, product}, part < 2 ? low : high);
  }
  return {(low.sum[0] + low.sum[1]) + (high.sum[0] + high.sum[1]),
          (low.absolute[0] + low.absolute[1]) + (high.absolute[0] + high.absolute[1])};
}

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_COMMON_DOT_H_
