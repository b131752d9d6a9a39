#include "kernels/providers/planted/table.h"

#include <utility>

#include "kernels/providers/planted/row.h"

namespace assay::inline kernels::planted {
namespace {

// Sums so long that a single lost term is small beside them.
constexpr std::int64_t kLong = 1024;
constexpr std::int64_t kShort = 256;

GemmProblem Gemm(std::int64_t k) {
  GemmProblem p;
  p.m = p.n = 64;
  p.k = k;
  return p;
}

template <class Change>
GemmProblem Gemm(std::int64_t k, Change change) {
  GemmProblem p = Gemm(k);
  change(p);
  return p;
}

// So many terms that rounded inputs hide behind the bound, and few outputs.
GemmProblem Wide(std::int64_t k) {
  return Gemm(k, [k](GemmProblem& p) { p.m = p.n = k > 4096 ? 16 : 32; });
}

ConvProblem Conv(std::int64_t channels, std::int64_t groups = 1) {
  ConvProblem p;
  p.channels = channels;
  p.filters = 8;
  p.groups = groups;
  p.input = {12, 12};
  p.kernel = {3, 3};
  p.padding = {1};
  return p;
}

AttentionProblem Attention(std::int64_t keys, bool causal = false) {
  AttentionProblem p;
  p.heads = 4;
  p.kv_heads = 2;
  p.seq = 64;
  p.kv_seq = keys;
  p.dim = 32;
  p.causal = causal;
  return p;
}

SoftmaxProblem Softmax(std::int64_t cols) { return {.rows = 16, .cols = cols}; }
LayerNormProblem LayerNorm(bool affine = false) {
  return {.rows = 64, .cols = 64, .affine = affine};
}

DequantSoftmaxProblem DequantSoftmax(std::int64_t n, std::int64_t k) {
  return {.m = 16, .n = n, .k = k};
}

// Controls, and wrong products, sums and tiles.
Rows GemmValues() {
  const Problem short_sums = Gemm(kShort);
  const Problem long_sums = Gemm(kLong, [](GemmProblem& p) { p.m = p.n = 48; });
  return {
      Row("gemm", "correct", kAll, "", short_sums, "nothing is wrong: the control"),
      Row("gemm", "slow", kAll, "", short_sums, "right, and twenty times slower than need be")
          .Slow(),
      Row("gemm", "wrong-tile", kAll, "bound", short_sums,
          "one 16x16 tile holds its neighbour's values"),
      Row("gemm", "dropped-tile", kAll, "bound", long_sums,
          "one 16x16 tile lacks 32 of 1,024 terms"),
      Row("gemm", "stale-tile", kAll, "bound", long_sums,
          "in one 16x16 tile 32 of 1,024 terms take B from the tile before"),
      Row("gemm", "duplicated-tile", kAll, "bound", long_sums,
          "one 16x16 tile has 32 of 1,024 terms twice"),
      Row("gemm", "dropped-k", kAll, "bound", long_sums,
          "the last of 1,024 terms is left out everywhere"),
      Row("gemm", "doubled-product", kAll, "exact", long_sums,
          "one of 1,024 products counts twice in one element"),
      Row("gemm", "short-element", kAll, "bound", long_sums, "one element lacks 32 of 1,024 terms"),
      Row("gemm", "fp16-accumulate", kNarrow, "bound", Wide(kLong),
          "sums of 1,024 terms are kept in fp16"),
      Row("gemm", "truncating-output", k16Bit, "bias", short_sums,
          "results are cut, not rounded: half a unit in the last place"),
      Row("gemm", "tf32-inputs", kF32Only, "bound", long_sums,
          "fp32 inputs are rounded to tf32: 13 of 23 bits are lost"),
      Row("gemm", "long-tf32-inputs", kF32Only, "exact", Wide(1 << 14),
          "fp32 inputs are rounded to tf32, which 16,384 terms hide from the bound"),
      Row("gemm", "tf32-a", kF32Only, "exact", Wide(1 << 12), "A alone is rounded to tf32"),
      Row("gemm", "tf32-b", kF32Only, "exact", Wide(1 << 12), "B alone is rounded to tf32"),
      Row("gemm", "two-bf16", kF32Only, "exact", Wide(1 << 12),
          "fp32 inputs are split into two bf16 numbers: 8 of 24 bits are lost"),
      Row("gemm", "lost-subnormals", {DType::kE4M3FN, DType::kE5M2}, "exact", short_sums,
          "subnormal numbers of the inputs are taken for 0"),
      Row("gemm", "output-through-fp16", kF32Only, "exact", Wide(1 << 12),
          "fp32 results are rounded to fp16 on their way"),
      Row("gemm", "output-through-bf16", kF32Only, "exact", Wide(1 << 12),
          "fp32 results are rounded to bf16 on their way"),
      Row("gemm", "gain", kF32Only, "exact", Wide(1 << 12), "results are 1e-6 too large"),
      Row("gemm", "bit-flip", kAll, "exact", long_sums, "bit 1 of one element is flipped"),
      Row("gemm", "low-bit-flip", kF32Only, "exact", long_sums,
          "one of the mantissa bits 0 to 11 of one element is flipped"),
      Row("gemm", "zero-output", kAll, "bound", short_sums, "every element is 0"),
      Row("gemm", "constant-output", kAll, "bound", short_sums,
          "every element is the first one's value"),
  };
}

// Wrong operands, epilogues and buffers.
Rows GemmOperands() {
  const Problem plain = Gemm(kShort);
  const Problem padded = Gemm(kShort, [](GemmProblem& p) { p.lda = p.k + 8; });
  const Problem epilogue = Gemm(kShort, [](GemmProblem& p) {
    p.bias = true;
    p.activation = "relu";
  });
  const Problem scaled = Gemm(kShort, [](GemmProblem& p) { p.channel_scale = true; });
  const Problem ragged = Gemm(kShort, [](GemmProblem& p) { p.n = 70; });
  const Problem padded_rows = Gemm(kShort, [](GemmProblem& p) { p.ldc = p.n + 8; });
  const Problem padded_sums = Gemm(kShort, [](GemmProblem& p) {
    p.trans_b = true;  // so that both operands have their k along the row
    p.lda = p.ldb = p.k + 8;
  });
  return {
      Row("gemm", "transposed-b", kAll, "bound", plain, "B is read in the other order"),
      Row("gemm", "wrong-ld", kAll, "class", padded,
          "rows of A are taken to lie 8 elements closer than they do"),
      Row("gemm", "dropped-bias", kFloats, "bound", epilogue,
          "the bias of every column is left out"),
      Row("gemm", "epilogue-order", kFloats, "bound", epilogue,
          "the bias is added after the activation, not before it"),
      Row("gemm", "wrong-scale", kFloats, "bound", scaled,
          "every column has the scale of the next"),
      Row("gemm", "stale-buffer", kAll, "bound", plain,
          "one 16x16 tile holds what the launch before computed, at first 0"),
      Row("gemm", "nan", kFloats, "class", plain, "one element is NaN"),
      Row("gemm", "nan-in-tail", kFloats, "class", ragged,
          "one row's last, partial tile of 6 columns is NaN"),
      Row("gemm", "unwritten-tail", kAll, "unwritten", plain,
          "the last 8 of a row are not written"),
      Row("gemm", "past-the-end", kAll, "guard", plain, "64 bytes behind the output are written"),
      Row("gemm", "before-the-start", kAll, "guard", plain,
          "64 bytes before the output are written"),
      Row("gemm", "writes-padding", kAll, "guard", padded_rows,
          "a row is written one element beyond its last column"),
      Row("gemm", "reads-padding", kAll, "class", padded_sums,
          "sums run over the leading dimension, 8 elements too far"),
      Row("gemm", "changes-input", kAll, "guard", plain, "an element of A is overwritten"),
  };
}

// Defects that only some launches show, and defects that end the process.
Rows GemmFaults() {
  const Problem small = Gemm(64);
  return {
      Row("gemm", "nondeterministic", kWide, "nondeterministic", Gemm(kShort),
          "every other launch sums in the other order")
          .Launches(3),
      Row("gemm", "race", kNarrow, "nondeterministic", small,
          "in 1 launch of 50 one element lacks 32 of 64 terms")
          .Launches(250)
          .Rate(0.99),
      Row("gemm", "hang", kAll, "timeout", small, "never returns").EndsProcess(),
      Row("gemm", "crash", kAll, "crash", small, "writes through a null pointer: SIGSEGV")
          .EndsProcess(),
      Row("gemm", "abort", kAll, "crash", small, "calls abort: SIGABRT").EndsProcess(),
      Row("gemm", "exit", kAll, "crash", small, "ends the process with status 3").EndsProcess(),
      Row("gemm", "escape", kF32Only, "fault", small,
          "computes nothing, and tries to read keys and to open sockets")
          .EndsProcess(),
      Row("gemm", "garbage", kAll, "crash", small, "writes into its worker's connection")
          .EndsProcess(),
      Row("gemm", "alloc", kAll, "memory", small, "takes memory without end").EndsProcess(),
  };
}

Rows ConvRows() {
  const Problem plain = Conv(16);
  ConvProblem long_sums = Conv(128);
  long_sums.input = {8, 8};
  return {
      Row("conv", "dropped-tap", kAll, "bound", plain, "the last tap of every filter is left out"),
      Row("conv", "flipped-filter", kAll, "bound", plain, "filters are turned by 180 degrees"),
      Row("conv", "wrong-group", kAll, "bound", Conv(16, 4),
          "every group reads the channels of the first"),
      Row("conv", "clamped-padding", kAll, "bound", plain,
          "the padding repeats the edge instead of being 0"),
      Row("conv", "short-element", kAll, "bound", long_sums, "one element lacks 8 of 128 channels"),
      Row("conv", "doubled-product", kAll, "exact", long_sums,
          "one of 1,152 products counts twice in one element"),
      Row("conv", "fp16-accumulate", kNarrow, "bound", long_sums,
          "sums of 1,152 terms are kept in fp16"),
      Row("conv", "truncating-output", k16Bit, "bias", plain,
          "results are cut, not rounded: half a unit in the last place"),
      Row("conv", "tf32-input", kF32Only, "exact", long_sums, "x alone is rounded to tf32"),
      Row("conv", "tf32-weights", kF32Only, "exact", long_sums,
          "the weights alone are rounded to tf32"),
      Row("conv", "output-through-fp16", kF32Only, "exact", long_sums,
          "fp32 results are rounded to fp16 on their way"),
      Row("conv", "bit-flip", kAll, "exact", long_sums, "bit 1 of one element is flipped"),
      Row("conv", "zero-output", kAll, "bound", plain, "every element is 0"),
  };
}

Rows AttentionMasks() {
  const Problem plain = Attention(256);
  const Problem causal = Attention(64, true);
  return {
      Row("attention", "mask-off-by-one", kFloats, "bound", causal,
          "a causal query sees one key too many"),
      Row("attention", "mask-one-short", kFloats, "bound", causal,
          "a causal query does not see the last key it may"),
      Row("attention", "wrong-head", kFloats, "bound", plain,
          "of grouped queries, head h reads keys h mod 2 instead of h / 2"),
      Row("attention", "dropped-tile", kFloats, "bound", plain, "16 of 256 keys are left out"),
      Row("attention", "stale-tile", kFloats, "bound", plain,
          "16 of 256 keys have the values of the 16 before"),
      Row("attention", "duplicated-tile", kFloats, "bound", plain, "16 of 256 keys count twice"),
      Row("attention", "nan-in-tail", kFloats, "class", Attention(70),
          "10 lanes behind the last key hold NaN and are multiplied by 0"),
      Row("attention", "zero-output", kFloats, "bound", plain, "every element is 0"),
  };
}

Rows AttentionSoftmax() {
  const Problem plain = Attention(256);
  AttentionProblem many_keys = Attention(4096);
  many_keys.heads = many_keys.kv_heads = 1;
  many_keys.seq = 4;
  return {
      Row("attention", "tf32-values", kF32Only, "exact", many_keys, "V is rounded to tf32"),
      Row("attention", "output-through-bf16", kF32Only, "exact", plain,
          "fp32 results are rounded to bf16 on their way"),
      Row("attention", "wrong-axis", kAllFloats, "bound", plain,
          "the rescale factor of each query is applied to the column of its number"),
      Row("attention", "missing-rescale", kFloats, "bound", plain,
          "the running output is not rescaled when the maximum grows"),
      Row("attention", "missing-rescale-of-sum", kFloats, "bound", plain,
          "the running sum is not rescaled when the maximum grows"),
      Row("attention", "no-divide", kFloats, "bound", plain,
          "the output is not divided by the sum of the exponentials"),
      Row("attention", "no-max", kNarrow, "class", plain,
          "exp of the scores themselves, which overflows")
          .OnData("normal:12"),
      Row("attention", "scale-off", kNarrow, "bound", plain, "the scale is 1 % too large"),
      Row("attention", "sum-in-fp16", kNarrow, "bound", many_keys,
          "the sum of 4,096 exponentials is kept in fp16")
          .Output(DType::kF32),
      // Not bf16, because its rounding of P alone is coarser than the defect.
      Row("attention", "output-in-fp16", {DType::kF32, DType::kF16}, "bound", many_keys,
          "the output is summed over 4,096 keys in fp16")
          .Output(DType::kF32),
  };
}

Rows SoftmaxRows() {
  return {
      Row("softmax", "no-max", kNarrow, "class", Softmax(4096),
          "exp of the inputs themselves, which overflows")
          .OnData("normal:100"),
      Row("softmax", "max-of-all-rows", kNarrow, "bound", Softmax(64),
          "the maximum of all rows is subtracted from each"),
      Row("softmax", "short-max", kNarrow, "bound", Softmax(64),
          "the last of 64 columns is not in the maximum"),
      Row("softmax", "sum-in-16-bits", kNarrow, "bound", Softmax(4096),
          "the sum of 4,096 exponentials is kept in fp16"),
      Row("softmax", "sum-in-bf16", kNarrow, "bound", Softmax(4096),
          "the sum of 4,096 exponentials is kept in bf16"),
      Row("softmax", "underflow-tail", kNarrow, "bound", Softmax(4096),
          "exponentials are held in fp16, where those below 6e-5 become 0")
          .OnData("normal:4")
          .Output(DType::kF32),
      Row("softmax", "dropped-last", kNarrow, "bound", Softmax(64),
          "the last of 64 exponentials is not in the sum"),
      Row("softmax", "stale-sum", kNarrow, "bound", Softmax(512),
          "every row is divided by the sum of the row before"),
      Row("softmax", "constant-output", kNarrow, "bound", Softmax(512), "every element is 1/512"),
      Row("softmax", "nan-in-tail", kNarrow, "class", Softmax(500),
          "a row's last, partial vector of 4 elements is NaN"),
  };
}

Rows LayerNormRows() {
  return {
      Row("layer_norm", "one-pass-variance", kF32Only, "bound", LayerNorm(),
          "variance as the difference of two numbers a million times its size")
          .OnData("near-constant:1000:1"),
      Row("layer_norm", "negative-variance", kNarrow, "class", LayerNorm(),
          "variance as a difference of 16-bit numbers, below 0 in some rows")
          .OnData("near-constant:9.98:0.1"),
      Row("layer_norm", "sum-in-16-bits", kNarrow, "bound", LayerNorm(),
          "sums of 64 terms are kept in 16 bits")
          .OnData("near-constant:1:0.1"),
      Row("layer_norm", "sample-variance", kNarrow, "bound", LayerNorm(),
          "variance over 63 instead of 64: 0.8 % of every element"),
      Row("layer_norm", "missing-eps", kNarrow, "bound", LayerNorm(),
          "eps is left out where it is a tenth of the variance")
          .OnData("normal:0.01"),
      Row("layer_norm", "dropped-last", kNarrow, "bound", LayerNorm(),
          "the last of 64 elements is not in mean and variance"),
      Row("layer_norm", "dropped-bias", kNarrow, "bound", LayerNorm(/*affine=*/true),
          "the bias of every column is left out"),
      Row("layer_norm", "zero-output", kNarrow, "bound", LayerNorm(), "every element is 0"),
  };
}

Rows DequantSoftmaxRows() {
  const Problem plain = DequantSoftmax(256, 128);
  return {
      Row("dequant_softmax", "no-max", kNarrow, "class", plain,
          "exp of the logits themselves, which overflows")
          .OnData("normal:100"),
      Row("dequant_softmax", "wrong-scale", kNarrow, "bound", plain,
          "every column is scaled by its right neighbour's factor"),
      Row("dequant_softmax", "dropped-scale", kNarrow, "bound", plain,
          "the factors of the columns are left out"),
      Row("dequant_softmax", "sum-in-16-bits", kNarrow, "bound",
          DequantSoftmaxProblem{.m = 4, .n = 256, .k = 1024},
          "sums of 1,024 products are kept in fp16"),
      Row("dequant_softmax", "row-sum-in-bf16", kNarrow, "bound",
          DequantSoftmaxProblem{.m = 4, .n = 2048, .k = 64},
          "the sum of 2,048 exponentials is kept in bf16"),
      Row("dequant_softmax", "stale-row", kNarrow, "bound", plain,
          "every eighth row holds the row before"),
      Row("dequant_softmax", "unsigned-weights", kNarrow, "bound", plain,
          "negative weights are read as unsigned bytes, 256 too large"),
      Row("dequant_softmax", "transposed-weights", kNarrow, "bound", plain,
          "the weights are read as if they were stored the other way"),
      Row("dequant_softmax", "dropped-last", kNarrow, "bound", DequantSoftmax(64, 128),
          "the last of 64 exponentials is not in the sum"),
      Row("dequant_softmax", "short-sum", kNarrow, "bound", plain,
          "the last of 128 products is not in the sums"),
      Row("dequant_softmax", "nan-in-tail", kNarrow, "class", DequantSoftmax(250, 128),
          "a row's last, partial vector of 10 elements is NaN"),
  };
}

Rows CopyRows() {
  return {Row("copy", "stale", kAll, "unwritten", CopyProblem{.count = 4096},
              "one cache line is not copied")};
}

}  // namespace

std::vector<PlantedDefect> MakeTable() {
  Rows table;
  for (Rows (*rows)() :
       {&GemmValues, &GemmOperands, &GemmFaults, &HiddenGemmTable, &HardwareGemmTable, &ConvRows,
        &AttentionMasks, &AttentionSoftmax, &HiddenAttentionTable, &SoftmaxRows,
        &HiddenSoftmaxTable, &LayerNormRows, &HiddenLayerNormTable, &DequantSoftmaxRows, &CopyRows,
        &ReduceTable, &ElementwiseTable, &RopeTable}) {
    for (PlantedDefect& row : rows()) table.push_back(std::move(row));
  }
  return table;
}

}  // namespace assay::kernels::planted
