// Runs gemm with rocblas_gemm_ex, and batches with rocblas_gemm_strided_batched_ex; rocblas.h
// explains the swap of operands.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <variant>

#include "kernels/providers/refusals.h"
#include "kernels/providers/rocblas/api.h"
#include "kernels/providers/rocblas/rocblas.h"
#include "kernels/runtime/gpu/stream_of.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

using rocblas::DataType;
using rocblas::Operation;

// The size with which the library's own handle begins.
constexpr std::int64_t kWorkspace = 32 << 20;

struct Formats {
  DataType in, out, compute;
};

bool IsHalf(DType t) { return t == DType::kF16 || t == DType::kBF16; }

absl::StatusOr<Formats> FormatsOf(DType in, DType out) {
  if (in == DType::kF64 && out == in)
    return Formats{DataType::kF64, DataType::kF64, DataType::kF64};
  if (in == DType::kF32 && out == in)
    return Formats{DataType::kF32, DataType::kF32, DataType::kF32};
  if (in == DType::kI8 && out == DType::kI32) {
    return Formats{DataType::kI8, DataType::kI32, DataType::kI32};
  }
  if (IsHalf(in) && (out == in || out == DType::kF32)) {
    const DataType half = in == DType::kF16 ? DataType::kF16 : DataType::kBF16;
    return Formats{half, out == in ? half : DataType::kF32, DataType::kF32};
  }
  return absl::UnimplementedError(
      Cat("rocBLAS has no ", Name(in), " to ", Name(out),
          " gemm_ex; it has fp64, fp32, fp16 and bf16 to themselves and fp32, and int8 to int32"));
}

// alpha or beta in the compute type.
union Scalar {
  double f64;
  float f32;
  std::int32_t i32;
};

Scalar ScalarOf(DataType type, double value) {
  Scalar s = {.f64 = value};
  if (type == DataType::kF32) s.f32 = static_cast<float>(value);
  if (type == DataType::kI32) s.i32 = static_cast<std::int32_t>(value);
  return s;
}

std::int32_t Int(std::int64_t v) { return static_cast<std::int32_t>(v); }

class GemmKernel final : public Kernel {
 public:
  GemmKernel(const GemmProblem& p, const Formats& f, Device& device, rocblas::Handle handle,
             const Block& workspace)
      : p_(p), f_(f), device_(device), handle_(handle), workspace_(workspace) {
    const auto& properties = device.info().properties;
    const auto it = properties.find("architecture");
    mi200_ = it != properties.end() && it->second.starts_with("gfx90a");
    double alpha = p.alpha * p.scale_a * p.scale_b;
    if (f.compute == DataType::kF32) {
      alpha = static_cast<double>(static_cast<float>(p.alpha) * static_cast<float>(p.scale_a) *
                                  static_cast<float>(p.scale_b));
    }
    alpha_ = ScalarOf(f.compute, alpha);
    beta_ = ScalarOf(f.compute, p.beta);
  }

  absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) override {
    const absl::StatusOr<gpu::Stream> stream = gpu::StreamOf(device_);
    if (!stream.ok()) return stream.status();
    const rocblas::Api& api = **rocblas::Load();
    absl::Status s = rocblas::StatusOf(api.set_stream(handle_, *stream), "the stream");
    if (s.ok()) {
      s = rocblas::UseWorkspace(handle_, workspace_.data,
                                static_cast<std::size_t>(workspace_.bytes));
    }
    if (!s.ok()) return s;
    const TensorView &a = inputs[1], &b = inputs[0], &c = p_.beta != 0.0 ? inputs[2] : output;
    const Operation op_a = p_.trans_b ? Operation::kTranspose : Operation::kNone;
    const Operation op_b = p_.trans_a ? Operation::kTranspose : Operation::kNone;
    const Extents &ea = a.extents, &eb = b.extents, &ec = c.extents, &ed = output.extents;
    constexpr auto kStandard = rocblas::Algorithm::kStandard;
    if (p_.batch == 1) {
      return rocblas::StatusOf(
          api.gemm_ex(handle_, op_a, op_b, Int(p_.n), Int(p_.m), Int(p_.k), &alpha_, a.data, f_.in,
                      Int(ea.ld), b.data, f_.in, Int(eb.ld), &beta_, c.data, f_.out, Int(ec.ld),
                      output.data, f_.out, Int(ed.ld), f_.compute, kStandard, 0, 0),
          "gemm_ex");
    }
    return rocblas::StatusOf(
        api.gemm_strided_batched_ex(handle_, op_a, op_b, Int(p_.n), Int(p_.m), Int(p_.k), &alpha_,
                                    a.data, f_.in, Int(ea.ld), ea.batch_stride, b.data, f_.in,
                                    Int(eb.ld), eb.batch_stride, &beta_, c.data, f_.out, Int(ec.ld),
                                    ec.batch_stride, output.data, f_.out, Int(ed.ld),
                                    ed.batch_stride, Int(p_.batch), f_.compute, kStandard, 0, 0),
        "gemm_strided_batched_ex");
  }

  bool flushes_subnormals() const override { return mi200_ && IsSixteenBits(f_.in); }

  // The library does not say whether it uses matrix instructions, which may cut off.
  Accumulator accumulator() const override {
    return {.truncation = {.roundoff = kTruncatedRoundoff}};
  }

  std::string implementation() const override {
    return Cat("rocblas ", (*rocblas::Load())->version,
               " standard (the library chooses the solution, and tells neither its index nor "
               "whether it uses "
               "matrix instructions), no atomics",
               flushes_subnormals() ? ", subnormals taken for 0" : "", ", workspace ",
               workspace_.bytes, " bytes");
  }

 private:
  static bool IsSixteenBits(DataType t) { return t == DataType::kF16 || t == DataType::kBF16; }

  const GemmProblem p_;
  const Formats f_;
  Device& device_;
  const rocblas::Handle handle_;
  const Block workspace_;
  Scalar alpha_;
  Scalar beta_;
  bool mi200_ = false;
};

absl::StatusOr<std::unique_ptr<Kernel>> Make(const Case& c, const Plan& plan, Device& device) {
  const auto& p = std::get<GemmProblem>(c.problem);
  if (absl::Status s = RefuseGemmEpilogue(p, "rocBLAS gemm_ex"); !s.ok()) return s;
  const absl::StatusOr<Formats> f = FormatsOf(c.dtype, plan.output.dtype);
  if (!f.ok()) return f.status();
  for (const std::int64_t e : {p.m, p.n, p.k, p.batch, plan.inputs[0].extents.ld,
                               plan.inputs[1].extents.ld, plan.output.extents.ld}) {
    if (e > std::numeric_limits<std::int32_t>::max()) {
      return absl::UnimplementedError(
          Cat("rocBLAS gemm_ex takes 32-bit extents and leading dimensions, got ", e));
    }
  }
  const absl::StatusOr<rocblas::Handle> handle = rocblas::SharedHandle();
  if (!handle.ok()) return handle.status();
  const std::int64_t bytes = std::min(kWorkspace, device.arena().available_bytes(1));
  Block workspace;
  if (bytes > 0) {
    absl::StatusOr<Block> block = device.arena().Allocate(bytes, /*guarded=*/true);
    if (!block.ok()) return block.status();
    workspace = *block;
  }
  return std::make_unique<GemmKernel>(p, *f, device, *handle, workspace);
}

}  // namespace

KernelEntry RocblasGemm(std::string_view backend) {
  const absl::StatusOr<const rocblas::Api*>& api = rocblas::Load();
  return KernelEntry{.op = "gemm",
                     .provider = "rocblas",
                     .backend = backend,
                     .dtypes = {DType::kF64, DType::kF32, DType::kF16, DType::kBF16, DType::kI8},
                     .make = &Make,
                     .version = api.ok() ? (*api)->version : "",
                     .unavailable_reason = api.ok() ? "" : std::string(api.status().message())};
}

}  // namespace assay::kernels
