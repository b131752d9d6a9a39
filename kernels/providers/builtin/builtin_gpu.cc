#include "kernels/providers/builtin/builtin_gpu.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/providers/builtin/attention_builtin_gpu.h"
#include "kernels/providers/builtin/common.h"
#include "kernels/providers/builtin/conv_builtin_gpu.h"
#include "kernels/providers/builtin/copy_builtin_gpu.h"
#include "kernels/providers/builtin/dequant_softmax_builtin_gpu.h"
#include "kernels/providers/builtin/elements_gpu.h"
#include "kernels/providers/builtin/gemm_builtin_gpu.h"
#include "kernels/providers/builtin/gpu_kernel.h"
#include "kernels/providers/builtin/layer_norm_builtin_gpu.h"
#include "kernels/providers/builtin/softmax_builtin_gpu.h"
#include "kernels/runtime/gpu/gpu_device.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

using internal::CheckBlocks;
using internal::IsCoded;
using internal::IsFloatForm;
using internal::IsRowForm;
using internal::KernelScalar;
using internal::kRowForms;
using internal::Made;
using internal::NoSuchForm;
using internal::Tiles;

// "mma.m16n8k16" if the device has these instructions; otherwise fmas do the same.
std::string MatrixText(const Device& device, std::string_view what) {
  return Cat(device.info().backend == "cuda" ? "mma" : "fma", ".m16n8k16 ", what);
}

// What their sums are: tensor cores cut off (port_matrix.h).
Accumulator MatrixSums(const Device& device) {
  if (device.info().backend != "cuda") return {};
  return {.truncation = {.roundoff = kTruncatedRoundoff}};
}

bool IsHalf(DType t) { return t == DType::kF16 || t == DType::kBF16; }

// ---- gemm ----

absl::StatusOr<std::unique_ptr<Kernel>> MakeGemm(const Case& c, const Plan& plan, Device& device) {
  const auto& p = std::get<GemmProblem>(c.problem);
  const DType out = plan.output.dtype;
  const bool integer = c.dtype == DType::kI8 && out == DType::kI32;
  const bool dequantised = c.dtype == DType::kI8 && (out == DType::kF32 || IsHalf(out));
  const bool coded = out == c.dtype && IsCoded(out);
  if (c.dtype == DType::kE2M1 ||
      (!integer && !dequantised && !coded && !IsFloatForm(c.dtype, out))) {
    return NoSuchForm("GPU gemm", c.dtype, out,
                      Cat(internal::kFloatForms,
                          ", 8-bit floats from the same, and int32, fp32, fp16 or bf16 from int8"));
  }
  if (integer) {
    if (absl::Status s = internal::CheckWholeScalars(p); !s.ok()) return s;
  }
  constexpr std::int64_t kSmallestTile = 64;
  if (absl::Status s = CheckBlocks("gemm", Tiles(p.m, kSmallestTile) * Tiles(p.n, kSmallestTile) *
                                               static_cast<double>(p.batch));
      !s.ok()) {
    return s;
  }
  gpu::GemmJob job;
  job.in = c.dtype;
  job.out = out;
  job.m = p.m;
  job.n = p.n;
  job.k = p.k;
  job.batch = p.batch;
  job.trans_a = p.trans_a;
  job.trans_b = p.trans_b;
  job.factor = p.alpha;
  if (c.dtype == DType::kF64) {
    job.factor = p.alpha * p.scale_a * p.scale_b;
  } else if (!integer) {
    job.factor = static_cast<double>(static_cast<float>(p.alpha) * static_cast<float>(p.scale_a) *
                                     static_cast<float>(p.scale_b));
  }
  job.beta = p.beta;
  job.activation = p.activation_kind();
  std::string text = IsHalf(c.dtype) ? MatrixText(device, "tile 128x128x32") : "fma tile";
  return Made(
      device, std::move(text),
      [p, job](std::span<const TensorView> in, const TensorView& output,
               gpu::Stream stream) mutable {
        const auto matrix = [](const TensorView& v) {
          return gpu::GemmMatrix{v.data, v.extents.ld, v.extents.batch_stride};
        };
        const auto data = [&](int operand) { return in[static_cast<std::size_t>(operand)].data; };
        job.a = matrix(in[0]);
        job.b = matrix(in[1]);
        if (p.beta != 0.0) job.c = matrix(in[2]);
        if (p.channel_scale) job.channel_scale = data(p.channel_scale_operand());
        if (p.bias) job.bias = data(p.bias_operand());
        job.d = output.data;
        job.d_ld = output.extents.ld;
        job.d_batch_stride = output.extents.batch_stride;
        return gpu::LaunchGemm(job, stream);
      },
      IsHalf(c.dtype) ? MatrixSums(device) : Accumulator());
}

// ---- attention ----

absl::StatusOr<std::unique_ptr<Kernel>> MakeAttention(const Case& c, const Plan& plan,
                                                      Device& device) {
  const auto& p = std::get<AttentionProblem>(c.problem);
  const DType out = plan.output.dtype;
  if (!IsFloatForm(c.dtype, out) || c.dtype == DType::kE2M1) {
    return NoSuchForm("GPU attention", c.dtype, out, internal::kFloatForms);
  }
  if (p.dim > gpu::kMaxAttentionDim) {
    return absl::UnimplementedError(Cat("the built-in GPU attention has heads of up to ",
                                        gpu::kMaxAttentionDim, " columns; got attention.dim ",
                                        p.dim));
  }
  constexpr std::int64_t kFewestQueries = 16;  // queries of a block
  if (absl::Status s =
          CheckBlocks("attention", static_cast<double>(p.batch) * static_cast<double>(p.heads) *
                                       Tiles(p.seq, kFewestQueries));
      !s.ok()) {
    return s;
  }
  gpu::AttentionJob job;
  job.in = c.dtype;
  job.out = out;
  job.heads = p.batch * p.heads;
  job.group = p.heads / p.KvHeads();
  job.seq = p.seq;
  job.kv_seq = p.KvSeq();
  job.dim = p.dim;
  job.causal = p.causal;
  job.masked_rows_nan = p.masked_rows == "nan";
  job.scale =
      p.Scale(c.dtype) * KernelScalar(c.dtype, p.scale_q) * KernelScalar(c.dtype, p.scale_k);
  job.value_scale = KernelScalar(c.dtype, p.scale_v);
  // A GPU's factories get no other device, as for gpu::StreamOf.
  job.shared_bytes = static_cast<GpuDevice&>(device).properties().shared_bytes_per_block;
  if (const std::int64_t least = gpu::LeastAttentionSharedBytes(job); least > job.shared_bytes) {
    return absl::UnimplementedError(Cat(
        "the built-in GPU attention takes ", least, " bytes of shared memory with heads of ", p.dim,
        " columns of ", Name(c.dtype), "; this device's blocks have ", job.shared_bytes));
  }
  std::string text = "flash, fma";
  if (IsHalf(c.dtype)) text = MatrixText(device, Cat("flash, P ", Name(c.dtype)));
  if (IsCoded(c.dtype)) text = MatrixText(device, "flash, inputs as fp16, P fp16");
  return Made(
      device, std::move(text),
      [job](std::span<const TensorView> in, const TensorView& output, gpu::Stream stream) mutable {
        job.q = in[0].data;
        job.k = in[1].data;
        job.v = in[2].data;
        job.mask = in.size() > 3 ? in[3].as<const std::int8_t>() : nullptr;
        job.o = output.data;
        return gpu::LaunchAttention(job, stream);
      },
      IsHalf(c.dtype) || IsCoded(c.dtype) ? MatrixSums(device) : Accumulator());
}

// ---- conv ----

absl::StatusOr<std::unique_ptr<Kernel>> MakeConv(const Case& c, const Plan& plan, Device& device) {
  const auto& p = std::get<ConvProblem>(c.problem);
  const DType out = plan.output.dtype;
  const bool integer = c.dtype == DType::kI8 && out == DType::kI32;
  if (!integer && !(IsFloatForm(c.dtype, out) && c.dtype != DType::kE2M1)) {
    return NoSuchForm("GPU conv", c.dtype, out,
                      Cat(internal::kFloatForms, ", and int32 from int8"));
  }
  gpu::ConvJob job;
  job.in = c.dtype;
  job.out = out;
  job.batch = p.batch;
  job.channels = p.channels;
  job.filters = p.filters;
  job.groups = p.groups;
  job.nhwc = p.layout == "nhwc";
  const std::int64_t channels = p.channels / p.groups;
  auto taps = static_cast<double>(channels);
  double pixels = 1;
  std::int64_t out_pixels = 1;
  for (int d = 0; d < p.spatial(); ++d) {
    const int axis = 3 - p.spatial() + d;
    job.input[axis] = p.input[static_cast<std::size_t>(d)];
    job.kernel[axis] = p.kernel[static_cast<std::size_t>(d)];
    job.output[axis] = p.Output(d);
    job.stride[axis] = p.Stride(d);
    job.padding[axis] = p.Padding(d);
    job.dilation[axis] = p.Dilation(d);
    taps *= static_cast<double>(job.kernel[axis]);
    pixels *= static_cast<double>(job.output[axis]);
    out_pixels *= job.output[axis];
  }
  constexpr std::int64_t kTile = 64;
  if (std::max(taps, pixels + kTile) > 0x1p31 - 1) {
    return absl::UnimplementedError(
        Cat("the built-in GPU conv counts taps and pixels of an image in 31 bits; got ", taps,
            " and ", pixels));
  }
  if (absl::Status s =
          CheckBlocks("conv", Tiles(p.filters / p.groups, kTile) * Tiles(out_pixels, kTile) *
                                  static_cast<double>(p.batch) * static_cast<double>(p.groups));
      !s.ok()) {
    return s;
  }
  return Made(
      device, "implicit gemm, fma tile 64x64x16",
      [job](std::span<const TensorView> in, const TensorView& output, gpu::Stream stream) mutable {
        job.x = in[0].data;
        job.w = in[1].data;
        job.y = output.data;
        return gpu::LaunchConv(job, stream);
      });
}

// ---- rows ----

absl::StatusOr<std::unique_ptr<Kernel>> MakeSoftmax(const Case& c, const Plan& plan,
                                                    Device& device) {
  const auto& p = std::get<SoftmaxProblem>(c.problem);
  const DType out = plan.output.dtype;
  if (!IsRowForm(c.dtype, out)) return NoSuchForm("GPU softmax", c.dtype, out, kRowForms);
  if (absl::Status s = CheckBlocks("softmax", static_cast<double>(p.rows)); !s.ok()) return s;
  gpu::SoftmaxRows rows;
  rows.in = c.dtype;
  rows.out = out;
  rows.rows = p.rows;
  rows.cols = p.cols;
  return Made(
      device, "block a row",
      [rows](std::span<const TensorView> in, const TensorView& output, gpu::Stream stream) mutable {
        rows.x = in[0].data;
        rows.x_ld = in[0].extents.ld;
        rows.y = output.data;
        rows.y_ld = output.extents.ld;
        return gpu::LaunchSoftmax(rows, stream);
      });
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeLayerNorm(const Case& c, const Plan& plan,
                                                      Device& device) {
  const auto& p = std::get<LayerNormProblem>(c.problem);
  const DType out = plan.output.dtype;
  if (!IsRowForm(c.dtype, out)) return NoSuchForm("GPU layer norm", c.dtype, out, kRowForms);
  if (absl::Status s = CheckBlocks("layer norm", static_cast<double>(p.rows)); !s.ok()) return s;
  gpu::NormRows rows;
  rows.in = c.dtype;
  rows.out = out;
  rows.rows = p.rows;
  rows.cols = p.cols;
  rows.eps = static_cast<float>(p.eps);
  rows.rms = p.rms;
  rows.compensated = p.compensated;
  rows.columns = p.columns(c.dtype);
  return Made(
      device, p.compensated ? "block a row, compensated sums" : "block a row",
      [rows](std::span<const TensorView> in, const TensorView& output, gpu::Stream stream) mutable {
        rows.x = in[0].data;
        rows.x_ld = in[0].extents.ld;
        rows.weight = in.size() > 1 ? in[1].data : nullptr;
        rows.bias = in.size() > 2 ? in[2].data : nullptr;
        rows.y = output.data;
        rows.y_ld = output.extents.ld;
        return gpu::LaunchNorm(rows, stream);
      });
}

// ---- dequant_softmax ----

absl::StatusOr<std::unique_ptr<Kernel>> MakeDequantSoftmax(const Case& c, const Plan& plan,
                                                           Device& device) {
  const auto& p = std::get<DequantSoftmaxProblem>(c.problem);
  const DType out = plan.output.dtype;
  const auto held = [](DType t) { return t == DType::kF32 || IsHalf(t); };
  if (!held(c.dtype) || !held(out)) {
    return NoSuchForm("GPU dequant_softmax", c.dtype, out,
                      "fp32, fp16 and bf16 to fp32, fp16 and bf16");
  }
  constexpr std::int64_t kTile = gpu::kDequantSoftmaxTile;
  if (absl::Status s =
          CheckBlocks("dequant_softmax",
                      std::max(static_cast<double>(p.m), Tiles(p.m, kTile) * Tiles(p.n, kTile)));
      !s.ok()) {
    return s;
  }
  gpu::DequantSoftmaxJob job;
  job.in = c.dtype;
  job.out = out;
  job.m = p.m;
  job.n = p.n;
  job.k = p.k;
  job.transpose_w = p.transpose_w;
  absl::StatusOr<Block> logits = device.arena().Allocate(
      p.m * p.n * static_cast<std::int64_t>(sizeof(float)), /*guarded=*/false);
  if (!logits.ok()) return logits.status();
  job.logits = static_cast<float*>(logits->data);
  return Made(
      device, "fma tile 64x64x16, a block a band of rows",
      [job](std::span<const TensorView> in, const TensorView& output, gpu::Stream stream) mutable {
        job.a = in[0].data;
        job.a_ld = in[0].extents.ld;
        job.w = in[1].as<const std::int8_t>();
        job.w_ld = in[1].extents.ld;
        job.scale = in[2].as<const float>();
        job.y = output.data;
        job.y_ld = output.extents.ld;
        return gpu::LaunchDequantSoftmax(job, stream);
      });
}

// ---- copy ----

absl::StatusOr<std::unique_ptr<Kernel>> MakeCopy(const Case& c, const Plan& plan, Device& device) {
  if (plan.output.dtype != c.dtype) {
    return NoSuchForm("GPU copy", c.dtype, plan.output.dtype, "every format, to the same format");
  }
  constexpr std::int64_t kBytesOfABlock = 1024;  // if operands are not aligned
  const std::int64_t bytes = StorageBytes(c.dtype, plan.output.extents.span());
  if (absl::Status s = CheckBlocks("copy", Tiles(bytes, kBytesOfABlock)); !s.ok()) return s;
  return Made(device, "16 bytes a thread",
              [](std::span<const TensorView> in, const TensorView& output, gpu::Stream stream) {
                return gpu::LaunchCopyBytes(in[0].data, output.data, output.bytes(), stream);
              });
}

}  // namespace

std::vector<KernelEntry> BuiltinGpuKernels(std::string_view backend) {
  const std::vector<DType> rows = {DType::kF32, DType::kTF32, DType::kF16, DType::kBF16};
  const std::vector<DType> products = internal::FloatFormatsAnd({DType::kI8});
  std::vector<KernelEntry> entries = {
      internal::BuiltinEntry("gemm", products, &MakeGemm),
      internal::BuiltinEntry("conv", products, &MakeConv),
      internal::BuiltinEntry("attention", internal::FloatFormats(), &MakeAttention),
      internal::BuiltinEntry("softmax", rows, &MakeSoftmax),
      internal::BuiltinEntry("layer_norm", rows, &MakeLayerNorm),
      internal::BuiltinEntry("copy", AllFormats(), &MakeCopy),
      internal::BuiltinEntry("dequant_softmax", {DType::kF32, DType::kF16, DType::kBF16},
                             &MakeDequantSoftmax),
      internal::BuiltinEntry("reduce", rows, &internal::MakeReduceGpu),
      internal::BuiltinEntry("elementwise", rows, &internal::MakeElementwiseGpu),
      internal::BuiltinEntry("rope", rows, &internal::MakeRopeGpu),
  };
  for (KernelEntry& entry : entries) entry.backend = backend;
  return entries;
}

}  // namespace assay::kernels
