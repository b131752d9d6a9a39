// Defects that hide below the bound of each element. The exact cases or the statistics of all
// elements must find them, with the fewest terms or columns and with the most.
#include "kernels/providers/planted/row.h"
#include "kernels/providers/planted/table.h"

namespace assay::inline kernels::planted {
namespace {

constexpr std::int64_t kShort = 256;
constexpr std::int64_t kMiddle = 16'384;
constexpr std::int64_t kLong = 65'536;

// Fewer outputs do for more terms: the statistics need 64.
GemmProblem Gemm(std::int64_t k) {
  GemmProblem p;
  p.m = p.n = k > 4096 ? 16 : 32;
  p.k = k;
  return p;
}

// Each query has 64 outputs. An error of the scale needs 1,024 outputs in bf16 and 2,048 in fp16.
AttentionProblem Attention(std::int64_t queries, std::int64_t keys) {
  AttentionProblem p;
  p.heads = p.kv_heads = 1;
  p.seq = queries;
  p.kv_seq = keys;
  p.dim = 64;
  return p;
}

SoftmaxProblem Softmax(std::int64_t rows, std::int64_t cols) {
  return {.rows = rows, .cols = cols};
}
LayerNormProblem LayerNorm(std::int64_t rows, std::int64_t cols) {
  return {.rows = rows, .cols = cols};
}

// A row of gemm in fp32.
Row OfGemm(std::string_view name, std::string_view check, std::int64_t k,
           std::string_view magnitude) {
  return {"gemm", name, kF32Only, check, Gemm(k), magnitude};
}

}  // namespace

Rows HiddenGemmTable() {
  return {
      OfGemm("fp16-block-sums", "bound", kShort, "16 of 256 terms at a time are summed in fp16"),
      OfGemm("long-fp16-block-sums", "precision", kLong,
             "16 of 65,536 terms at a time are summed in fp16"),
      OfGemm("bf16-block-sums", "bound", kShort, "16 of 256 terms at a time are summed in bf16"),
      OfGemm("long-bf16-block-sums", "bound", 4096,
             "16 of 4,096 terms at a time are summed in bf16"),
      OfGemm("truncating-sums", "precision", kShort, "each of 256 sums is cut, not rounded"),
      OfGemm("long-truncating-sums", "precision", kLong, "each of 65,536 sums is cut, not rounded"),
      OfGemm("tf32-on-positive", "bound", kShort, "256 positive fp32 inputs are rounded to tf32")
          .OnData("uniform:0:1"),
      OfGemm("long-tf32-on-positive", "precision", kLong,
             "65,536 positive fp32 inputs are rounded to tf32")
          .OnData("uniform:0:1"),
      OfGemm("two-bf16-inputs", "precision", kShort,
             "256 fp32 inputs are split into two bf16 numbers each"),
      OfGemm("long-two-bf16-inputs", "exact", kLong,
             "65,536 fp32 inputs are split into two bf16 numbers each"),
      OfGemm("fp16-results", "bound", kShort,
             "results of 256 terms are rounded to fp16 on their way"),
      OfGemm("long-fp16-results", "precision", kMiddle,
             "results of 16,384 terms are rounded to fp16 on their way"),
      OfGemm("gain-1e-4", "bound", kShort, "results of 256 terms are 1e-4 too large"),
      OfGemm("long-gain-1e-4", "structure", kMiddle, "results of 16,384 terms are 1e-4 too large"),
      OfGemm("gain-1e-5", "structure", kShort, "results of 256 terms are 1e-5 too large"),
      OfGemm("long-gain-1e-5", "structure", kLong, "results of 65,536 terms are 1e-5 too large"),
  };
}

Rows HardwareGemmTable() {
  return {
      OfGemm("wrong-lanes", "structure", kShort,
             "one group of 32 lanes is 2^-16 too large, 256 terms"),
      OfGemm("long-wrong-lanes", "exact", kMiddle,
             "one group of 32 lanes is 2^-16 too large, 16,384 terms"),
      OfGemm("every-4th", "precision", kShort, "every 4th element is 2^-16 too large, 256 terms"),
      OfGemm("long-every-4th", "exact", kMiddle,
             "every 4th element is 2^-16 too large, 16,384 terms"),
      OfGemm("every-128th", "exact", kShort, "every 128th element is 2^-16 too large, 256 terms"),
      OfGemm("long-every-128th", "exact", kMiddle,
             "every 128th element is 2^-16 too large, 16,384 terms"),
      OfGemm("bit-flips", "exact", 1024,
             "three of the mantissa bits 0 to 11 of one element are flipped"),
      OfGemm("bit-pattern", "exact", kShort,
             "values of A whose lowest 5 bits are all set lose them, 256 terms"),
      OfGemm("long-bit-pattern", "exact", kLong,
             "values of A whose lowest 5 bits are all set lose them, 65,536 terms"),
      OfGemm("rare-launch", "nondeterministic", 64,
             "in 1 launch of 100 one element is 2^-16 too large")
          .Launches(300)
          .Rate(0.95),
  };
}

Rows HiddenAttentionTable() {
  const Types half = {DType::kF16};
  return {
      Row("attention", "scale-off-1e-3", kF32Only, "bound", Attention(64, 256),
          "the scale is 1e-3 too large, 256 keys"),
      Row("attention", "16-bit-scale-off-1e-3", {DType::kBF16}, "structure", Attention(16, 256),
          "the scale is 1e-3 too large, 256 keys"),
      Row("attention", "long-scale-off-1e-3", {DType::kBF16}, "structure", Attention(32, 2048),
          "the scale is 1e-3 too large, 2,048 keys"),
      Row("attention", "scale-off-1e-4", half, "structure", Attention(32, 256),
          "the scale is 1e-4 too large, 256 keys"),
      Row("attention", "long-scale-off-1e-4", kF32Only, "structure", Attention(64, 4096),
          "the scale is 1e-4 too large, 4,096 keys"),
      Row("attention", "p-in-fp16", kF32Only, "bound", Attention(64, 256),
          "P of 256 keys is rounded to fp16"),
      Row("attention", "long-p-in-fp16", kF32Only, "precision", Attention(64, 2048),
          "P of 2,048 keys is rounded to fp16"),
  };
}

Rows HiddenSoftmaxTable() {
  return {
      Row("softmax", "rough-exp", kF32Only, "precision", Softmax(16, kShort),
          "exp is wrong by up to 3e-6, 256 columns"),
      Row("softmax", "long-rough-exp", kF32Only, "precision", Softmax(2, kLong),
          "exp is wrong by up to 3e-6, 65,536 columns"),
      Row("softmax", "exp-scale-1e-4", kF32Only, "bound", Softmax(16, kShort),
          "the argument of exp is 1e-4 too large, 256 columns"),
      Row("softmax", "exp-scale-1e-6", kF32Only, "structure", Softmax(16, kShort),
          "the argument of exp is 1e-6 too large, 256 columns"),
      Row("softmax", "long-exp-scale-1e-6", kF32Only, "structure", Softmax(2, kLong),
          "the argument of exp is 1e-6 too large, 65,536 columns"),
      Row("softmax", "dropped-last-4096", kF32Only, "bound", Softmax(4, 4096),
          "the last of 4,096 exponentials is not in the sum"),
      Row("softmax", "dropped-last-8192", kF32Only, "bound", Softmax(4, 8192),
          "the last of 8,192 exponentials is not in the sum"),
      Row("softmax", "long-sum-in-bf16", kF32Only, "bound", Softmax(1, kLong),
          "the sum of 65,536 exponentials is kept in bf16"),
  };
}

Rows HiddenLayerNormTable() {
  return {
      Row("layer_norm", "wrong-eps", kF32Only, "bound", LayerNorm(16, kShort),
          "eps is 1e-3 instead of 1e-5 beside a variance of 9, 256 columns")
          .OnData("normal:3:5"),
      Row("layer_norm", "long-wrong-eps", kF32Only, "bound", LayerNorm(2, kLong),
          "eps is 1e-3 instead of 1e-5 beside a variance of 9, 65,536 columns")
          .OnData("normal:3:5"),
      Row("layer_norm", "sample-variance-8192", kF32Only, "structure", LayerNorm(8, 8192),
          "variance over 8,191 instead of 8,192"),
      Row("layer_norm", "one-pass-variance-8192", kF32Only, "structure", LayerNorm(8, 8192),
          "variance as the difference of two numbers ten thousand times its size")
          .OnData("normal:1:100"),
      Row("layer_norm", "merge-without-means-8192", kF32Only, "structure", LayerNorm(8, 8192),
          "the variances of two halves are added without the distance of their means")
          .OnData("normal:1:10"),
      Row("layer_norm", "dropped-last-16384", k16Bit, "bound", LayerNorm(2, 16384),
          "the last of 16,384 elements is not summed; 16 bits hide it on random data"),
      Row("layer_norm", "dropped-last-1024", kF32Only, "bound", LayerNorm(16, 1024),
          "the last of 1,024 elements is not in mean and variance"),
  };
}

}  // namespace assay::kernels::planted
