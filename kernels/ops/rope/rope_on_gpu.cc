// rope on a GPU: see gpu_op.h.
#include <variant>

#include "kernels/ops/common/device_words.h"
#include "kernels/ops/gpu_op.h"
#include "kernels/ops/rope/rope_reference.h"
#include "kernels/ops/rope/rope_reference_gpu.h"

namespace assay::inline kernels {
namespace {

class Rope final : public GpuOp {
 public:
  absl::Status Reference(const GpuCall& call, const Case& c, const Plan& plan,
                         std::span<const TensorView> inputs, ReferenceBuffers& out) const override {
    const auto& p = std::get<RopeProblem>(c.problem);
    gpu::RopeReference r;
    r.x = inputs[0].data;
    r.x_ld = inputs[0].extents.ld;
    r.input = c.dtype;
    r.rows = p.rows();
    r.seq = p.seq;
    r.heads = p.heads;
    r.dim = p.dim;
    r.start = p.start;
    r.interleaved = p.interleaved;
    r.terms = MakeRopeTerms(p, c.dtype, plan);
    r.value = out.value;
    r.allowance = plan.exact ? nullptr : out.allowance;
    return Launched(RopeProblem::kOp, gpu::LaunchRopeReference(r, call.stream));
  }
};

}  // namespace

const GpuOp& RopeOnGpu() {
  static const Rope op;
  return op;
}

}  // namespace assay::kernels
