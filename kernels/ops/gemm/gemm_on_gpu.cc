// gemm on a GPU: see gpu_op.h.
#include <cstddef>
#include <variant>

#include "kernels/ops/common/device_words.h"
#include "kernels/ops/gemm/gemm_reference.h"
#include "kernels/ops/gemm/gemm_reference_gpu.h"
#include "kernels/ops/gpu_op.h"
#include "kernels/runtime/gpu/primitives.h"

namespace assay::inline kernels {
namespace {

gpu::GemmReference GemmOf(const Case& c, const Plan& plan, std::span<const TensorView> inputs,
                          const ReferenceBuffers& out) {
  const auto& p = std::get<GemmProblem>(c.problem);
  gpu::GemmReference g;
  g.m = p.m;
  g.n = p.n;
  g.k = p.k;
  g.batch = p.batch;
  const auto matrix = [](const TensorView& v, bool rows_lie_along) {
    const Extents& e = v.extents;
    return gpu::GemmReference::Matrix{v.data, rows_lie_along ? 1 : e.ld, rows_lie_along ? e.ld : 1,
                                      e.batch_stride};
  };
  g.a = matrix(inputs[0], p.trans_a);
  g.b = matrix(inputs[1], !p.trans_b);
  if (p.beta != 0.0) g.c = matrix(inputs[2], false);
  const auto columns = [&](int operand) {
    const TensorView& v = inputs[static_cast<std::size_t>(operand)];
    g.columns = v.dtype;
    return v.data;
  };
  if (p.channel_scale) g.channel_scale = columns(p.channel_scale_operand());
  if (p.bias) g.bias = columns(p.bias_operand());
  g.input = c.dtype;
  g.output = plan.output.dtype;
  g.epilogue = MakeGemmEpilogue(c, plan);
  g.largest = SaturatesTo(plan.output.dtype);
  g.value = out.value;
  g.allowance = plan.exact ? nullptr : out.allowance;
  return g;
}

class Gemm final : public GpuOp {
 public:
  absl::Status Reference(const GpuCall& call, const Case& c, const Plan& plan,
                         std::span<const TensorView> inputs, ReferenceBuffers& out) const override {
    gpu::GemmReference gemm = GemmOf(c, plan, inputs, out);
    if (gemm.allowance != nullptr && out.deviation != nullptr) {
      gemm.deviation = out.deviation;
      gemm.scratch = call.scratch;
      gemm.scratch_bytes = gpu::kScratchBytes;
    }
    return Launched(GemmProblem::kOp, gpu::LaunchGemmReference(gemm, call.stream));
  }

  bool FillsDeviations(const Case& c) const override {
    const auto& p = std::get<GemmProblem>(c.problem);
    return gpu::SquareBytes(p.m, p.n, p.k) <= gpu::kScratchBytes;
  }
};

}  // namespace

const GpuOp& GemmOnGpu() {
  static const Gemm op;
  return op;
}

}  // namespace assay::kernels
