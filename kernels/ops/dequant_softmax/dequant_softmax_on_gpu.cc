// dequant_softmax on a GPU: see gpu_op.h.
#include <string_view>
#include <variant>

#include "kernels/ops/common/device_words.h"
#include "kernels/ops/common/row_residuals.h"
#include "kernels/ops/common/softmax_rows.h"
#include "kernels/ops/dequant_softmax/dequant_softmax_identities.h"
#include "kernels/ops/dequant_softmax/dequant_softmax_identities_gpu.h"
#include "kernels/ops/dequant_softmax/dequant_softmax_reference.h"
#include "kernels/ops/dequant_softmax/dequant_softmax_reference_gpu.h"
#include "kernels/ops/gpu_op.h"
#include "kernels/runtime/gpu/primitives.h"

namespace assay::inline kernels {
namespace {

gpu::DequantSoftmaxReference DequantSoftmaxOf(const Case& c, const Plan& plan,
                                              std::span<const TensorView> inputs,
                                              const ReferenceBuffers& out) {
  const auto& p = std::get<DequantSoftmaxProblem>(c.problem);
  gpu::DequantSoftmaxReference g;
  g.a = inputs[0].data;
  g.w = inputs[1].data;
  g.scale = inputs[2].data;
  g.input = c.dtype;
  g.m = p.m;
  g.n = p.n;
  g.k = p.k;
  g.a_ld = inputs[0].extents.ld;
  g.w_ld = inputs[1].extents.ld;
  g.transpose_w = p.transpose_w;
  g.bound = MakeDequantSoftmaxBound(p, c.dtype, plan);
  g.value = out.value;
  if (plan.exact) return g;
  g.allowance = out.allowance;
  g.model = MakeDequantSoftmaxDeviation(p, c.dtype, plan);
  g.deviations = RowsOf(out);
  return g;
}

// From what the device found to the identities. What the first broken row holds is asked of the
// device.
absl::StatusOr<std::vector<Identity>> DequantSoftmaxIdentities(gpu::DequantSoftmaxCheck check,
                                                               Device& device,
                                                               const TensorView& output,
                                                               gpu::Stream stream) {
  constexpr std::string_view kOp = DequantSoftmaxProblem::kOp;
  const std::int64_t cols = check.reference.n;
  const auto look = [&](std::int64_t first, std::int64_t rows, gpu::DequantSoftmaxFindings* f) {
    check.first_row = first;
    check.rows = rows;
    absl::Status s = Launched(kOp, gpu::LaunchDequantSoftmaxCheck(check, stream));
    return s.ok() ? ReadWords(device, check.findings, f) : s;
  };
  gpu::DequantSoftmaxFindings f;
  if (absl::Status s = look(0, check.reference.m, &f); !s.ok()) return s;
  const std::int64_t rows = static_cast<std::int64_t>(f.rows);
  Identity range{.name = "range", .count = rows * cols};
  Identity sums{.name = "row-sums", .count = rows};
  range.broken = static_cast<std::int64_t>(f.out_of_range);
  sums.broken = static_cast<std::int64_t>(f.sums_broken);
  if (range.broken > 0) {
    const std::int64_t at = static_cast<std::int64_t>(f.first_out_of_range);
    const auto y = ReadDoubles(device, output, at, 1);
    if (!y.ok()) return y.status();
    range.message = RangeMessage(at / cols, at % cols, y->front());
  }
  if (sums.broken > 0) {
    const std::int64_t row = static_cast<std::int64_t>(f.first_sum);
    if (absl::Status s = look(row, 1, &f); !s.ok()) return s;
    sums.message = RowSumMessage(row, f.sum, f.bound);
  }
  return std::vector<Identity>{range, sums};
}

class DequantSoftmax final : public GpuOp {
 public:
  absl::Status Reference(const GpuCall& call, const Case& c, const Plan& plan,
                         std::span<const TensorView> inputs, ReferenceBuffers& out) const override {
    return Launched(
        DequantSoftmaxProblem::kOp,
        gpu::LaunchDequantSoftmaxReference(DequantSoftmaxOf(c, plan, inputs, out), call.stream));
  }

  bool FillsDeviations(const Case&) const override { return true; }

  absl::StatusOr<std::vector<Identity>> CheckIdentities(
      const GpuCall& call, const Case& c, const Plan& plan, std::span<const TensorView> inputs,
      const TensorView& output, const ReferenceBuffers& reference) const override {
    static_assert(sizeof(gpu::DequantSoftmaxFindings) <= gpu::kScratchBytes);
    gpu::DequantSoftmaxCheck check;
    check.reference = DequantSoftmaxOf(c, plan, inputs, reference);
    check.y = output.data;
    check.output = output.dtype;
    check.y_ld = output.extents.ld;
    check.rounding = OutputRoundingOf(output.dtype, plan.flushes_subnormals);
    check.findings = static_cast<gpu::DequantSoftmaxFindings*>(call.scratch);
    return DequantSoftmaxIdentities(check, call.device, output, call.stream);
  }
};

}  // namespace

const GpuOp& DequantSoftmaxOnGpu() {
  static const DequantSoftmax op;
  return op;
}

}  // namespace assay::kernels
