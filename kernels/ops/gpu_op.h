// GpuOp: an operator's reference and identities on a GPU. It turns a case and its plan into the
// launches of ops/<op>/<op>_reference_gpu.h. Formats, bounds and exact cases are those of
// Op::Reference on the CPU. Toolkit-free: it serves CUDA, HIP and the emulator.
//
// There is one object for each operator. It has no state, so any thread may use it; the device of a
// call belongs to one thread. Errors: UNIMPLEMENTED if the problem is too large for the indices of
// a kernel, INTERNAL with the toolkit's code if a launch fails.
#ifndef ASSAY_KERNELS_OPS_GPU_OP_H_
#define ASSAY_KERNELS_OPS_GPU_OP_H_

#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/ops/op.h"
#include "kernels/runtime/gpu/handles.h"

namespace assay::inline kernels {

// Where the launches of one call go.
struct GpuCall {
  Device& device;
  gpu::Stream stream;       // all work before is on it already
  void* scratch = nullptr;  // gpu::kScratchBytes of device memory that nothing else in flight uses
};

class GpuOp {
 public:
  virtual ~GpuOp() = default;

  // Enqueues the reference. Inputs and buffers are in device memory. Waits only for what `out` must
  // hold when it returns, as max_abs_score.
  virtual absl::Status Reference(const GpuCall& call, const Case& c, const Plan& plan,
                                 std::span<const TensorView> inputs,
                                 ReferenceBuffers& out) const = 0;

  // Whether Reference fills what the operator's ResidualModel says of this case.
  virtual bool FillsDeviations(const Case&) const { return false; }

  // Whether it fills the direction as well, of a case whose deviations it fills.
  virtual bool FillsDirection(const Case&) const { return true; }

  // As Op::CheckIdentities.
  virtual absl::StatusOr<std::vector<Identity>> CheckIdentities(
      const GpuCall&, const Case&, const Plan&, std::span<const TensorView> /*inputs*/,
      const TensorView& /*output*/, const ReferenceBuffers&) const {
    return std::vector<Identity>();
  }
};

// Each operator's object; its definition is in ops/<op>/<op>_on_gpu.cc.
const GpuOp& GemmOnGpu();
const GpuOp& ConvOnGpu();
const GpuOp& AttentionOnGpu();
const GpuOp& SoftmaxOnGpu();
const GpuOp& LayerNormOnGpu();
const GpuOp& CopyOnGpu();
const GpuOp& DequantSoftmaxOnGpu();
const GpuOp& ReduceOnGpu();
const GpuOp& ElementwiseOnGpu();
const GpuOp& RopeOnGpu();

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_GPU_OP_H_
