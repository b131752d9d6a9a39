// The two sums behind an element of a matrix product.
#ifndef ASSAY_KERNELS_OPS_COMMON_DOT_H_
#define ASSAY_KERNELS_OPS_COMMON_DOT_H_

#include <cmath>
#include <cstdint>

namespace assay {

struct DotSums {
  double sum = 0;       // Σ a·b
  double absolute = 0;  // Σ |a|·|b|
};

// In four interleaved parts, since a single chain of additions would wait for
// itself.
inline DotSums Dot(const double* a, const double* b, std::int64_t n) {
  DotSums part[4];
  const auto add = [&](std::int64_t i, DotSums& to) {
    const double product = a[i] * b[i];
    to.sum += product;
    to.absolute += std::abs(product);
  };
  std::int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    // By name: parts that a variable chooses lie in memory.
    add(i, part[0]);
    add(i + 1, part[1]);
    add(i + 2, part[2]);
    add(i + 3, part[3]);
  }
  for (int p = 0; i < n; ++i, ++p) add(i, part[p]);
  return {(part[0].sum + part[1].sum) + (part[2].sum + part[3].sum),
          (part[0].absolute + part[1].absolute) + (part[2].absolute + part[3].absolute)};
}

}  // namespace assay

#endif  // ASSAY_KERNELS_OPS_COMMON_DOT_H_
