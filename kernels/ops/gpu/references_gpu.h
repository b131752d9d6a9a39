// The references of all operators on a GPU: hands each case on to its operator's object (gpu_op.h),
// with the stream and the scratch memory of the device.
//
// Thread-safety: as a Device's. Errors: as GpuOp's.
#ifndef ASSAY_KERNELS_OPS_GPU_REFERENCES_GPU_H_
#define ASSAY_KERNELS_OPS_GPU_REFERENCES_GPU_H_

#include <cstdint>
#include <functional>

#include "kernels/ops/device_references.h"
#include "kernels/ops/gpu_op.h"
#include "kernels/runtime/gpu/handles.h"
#include "kernels/runtime/gpu/primitives.h"

namespace assay::inline kernels {

class GpuReferences final : public DeviceReferences {
 public:
  // The stream that launches are enqueued on, with all work before them on it already.
  using StreamOf = std::function<absl::StatusOr<gpu::Stream>(Device&)>;
  // kScratchBytes of device memory that nothing else in flight uses.
  using ScratchOf = std::function<absl::StatusOr<void*>(Device&)>;
  static constexpr std::int64_t kScratchBytes = gpu::kScratchBytes;

  GpuReferences(StreamOf stream, ScratchOf scratch)
      : stream_(std::move(stream)), scratch_(std::move(scratch)) {}

  absl::Status Reference(const Case& c, const Plan& plan, Device& device,
                         std::span<const TensorView> inputs, ReferenceBuffers& out) const override;

  bool FillsDeviations(const Case& c) const override;
  bool FillsDirection(const Case& c) const override;

  absl::StatusOr<std::vector<Identity>> CheckIdentities(
      const Case& c, const Plan& plan, Device& device, std::span<const TensorView> inputs,
      const TensorView& output, const ReferenceBuffers& reference) const override;

 private:
  absl::StatusOr<GpuCall> CallOn(Device& device) const;

  StreamOf stream_;
  ScratchOf scratch_;
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_GPU_REFERENCES_GPU_H_
