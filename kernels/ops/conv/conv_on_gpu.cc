// conv on a GPU: see gpu_op.h.
#include <variant>

#include "kernels/ops/common/device_words.h"
#include "kernels/ops/common/planning.h"
#include "kernels/ops/common/product_residuals.h"
#include "kernels/ops/conv/conv_reference.h"
#include "kernels/ops/conv/conv_reference_gpu.h"
#include "kernels/ops/gpu_op.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

gpu::ConvReference ConvOf(const Case& c, const Plan& plan, std::span<const TensorView> inputs,
                          const ReferenceBuffers& out) {
  const ConvShape shape = MakeConvShape(std::get<ConvProblem>(c.problem));
  return {shape,
          inputs[0].data,
          inputs[1].data,
          c.dtype,
          MakeProductBound(c.dtype, shape.terms(), plan.flushes_subnormals, plan.accumulator),
          out.value,
          plan.exact ? nullptr : out.allowance,
          MakeSumModel(c.dtype, shape.terms(), AccumulatorOf(c.dtype, plan.accumulator)),
          OutputStepsOf(plan.output.dtype),
          plan.exact ? nullptr : out.deviation};
}

class Conv final : public GpuOp {
 public:
  absl::Status Reference(const GpuCall& call, const Case& c, const Plan& plan,
                         std::span<const TensorView> inputs, ReferenceBuffers& out) const override {
    const gpu::ConvReference conv = ConvOf(c, plan, inputs, out);
    if (conv.shape.terms() > gpu::kMostConvTerms) {
      return absl::UnimplementedError(Cat("a convolution's reference on a GPU sums at most ",
                                          gpu::kMostConvTerms, " products an element, not ",
                                          conv.shape.terms()));
    }
    return Launched(ConvProblem::kOp, gpu::LaunchConvReference(conv, call.stream));
  }

  bool FillsDeviations(const Case&) const override { return true; }
};

}  // namespace

const GpuOp& ConvOnGpu() {
  static const Conv op;
  return op;
}

}  // namespace assay::kernels
