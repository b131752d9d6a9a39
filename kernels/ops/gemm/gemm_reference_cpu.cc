#include "kernels/ops/gemm/gemm_reference_cpu.h"

#include "kernels/ops/common/sampling.h"
#include "kernels/ops/common/view_inputs.h"
#include "kernels/ops/gemm/gemm_reference.h"

namespace assay {

void GemmReferenceCpu(const GemmProblem& problem, DType input, std::span<const TensorView> inputs,
                      double* value, double* allowance) {
  const ViewInputs views(inputs);
  const std::vector<std::int64_t> all = AllIndices(problem.batch * problem.m * problem.n);
  GemmReferenceAt(problem, input, views, all, value, allowance);
}

}  // namespace assay
