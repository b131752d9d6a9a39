// Multiplies matrices of small whole numbers exactly, at the speed of fp32. The references
// of exact cases and of int8 use it: PackedProduct's FP64 sums and absolute sums would cost
// four times as much.
//
// How: as PackedProduct, with panels of floats. A block of k is summed in fp32, where
// its partial sums are below 2^24 and so exact in any order; blocks are added up in
// FP64. Where elements are small, two rows of A go into one float, x + 4096·y, and both
// sums come out of one, which halves the work. No error bound is made, for there is no
// error.
//
// Thread-safety: works on one tile with buffers of the calling thread.
#ifndef ASSAY_KERNELS_OPS_COMMON_EXACT_PRODUCT_H_
#define ASSAY_KERNELS_OPS_COMMON_EXACT_PRODUCT_H_

#include <cstdint>

#include "kernels/ops/common/packed_product.h"

namespace assay::inline kernels {

// Largest magnitude of an element, which must be a whole number.
inline constexpr double kExactElement = 128;

// In place of the largest magnitude: the elements are no whole numbers, and each sum has at most
// one product that is not 0. kFloatElements: floats hold them; kDoubleElements: PackedProduct sums
// them.
inline constexpr double kFloatElements = kExactElement;
inline constexpr double kDoubleElements = 0;

// value[i·ld + j] = Σ_k a(row0 + i, k)·b(col0 + j, k); no element of A or B is above
// `largest` in magnitude.
void ExactProduct(const PanelSource& a, const PanelSource& b, std::int64_t k, double largest,
                  const ProductTile& tile, double* value, std::int64_t ld);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_COMMON_EXACT_PRODUCT_H_
