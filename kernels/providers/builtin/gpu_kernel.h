// Shares the parts that the factories of the built-in GPU kernels have in common: a kernel that is
// a launch function, checks of its grid, and formats. Toolkit-free.
#ifndef ASSAY_KERNELS_PROVIDERS_BUILTIN_GPU_KERNEL_H_
#define ASSAY_KERNELS_PROVIDERS_BUILTIN_GPU_KERNEL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/providers/builtin/common.h"
#include "kernels/runtime/gpu/error_status.h"
#include "kernels/runtime/gpu/stream_of.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels::internal {

// A function that launches, given the views and the stream.
using LaunchFunction =
    std::function<gpu::ErrorCode(std::span<const TensorView>, const TensorView&, gpu::Stream)>;

inline absl::StatusOr<std::unique_ptr<Kernel>> Made(Device& device, std::string implementation,
                                                    LaunchFunction launch,
                                                    const Accumulator& accumulator = {}) {
  return Made(
      std::move(implementation),
      [&device, launch = std::move(launch)](std::span<const TensorView> inputs,
                                            const TensorView& output) -> absl::Status {
        const absl::StatusOr<gpu::Stream> stream = gpu::StreamOf(device);
        if (!stream.ok()) return stream.status();
        return gpu::StatusOf(launch(inputs, output, *stream), "the launch failed");
      },
      accumulator);
}

// Checks the number of blocks. A grid has one dimension of at most 2^31 − 1 blocks, each of `tile`
// rows and columns.
inline absl::Status CheckBlocks(std::string_view op, double blocks) {
  if (blocks <= 0x1p31 - 1) return absl::OkStatus();
  return absl::UnimplementedError(
      Cat("the built-in GPU ", op, " launches at most 2^31 - 1 blocks; this one has ", blocks));
}

inline double Tiles(std::int64_t extent, std::int64_t tile) {
  const std::int64_t tiles = (extent + tile - 1) / tile;
  return static_cast<double>(tiles);
}

// The forms of operators that compute rows or elements: fp32 and 16-bit inputs.
inline bool IsRowForm(DType in, DType out) {
  return !IsCoded(in) && in != DType::kF64 && IsFloatForm(in, out);
}
inline constexpr std::string_view kRowForms =
    "fp32, fp16 and bf16, and fp32 from tf32, fp16 or bf16";

}  // namespace assay::kernels::internal

#endif  // ASSAY_KERNELS_PROVIDERS_BUILTIN_GPU_KERNEL_H_
