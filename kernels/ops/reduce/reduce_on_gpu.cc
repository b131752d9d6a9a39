#include "kernels/ops/reduce/reduce_on_gpu.h"

#include <variant>

#include "kernels/ops/reduce/reduce_reference.h"
#include "kernels/ops/reduce/reduce_reference_gpu.h"

namespace assay {

gpu::ErrorCode ReduceOnGpu(const Case& c, const Plan& plan, std::span<const TensorView> inputs,
                           const ReferenceBuffers& out, gpu::Stream stream) {
  const auto& p = std::get<ReduceProblem>(c.problem);
  gpu::ReduceReference r;
  r.x = inputs[0].data;
  r.input = c.dtype;
  r.shape = p.Split();
  r.kind = p.kind_of();
  r.ld = inputs[0].extents.ld;
  r.batch_stride = inputs[0].extents.batch_stride;
  r.bound = MakeReduceBound(p, c.dtype, plan.flushes_subnormals, plan.accumulator);
  if (r.kind == ReduceKind::kArgmax && p.any_tie()) r.output = out.output.as<const std::int32_t>();
  r.value = out.value;
  r.allowance = plan.exact ? nullptr : out.allowance;
  return gpu::LaunchReduceReference(r, stream);
}

}  // namespace assay
