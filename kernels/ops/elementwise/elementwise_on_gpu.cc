// elementwise on a GPU: see gpu_op.h.
#include <variant>

#include "kernels/ops/common/device_words.h"
#include "kernels/ops/elementwise/elementwise_reference.h"
#include "kernels/ops/elementwise/elementwise_reference_gpu.h"
#include "kernels/ops/gpu_op.h"

namespace assay::inline kernels {
namespace {

class Elementwise final : public GpuOp {
 public:
  absl::Status Reference(const GpuCall& call, const Case& c, const Plan& plan,
                         std::span<const TensorView> inputs, ReferenceBuffers& out) const override {
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
    return Launched(ElementwiseProblem::kOp, gpu::LaunchElementwiseReference(e, call.stream));
  }
};

}  // namespace

const GpuOp& ElementwiseOnGpu() {
  static const Elementwise op;
  return op;
}

}  // namespace assay::kernels
