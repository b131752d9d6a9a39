// Defects that hide below the bound of each element. The exact probes or the statistics of all
// elements must find them, with the fewest terms or columns and with the most.
#include "kernels/providers/planted/row.h"
#include "kernels/providers/planted/table.h"

namespace assay::planted {
namespace {

constexpr std::int64_t kLong = 65'536;

// 1,024 outputs: the fewest of which the statistics promise something.
GemmProblem Gemm(std::int64_t k) {
  GemmProblem p;
  p.m = p.n = 32;
  p.k = k;
  return p;
}

AttentionProblem Attention(std::int64_t keys) {
  AttentionProblem p;
  p.heads = p.kv_heads = 1;
  p.seq = 64;
  p.kv_seq = keys;
  p.dim = 32;
  return p;
}

LayerNormProblem LayerNorm(std::int64_t rows, std::int64_t cols) {
  return {.rows = rows, .cols = cols};
}
SoftmaxProblem Softmax(std::int64_t rows, std::int64_t cols) {
  return {.rows = rows, .cols = cols};
}

}  // namespace

Rows HiddenGemmTable() {
  return {
      Row("gemm", "fp16-block-sums", kF32Only, "precision", Gemm(256),
          "16 terms at a time are summed in fp16"),
      Row("gemm", "long-fp16-block-sums", kF32Only, "precision", Gemm(kLong),
          "16 of 65,536 terms at a time are summed in fp16"),
      Row("gemm", "bf16-block-sums", kF32Only, "precision", Gemm(256),
          "16 terms at a time are summed in bf16"),
      Row("gemm", "long-bf16-block-sums", kF32Only, "precision", Gemm(kLong),
          "16 of 65,536 terms at a time are summed in bf16"),
      Row("gemm", "truncating-sums", kF32Only, "precision", Gemm(256),
          "each of 256 sums is cut, not rounded"),
      Row("gemm", "long-truncating-sums", kF32Only, "precision", Gemm(kLong),
          "each of 65,536 sums is cut, not rounded"),
      Row("gemm", "tf32-on-positive", kF32Only, "precision", Gemm(256),
          "fp32 inputs are rounded to tf32, and none is negative")
          .OnData("uniform:0:1"),
      Row("gemm", "long-tf32-on-positive", kF32Only, "precision", Gemm(kLong),
          "fp32 inputs are rounded to tf32, and none of 65,536 is negative")
          .OnData("uniform:0:1"),
      Row("gemm", "two-bf16-inputs", kF32Only, "precision", Gemm(256),
          "fp32 inputs are split into two bf16 numbers, 256 terms"),
      Row("gemm", "long-two-bf16-inputs", kF32Only, "precision", Gemm(kLong),
          "fp32 inputs are split into two bf16 numbers, 65,536 terms"),
      Row("gemm", "fp16-results", kF32Only, "precision", Gemm(256),
          "results of 256 terms are rounded to fp16 on their way"),
      Row("gemm", "long-fp16-results", kF32Only, "precision", Gemm(kLong),
          "results of 65,536 terms are rounded to fp16 on their way"),
      Row("gemm", "long-fp16-results-on-positive", kF32Only, "precision", Gemm(kLong),
          "results of 65,536 terms, none of them negative, are rounded to fp16 on their way")
          .OnData("uniform:0:1"),
      Row("gemm", "gain-1e-4", kF32Only, "structure", Gemm(256), "results are 1e-4 too large"),
      Row("gemm", "long-gain-1e-4", kF32Only, "structure", Gemm(kLong),
          "results of 65,536 terms are 1e-4 too large"),
      Row("gemm", "gain-1e-5", kF32Only, "structure", Gemm(256), "results are 1e-5 too large"),
      Row("gemm", "long-gain-1e-5", kF32Only, "structure", Gemm(kLong),
          "results of 65,536 terms are 1e-5 too large"),
  };
}

Rows HardwareGemmTable() {
  return {
      Row("gemm", "wrong-lanes", kF32Only, "structure", Gemm(256),
          "one group of 32 lanes is 2^-12 too large"),
      Row("gemm", "long-wrong-lanes", kF32Only, "exact", Gemm(kLong),
          "one group of 32 lanes is 2^-12 too large after 65,536 terms"),
      Row("gemm", "every-4th", kF32Only, "structure", Gemm(256),
          "every 4th element is 2^-12 too large"),
      Row("gemm", "long-every-4th", kF32Only, "structure", Gemm(kLong),
          "every 4th element is 2^-12 too large after 65,536 terms"),
      Row("gemm", "every-128th", kF32Only, "precision", Gemm(256),
          "every 128th element is 2^-12 too large"),
      Row("gemm", "long-every-128th", kF32Only, "exact", Gemm(kLong),
          "every 128th element is 2^-12 too large after 65,536 terms"),
      Row("gemm", "bit-flips", kF32Only, "exact", Gemm(1024),
          "three of the mantissa bits 0 to 11 of one element are flipped"),
      Row("gemm", "bit-pattern", kF32Only, "exact", Gemm(256),
          "values of A whose lowest 8 bits are all set lose them"),
      Row("gemm", "long-bit-pattern", kF32Only, "exact", Gemm(kLong),
          "of 65,536 terms, values of A whose lowest 8 bits are all set lose them"),
      Row("gemm", "rare-launch", kF32Only, "nondeterministic", Gemm(64),
          "in 1 launch of 100 one element is 2^-12 too large")
          .Launches(300)
          .Rate(0.95),
  };
}

Rows HiddenAttentionTable() {
  return {
      Row("attention", "scale-off-1e-3", kNarrow, "structure", Attention(256),
          "the scale is 1e-3 too large"),
      Row("attention", "long-scale-off-1e-3", kNarrow, "structure", Attention(4096),
          "the scale is 1e-3 too large, 4,096 keys"),
      Row("attention", "scale-off-1e-4", {DType::kF32, DType::kF16}, "structure", Attention(256),
          "the scale is 1e-4 too large"),
      Row("attention", "long-scale-off-1e-4", {DType::kF32, DType::kF16}, "structure",
          Attention(4096), "the scale is 1e-4 too large, 4,096 keys"),
      Row("attention", "p-in-fp16", kF32Only, "precision", Attention(256),
          "P is rounded to fp16 before its product with V"),
      Row("attention", "long-p-in-bf16", kF32Only, "precision", Attention(4096),
          "P of 4,096 keys is rounded to bf16 before its product with V"),
  };
}

Rows HiddenSoftmaxTable() {
  return {
      Row("softmax", "rough-exp", kF32Only, "precision", Softmax(16, 256),
          "exp is wrong by up to 3e-6"),
      Row("softmax", "long-rough-exp", kF32Only, "precision", Softmax(2, kLong),
          "exp is wrong by up to 3e-6, 65,536 columns"),
      Row("softmax", "exp-scale-1e-4", kF32Only, "structure", Softmax(16, 256),
          "the argument of exp is 1e-4 too large"),
      Row("softmax", "long-exp-scale-1e-4", kF32Only, "structure", Softmax(2, kLong),
          "the argument of exp is 1e-4 too large, 65,536 columns"),
      Row("softmax", "exp-scale-1e-6", kF32Only, "structure", Softmax(16, 256),
          "the argument of exp is 1e-6 too large"),
      Row("softmax", "long-exp-scale-1e-6", kF32Only, "structure", Softmax(2, kLong),
          "the argument of exp is 1e-6 too large, 65,536 columns"),
      Row("softmax", "dropped-last-4096", kF32Only, "structure", Softmax(16, 4096),
          "the last of 4,096 exponentials is not in the sum"),
      Row("softmax", "dropped-last-8192", kF32Only, "structure", Softmax(8, 8192),
          "the last of 8,192 exponentials is not in the sum"),
      Row("softmax", "long-sum-in-bf16", kF32Only, "structure", Softmax(2, kLong),
          "the sum of 65,536 exponentials is kept in bf16"),
  };
}

Rows HiddenLayerNormTable() {
  return {
      Row("layer_norm", "wrong-eps", kF32Only, "structure", LayerNorm(16, 256),
          "eps is 1e-3 in place of 1e-5"),
      Row("layer_norm", "long-wrong-eps", kF32Only, "structure", LayerNorm(2, kLong),
          "eps is 1e-3 in place of 1e-5, 65,536 columns"),
      Row("layer_norm", "wrong-eps-off-center", kF32Only, "structure", LayerNorm(16, 1000),
          "eps is 1e-3 in place of 1e-5, a variance of 9")
          .OnData("normal:3:5"),
      Row("layer_norm", "sample-variance-8192", kF32Only, "structure", LayerNorm(8, 8192),
          "variance over 8,191 instead of 8,192"),
      Row("layer_norm", "one-pass-variance-8192", kF32Only, "structure", LayerNorm(8, 8192),
          "variance as the difference of two numbers ten thousand times its size")
          .OnData("normal:1:100"),
      Row("layer_norm", "merge-without-means", kF32Only, "structure", LayerNorm(16, 1024),
          "the variances of 32 parts are averaged without the distances of their means"),
      Row("layer_norm", "dropped-last-1024", kF32Only, "structure", LayerNorm(16, 1024),
          "the last of 1,024 elements is not in mean and variance"),
  };
}

}  // namespace assay::planted
