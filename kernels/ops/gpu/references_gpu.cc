#include "kernels/ops/gpu/references_gpu.h"

#include <iterator>
#include <variant>

#include "kernels/ops/gpu_op.h"

namespace assay::inline kernels {
namespace {

// An operator of the caller's own: its reference is a process of the CPU's.
class NoneOnGpu final : public GpuOp {
 public:
  absl::Status Reference(const GpuCall&, const Case&, const Plan&, std::span<const TensorView>,
                         ReferenceBuffers&) const override {
    return absl::UnimplementedError(
        "an operator of your own is judged on a CPU, by a daemon that takes users' kernels");
  }
};

// In the order of Problem's alternatives.
const GpuOp& OnGpu(const Case& c) {
  static const NoneOnGpu none;
  static const GpuOp* const kOps[] = {&GemmOnGpu(),
                                      &ConvOnGpu(),
                                      &AttentionOnGpu(),
                                      &SoftmaxOnGpu(),
                                      &LayerNormOnGpu(),
                                      &CopyOnGpu(),
                                      &DequantSoftmaxOnGpu(),
                                      &ReduceOnGpu(),
                                      &ElementwiseOnGpu(),
                                      &RopeOnGpu(),
                                      &none};
  static_assert(std::size(kOps) == std::variant_size_v<Problem>);
  return *kOps[c.problem.index()];
}

}  // namespace

absl::StatusOr<GpuCall> GpuReferences::CallOn(Device& device) const {
  const absl::StatusOr<gpu::Stream> stream = stream_(device);
  if (!stream.ok()) return stream.status();
  const absl::StatusOr<void*> scratch = scratch_(device);
  if (!scratch.ok()) return scratch.status();
  return GpuCall{device, *stream, *scratch};
}

absl::Status GpuReferences::Reference(const Case& c, const Plan& plan, Device& device,
                                      std::span<const TensorView> inputs,
                                      ReferenceBuffers& out) const {
  const absl::StatusOr<GpuCall> call = CallOn(device);
  if (!call.ok()) return call.status();
  return OnGpu(c).Reference(*call, c, plan, inputs, out);
}

bool GpuReferences::FillsDeviations(const Case& c) const { return OnGpu(c).FillsDeviations(c); }

bool GpuReferences::FillsDirection(const Case& c) const { return OnGpu(c).FillsDirection(c); }

absl::StatusOr<std::vector<Identity>> GpuReferences::CheckIdentities(
    const Case& c, const Plan& plan, Device& device, std::span<const TensorView> inputs,
    const TensorView& output, const ReferenceBuffers& reference) const {
  const absl::StatusOr<GpuCall> call = CallOn(device);
  if (!call.ok()) return call.status();
  return OnGpu(c).CheckIdentities(*call, c, plan, inputs, output, reference);
}

}  // namespace assay::kernels
