#include "kernels/ops/rope/rope_on_gpu.h"

#include <variant>

#include "kernels/ops/rope/rope_reference.h"
#include "kernels/ops/rope/rope_reference_gpu.h"

namespace assay {

gpu::ErrorCode RopeOnGpu(const Case& c, const Plan& plan, std::span<const TensorView> inputs,
                         const ReferenceBuffers& out, gpu::Stream stream) {
  const auto& p = std::get<RopeProblem>(c.problem);
  gpu::RopeReference r;
  r.x = inputs[0].data;
  r.x_ld = inputs[0].extents.ld;
  r.input = c.dtype;
  r.rows = p.rows();
  r.seq = p.seq;
  r.heads = p.heads;
  r.dim = p.dim;
  r.start = p.start;
  r.interleaved = p.interleaved;
  r.terms = MakeRopeTerms(p, c.dtype, plan);
  r.value = out.value;
  r.allowance = plan.exact ? nullptr : out.allowance;
  return gpu::LaunchRopeReference(r, stream);
}

}  // namespace assay
