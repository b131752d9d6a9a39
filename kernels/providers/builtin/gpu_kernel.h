// What the factories of the built-in GPU kernels share: a kernel that is a launch function, checks
// of its grid, and formats. Toolkit-free.
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

namespace assay::internal {

// A function that launches, given the views and the stream.
using LaunchFunction =
    std::function<gpu::ErrorCode(std::span<const TensorView>, const TensorView&, gpu::Stream)>;

class GpuKernel final : public Kernel {
 public:
  GpuKernel(Device& device, std::string implementation, LaunchFunction launch,
            const Accumulator& accumulator)
      : device_(device),
        implementation_(std::move(implementation)),
        launch_(std::move(launch)),
        accumulator_(accumulator) {}

  absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) override {
    const absl::StatusOr<gpu::Stream> stream = gpu::StreamOf(device_);
    if (!stream.ok()) return stream.status();
    return gpu::StatusOf(launch_(inputs, output, *stream), "the launch failed");
  }

  Accumulator accumulator() const override { return accumulator_; }
  std::string implementation() const override { return implementation_; }

 private:
  Device& device_;
  const std::string implementation_;
  const LaunchFunction launch_;
  const Accumulator accumulator_;
};

inline absl::StatusOr<std::unique_ptr<Kernel>> Made(Device& device, std::string implementation,
                                                    LaunchFunction launch,
                                                    const Accumulator& accumulator = {}) {
  return std::make_unique<GpuKernel>(device, std::move(implementation), std::move(launch),
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
  return static_cast<double>((extent + tile - 1) / tile);
}

// The forms of operators that compute rows or elements: fp32 and 16-bit inputs.
inline bool IsRowForm(DType in, DType out) {
  return !IsCoded(in) && in != DType::kF64 && IsFloatForm(in, out);
}
inline constexpr std::string_view kRowForms =
    "fp32, fp16 and bf16, and fp32 from tf32, fp16 or bf16";

}  // namespace assay::internal

#endif  // ASSAY_KERNELS_PROVIDERS_BUILTIN_GPU_KERNEL_H_
