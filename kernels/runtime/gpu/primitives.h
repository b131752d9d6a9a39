// Enqueues the data-parallel operations of a GPU device on a stream. They do what Device promises.
// Views are in device memory; every operation takes any strides and formats. `scratch` is device
// memory of at least kScratchBytes that no other launch in flight uses; the caller reads results
// back from it.
//
// The same launch gives the same bits: the order of floating-point sums depends on extents and wave
// width alone.
#ifndef ASSAY_KERNELS_RUNTIME_GPU_PRIMITIVES_H_
#define ASSAY_KERNELS_RUNTIME_GPU_PRIMITIVES_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/numerics/pattern.h"
#include "kernels/numerics/poison.h"
#include "kernels/runtime/gpu/handles.h"
#include "kernels/runtime/tensor.h"

namespace assay::inline kernels::gpu {

inline constexpr std::int64_t kScratchBytes = 4 << 20;
// The most bytes of a kernel's parameters on every architecture. The jobs of a launch are
// parameters.
inline constexpr std::size_t kMostParameterBytes = 4096;

struct FillJob {
  Pattern pattern;
  std::uint64_t seed = 1;
  std::uint32_t tensor_id = 0;
  std::uint32_t epoch = 0;
  TensorView dst;
};
inline constexpr int kFillsOfALaunch = 24;  // three operands of eight small cases
// Fills all jobs, as if one after the other, with the bits of kernels/numerics/generate.h. One
// launch takes up to kFillsOfALaunch jobs. Small tensors share a launch whatever their formats and
// patterns; large ones only with the same kind of data and format.
ErrorCode LaunchFills(std::span<const FillJob> jobs, Stream stream);

// Sets every logical element to the poison of its format (kernels/numerics/poison.h).
ErrorCode LaunchPoison(Poison poison, const TensorView& dst, Stream stream);

// LaunchGuardPadding sets the padding (between cols and ld, and between batches) to `byte`.
// LaunchCountPadding adds the number of padding bytes that are not `byte` to *count, which is
// device memory that the caller has set to 0.
ErrorCode LaunchGuardPadding(const TensorView& dst, unsigned char byte, Stream stream);
ErrorCode LaunchCountPadding(const TensorView& view, unsigned char byte, unsigned long long* count,
                             Stream stream);

// The same for ranges of bytes, such as guard bands. One launch takes up to kRangesOfALaunch
// ranges.
struct ByteRange {
  void* data = nullptr;
  std::int64_t bytes = 0;
};
inline constexpr int kRangesOfALaunch = 64;
ErrorCode LaunchSetRanges(std::span<const ByteRange> ranges, unsigned char byte, Stream stream);
ErrorCode LaunchCountRanges(std::span<const ByteRange> ranges, unsigned char byte,
                            unsigned long long* count, Stream stream);

// Adds the digests of the logical elements (kernels/numerics/digest.h) to `out`: out[0..1] is the
// raw digest, out[2..3] the canonical one. `out` is device memory that the caller has set to 0.
ErrorCode LaunchDigest(const TensorView& view, unsigned long long* out, Stream stream);

// Copies src to dst. They have the same count and format, and any strides.
ErrorCode LaunchCopy(const TensorView& src, const TensorView& dst, Stream stream);
// The same to one of several places, `stride` bytes apart: the one that *slot says, counted from
// `first`. A negative one: nothing is copied. `slot` is device memory.
ErrorCode LaunchCopyToSlot(const TensorView& src, const TensorView& first, const std::int32_t* slot,
                           std::int64_t stride, Stream stream);

// Reads `bytes` bytes, a multiple of 16. Then the caches hold these bytes, and no other data that
// must still be written to memory. `unused` is device memory for one word.
ErrorCode LaunchSweep(const void* data, std::int64_t bytes, void* unused, Stream stream);

}  // namespace assay::kernels::gpu

#endif  // ASSAY_KERNELS_RUNTIME_GPU_PRIMITIVES_H_
