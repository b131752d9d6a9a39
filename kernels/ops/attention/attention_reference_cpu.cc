#include "kernels/ops/attention/attention_reference_cpu.h"

#include "kernels/ops/attention/attention_reference.h"
#include "kernels/ops/common/sampling.h"
#include "kernels/ops/common/view_inputs.h"

namespace assay {

double AttentionReferenceCpu(const AttentionProblem& problem, DType input,
                             std::span<const TensorView> inputs, double* value, double* allowance) {
  const ViewInputs views(inputs);
  const std::vector<std::int64_t> all =
      AllIndices(problem.batch * problem.heads * problem.seq * problem.dim);
  AttentionReferenceAt(problem, input, views, all, value, allowance);
  return 0.0;
}

}  // namespace assay
