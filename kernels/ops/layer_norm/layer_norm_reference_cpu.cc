#include "kernels/ops/layer_norm/layer_norm_reference_cpu.h"

#include "kernels/ops/common/sampling.h"
#include "kernels/ops/common/view_inputs.h"
#include "kernels/ops/layer_norm/layer_norm_reference.h"

namespace assay {

void LayerNormReferenceCpu(const LayerNormProblem& problem, DType input,
                           std::span<const TensorView> inputs, double* value, double* allowance) {
  const ViewInputs views(inputs);
  const std::vector<std::int64_t> all = AllIndices(problem.rows * problem.cols);
  LayerNormReferenceAt(problem, input, views, all, value, allowance);
}

}  // namespace assay
