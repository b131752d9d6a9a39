#include "kernels/ops/conv/conv_reference_cpu.h"

#include "kernels/ops/common/sampling.h"
#include "kernels/ops/common/view_inputs.h"
#include "kernels/ops/conv/conv_reference.h"

namespace assay {

void ConvReferenceCpu(const ConvProblem& problem, DType input, std::span<const TensorView> inputs,
                      double* value, double* allowance) {
  const ViewInputs views(inputs);
  const ConvShape s = MakeConvShape(problem);
  const std::vector<std::int64_t> all = AllIndices(s.batch * s.filters * s.positions());
  ConvReferenceAt(problem, input, views, all, value, allowance);
}

}  // namespace assay
