#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/ops/common/sum_orders.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "hwy/highway.h"
#include "kernels/ops/common/sum_orders.h"

HWY_BEFORE_NAMESPACE();
namespace assay::inline kernels {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr std::int64_t kLanes = kOrderLanes, kBlock = kOrderBlock;

// A part of a vector holds one column of so many rows.
constexpr std::int64_t kColumn = 4;

// The sequential sums and those of blocks, of kGroups times kColumn rows.
#if HWY_TARGET == HWY_SCALAR
template <int kGroups>
void Serial(const float* const* rows, std::int64_t n, float* sequential, float* blocks) {
  for (std::int64_t row = 0; row < kGroups * kColumn; ++row) {
    float all = 0, of_blocks = 0, block = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      all += rows[row][i];
      block += rows[row][i];
      if ((i + 1) % kBlock != 0) continue;
      of_blocks += block;
      block = 0;
    }
    sequential[row] = all;
    blocks[row] = of_blocks + block;
  }
}
#else
// kColumn elements of a row, and, in a second part of the vector, of the row kColumn behind it.
HWY_INLINE hn::Vec<hn::FixedTag<float, kColumn> > LoadRows(hn::FixedTag<float, kColumn> d,
                                                           const float* const* rows,
                                                           std::int64_t i) {
  return hn::LoadU(d, rows[0] + i);
}
#if HWY_MAX_BYTES >= 32
HWY_INLINE hn::Vec<hn::FixedTag<float, 2 * kColumn> > LoadRows(hn::FixedTag<float, 2 * kColumn> d,
                                                               const float* const* rows,
                                                               std::int64_t i) {
  const hn::FixedTag<float, kColumn> half;
  return hn::Combine(d, hn::LoadU(half, rows[kColumn] + i), hn::LoadU(half, rows[0] + i));
}
#endif

// The sums of the rows that share a vector, which holds one column of them.
template <class D>
struct Columns {
  using V = hn::Vec<D>;
  V all, block, of_blocks;

  Columns() { all = block = of_blocks = hn::Zero(D()); }
  HWY_INLINE void Add(V column) {
    all = hn::Add(all, column);
    block = hn::Add(block, column);
  }
  // Adds kColumn columns, one after the other.
  HWY_INLINE void Add(const float* const* rows, std::int64_t i) {
    const D d;
    const V row0 = LoadRows(d, rows, i), row1 = LoadRows(d, rows + 1, i);
    const V row2 = LoadRows(d, rows + 2, i), row3 = LoadRows(d, rows + 3, i);
    const V even_low = hn::InterleaveLower(d, row0, row2);
    const V odd_low = hn::InterleaveLower(d, row1, row3);
    const V even_high = hn::InterleaveUpper(d, row0, row2);
    const V odd_high = hn::InterleaveUpper(d, row1, row3);
    Add(hn::InterleaveLower(d, even_low, odd_low));
    Add(hn::InterleaveUpper(d, even_low, odd_low));
    Add(hn::InterleaveLower(d, even_high, odd_high));
    Add(hn::InterleaveUpper(d, even_high, odd_high));
  }
  HWY_INLINE void EndBlock() {
    of_blocks = hn::Add(of_blocks, block);
    block = hn::Zero(D());
  }
};

template <int kGroups>
void Serial(const float* const* rows, std::int64_t n, float* sequential, float* blocks) {
  static_assert(kBlock % kColumn == 0);
  constexpr std::int64_t kRows = kGroups * kColumn;
  const hn::CappedTag<float, kRows> d;
  using Sums = Columns<std::remove_const_t<decltype(d)> >;
  constexpr std::int64_t kTogether = hn::MaxLanes(d), kVectors = kRows / kTogether;
  Sums sums[kVectors];
  for (std::int64_t begin = 0; begin < n; begin += kBlock) {
    const std::int64_t end = std::min(n, begin + kBlock);
    std::int64_t i = begin;
    for (; i + kColumn <= end; i += kColumn) {
      for (std::int64_t v = 0; v < kVectors; ++v) sums[v].Add(rows + v * kTogether, i);
    }
    for (; i < end; ++i) {
      alignas(64) float column[kRows];
      for (std::int64_t row = 0; row < kRows; ++row) column[row] = rows[row][i];
      for (std::int64_t v = 0; v < kVectors; ++v) {
        sums[v].Add(hn::Load(d, column + v * kTogether));
      }
    }
    for (Sums& of : sums) of.EndBlock();
  }
  for (std::int64_t v = 0; v < kVectors; ++v) {
    hn::StoreU(sums[v].all, d, sequential + v * kTogether);
    hn::StoreU(sums[v].of_blocks, d, blocks + v * kTogether);
  }
}
#endif

// The sums of one row whose additions do not all wait for each other.
void Wide(const float* HWY_RESTRICT row, std::int64_t n, double* exact, float* lanes) {
  const hn::ScalableTag<double> dd;
  const hn::Rebind<float, decltype(dd)> half;
  constexpr std::int64_t kWidth = hn::MaxLanes(hn::ScalableTag<double>());
  constexpr std::int64_t kVectors = kLanes / kWidth;
  hn::Vec<decltype(half)> sums[kVectors];
  auto sum0 = hn::Zero(dd), sum1 = sum0;
  for (auto& sum : sums) sum = hn::Zero(half);
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
#pragma GCC unroll 16
    for (std::int64_t v = 0; v < kVectors; v += 2) {
      const auto a = hn::LoadU(half, row + i + v * kWidth);
      const auto b = hn::LoadU(half, row + i + (v + 1) * kWidth);
      sums[v] = hn::Add(sums[v], a);
      sums[v + 1] = hn::Add(sums[v + 1], b);
      sum0 = hn::Add(sum0, hn::PromoteTo(dd, a));
      sum1 = hn::Add(sum1, hn::PromoteTo(dd, b));
    }
  }
  float parts[kLanes];
  for (std::int64_t v = 0; v < kVectors; ++v) hn::StoreU(sums[v], half, parts + v * kWidth);
  double total = hn::GetLane(hn::SumOfLanes(dd, hn::Add(sum0, sum1)));
  for (; i < n; ++i) {
    parts[i % kLanes] += row[i];
    total += static_cast<double>(row[i]);
  }
  float sum = 0;
  for (const float part : parts) sum += part;
  *exact = total;
  *lanes = sum;
}

void Sum(const float* addends, std::int64_t stride, std::int64_t n, std::int64_t count,
         OrderedSums* results) {
  const float* rows[kRowsTogether];
  for (std::int64_t row = 0; row < kRowsTogether; ++row) {
    rows[row] = addends + std::min(row, count - 1) * stride;
  }
  float sequential[kRowsTogether], blocks[kRowsTogether];
  static_assert(kRowsTogether == 2 * kColumn);
  if (count > kColumn) {
    Serial<2>(rows, n, sequential, blocks);
  } else {
    Serial<1>(rows, n, sequential, blocks);
  }
  for (std::int64_t row = 0; row < count; ++row) {
    OrderedSums& sums = results[row];
    Wide(rows[row], n, &sums.exact, &sums.lanes);
    sums.sequential = sequential[row];
    sums.blocks = blocks[row];
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace assay::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay::inline kernels {

HWY_EXPORT(Sum);

void SumInOrders(const float* addends, std::int64_t stride, std::int64_t n, std::int64_t count,
                 OrderedSums* results) {
  HWY_DYNAMIC_DISPATCH(Sum)(addends, stride, n, count, results);
}

}  // namespace assay::kernels
#endif
