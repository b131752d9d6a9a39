#include "kernels/providers/builtin/elements_gpu.h"

#include <cmath>

#include "kernels/providers/builtin/elementwise_builtin_gpu.h"
#include "kernels/providers/builtin/gpu_kernel.h"
#include "kernels/providers/builtin/reduce_builtin_gpu.h"
#include "kernels/providers/builtin/rope_builtin_gpu.h"

namespace assay::inline kernels::internal {

absl::StatusOr<std::unique_ptr<Kernel>> MakeReduceGpu(const Case& c, const Plan& plan,
                                                      Device& device) {
  const auto& p = std::get<ReduceProblem>(c.problem);
  const DType out = plan.output.dtype;
  if (out != DType::kI32 && !IsRowForm(c.dtype, out)) {
    return NoSuchForm("GPU reduce", c.dtype, out, kRowForms);
  }
  gpu::ReduceJob job;
  job.in = c.dtype;
  job.out = out;
  job.shape = p.Split();
  job.kind = p.kind_of();
  const bool rows = job.shape.inner == 1;
  const double blocks = rows ? static_cast<double>(job.shape.outer)
                             : Tiles(job.shape.outer * job.shape.inner, gpu::kReduceThreads);
  if (absl::Status s = CheckBlocks("reduce", blocks); !s.ok()) return s;
  return Made(
      device, rows ? "block a slice" : "thread a slice",
      [job](std::span<const TensorView> in, const TensorView& output, gpu::Stream stream) mutable {
        job.x = in[0].data;
        job.ld = in[0].extents.ld;
        job.batch_stride = in[0].extents.batch_stride;
        job.y = output.data;
        return gpu::LaunchReduce(job, stream);
      });
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeElementwiseGpu(const Case& c, const Plan& plan,
                                                           Device& device) {
  const auto& p = std::get<ElementwiseProblem>(c.problem);
  const DType out = plan.output.dtype;
  if (!IsRowForm(c.dtype, out)) return NoSuchForm("GPU elementwise", c.dtype, out, kRowForms);
  const double blocks = Tiles(p.cols, gpu::kElementwiseThreads) * static_cast<double>(p.rows);
  if (absl::Status s = CheckBlocks("elementwise", blocks); !s.ok()) return s;
  gpu::ElementwiseJob job;
  job.in = c.dtype;
  job.out = out;
  job.kind = p.kind_of();
  job.rows = p.rows;
  job.cols = p.cols;
  return Made(device, "thread an element",
              [job, broadcast = p.broadcast](std::span<const TensorView> in,
                                             const TensorView& output, gpu::Stream stream) mutable {
                job.a = in[0].data;
                job.a_ld = in[0].extents.ld;
                if (in.size() > 1) {
                  job.b = in[1].data;
                  job.b_ld = broadcast ? 0 : in[1].extents.ld;
                }
                job.y = output.data;
                job.y_ld = output.extents.ld;
                return gpu::LaunchElementwise(job, stream);
              });
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeRopeGpu(const Case& c, const Plan& plan,
                                                    Device& device) {
  const auto& p = std::get<RopeProblem>(c.problem);
  const DType out = plan.output.dtype;
  if (!IsRowForm(c.dtype, out)) return NoSuchForm("GPU rope", c.dtype, out, kRowForms);
  const double blocks = Tiles(p.dim / 2, gpu::kRopeThreads) * static_cast<double>(p.rows());
  if (absl::Status s = CheckBlocks("rope", blocks); !s.ok()) return s;
  gpu::RopeJob job;
  job.in = c.dtype;
  job.out = out;
  job.rows = p.rows();
  job.seq = p.seq;
  job.heads = p.heads;
  job.dim = p.dim;
  job.start = p.start;
  job.interleaved = p.interleaved;
  job.log2_theta = static_cast<float>(std::log2(KernelScalar(c.dtype, p.theta)));
  return Made(
      device, "thread a pair",
      [job](std::span<const TensorView> in, const TensorView& output, gpu::Stream stream) mutable {
        job.x = in[0].data;
        job.x_ld = in[0].extents.ld;
        job.y = output.data;
        job.y_ld = output.extents.ld;
        return gpu::LaunchRope(job, stream);
      });
}

}  // namespace assay::kernels::internal
