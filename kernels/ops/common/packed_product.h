// The blocked FP64 matrix product that the fast references of gemm, conv and
// attention share: value = A·Bᵀ and, in the same pass over memory, absolute =
// |A|·|B|ᵀ, from which the error allowance comes.
//
// How: A and B are packed, converted to double, into panels as wide as the
// register tile, [panel][k][width]; a block of A (kRowBlock × kDepth) and one of B
// (kColBlock × kDepth) stay in the second-level cache while all their products are
// taken. The absolute product runs over the same panels, with |b| taken in
// registers. Sums are in FP64 with fused multiply-add where the processor has it,
// in an order that depends on the processor's vector length alone.
//
// Thread-safety: PackedProduct works on one tile with buffers of the calling
// thread; callers give tiles to threads.
#ifndef ASSAY_KERNELS_OPS_COMMON_PACKED_PRODUCT_H_
#define ASSAY_KERNELS_OPS_COMMON_PACKED_PRODUCT_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "kernels/numerics/dtype.h"

namespace assay::inline kernels {

// A matrix [row, k] that can be packed. Rows are A's rows and B's columns.
class PanelSource {
 public:
  virtual ~PanelSource() = default;
  // dst[(p·kc + i)·width + w] = element (r0 + p·width + w, k0 + i), for all panels p
  // that cover `rows` rows; 0 in the rows that are not there.
  virtual void Pack(std::int64_t r0, std::int64_t rows, std::int64_t k0, std::int64_t kc,
                    std::int64_t width, double* dst) const = 0;
  // The same narrowed to floats, which hold the elements exactly.
  virtual void PackFloats(std::int64_t r0, std::int64_t rows, std::int64_t k0, std::int64_t kc,
                          std::int64_t width, float* dst) const;
};

// A stored matrix of any format; one of the strides is 1.
class StridedSource final : public PanelSource {
 public:
  // Element (r, k) is element origin + r·row_stride + k·k_stride of `base`.
  StridedSource(DType dtype, const void* base, std::int64_t origin, std::int64_t row_stride,
                std::int64_t k_stride)
      : dtype_(dtype), base_(base), origin_(origin), row_stride_(row_stride), k_stride_(k_stride) {}
  void Pack(std::int64_t r0, std::int64_t rows, std::int64_t k0, std::int64_t kc,
            std::int64_t width, double* dst) const override;
  void PackFloats(std::int64_t r0, std::int64_t rows, std::int64_t k0, std::int64_t kc,
                  std::int64_t width, float* dst) const override;

 private:
  DType dtype_;
  const void* base_;
  std::int64_t origin_, row_stride_, k_stride_;
};

// Part of a product: rows of A by rows of B.
struct ProductTile {
  std::int64_t row0 = 0;
  std::int64_t rows = 0;
  std::int64_t col0 = 0;
  std::int64_t cols = 0;
};

// Tiles of this size are worth a thread's while; their packing is amortised.
inline constexpr std::int64_t kTileRows = 384;
inline constexpr std::int64_t kTileCols = 256;

// The height of the tiles of `rows` rows: full where that leaves every core several tiles, else
// lower. `beside`: how many tiles there are of the same rows.
std::int64_t TileHeight(std::int64_t rows, std::int64_t beside);

// value[i·ld + j] = Σ_k a(row0 + i, k)·b(col0 + j, k), absolute likewise with
// |a|·|b|; absolute nullptr: only value.
void PackedProduct(const PanelSource& a, const PanelSource& b, std::int64_t k,
                   const ProductTile& tile, double* value, double* absolute, std::int64_t ld);

// The same, and calls `done` for each part of the tile whose sums are complete, while they are in
// the cache. `done` may change them.
void PackedProduct(const PanelSource& a, const PanelSource& b, std::int64_t k,
                   const ProductTile& tile, double* value, double* absolute, std::int64_t ld,
                   absl::FunctionRef<void(const ProductTile& part)> done);

// The same with A given as doubles in columns, a(i, k) = a[k·lda + i], and with its
// own left matrix for the other product: absolute = Σ_k w(i, k)·|b(j, k)|. lda must
// be at least `rows` rounded up to a multiple of kDirectRows, all of it readable. absolute nullptr:
// only value, and no w.
inline constexpr std::int64_t kDirectRows = 12;
// What else is made of B, while it is packed.
struct BesideProduct {
  // A further product: value[i·ld + j] = Σ_k a(i, k)·b(j, k), with a of `rows` rows, and lda as
  // above.
  const double* a = nullptr;
  std::int64_t lda = 0;
  std::int64_t rows = 0;
  double* value = nullptr;
  // squares[j] = Σ_k weights[k]·b(j, k)²
  const double* weights = nullptr;
  double* squares = nullptr;
};
// beside nullptr: nothing else.
void DirectProduct(const double* a, const double* w, std::int64_t lda, std::int64_t rows,
                   const PanelSource& b, std::int64_t cols, std::int64_t k, double* value,
                   double* absolute, std::int64_t ld, const BesideProduct* beside = nullptr);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_COMMON_PACKED_PRODUCT_H_
