#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/ops/common/packed_product.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include <algorithm>
#include <cstddef>

#include "hwy/aligned_allocator.h"
#include "hwy/highway.h"
#include "kernels/ops/common/packed_product.h"
#include "kernels/runtime/cpu/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace assay::inline kernels {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<double>;
using V = hn::Vec<D>;

// The register tile: kRows × 2 vectors of sums. 32 registers hold 12 × 2 beside
// two of b and one of a; 16 hold 6 × 2.
#if HWY_TARGET <= HWY_AVX3
constexpr std::int64_t kRows = 12;
#else
constexpr std::int64_t kRows = 6;
#endif

// A block of B, kDepth × kColBlock, is 768 KiB, one of A 144 KiB: together what a
// second-level cache of 1 MiB holds. Deeper blocks visit C less often, lower ones of
// A leave more for B.
constexpr std::int64_t kDepth = 384;
constexpr std::int64_t kRowBlock = 48;
constexpr std::int64_t kColBlock = kTileCols;

// Sums of a tile of R rows over kc terms, added to c where `add`, else stored.
// a[i·lda + r], b[i·nr + lane]; kAbs: of a·|b|.
template <std::int64_t R, bool kAbs>
void Tile(std::int64_t kc, const double* HWY_RESTRICT a, std::int64_t lda,
          const double* HWY_RESTRICT b, bool add, double* HWY_RESTRICT c, std::int64_t ldc) {
  const D d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  V sum0[R], sum1[R];
  // Rows of c may be a power of two apart, where caches keep few of them.
#pragma GCC unroll 12
  for (std::int64_t r = 0; r < R; ++r) {
    __builtin_prefetch(c + r * ldc, 1);
    __builtin_prefetch(c + r * ldc + lanes, 1);
  }
#pragma GCC unroll 12
  for (std::int64_t r = 0; r < R; ++r) sum0[r] = sum1[r] = hn::Zero(d);
  for (std::int64_t i = 0; i < kc; ++i) {
    V b0 = hn::Load(d, b);
    V b1 = hn::Load(d, b + lanes);
    if (kAbs) {
      b0 = hn::Abs(b0);
      b1 = hn::Abs(b1);
    }
#pragma GCC unroll 12
    for (std::int64_t r = 0; r < R; ++r) {
      const V ar = hn::Set(d, a[r]);
      sum0[r] = hn::MulAdd(ar, b0, sum0[r]);
      sum1[r] = hn::MulAdd(ar, b1, sum1[r]);
    }
    a += lda;
    b += 2 * lanes;
  }
#pragma GCC unroll 12
  for (std::int64_t r = 0; r < R; ++r) {
    double* row = c + r * ldc;
    if (add) {
      sum0[r] = hn::Add(sum0[r], hn::LoadU(d, row));
      sum1[r] = hn::Add(sum1[r], hn::LoadU(d, row + lanes));
    }
    hn::StoreU(sum0[r], d, row);
    hn::StoreU(sum1[r], d, row + lanes);
  }
}

// A tile at the edge, `rows` ≤ kRows by `cols` ≤ nr: through a full tile of its own.
template <bool kAbs>
void EdgeTile(std::int64_t kc, const double* a, std::int64_t lda, const double* b,
              std::int64_t rows, std::int64_t cols, bool add, double* c, std::int64_t ldc) {
  const std::int64_t nr = 2 * static_cast<std::int64_t>(hn::Lanes(D()));
  HWY_ALIGN double tile[kRows * 2 * static_cast<std::int64_t>(hn::MaxLanes(D()))];
  if (rows <= kRows / 3) {
    Tile<kRows / 3, kAbs>(kc, a, lda, b, false, tile, nr);
  } else if (rows <= kRows / 3 * 2) {
    Tile<kRows / 3 * 2, kAbs>(kc, a, lda, b, false, tile, nr);
  } else {
    Tile<kRows, kAbs>(kc, a, lda, b, false, tile, nr);
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t j = 0; j < cols; ++j) {
      const double old = add ? c[r * ldc + j] : 0.0;
      c[r * ldc + j] = old + tile[r * nr + j];
    }
  }
}

// All tiles of a block of rows by a block of columns, over one block of k.
// Panel p of a starts at a + p·panel.
template <bool kAbs>
void Block(std::int64_t kc, const double* a, std::int64_t panel, std::int64_t lda, const double* b,
           std::int64_t rows, std::int64_t cols, bool add, double* c, std::int64_t ldc) {
  const std::int64_t nr = 2 * static_cast<std::int64_t>(hn::Lanes(D()));
  for (std::int64_t j = 0; j < cols; j += nr) {
    const double* bj = b + j * kc;
    for (std::int64_t i = 0; i < rows; i += kRows) {
      const double* ai = a + i / kRows * panel;
      double* ci = c + i * ldc + j;
      if (rows - i >= kRows && cols - j >= nr) {
        Tile<kRows, kAbs>(kc, ai, lda, bj, add, ci, ldc);
      } else {
        EdgeTile<kAbs>(kc, ai, lda, bj, std::min(kRows, rows - i), std::min(nr, cols - j), add, ci,
                       ldc);
      }
    }
  }
}

// Packed blocks of a thread.
struct Buffers {
  static constexpr std::size_t kA = kDepth * (kRowBlock + kRows);
  static constexpr std::size_t kB =
      kDepth * (kColBlock + 2 * static_cast<std::int64_t>(hn::MaxLanes(D())));
  hwy::AlignedFreeUniquePtr<double[]> a = hwy::AllocateAligned<double>(kA);
  hwy::AlignedFreeUniquePtr<double[]> b = hwy::AllocateAligned<double>(kB);
};

Buffers& ThreadBuffers() {
  static thread_local Buffers buffers;
  return buffers;
}

void TakeAbsolute(double* x, std::int64_t count) {
  const D d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  // Up to a whole vector more: the buffer has room, and what is behind the end is
  // never read.
  for (std::int64_t i = 0; i < count; i += lanes) {
    hn::Store(hn::Abs(hn::Load(d, x + i)), d, x + i);
  }
}

void Packed(const PanelSource& a, const PanelSource& b, std::int64_t k, const ProductTile& tile,
            double* value, double* absolute, std::int64_t ld,
            absl::FunctionRef<void(const ProductTile& part)> done) {
  const std::int64_t nr = 2 * static_cast<std::int64_t>(hn::Lanes(D()));
  Buffers& buffers = ThreadBuffers();
  for (std::int64_t jc = 0; jc < tile.cols; jc += kColBlock) {
    const std::int64_t cols = std::min(kColBlock, tile.cols - jc);
    for (std::int64_t pc = 0; pc < k; pc += kDepth) {
      const std::int64_t kc = std::min(kDepth, k - pc);
      b.Pack(tile.col0 + jc, cols, pc, kc, nr, buffers.b.get());
      for (std::int64_t ic = 0; ic < tile.rows; ic += kRowBlock) {
        const std::int64_t rows = std::min(kRowBlock, tile.rows - ic);
        const std::int64_t at = ic * ld + jc;
        a.Pack(tile.row0 + ic, rows, pc, kc, kRows, buffers.a.get());
        Block<false>(kc, buffers.a.get(), kc * kRows, kRows, buffers.b.get(), rows, cols, pc > 0,
                     value + at, ld);
        if (absolute != nullptr) {
          // A is packed anew for the next block: its absolute values may replace it.
          TakeAbsolute(buffers.a.get(), (rows + kRows - 1) / kRows * kRows * kc);
          Block<true>(kc, buffers.a.get(), kc * kRows, kRows, buffers.b.get(), rows, cols, pc > 0,
                      absolute + at, ld);
        }
        if (pc + kc == k) done({tile.row0 + ic, rows, tile.col0 + jc, cols});
      }
    }
  }
}

// sums[j] = Σ weights[i]·b(j, i)² of packed columns; `more`: added to sums.
void WeighSquares(std::int64_t kc, const double* HWY_RESTRICT b, std::int64_t cols,
                  const double* HWY_RESTRICT weights, bool more, double* HWY_RESTRICT sums) {
  const D d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  HWY_ALIGN double panel[2 * static_cast<std::int64_t>(hn::MaxLanes(D()))];
  for (std::int64_t j = 0; j < cols; j += 2 * lanes) {
    V sum0 = hn::Zero(d), sum1 = sum0, odd0 = sum0, odd1 = sum0;
    const auto add = [&](std::int64_t i, V& to0, V& to1) HWY_ATTR {
      const V weight = hn::Set(d, weights[i]);
      const V b0 = hn::Load(d, b + i * 2 * lanes), b1 = hn::Load(d, b + (i * 2 + 1) * lanes);
      to0 = hn::MulAdd(hn::Mul(b0, b0), weight, to0);
      to1 = hn::MulAdd(hn::Mul(b1, b1), weight, to1);
    };
    std::int64_t i = 0;
    for (; i + 2 <= kc; i += 2) {  // an addition waits for the one before it
      add(i, sum0, sum1);
      add(i + 1, odd0, odd1);
    }
    if (i < kc) add(i, sum0, sum1);
    b += 2 * lanes * kc;
    sum0 = hn::Add(sum0, odd0);
    sum1 = hn::Add(sum1, odd1);
    hn::Store(sum0, d, panel);
    hn::Store(sum1, d, panel + lanes);
    for (std::int64_t c = j; c < std::min(cols, j + 2 * lanes); ++c) {
      sums[c] = (more ? sums[c] : 0.0) + panel[c - j];
    }
  }
}

void Direct(const double* a, const double* w, std::int64_t lda, std::int64_t rows,
            const PanelSource& b, std::int64_t cols, std::int64_t k, double* value,
            double* absolute, std::int64_t ld, const BesideProduct* beside) {
  static_assert(kDirectRows % kRows == 0);
  const std::int64_t nr = 2 * static_cast<std::int64_t>(hn::Lanes(D()));
  Buffers& buffers = ThreadBuffers();
  for (std::int64_t jc = 0; jc < cols; jc += kColBlock) {
    const std::int64_t width = std::min(kColBlock, cols - jc);
    for (std::int64_t pc = 0; pc < k; pc += kDepth) {
      const std::int64_t kc = std::min(kDepth, k - pc);
      b.Pack(jc, width, pc, kc, nr, buffers.b.get());
      Block<false>(kc, a + pc * lda, kRows, lda, buffers.b.get(), rows, width, pc > 0, value + jc,
                   ld);
      if (beside != nullptr) {
        Block<false>(kc, beside->a + pc * beside->lda, kRows, beside->lda, buffers.b.get(),
                     beside->rows, width, pc > 0, beside->value + jc, ld);
        WeighSquares(kc, buffers.b.get(), width, beside->weights + pc, pc > 0,
                     beside->squares + jc);
      }
      if (absolute == nullptr) continue;
      Block<true>(kc, w + pc * lda, kRows, lda, buffers.b.get(), rows, width, pc > 0, absolute + jc,
                  ld);
    }
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace assay::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay::inline kernels {

HWY_EXPORT(Packed);
HWY_EXPORT(Direct);

std::int64_t TileHeight(std::int64_t rows, std::int64_t beside) {
  std::int64_t height = kTileRows;
  while (height > kTileRows / 8 &&
         beside * ((rows + height - 1) / height) < std::int64_t{4} * ParallelWidth()) {
    height /= 2;
  }
  return height;
}

void PackedProduct(const PanelSource& a, const PanelSource& b, std::int64_t k,
                   const ProductTile& tile, double* value, double* absolute, std::int64_t ld) {
  PackedProduct(a, b, k, tile, value, absolute, ld, [](const ProductTile&) {});
}

void PackedProduct(const PanelSource& a, const PanelSource& b, std::int64_t k,
                   const ProductTile& tile, double* value, double* absolute, std::int64_t ld,
                   absl::FunctionRef<void(const ProductTile& part)> done) {
  HWY_DYNAMIC_DISPATCH(Packed)(a, b, k, tile, value, absolute, ld, done);
}

void DirectProduct(const double* a, const double* w, std::int64_t lda, std::int64_t rows,
                   const PanelSource& b, std::int64_t cols, std::int64_t k, double* value,
                   double* absolute, std::int64_t ld, const BesideProduct* beside) {
  HWY_DYNAMIC_DISPATCH(Direct)(a, w, lda, rows, b, cols, k, value, absolute, ld, beside);
}

}  // namespace assay::kernels
#endif
