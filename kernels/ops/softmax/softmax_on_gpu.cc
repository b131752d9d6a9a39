// softmax on a GPU: see gpu_op.h.
#include <algorithm>
#include <variant>

#include "kernels/ops/common/device_words.h"
#include "kernels/ops/common/row_residuals.h"
#include "kernels/ops/gpu_op.h"
#include "kernels/ops/softmax/softmax_identities.h"
#include "kernels/ops/softmax/softmax_identities_gpu.h"
#include "kernels/ops/softmax/softmax_reference.h"
#include "kernels/ops/softmax/softmax_reference_gpu.h"
#include "kernels/runtime/gpu/primitives.h"

namespace assay::inline kernels {
namespace {

gpu::SoftmaxReference SoftmaxOf(const Case& c, const Plan& plan, std::span<const TensorView> inputs,
                                const ReferenceBuffers& out) {
  const auto& p = std::get<SoftmaxProblem>(c.problem);
  return {inputs[0].data,
          c.dtype,
          p.rows,
          p.cols,
          inputs[0].extents.ld,
          MakeSoftmaxTerms(p, c.dtype, plan),
          out.value,
          out.allowance,
          MakeSoftmaxDeviation(p, c.dtype, plan),
          RowsOf(out)};
}

// From what the device found to the identities, whose messages say what the first broken
// row holds.
absl::StatusOr<std::vector<Identity>> SoftmaxIdentities(const gpu::SoftmaxCheck& check,
                                                        const gpu::SoftmaxFindings& f,
                                                        Device& device, const TensorView& input,
                                                        const TensorView& output) {
  const gpu::SoftmaxReference& s = check.reference;
  const std::int64_t rows = static_cast<std::int64_t>(f.rows);
  Identity range{.name = "range", .count = rows * s.cols};
  Identity sums{.name = "row-sums", .count = rows};
  range.broken = static_cast<std::int64_t>(f.out_of_range);
  sums.broken = static_cast<std::int64_t>(f.sums_broken);
  if (sums.broken > 0) {
    const std::int64_t row = static_cast<std::int64_t>(f.first_sum);
    const auto x = ReadDoubles(device, input, row * s.cols, s.cols);
    const auto y = ReadDoubles(device, output, row * s.cols, s.cols);
    const auto r = ReadDoubles(device, BufferView(s.value, output.extents), row * s.cols, s.cols);
    for (const auto* read : {&x, &y, &r}) {
      if (!read->ok()) return read->status();
    }
    const double max = *std::max_element(x->begin(), x->end());
    double sum = 0, spread = 0;
    for (std::size_t i = 0; i < y->size(); ++i) {
      sum += (*y)[i];
      spread += SoftmaxSpread((*r)[i], (*x)[i], max);
    }
    sums.message = RowSumMessage(
        row, sum,
        SoftmaxSumBound(s.terms.arithmetic, check.rounding, s.terms.held, s.cols, spread));
  }
  if (range.broken > 0) {
    const std::int64_t at = static_cast<std::int64_t>(f.first_out_of_range);
    const auto y = ReadDoubles(device, output, at, 1);
    if (!y.ok()) return y.status();
    range.message = RangeMessage(at / s.cols, at % s.cols, y->front());
  }
  return std::vector<Identity>{range, sums};
}

class Softmax final : public GpuOp {
 public:
  absl::Status Reference(const GpuCall& call, const Case& c, const Plan& plan,
                         std::span<const TensorView> inputs, ReferenceBuffers& out) const override {
    return Launched(SoftmaxProblem::kOp,
                    gpu::LaunchSoftmaxReference(SoftmaxOf(c, plan, inputs, out), call.stream));
  }

  bool FillsDeviations(const Case&) const override { return true; }
  bool FillsDirection(const Case&) const override { return false; }

  absl::StatusOr<std::vector<Identity>> CheckIdentities(
      const GpuCall& call, const Case& c, const Plan& plan, std::span<const TensorView> inputs,
      const TensorView& output, const ReferenceBuffers& reference) const override {
    static_assert(sizeof(gpu::SoftmaxFindings) <= gpu::kScratchBytes);
    const gpu::SoftmaxCheck check = {SoftmaxOf(c, plan, inputs, reference),
                                     output.data,
                                     output.dtype,
                                     output.extents.ld,
                                     OutputRoundingOf(output.dtype, plan.flushes_subnormals),
                                     static_cast<gpu::SoftmaxFindings*>(call.scratch)};
    const absl::Status launched =
        Launched(SoftmaxProblem::kOp, gpu::LaunchSoftmaxCheck(check, call.stream));
    if (!launched.ok()) return launched;
    gpu::SoftmaxFindings findings;
    if (absl::Status s = ReadWords(call.device, call.scratch, &findings); !s.ok()) return s;
    return SoftmaxIdentities(check, findings, call.device, inputs[0], output);
  }
};

}  // namespace

const GpuOp& SoftmaxOnGpu() {
  static const Softmax op;
  return op;
}

}  // namespace assay::kernels
