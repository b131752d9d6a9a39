#include "kernels/providers/cublaslt/forms.h"

#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "kernels/text/cat.h"

namespace assay::inline kernels::cublaslt {
namespace {

constexpr std::int64_t kFp8Multiple = 16;
// int8 products are at most 2^14, and fp32 sums whole numbers exactly up to 2^24.
constexpr std::int64_t kExactInt8Terms = 1 << 10;

bool IsHalf(DType t) { return t == DType::kF16 || t == DType::kBF16; }

absl::StatusOr<cudaDataType_t> TypeOf(DType t) {
  switch (t) {
    case DType::kF64:
      return CUDA_R_64F;
    case DType::kF32:
    case DType::kTF32:
      return CUDA_R_32F;
    case DType::kF16:
      return CUDA_R_16F;
    case DType::kBF16:
      return CUDA_R_16BF;
    case DType::kE4M3FN:
      return CUDA_R_8F_E4M3;
    case DType::kI8:
      return CUDA_R_8I;
    case DType::kI32:
      return CUDA_R_32I;
    default:
      return absl::UnimplementedError(Cat("cuBLASLt has no product of two ", Name(t), " matrices"));
  }
}

// Checks the documented requirements of FP8, because the library itself says only "not supported".
absl::Status CheckFp8(const GemmProblem& p, const Plan& plan, int architecture) {
  const auto refuse = [](const std::string& what) {
    return absl::UnimplementedError(Cat("cuBLASLt's FP8 gemm ", what));
  };
  if (architecture != 0 && architecture < 89) {
    return refuse(Cat("needs compute capability 8.9 or later; this device is sm_", architecture));
  }
  if (architecture != 0 && architecture < 100 && (p.trans_a || !p.trans_b)) {
    return refuse(
        Cat("before compute capability 10.0 has one layout: gemm.trans_a false and "
            "gemm.trans_b true; got ",
            p.trans_a ? "true" : "false", " and ", p.trans_b ? "true" : "false"));
  }
  const std::pair<std::string_view, std::int64_t> extents[] = {
      {"gemm.m", p.m},
      {"gemm.n", p.n},
      {"gemm.k", p.k},
      {"gemm.lda", plan.inputs[0].extents.ld},
      {"gemm.ldb", plan.inputs[1].extents.ld},
      {"gemm.ldc", plan.output.extents.ld}};
  for (const auto& [name, value] : extents) {
    if (value % kFp8Multiple != 0) {
      return refuse(Cat("takes multiples of ", kFp8Multiple, " only; got ", name, " ", value));
    }
  }
  if (p.beta != 0.0 && plan.output.dtype == DType::kE4M3FN) {
    return refuse(
        Cat("takes C as bf16 or fp16, where this problem's is e4m3fn; got gemm.beta ", p.beta));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Formats> FormatsOf(DType in, DType out) {
  const absl::StatusOr<cudaDataType_t> from = TypeOf(in);
  const absl::StatusOr<cudaDataType_t> to = TypeOf(out);
  if (!from.ok()) return from.status();
  if (!to.ok()) return to.status();
  Formats f{*from, *to, *to, CUDA_R_32F, CUBLAS_COMPUTE_32F};
  bool known = out == DType::kF32;
  switch (in) {
    case DType::kF64:
      f.scale = CUDA_R_64F;
      f.compute = CUBLAS_COMPUTE_64F;
      known = out == DType::kF64;
      break;
    case DType::kTF32:
      f.compute = CUBLAS_COMPUTE_32F_FAST_TF32;
      break;
    case DType::kF16:
    case DType::kBF16:
      known = known || out == in;
      break;
    case DType::kE4M3FN:
      known = known || IsHalf(out) || out == in;
      if (out == in) f.c = CUDA_R_16BF;  // C is never of 8 bits
      break;
    case DType::kI8:
      if (out == DType::kI32) {
        f.scale = CUDA_R_32I;
        f.compute = CUBLAS_COMPUTE_32I;
        known = true;
      }
      break;
    default:
      break;
  }
  if (known) return f;
  return absl::UnimplementedError(
      Cat("cuBLASLt has no ", Name(in), " to ", Name(out),
          " product; it has fp64, fp32, tf32 to fp32, fp16 and bf16 to themselves and fp32, e4m3fn "
          "to itself, bf16, fp16 and fp32, int8 to int32 and fp32"));
}

int ArchitectureOf(const Device& device) {
  const auto& properties = device.info().properties;
  const auto it = properties.find("architecture");
  if (it == properties.end() || !it->second.starts_with("sm_")) return 0;
  return static_cast<int>(std::strtol(it->second.c_str() + 3, nullptr, 10));
}

absl::Status CheckProblem(const GemmProblem& p, const Plan& plan, int architecture) {
  const DType in = plan.inputs[0].dtype, out = plan.output.dtype;
  if (p.activation == "gelu") {
    return absl::UnimplementedError(
        "cuBLASLt's GELU is the tanh form, gelu_tanh; got gemm.activation gelu, the erf form");
  }
  const bool fp8 = in == DType::kE4M3FN;
  if (p.bias && (fp8 || plan.inputs[static_cast<std::size_t>(p.bias_operand())].dtype != out)) {
    return absl::UnimplementedError(
        Cat("cuBLASLt's bias has the output's format, for FP8 a 16-bit one; this problem's is ",
            Name(plan.inputs[static_cast<std::size_t>(p.bias_operand())].dtype), ", got ", Name(in),
            " to ", Name(out)));
  }
  if (p.channel_scale && fp8 && p.batch > 1) {
    return absl::UnimplementedError(
        Cat("cuBLASLt scales columns of FP8 products without batches; got gemm.batch ", p.batch));
  }
  const double factor = p.alpha * p.scale_a * p.scale_b;
  if (p.channel_scale && !fp8 && factor != 1.0) {
    return absl::UnimplementedError(
        Cat("cuBLASLt takes a scale a column in place of alpha; got gemm.alpha, scale_a and "
            "scale_b of product ",
            factor));
  }
  if (in == DType::kI8 && out == DType::kF32 && p.k > kExactInt8Terms) {
    return absl::UnimplementedError(
        Cat("cuBLASLt sums int8 products to fp32 in fp32, exactly for gemm.k up to ",
            kExactInt8Terms, "; got ", p.k));
  }
  return fp8 ? CheckFp8(p, plan, architecture) : absl::OkStatus();
}

}  // namespace assay::kernels::cublaslt
