#include "kernels/ops/conv/conv_probes.h"

#include "kernels/ops/common/probe_data.h"
#include "kernels/ops/conv/conv_reference.h"

namespace assay {

std::vector<KernelProbe> ConvProbes(const Case& c) {
  const ConvShape shape = MakeConvShape(std::get<ConvProblem>(c.problem));
  return ProductProbes(c, c.problem, shape.terms(), SumUse{});
}

}  // namespace assay
