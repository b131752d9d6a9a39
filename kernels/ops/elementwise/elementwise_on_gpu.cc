#include "kernels/ops/elementwise/elementwise_on_gpu.h"

#include <variant>

#include "kernels/ops/elementwise/elementwise_reference.h"
#include "kernels/ops/elementwise/elementwise_reference_gpu.h"

namespace assay {

gpu::ErrorCode ElementwiseOnGpu(const Case& c, const Plan& plan, std::span<const TensorView> inputs,
                                const ReferenceBuffers& out, gpu::Stream stream) {
  const auto& p = std::get<ElementwiseProblem>(c.problem);
  gpu::ElementwiseReference e;
  e.a = inputs[0].data;
  e.a_ld = inputs[0].extents.ld;
  if (p.has_b()) {
    e.b = inputs[1].data;
    e.b_ld = p.broadcast ? 0 : inputs[1].extents.ld;
  }
  e.input = c.dtype;
  e.rows = p.rows;
  e.cols = p.cols;
  e.terms = MakeElementwiseTerms(p, c.dtype, plan);
  e.value = out.value;
  e.allowance = plan.exact ? nullptr : out.allowance;
  return gpu::LaunchElementwiseReference(e, stream);
}

}  // namespace assay
