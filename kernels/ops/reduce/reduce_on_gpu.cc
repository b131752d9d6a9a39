// reduce on a GPU: see gpu_op.h.
#include <variant>

#include "kernels/ops/common/device_words.h"
#include "kernels/ops/gpu_op.h"
#include "kernels/ops/reduce/reduce_reference.h"
#include "kernels/ops/reduce/reduce_reference_gpu.h"

namespace assay::inline kernels {
namespace {

class Reduce final : public GpuOp {
 public:
  absl::Status Reference(const GpuCall& call, const Case& c, const Plan& plan,
                         std::span<const TensorView> inputs, ReferenceBuffers& out) const override {
    const auto& p = std::get<ReduceProblem>(c.problem);
    gpu::ReduceReference r;
    r.x = inputs[0].data;
    r.input = c.dtype;
    r.shape = p.Split();
    r.kind = p.kind_of();
    r.ld = inputs[0].extents.ld;
    r.batch_stride = inputs[0].extents.batch_stride;
    r.bound = MakeReduceBound(p, c.dtype, plan.flushes_subnormals, plan.accumulator);
    if (r.kind == ReduceKind::kArgmax && p.any_tie())
      r.output = out.output.as<const std::int32_t>();
    r.value = out.value;
    r.allowance = plan.exact ? nullptr : out.allowance;
    return Launched(ReduceProblem::kOp, gpu::LaunchReduceReference(r, call.stream));
  }
};

}  // namespace

const GpuOp& ReduceOnGpu() {
  static const Reduce op;
  return op;
}

}  // namespace assay::kernels
