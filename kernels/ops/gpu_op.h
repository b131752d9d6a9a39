// An operator on a GPU: its reference, from a case and its plan to the launches of
// ops/<op>/<op>_reference_gpu.h, with the same formats, bounds and exact cases as Op::Reference has
// on the CPU, and its identities. Toolkit-free: it serves CUDA, HIP and the emulator.
//
// There is one stateless object an operator; any thread may use it, but for the device of a call.
// Errors: UNIMPLEMENTED where a problem is beyond a kernel's indices, INTERNAL where a launch
// fails, with the toolkit's code.
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
