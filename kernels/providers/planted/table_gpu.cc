// The planted kernels of GPUs. If a defect is the same as the CPU's, it has the same name. Problems
// are small: they show a defect of a single element as well as large ones do, and the emulator of
// tests/simt runs them all.
#include <utility>

#include "kernels/providers/planted/row.h"
#include "kernels/providers/planted/table.h"

namespace assay::inline kernels::planted {
namespace {

GemmProblem Gemm() {
  GemmProblem p;
  p.m = p.n = 48;
  p.k = 64;
  return p;
}

// A product for the statistics of all elements. They need 64 outputs; a factor needs 256.
GemmProblem HiddenGemm(std::int64_t side, std::int64_t k) {
  GemmProblem p;
  p.m = p.n = side;
  p.k = k;
  return p;
}

template <class Change>
GemmProblem Gemm(Change change) {
  GemmProblem p = Gemm();
  change(p);
  return p;
}

// 4 filters of 7 x 7 pixels: 12 tiles of 16 elements, and a rest of 4 elements.
ConvProblem Conv() {
  ConvProblem p;
  p.channels = 8;
  p.filters = 4;
  p.input = {7, 7};
  p.kernel = {3, 3};
  p.padding = {1};
  return p;
}

AttentionProblem Attention(std::int64_t dim = 32, bool causal = false) {
  AttentionProblem p;
  p.heads = 2;
  p.kv_heads = 1;
  p.seq = 32;
  p.kv_seq = causal ? 32 : 64;
  p.dim = dim;
  p.causal = causal;
  return p;
}

SoftmaxProblem Softmax(std::int64_t cols = 64) { return {.rows = 16, .cols = cols}; }
LayerNormProblem LayerNorm(std::int64_t cols = 64) { return {.rows = 16, .cols = cols}; }
DequantSoftmaxProblem DequantSoftmax(std::int64_t n = 64) { return {.m = 16, .n = n, .k = 64}; }

// The control, and wrong values.
Rows GemmValues() {
  const Problem plain = Gemm();
  return {
      Row("gemm", "correct", kAll, "", plain, "nothing is wrong: the control"),
      Row("gemm", "wrong-tile", kAll, "bound", plain,
          "one 16x16 tile holds its neighbour's values"),
      Row("gemm", "transposed-tile", kAll, "bound", plain, "one 16x16 tile is transposed"),
      Row("gemm", "dropped-k", kAll, "bound", plain, "the last of 64 terms is left out everywhere"),
      Row("gemm", "truncating-output", k16Bit, "bias", plain,
          "results are cut, not rounded: half a unit in the last place"),
      Row("gemm", "fp16-output", kF32Only, "bound", plain,
          "results pass through fp16: 13 of 23 bits are lost"),
      Row("gemm", "bit-flip", kAll, "exact", plain, "bit 1 of one element is flipped"),
      Row("gemm", "low-bit-flip", kF32Only, "exact", plain,
          "one of the mantissa bits 0 to 11 of one element is flipped"),
      Row("gemm", "constant-output", kAll, "bound", plain,
          "every element is the first one's value"),
      Row("gemm", "dropped-bias", kFloats, "bound", Gemm([](GemmProblem& p) { p.bias = true; }),
          "the bias of every column is left out"),
      Row("gemm", "nan", kFloats, "class", plain, "one element is NaN"),
  };
}

// Defects of memory and of launches, and defects that end the process.
Rows GemmRest(std::string_view illegal_address) {
  const Problem plain = Gemm();
  return {
      Row("gemm", "unwritten-tail", kAll, "unwritten", plain,
          "the last 8 of a row are not written"),
      Row("gemm", "before-the-start", kAll, "guard", plain,
          "64 bytes before the output are written"),
      Row("gemm", "writes-padding", kAll, "guard", Gemm([](GemmProblem& p) { p.ldc = p.n + 8; }),
          "a row is written one element beyond its last column"),
      Row("gemm", "nondeterministic", kWide, "nondeterministic", plain,
          "in every other launch the last bit of one element is flipped")
          .Launches(3),
      Row("gemm", "race", kNarrow, "nondeterministic", plain,
          "in 1 launch of 10 the last bit of one element is flipped")
          .Launches(50)
          .Rate(0.99),
      Row("gemm", "crash", kAll, illegal_address, plain, "writes through a null pointer")
          .EndsProcess(),
      Row("gemm", "far-past-the-end", kAll, illegal_address, plain,
          "writes 128 TiB behind the output, where nothing is")
          .EndsProcess(),
      Row("gemm", "hang", kAll, "timeout", plain, "a thread spins and never ends").EndsProcess(),
  };
}

// Errors below the bound of each element, of 256 terms and of as many as hide them.
Rows GemmHidden() {
  const auto row = [](std::string_view name, std::string_view check, const GemmProblem& problem,
                      std::string_view magnitude) {
    return Row("gemm", name, kF32Only, check, problem, magnitude);
  };
  const GemmProblem brief = HiddenGemm(32, 256);
  const GemmProblem extended = HiddenGemm(8, 6144);
  return {
      row("long-tf32-inputs", "precision", extended,
          "6,144 fp32 inputs are rounded to tf32: 13 of 23 bits are lost"),
      row("tf32-on-positive", "precision", HiddenGemm(8, 4096),
          "4,096 positive fp32 inputs are rounded to tf32")
          .OnData("uniform:0:1"),
      row("two-bf16-inputs", "precision", brief,
          "256 fp32 inputs are split into two bf16 numbers each"),
      row("long-fp16-output", "precision", extended, "results of 6,144 terms pass through fp16"),
      row("gain-1e-4", "structure", HiddenGemm(16, 2048),
          "results of 2,048 terms are 1e-4 too large"),
      row("gain-1e-5", "structure", brief, "results of 256 terms are 1e-5 too large"),
      // They look like faults of hardware.
      row("wrong-lanes", "structure", GemmProblem{.m = 16, .n = 64, .k = 256},
          "one group of 32 lanes is 2^-16 too large"),
      row("every-4th", "precision", brief, "every 4th element is 2^-16 too large"),
      row("every-128th", "exact", brief, "every 128th element is 2^-16 too large"),
      row("stuck-bit", "exact", brief,
          "one of the mantissa bits 0 to 11 is 0 in every 32nd element"),
      row("bit-flips", "exact", brief,
          "three of the mantissa bits 0 to 11 of one element are flipped"),
      row("bit-pattern", "exact", brief, "values of A whose lowest 5 bits are all set lose them"),
      row("rare-launch", "nondeterministic", HiddenGemm(32, 64),
          "in 1 launch of 100 one element is 2^-16 too large")
          .Launches(300)
          .Rate(0.95),
  };
}

Rows GemmAnyFormat() {
  Rows rows = OfAnyFloats("gemm", kFloats, Gemm(), Gemm([](GemmProblem& p) { p.n = 38; }));
  for (PlantedDefect& row : rows) {
    // Integers have neither NaN nor Inf, and 1 % of a small integer rounds to nothing.
    if (row.check != "class" && row.name != "scale-off") row.dtypes = kAll;
  }
  return rows;
}

Rows ConvRows() {
  const Problem plain = Conv();
  Rows rows = OfAnyFloats("conv", kFloats, plain, plain);
  for (PlantedDefect& row : rows) {
    if (row.check != "class" && row.name != "scale-off") row.dtypes = kAll;
  }
  rows.push_back(Row("conv", "wrong-tile", kAll, "bound", plain,
                     "16 elements are those of the 16 behind them"));
  rows.push_back(Row("conv", "bit-flip", kAll, "exact", plain, "bit 1 of one element is flipped"));
  rows.push_back(Row(
      "conv", "truncating-output", k16Bit, "bias",
      [] {
        ConvProblem larger = Conv();
        larger.filters = 16;
        return larger;
      }(),
      "results are cut, not rounded: half a unit in the last place"));
  rows.push_back(Row("conv", "tf32-inputs", kF32Only, "exact", plain,
                     "fp32 inputs are rounded to tf32: 13 of 23 bits are lost"));
  return rows;
}

// Sums so long that errors of 32 units in the last place are within the bound of each element.
Row LostBits(std::string_view op, const Problem& problem) {
  return Row(op, "lost-bits", kF32Only, "precision", problem,
             "bit 5 of every element is flipped: 32 units in the last place");
}

Rows AttentionRows() {
  const Problem plain = Attention();
  Rows rows = OfAnyFloats("attention", kFloats, plain, Attention(24));
  for (PlantedDefect& row : rows) {
    // Weights in 8 bits may have errors above 1 %.
    if (row.name == "scale-off") row.dtypes = {DType::kF64, DType::kF32, DType::kF16, DType::kBF16};
  }
  rows.push_back(
      Row("attention", "transposed-tile", kFloats, "bound", plain, "one 16x16 tile is transposed"));
  rows.push_back(Row("attention", "swapped-rows", kFloats, "bound", plain,
                     "two queries have each other's results"));
  rows.push_back(Row("attention", "dropped-mask", kFloats, "bound", Attention(32, true),
                     "the causal mask is left out"));
  AttentionProblem keys = Attention();
  keys.kv_seq = 256;
  rows.push_back(LostBits("attention", keys));
  // In 16 bits the built-in kernel declares larger errors of P.
  rows.push_back(Row("attention", "scale-off-1e-5", kF32Only, "structure", keys,
                     "the scale is 1e-5 too large, 256 keys"));
  return rows;
}

Rows SoftmaxRows() {
  Rows rows = OfAnyFloats("softmax", kNarrow, Softmax(), Softmax(70));
  rows.push_back(Row("softmax", "swapped-rows", kNarrow, "bound", Softmax(),
                     "two rows have each other's results"));
  rows.push_back(Row("softmax", "constant-output", kNarrow, "bound", Softmax(),
                     "every element is the first one's value"));
  rows.push_back(LostBits("softmax", SoftmaxProblem{.rows = 4, .cols = 2048}));
  rows.push_back(Row("softmax", "exp-scale-1e-6", kF32Only, "precision", Softmax(),
                     "the argument of exp is 1e-6 too large"));
  return rows;
}

Rows LayerNormRows() {
  Rows rows = OfAnyFloats("layer_norm", kNarrow, LayerNorm(), LayerNorm(70));
  rows.push_back(Row("layer_norm", "swapped-rows", kNarrow, "bound", LayerNorm(),
                     "two rows have each other's results"));
  rows.push_back(Row("layer_norm", "missing-eps", kNarrow, "bound", LayerNorm(),
                     "eps is left out where it is a tenth of the variance")
                     .OnData("normal:0.01"));
  rows.push_back(LostBits("layer_norm", LayerNormProblem{.rows = 4, .cols = 2048}));
  // Beside a large mean the bound is wide.
  const LayerNormProblem far = {.rows = 4, .cols = 2048};
  rows.push_back(Row("layer_norm", "wrong-eps", kF32Only, "structure", far,
                     "eps is 1e-3 instead of 1e-5 beside a variance of 9, 2,048 columns")
                     .OnData("normal:3:40"));
  rows.push_back(Row("layer_norm", "sample-variance-2048", kF32Only, "structure", far,
                     "variance over 2,047 instead of 2,048")
                     .OnData("normal:3:40"));
  return rows;
}

Rows DequantSoftmaxRows() {
  // A tile of a peaked row may be all 0, and so is the buffer at first. Then stale-buffer does not
  // show.
  const Problem plain = DequantSoftmax();
  Rows rows;
  for (PlantedDefect& row : OfAnyFloats("dequant_softmax", kNarrow, plain, DequantSoftmax(70))) {
    if (row.name != "stale-buffer") rows.push_back(std::move(row));
  }
  rows.push_back(Row("dequant_softmax", "swapped-rows", kNarrow, "bound", plain,
                     "two rows have each other's results"));
  rows.push_back(LostBits("dequant_softmax", DequantSoftmaxProblem{.m = 4, .n = 2048, .k = 64}));
  return rows;
}

Rows CopyRows() {
  const Problem plain = CopyProblem{.count = 500};
  return {
      Row("copy", "unwritten-tile", kAll, "unwritten", plain, "16 elements are not copied"),
      Row("copy", "wrong-tile", kAll, "exact", plain,
          "16 elements are those of the 16 behind them"),
      Row("copy", "bit-flip", kAll, "exact", plain, "bit 1 of one element is flipped"),
      Row("copy", "past-the-end", kAll, "guard", plain, "64 bytes behind the output are written"),
  };
}

}  // namespace

Rows OfAnyFloats(std::string_view op, const Types& dtypes, const Problem& plain,
                 const Problem& ragged) {
  return {
      Row(op, "zero-output", dtypes, "bound", plain, "every element is 0"),
      Row(op, "scale-off", dtypes, "bound", plain, "every element is 1 % too large"),
      Row(op, "stale-buffer", dtypes, "bound", plain,
          "one tile of up to 16x16 holds what the launch before computed, at first 0"),
      Row(op, "nan-in-tail", dtypes, "class", ragged,
          "one row's last, partial tile of columns is NaN"),
      Row(op, "inf", dtypes, "class", plain, "one element is infinite"),
      Row(op, "unwritten-tile", dtypes, "unwritten", plain,
          "one tile of up to 16x16 is not written"),
      Row(op, "past-the-end", dtypes, "guard", plain, "64 bytes behind the output are written"),
      Row(op, "changes-input", dtypes, "guard", plain,
          "a bit of the first operand's first element is flipped"),
  };
}

std::vector<PlantedDefect> MakeGpuTable(std::string_view illegal_address) {
  Rows table;
  for (Rows (*rows)() : {&GemmValues, &GemmHidden, &GemmAnyFormat}) {
    for (PlantedDefect& row : rows()) table.push_back(std::move(row));
  }
  for (PlantedDefect& row : GemmRest(illegal_address)) table.push_back(std::move(row));
  for (Rows (*rows)() :
       {&ConvRows, &AttentionRows, &SoftmaxRows, &LayerNormRows, &DequantSoftmaxRows, &CopyRows,
        &ReduceGpuTable, &ElementwiseGpuTable, &RopeGpuTable}) {
    for (PlantedDefect& row : rows()) table.push_back(std::move(row));
  }
  return table;
}

}  // namespace assay::kernels::planted
