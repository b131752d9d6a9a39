#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/ops/common/exact_product.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include <algorithm>

#include "hwy/aligned_allocator.h"
#include "hwy/highway.h"
#include "kernels/ops/common/exact_product.h"

HWY_BEFORE_NAMESPACE();
namespace assay::inline kernels {
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

// B's block is 512 KiB, A's 96 or 192 KiB.
constexpr std::int64_t kDepth = 512;
constexpr std::int64_t kRowBlock = 96;
constexpr std::int64_t kColBlock = 256;

// Two rows of A in one: the second times kPair. Of sums below kPair/2 both come back.
constexpr float kPair = 4096.0f;
constexpr double kPairSum = 2047;

// sums[r·nr + lane] of kRows rows, or of kRows pairs (the second halves kRows below)
// over kc terms, `depth` at a time. a[i·kRows + r], b[i·nr + lane].
template <bool kTwo>
void Tile(std::int64_t kc, std::int64_t depth, const float* HWY_RESTRICT a,
          const float* HWY_RESTRICT b, float* HWY_RESTRICT sums) {
  const DF d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t nr = 2 * lanes;
  const VF pair = hn::Set(d, kPair), unpair = hn::Set(d, 1 / kPair);
  for (std::int64_t begin = 0; begin < kc; begin += depth) {
    const std::int64_t end = std::min(kc, begin + depth);
    VF sum0[kRows], sum1[kRows];
#pragma GCC unroll 12
    for (std::int64_t r = 0; r < kRows; ++r) sum0[r] = sum1[r] = hn::Zero(d);
    for (std::int64_t i = begin; i < end; ++i) {
      const VF b0 = hn::Load(d, b);
      const VF b1 = hn::Load(d, b + lanes);
#pragma GCC unroll 12
      for (std::int64_t r = 0; r < kRows; ++r) {
        const VF ar = hn::Set(d, a[r]);
        sum0[r] = hn::MulAdd(ar, b0, sum0[r]);
        sum1[r] = hn::MulAdd(ar, b1, sum1[r]);
      }
      a += kRows;
      b += nr;
    }
    const bool add = begin > 0;
    const auto put = [&](VF sum, float* to)
                         HWY_ATTR { hn::Store(add ? hn::Add(sum, hn::Load(d, to)) : sum, d, to); };
#pragma GCC unroll 12
    for (std::int64_t r = 0; r < kRows; ++r) {
      float* to = sums + r * nr;
      if (kTwo) {
        const VF high0 = hn::Round(hn::Mul(sum0[r], unpair));
        const VF high1 = hn::Round(hn::Mul(sum1[r], unpair));
        put(hn::NegMulAdd(high0, pair, sum0[r]), to);
        put(hn::NegMulAdd(high1, pair, sum1[r]), to + lanes);
        put(high0, to + kRows * nr);
        put(high1, to + kRows * nr + lanes);
      } else {
        put(sum0[r], to);
        put(sum1[r], to + lanes);
      }
    }
  }
}

// c[r·ldc + j] = or += the sums of a tile.
void Put(const float* HWY_RESTRICT sums, std::int64_t rows, std::int64_t cols, bool add,
         double* HWY_RESTRICT c, std::int64_t ldc) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> df;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t nr = 2 * static_cast<std::int64_t>(hn::Lanes(DF()));
  for (std::int64_t r = 0; r < rows; ++r) {
    double* to = c + r * ldc;
    const float* from = sums + r * nr;
    std::int64_t j = 0;
    for (; j + lanes <= cols; j += lanes) {
      const auto v = hn::PromoteTo(d, hn::LoadU(df, from + j));
      hn::StoreU(add ? hn::Add(v, hn::LoadU(d, to + j)) : v, d, to + j);
    }
    for (; j < cols; ++j) to[j] = (add ? to[j] : 0.0) + static_cast<double>(from[j]);
  }
}

// Packed blocks of a thread.
struct Buffers {
  static constexpr std::int64_t kLanes = static_cast<std::int64_t>(hn::MaxLanes(DF()));
  hwy::AlignedFreeUniquePtr<float[]> a =
      hwy::AllocateAligned<float>(kDepth * (kRowBlock + 2 * kRows));
  hwy::AlignedFreeUniquePtr<float[]> b =
      hwy::AllocateAligned<float>(kDepth * (kColBlock + 2 * kLanes));
  hwy::AlignedFreeUniquePtr<float[]> sums = hwy::AllocateAligned<float>(2 * kRows * 2 * kLanes);
};

Buffers& ThreadBuffers() {
  static thread_local Buffers buffers;
  return buffers;
}

// Panels of 2·kRows floats to panels of kRows pairs, in place.
void Pair(std::int64_t count, float* x) {
  for (std::int64_t i = 0; i < count; ++i) {
    float from[2 * kRows];
    std::copy_n(x + i * 2 * kRows, 2 * kRows, from);
    for (std::int64_t r = 0; r < kRows; ++r) x[i * kRows + r] = from[r] + kPair * from[r + kRows];
  }
}

template <bool kTwo>
void Exact(const PanelSource& a, const PanelSource& b, std::int64_t k, std::int64_t depth,
           const ProductTile& tile, double* value, std::int64_t ld) {
  constexpr std::int64_t kHeight = kTwo ? 2 * kRows : kRows;
  const std::int64_t nr = 2 * static_cast<std::int64_t>(hn::Lanes(DF()));
  Buffers& buffers = ThreadBuffers();
  float* sums = buffers.sums.get();
  for (std::int64_t jc = 0; jc < tile.cols; jc += kColBlock) {
    const std::int64_t cols = std::min(kColBlock, tile.cols - jc);
    for (std::int64_t pc = 0; pc < k; pc += kDepth) {
      const std::int64_t kc = std::min(kDepth, k - pc);
      b.PackFloats(tile.col0 + jc, cols, pc, kc, nr, buffers.b.get());
      for (std::int64_t ic = 0; ic < tile.rows; ic += kRowBlock) {
        const std::int64_t rows = std::min(kRowBlock, tile.rows - ic);
        a.PackFloats(tile.row0 + ic, rows, pc, kc, kHeight, buffers.a.get());
        if (kTwo) Pair((rows + kHeight - 1) / kHeight * kc, buffers.a.get());
        for (std::int64_t j = 0; j < cols; j += nr) {
          for (std::int64_t i = 0; i < rows; i += kHeight) {
            Tile<kTwo>(kc, depth, buffers.a.get() + i / kHeight * kRows * kc,
                       buffers.b.get() + j * kc, sums);
            Put(sums, std::min(kHeight, rows - i), std::min(nr, cols - j), pc > 0,
                value + (ic + i) * ld + jc + j, ld);
          }
        }
      }
    }
  }
}

void ExactTarget(const PanelSource& a, const PanelSource& b, std::int64_t k, double largest,
                 const ProductTile& tile, double* value, std::int64_t ld) {
  const double product = std::max(1.0, largest * largest);
  const auto pairs = static_cast<std::int64_t>(kPairSum / product);
  // Short blocks cost more to take apart than they save.
  constexpr std::int64_t kShortest = 64;
  if (pairs >= kShortest) return Exact<true>(a, b, k, pairs, tile, value, ld);
  return Exact<false>(a, b, k, static_cast<std::int64_t>(0x1p24 / product), tile, value, ld);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace assay::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay::inline kernels {

HWY_EXPORT(ExactTarget);

void ExactProduct(const PanelSource& a, const PanelSource& b, std::int64_t k, double largest,
                  const ProductTile& tile, double* value, std::int64_t ld) {
  if (largest == kDoubleElements) {
    return PackedProduct(a, b, k, tile, value, /*absolute=*/nullptr, ld);
  }
  HWY_DYNAMIC_DISPATCH(ExactTarget)(a, b, k, largest, tile, value, ld);
}

}  // namespace assay::kernels
#endif
