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
  for (std::int64_t i = 0; i < n; ++i) {
    const double product = a[i] * b[i];
    part[i & 3].sum += product;
    part[i & 3].absolute += std::abs(product);
  }
  return {(part[0].sum + part[1].sum) + (part[2].sum + part[3].sum),
          (part[0].absolute + part[1].absolute) + (part[2].absolute + part[3].absolute)};
}

}  // namespace assay

#endif  // ASSAY_KERNELS_OPS_COMMON_DOT_H_
