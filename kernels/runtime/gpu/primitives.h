// The data-parallel primitives of a GPU device, enqueued on a stream: what Device
// promises, as launches. Views are in device memory; every primitive takes strides and
// every format. `scratch` is device memory of at least kScratchBytes that no other
// launch in flight uses; results are read back from there by whoever launched.
//
// The same launch gives the same bits: sums of floating point are added in an order
// that only extents and wave width decide.
#ifndef ASSAY_KERNELS_RUNTIME_GPU_PRIMITIVES_H_
#define ASSAY_KERNELS_RUNTIME_GPU_PRIMITIVES_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/numerics/pattern.h"
#include "kernels/runtime/gpu/handles.h"
#include "kernels/runtime/tensor.h"

namespace assay::gpu {

inline constexpr std::int64_t kScratchBytes = 4 << 20;
// What a kernel's parameters take at most, on every architecture: jobs of one launch lie there.
inline constexpr std::size_t kMostParameterBytes = 4096;

struct FillJob {
  Pattern pattern;
  std::uint64_t seed = 1;
  std::uint32_t tensor_id = 0;
  std::uint32_t epoch = 0;
  TensorView dst;
};
inline constexpr int kFillsOfALaunch = 24;  // three operands of eight small cases
// Fills all of them, up to kFillsOfALaunch in one launch, as if one after the other: the bits
// of kernels/numerics/generate.h. Small tensors share a launch whatever their formats and
// patterns, others by these.
ErrorCode LaunchFills(std::span<const FillJob> jobs, Stream stream);

// Every logical element becomes the poison of its format (kernels/numerics/poison.h).
ErrorCode LaunchPoison(bool second, const TensorView& dst, Stream stream);

// Padding between cols and ld, and between batches, becomes `byte`; the count of
// padding bytes that are not `byte` is added to *count (device memory, set to 0 before).
ErrorCode LaunchGuardPadding(const TensorView& dst, unsigned char byte, Stream stream);
ErrorCode LaunchCountPadding(const TensorView& view, unsigned char byte, unsigned long long* count,
                             Stream stream);

// Ranges of bytes, up to kRangesOfALaunch a call: guard bands.
struct ByteRange {
  void* data = nullptr;
  std::int64_t bytes = 0;
};
inline constexpr int kRangesOfALaunch = 64;
ErrorCode LaunchSetRanges(std::span<const ByteRange> ranges, unsigned char byte, Stream stream);
ErrorCode LaunchCountRanges(std::span<const ByteRange> ranges, unsigned char byte,
                            unsigned long long* count, Stream stream);

// out[0..1]: the raw digest; out[2..3]: the canonical one (kernels/numerics/digest.h),
// of the logical elements. Device memory, set to 0 before.
ErrorCode LaunchDigest(const TensorView& view, unsigned long long* out, Stream stream);

// dst and src have the same count and format; any strides.
ErrorCode LaunchCopy(const TensorView& src, const TensorView& dst, Stream stream);

// Reads `bytes` in multiples of 16, so that the caches hold them, and nothing that must still be
// written to memory. `unused` is device memory for a word.
ErrorCode LaunchSweep(const void* data, std::int64_t bytes, void* unused, Stream stream);

}  // namespace assay::gpu

#endif  // ASSAY_KERNELS_RUNTIME_GPU_PRIMITIVES_H_
