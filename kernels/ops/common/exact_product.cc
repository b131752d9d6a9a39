#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/ops/common/exact_product.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include <algorithm>
#include <cstddef>

#include "hwy/aligned_allocator.h"
#include "hwy/highway.h"
#include "kernels/ops/common/exact_product.h"

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::ScalableTag<float>;
using VF = hn::Vec<DF>;

// As PackedProduct's register tile.
#if HWY_TARGET <= HWY_AVX3
constexpr std::int64_t kRows = 12;
#else
constexpr std::int64_t kRows = 6;
#endif

// Sums of kDepth products of two elements stay below 2^24.
constexpr std::int64_t kDepth = 384;
static_assert(kDepth * kExactElement * kExactElement < 0x1p24);
// B's block is 384 KiB, A's 72 KiB.
constexpr std::int64_t kRowBlock = 48;
constexpr std::int64_t kColBlock = 256;
// Columns that are packed at a time as doubles, to be narrowed while in cache.
constexpr std::int64_t kStrip = 64;

// c = or += the sums of a tile of R rows over kc terms; a[i·kRows + r], b[i·nr + lane].
template <std::int64_t R>
void Tile(std::int64_t kc, const float* HWY_RESTRICT a, const float* HWY_RESTRICT b, bool add,
          double* HWY_RESTRICT c, std::int64_t ldc) {
  const DF d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  VF sum0[R], sum1[R];
#pragma GCC unroll 12
  for (std::int64_t r = 0; r < R; ++r) {
    __builtin_prefetch(c + r * ldc, 1);
    __builtin_prefetch(c + r * ldc + lanes, 1);
    sum0[r] = sum1[r] = hn::Zero(d);
  }
  for (std::int64_t i = 0; i < kc; ++i) {
    const VF b0 = hn::Load(d, b);
    const VF b1 = hn::Load(d, b + lanes);
#pragma GCC unroll 12
    for (std::int64_t r = 0; r < R; ++r) {
      const VF ar = hn::Set(d, a[r]);
      sum0[r] = hn::MulAdd(ar, b0, sum0[r]);
      sum1[r] = hn::MulAdd(ar, b1, sum1[r]);
    }
    a += kRows;
    b += 2 * lanes;
  }
  const hn::ScalableTag<double> dd;
  const hn::Half<DF> half;
  const std::int64_t wide = static_cast<std::int64_t>(hn::Lanes(dd));
  const auto put = [&](VF sum, double* to) HWY_ATTR {
    auto low = hn::PromoteTo(dd, hn::LowerHalf(half, sum));
    auto high = hn::PromoteTo(dd, hn::UpperHalf(half, sum));
    if (add) {
      low = hn::Add(low, hn::LoadU(dd, to));
      high = hn::Add(high, hn::LoadU(dd, to + wide));
    }
    hn::StoreU(low, dd, to);
    hn::StoreU(high, dd, to + wide);
  };
#pragma GCC unroll 12
  for (std::int64_t r = 0; r < R; ++r) {
    put(sum0[r], c + r * ldc);
    put(sum1[r], c + r * ldc + lanes);
  }
}

// A tile at the edge, `rows` ≤ kRows by `cols` ≤ nr: through a full tile of its own.
void EdgeTile(std::int64_t kc, const float* a, const float* b, std::int64_t rows, std::int64_t cols,
              bool add, double* c, std::int64_t ldc) {
  const std::int64_t nr = 2 * static_cast<std::int64_t>(hn::Lanes(DF()));
  HWY_ALIGN double tile[kRows * 2 * static_cast<std::int64_t>(hn::MaxLanes(DF()))];
  if (rows <= kRows / 3) {
    Tile<kRows / 3>(kc, a, b, false, tile, nr);
  } else if (rows <= kRows / 3 * 2) {
    Tile<kRows / 3 * 2>(kc, a, b, false, tile, nr);
  } else {
    Tile<kRows>(kc, a, b, false, tile, nr);
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t j = 0; j < cols; ++j) {
      c[r * ldc + j] = (add ? c[r * ldc + j] : 0.0) + tile[r * nr + j];
    }
  }
}

// Packed blocks of a thread.
struct Buffers {
  static constexpr std::int64_t kLanes = static_cast<std::int64_t>(hn::MaxLanes(DF()));
  hwy::AlignedFreeUniquePtr<float[]> a = hwy::AllocateAligned<float>(kDepth * (kRowBlock + kRows));
  hwy::AlignedFreeUniquePtr<float[]> b =
      hwy::AllocateAligned<float>(kDepth * (kColBlock + 2 * kLanes));
  hwy::AlignedFreeUniquePtr<double[]> strip =
      hwy::AllocateAligned<double>(kDepth * (kStrip + 2 * kLanes));
};

Buffers& ThreadBuffers() {
  static thread_local Buffers buffers;
  return buffers;
}

// Panels of floats of `rows` rows of a source, in strips of whole panels.
void PackFloats(const PanelSource& source, std::int64_t r0, std::int64_t rows, std::int64_t k0,
                std::int64_t kc, std::int64_t width, double* strip, float* dst) {
  const hn::ScalableTag<double> dd;
  const hn::Rebind<float, decltype(dd)> df;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(dd));
  const std::int64_t step = std::max<std::int64_t>(1, kStrip / width) * width;
  for (std::int64_t r = 0; r < rows; r += step) {
    const std::int64_t here = std::min(step, rows - r);
    source.Pack(r0 + r, here, k0, kc, width, strip);
    const std::int64_t count = (here + width - 1) / width * width * kc;
    float* to = dst + r * kc;
    std::int64_t i = 0;
    for (; i + lanes <= count; i += lanes) {
      hn::StoreU(hn::DemoteTo(df, hn::Load(dd, strip + i)), df, to + i);
    }
    for (; i < count; ++i) to[i] = static_cast<float>(strip[i]);
  }
}

void Exact(const PanelSource& a, const PanelSource& b, std::int64_t k, const ProductTile& tile,
           double* value, std::int64_t ld) {
  const std::int64_t nr = 2 * static_cast<std::int64_t>(hn::Lanes(DF()));
  Buffers& buffers = ThreadBuffers();
  for (std::int64_t jc = 0; jc < tile.cols; jc += kColBlock) {
    const std::int64_t cols = std::min(kColBlock, tile.cols - jc);
    for (std::int64_t pc = 0; pc < k; pc += kDepth) {
      const std::int64_t kc = std::min(kDepth, k - pc);
      PackFloats(b, tile.col0 + jc, cols, pc, kc, nr, buffers.strip.get(), buffers.b.get());
      for (std::int64_t ic = 0; ic < tile.rows; ic += kRowBlock) {
        const std::int64_t rows = std::min(kRowBlock, tile.rows - ic);
        PackFloats(a, tile.row0 + ic, rows, pc, kc, kRows, buffers.strip.get(), buffers.a.get());
        for (std::int64_t j = 0; j < cols; j += nr) {
          for (std::int64_t i = 0; i < rows; i += kRows) {
            const float* ai = buffers.a.get() + i * kc;
            const float* bj = buffers.b.get() + j * kc;
            double* c = value + (ic + i) * ld + jc + j;
            if (rows - i >= kRows && cols - j >= nr) {
              Tile<kRows>(kc, ai, bj, pc > 0, c, ld);
            } else {
              EdgeTile(kc, ai, bj, std::min(kRows, rows - i), std::min(nr, cols - j), pc > 0, c,
                       ld);
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay {

HWY_EXPORT(Exact);

void ExactProduct(const PanelSource& a, const PanelSource& b, std::int64_t k,
                  const ProductTile& tile, double* value, std::int64_t ld) {
  HWY_DYNAMIC_DISPATCH(Exact)(a, b, k, tile, value, ld);
}

}  // namespace assay
#endif
