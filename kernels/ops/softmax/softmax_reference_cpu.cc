#include "kernels/ops/softmax/softmax_reference_cpu.h"

#include "kernels/ops/common/sampling.h"
#include "kernels/ops/common/view_inputs.h"
#include "kernels/ops/softmax/softmax_reference.h"

namespace assay {

void SoftmaxReferenceCpu(const SoftmaxProblem& problem, DType input,
                         std::span<const TensorView> inputs, double* value, double* allowance) {
  const ViewInputs views(inputs);
  const std::vector<std::int64_t> all = AllIndices(problem.rows * problem.cols);
  SoftmaxReferenceAt(problem, input, views, all, value, allowance);
}

}  // namespace assay
