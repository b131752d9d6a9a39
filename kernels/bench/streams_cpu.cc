#include "kernels/bench/streams_cpu.h"

#include <numeric>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/bench/streams_cpu.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace assay::inline kernels::internal {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

void Copy(const void* from, void* to, std::int64_t bytes) {
  const hn::ScalableTag<std::uint64_t> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto* source = static_cast<const std::uint64_t*>(from);
  auto* target = static_cast<std::uint64_t*>(to);
  for (std::int64_t i = 0; i < bytes / 8; i += lanes) {
    hn::Stream(hn::Load(d, source + i), d, target + i);
  }
  hwy::FlushStream();
}

void Triad(const void* a, const void* b, double factor, void* to, std::int64_t bytes) {
  const hn::ScalableTag<double> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto* left = static_cast<const double*>(a);
  const auto* right = static_cast<const double*>(b);
  auto* target = static_cast<double*>(to);
  const auto by = hn::Set(d, factor);
  for (std::int64_t i = 0; i < bytes / 8; i += lanes) {
    hn::Stream(hn::MulAdd(by, hn::Load(d, right + i), hn::Load(d, left + i)), d, target + i);
  }
  hwy::FlushStream();
}

std::uint64_t Read(const void* from, std::int64_t bytes) {
  const hn::ScalableTag<std::uint64_t> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto* source = static_cast<const std::uint64_t*>(from);
  // Four sums, so that no addition waits for the one before.
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  for (std::int64_t i = 0; i < bytes / 8; i += 4 * lanes) {
    s0 = hn::Add(s0, hn::Load(d, source + i));
    s1 = hn::Add(s1, hn::Load(d, source + i + lanes));
    s2 = hn::Add(s2, hn::Load(d, source + i + 2 * lanes));
    s3 = hn::Add(s3, hn::Load(d, source + i + 3 * lanes));
  }
  // The lanes are added by hand, because the compiler's AVX-512 header adds them as signed numbers,
  // whose overflow is undefined.
  HWY_ALIGN std::uint64_t lane[hn::MaxLanes(d)];
  hn::Store(hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)), d, lane);
  return std::accumulate(lane, lane + lanes, std::uint64_t{0});
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace assay::kernels::internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay::inline kernels::internal {

HWY_EXPORT(Copy);
HWY_EXPORT(Triad);
HWY_EXPORT(Read);

void StreamCopy(const void* from, void* to, std::int64_t bytes) {
  HWY_DYNAMIC_DISPATCH(Copy)(from, to, bytes);
}

void StreamTriad(const void* a, const void* b, double factor, void* to, std::int64_t bytes) {
  HWY_DYNAMIC_DISPATCH(Triad)(a, b, factor, to, bytes);
}

std::uint64_t StreamRead(const void* from, std::int64_t bytes) {
  return HWY_DYNAMIC_DISPATCH(Read)(from, bytes);
}

}  // namespace assay::kernels::internal
#endif  // HWY_ONCE
