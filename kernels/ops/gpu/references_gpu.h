// The references of all operators on a GPU: from a case and its plan to the launches of
// ops/<op>/<op>_reference_gpu.h, with the same formats, bounds and exact cases as each
// operator's own Reference has on the CPU. Toolkit-free: it serves CUDA, HIP and the
// emulator.
//
// Thread-safety: as a Device's. Errors: UNIMPLEMENTED where a problem is beyond a
// kernel's indices, INTERNAL where a launch fails, with the toolkit's code.
#ifndef ASSAY_KERNELS_OPS_GPU_REFERENCES_GPU_H_
#define ASSAY_KERNELS_OPS_GPU_REFERENCES_GPU_H_

#include <cstdint>
#include <functional>

#include "kernels/ops/device_references.h"
#include "kernels/runtime/gpu/handles.h"
#include "kernels/runtime/gpu/primitives.h"

namespace assay {

class GpuReferences final : public DeviceReferences {
 public:
  // The stream that launches are enqueued on, with all work before them on it already.
  using StreamOf = std::function<absl::StatusOr<gpu::Stream>(Device&)>;
  // kScratchBytes of device memory that nothing else in flight uses.
  using ScratchOf = std::function<absl::StatusOr<void*>(Device&)>;
  static constexpr std::int64_t kScratchBytes = gpu::kScratchBytes;

  GpuReferences(StreamOf stream, ScratchOf scratch)
      : stream_(std::move(stream)), scratch_(std::move(scratch)) {}

  // Waits for an attention's largest score; enqueues the others.
  absl::Status Reference(const Case& c, const Plan& plan, Device& device,
                         std::span<const TensorView> inputs, ReferenceBuffers& out) const override;

  bool FillsDeviations(const Case& c) const override;
  bool FillsDirection(const Case& c) const override;

  absl::StatusOr<std::vector<Identity>> CheckIdentities(
      const Case& c, const Plan& plan, Device& device, std::span<const TensorView> inputs,
      const TensorView& output, const ReferenceBuffers& reference) const override;

 private:
  StreamOf stream_;
  ScratchOf scratch_;
};

}  // namespace assay

#endif  // ASSAY_KERNELS_OPS_GPU_REFERENCES_GPU_H_
