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

// Adds up the two sums, a stretch of the terms after the other. All stretches but the last have a
// multiple of four terms. Then the sums do not depend on where stretches begin.
//
// In four interleaved parts, since a single chain of additions would wait for itself. Two parts are
// a vector.
class DotParts {
 public:
  void Add(const double* a, const double* b, std::int64_t n) {
    const auto load = [](const double* from) { return Pair{from[0], from[1]}; };
    Sums low = low_, high = high_;
    std::int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
      Add(load(a + i) * load(b + i), low);
      Add(load(a + i + 2) * load(b + i + 2), high);
    }
    for (int part = 0; i < n; ++i, ++part) {
      const double product = a[i] * b[i];
      Add(part % 2 == 0 ? Pair{product, 0.0} : Pair{0.0, product}, part < 2 ? low : high);
    }
    low_ = low;
    high_ = high;
  }

  DotSums sums() const {
    return {(low_.sum[0] + low_.sum[1]) + (high_.sum[0] + high_.sum[1]),
            (low_.absolute[0] + low_.absolute[1]) + (high_.absolute[0] + high_.absolute[1])};
  }

 private:
  using Pair [[gnu::vector_size(16)]] = double;
  using Bits [[gnu::vector_size(16)]] = std::int64_t;
  struct Sums {
    Pair sum = {}, absolute = {};
  };

  static void Add(Pair product, Sums& to) {
    to.sum += product;
    to.absolute += reinterpret_cast<Pair>(reinterpret_cast<Bits>(product) & INT64_MAX);
  }

  Sums low_, high_;
};

inline DotSums Dot(const double* a, const double* b, std::int64_t n) {
  DotParts parts;
  parts.Add(a, b, n);
  return parts.sums();
}

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_COMMON_DOT_H_
