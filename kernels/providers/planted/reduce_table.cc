// The planted kernels of reduce.
#include "kernels/providers/planted/row.h"
#include "kernels/providers/planted/table.h"

namespace assay::inline kernels::planted {
namespace {

ReduceProblem Of(std::string_view kind, IntList shape, std::int64_t axis = -1) {
  return {.extents = std::move(shape), .axis = axis, .kind = std::string(kind)};
}

}  // namespace

std::vector<PlantedDefect> ReduceTable() {
  const Problem largest = Of("max", {64, 8});
  // With few values, most slices have the largest several times.
  constexpr std::string_view kTies = "integers:0:3";
  return {
      Row("reduce", "dropped-tail", kFloats, "bound", Of("sum", {64, 70}),
          "the last 6 of 70 elements, behind the last whole vector, are left out"),
      Row("reduce", "sum-in-16-bits", kNarrow, "bound", Of("sum", {64, 1024}),
          "sums of 1,024 elements are kept in fp16"),
      Row("reduce", "tf32-elements", kF32Only, "exact", Of("sum", {16, 4096}),
          "elements are rounded to tf32, which 4,096 terms hide from the bound"),
      Row("reduce", "doubled-element", kAll, "exact", Of("sum", {64, 64}),
          "one of 64 elements counts twice in one sum"),
      Row("reduce", "wrong-axis", kFloats, "bound", Of("sum", {64, 64}),
          "a square matrix is summed along its other axis"),
      Row("reduce", "stale-slice", kFloats, "bound", Of("sum", {8, 64, 64}, 1),
          "every output is that of the slice before"),
      Row("reduce", "truncating-output", k16Bit, "bias", Of("sum", {2048, 16}),
          "results are cut, not rounded: half a unit in the last place"),
      Row("reduce", "nan-in-tail", kFloats, "class", Of("sum", {64, 70}),
          "one sum with a partial vector of 6 elements is NaN"),
      Row("reduce", "zero-start", kAll, "exact", largest,
          "the maximum of 8 negative elements is 0"),
      Row("reduce", "of-magnitudes", kAll, "exact", largest,
          "the element of the largest magnitude is given"),
      Row("reduce", "last-tie", kAll, "exact", Of("argmax", {64, 40}),
          "of equal elements the last index is given")
          .OnData(kTies),
      Row("reduce", "block-index", kAll, "exact", Of("argmax", {64, 40}),
          "indices are counted from the beginning of a block of 32"),
      Row("reduce", "near-index", kAll, "exact",
          ReduceProblem{.extents = {40, 64}, .axis = 0, .kind = "argmax", .ties = "any"},
          "the index before that of a largest element is given, and any largest would do"),
  };
}

std::vector<PlantedDefect> ReduceGpuTable() {
  const Problem plain = Of("sum", {64, 48});
  std::vector<PlantedDefect> rows = OfAnyFloats("reduce", kNarrow, plain, Of("sum", {70, 48}));
  rows.push_back(Row("reduce", "wrong-tile", kNarrow, "exact", Of("argmax", {64, 48}),
                     "16 outputs are those of the 16 behind them"));
  return rows;
}

}  // namespace assay::kernels::planted
