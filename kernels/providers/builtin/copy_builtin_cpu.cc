// copy: y[i] = x[i], for elements of any format. It copies bytes, so NaN payloads and signs stay.
//
// Exact and deterministic. Work: the bytes are split evenly over the threads at cache-line
// boundaries. If source and destination together exceed the last-level cache, the stores bypass it.
// A plain store would first read each line, which is a third more traffic.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "kernels/providers/builtin/builtin.h"
#include "kernels/providers/builtin/common.h"
#include "kernels/runtime/cpu/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/providers/builtin/copy_builtin_cpu.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace assay::inline kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// memcpy with stores that bypass the caches. The ranges must not overlap.
void StreamBytes(const std::uint8_t* HWY_RESTRICT from, std::uint8_t* HWY_RESTRICT to,
                 std::int64_t bytes) {
  const hn::ScalableTag<std::uint8_t> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto address = reinterpret_cast<std::uintptr_t>(to);
  const auto misaligned = static_cast<std::int64_t>(address % static_cast<std::uintptr_t>(lanes));
  const std::int64_t head = std::min(bytes, misaligned == 0 ? 0 : lanes - misaligned);
  std::memcpy(to, from, static_cast<std::size_t>(head));
  std::int64_t i = head;
  for (; i + 4 * lanes <= bytes; i += 4 * lanes) {
    const auto v0 = hn::LoadU(d, from + i);
    const auto v1 = hn::LoadU(d, from + i + lanes);
    const auto v2 = hn::LoadU(d, from + i + 2 * lanes);
    const auto v3 = hn::LoadU(d, from + i + 3 * lanes);
    hn::Stream(v0, d, to + i);
    hn::Stream(v1, d, to + i + lanes);
    hn::Stream(v2, d, to + i + 2 * lanes);
    hn::Stream(v3, d, to + i + 3 * lanes);
  }
  std::memcpy(to + i, from + i, static_cast<std::size_t>(bytes - i));
  hwy::FlushStream();
}

}  // namespace HWY_NAMESPACE
}  // namespace assay::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay::inline kernels {
namespace {

HWY_EXPORT(StreamBytes);

constexpr std::int64_t kLine = 64;  // [bytes]
// Fewer lines are not worth a second thread, which takes some 2 µs to wake.
constexpr std::int64_t kGrainLines = 2048;

absl::StatusOr<std::unique_ptr<Kernel>> MakeCopy(const Case& c, const Plan& plan, Device& device) {
  if (plan.output.dtype != c.dtype) {
    return internal::NoSuchForm("copy", c.dtype, plan.output.dtype,
                                "every format, to the same format");
  }
  const std::int64_t bytes = StorageBytes(c.dtype, plan.output.extents.span());
  const bool streaming = internal::StreamingPays(device, 2 * bytes);
  return internal::Made(
      streaming ? absl::StrCat("stream ", internal::BuiltinTarget()) : "memcpy",
      [streaming](std::span<const TensorView> inputs, const TensorView& output) {
        const auto* from = inputs[0].as<const std::uint8_t>();
        auto* to = output.as<std::uint8_t>();
        const std::int64_t bytes = output.bytes();
        ParallelFor((bytes + kLine - 1) / kLine, kGrainLines,
                    [&](std::int64_t begin, std::int64_t end) {
                      const std::int64_t first = begin * kLine;
                      const std::int64_t size = std::min(end * kLine, bytes) - first;
                      if (streaming) {
                        HWY_DYNAMIC_DISPATCH(StreamBytes)(from + first, to + first, size);
                      } else {
                        std::memcpy(to + first, from + first, static_cast<std::size_t>(size));
                      }
                    });
        return absl::OkStatus();
      });
}

}  // namespace

KernelEntry BuiltinCopyCpu() { return internal::BuiltinEntry("copy", AllFormats(), &MakeCopy); }

}  // namespace assay::kernels
#endif  // HWY_ONCE
