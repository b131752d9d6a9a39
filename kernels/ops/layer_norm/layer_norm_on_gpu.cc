// layer_norm on a GPU: see gpu_op.h.
#include <variant>

#include "kernels/ops/common/device_words.h"
#include "kernels/ops/common/row_residuals.h"
#include "kernels/ops/gpu_op.h"
#include "kernels/ops/layer_norm/layer_norm_reference.h"
#include "kernels/ops/layer_norm/layer_norm_reference_gpu.h"

namespace assay::inline kernels {
namespace {

class LayerNorm final : public GpuOp {
 public:
  absl::Status Reference(const GpuCall& call, const Case& c, const Plan& plan,
                         std::span<const TensorView> inputs, ReferenceBuffers& out) const override {
    const auto& p = std::get<LayerNormProblem>(c.problem);
    gpu::LayerNormReference l;
    l.x = inputs[0].data;
    l.input = c.dtype;
    if (p.affine) {
      l.weight = inputs[1].data;
      l.columns = inputs[1].dtype;
      if (!p.rms) l.bias = inputs[2].data;
    }
    l.rows = p.rows;
    l.cols = p.cols;
    l.x_ld = inputs[0].extents.ld;
    l.terms = MakeLayerNormTerms(p, c.dtype, plan);
    l.value = out.value;
    l.allowance = out.allowance;
    l.model = MakeLayerNormDeviation(p, c.dtype, plan);
    l.deviations = RowsOf(out);
    return Launched(LayerNormProblem::kOp, gpu::LaunchLayerNormReference(l, call.stream));
  }

  bool FillsDeviations(const Case&) const override { return true; }
  bool FillsDirection(const Case&) const override { return false; }
};

}  // namespace

const GpuOp& LayerNormOnGpu() {
  static const LayerNorm op;
  return op;
}

}  // namespace assay::kernels
