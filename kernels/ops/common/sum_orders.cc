#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/ops/common/sum_orders.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include <algorithm>
#include <cstdint>

#include "hwy/highway.h"
#include "kernels/ops/common/sum_orders.h"

HWY_BEFORE_NAMESPACE();
namespace assay::inline kernels {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr std::int64_t kLanes = kOrderLanes, kBlock = kOrderBlock;

// The sequential sums and those of blocks.
#if HWY_TARGET == HWY_SCALAR
void Serial(const float* const* rows, std::int64_t n, float* sequential, float* blocks) {
  for (std::int64_t row = 0; row < kRowsTogether; ++row) {
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
// A vector holds one column of all rows.
void Serial(const float* const* rows, std::int64_t n, float* sequential, float* blocks) {
  static_assert(kRowsTogether == 4 && kBlock % kRowsTogether == 0);
  const hn::FixedTag<float, kRowsTogether> d;
  auto all = hn::Zero(d), of_blocks = all;
  for (std::int64_t begin = 0; begin < n; begin += kBlock) {
    const std::int64_t end = std::min(n, begin + kBlock);
    auto block = hn::Zero(d);
    std::int64_t i = begin;
    for (; i + kRowsTogether <= end; i += kRowsTogether) {
      const auto row0 = hn::LoadU(d, rows[0] + i), row1 = hn::LoadU(d, rows[1] + i);
      const auto row2 = hn::LoadU(d, rows[2] + i), row3 = hn::LoadU(d, rows[3] + i);
      const auto even_low = hn::InterleaveLower(d, row0, row2);
      const auto odd_low = hn::InterleaveLower(d, row1, row3);
      const auto even_high = hn::InterleaveUpper(d, row0, row2);
      const auto odd_high = hn::InterleaveUpper(d, row1, row3);
      for (const auto column :
           {hn::InterleaveLower(d, even_low, odd_low), hn::InterleaveUpper(d, even_low, odd_low),
            hn::InterleaveLower(d, even_high, odd_high),
            hn::InterleaveUpper(d, even_high, odd_high)}) {
        all = hn::Add(all, column);
        block = hn::Add(block, column);
      }
    }
    for (; i < end; ++i) {
      alignas(16) const float column[] = {rows[0][i], rows[1][i], rows[2][i], rows[3][i]};
      all = hn::Add(all, hn::Load(d, column));
      block = hn::Add(block, hn::Load(d, column));
    }
    of_blocks = hn::Add(of_blocks, block);
  }
  hn::StoreU(all, d, sequential);
  hn::StoreU(of_blocks, d, blocks);
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
  Serial(rows, n, sequential, blocks);
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
