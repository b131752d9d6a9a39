#include "kernels/bench/stream_copy_cpu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/bench/stream_copy_cpu.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace assay::internal {
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

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace assay::internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay::internal {

HWY_EXPORT(Copy);

void StreamCopy(const void* from, void* to, std::int64_t bytes) {
  HWY_DYNAMIC_DISPATCH(Copy)(from, to, bytes);
}

}  // namespace assay::internal
#endif  // HWY_ONCE
