// The planted kernels of elementwise.
#include "kernels/providers/planted/row.h"
#include "kernels/providers/planted/table.h"

namespace assay::inline kernels::planted {
namespace {

ElementwiseProblem Of(std::string_view kind, bool broadcast = false) {
  return {.rows = 64, .cols = 64, .kind = std::string(kind), .broadcast = broadcast};
}

}  // namespace

std::vector<PlantedDefect> ElementwiseTable() {
  const Problem gate = Of("silu_mul");
  const Problem add = Of("add");
  return {
      Row("elementwise", "dropped-multiply", kFloats, "bound", gate,
          "silu of the gate is not multiplied by b"),
      Row("elementwise", "dropped-silu", kFloats, "bound", gate, "the output is a·b without silu"),
      Row("elementwise", "swapped-operands", kFloats, "bound", gate,
          "silu is taken of the second operand"),
      Row("elementwise", "wrong-row", kFloats, "bound", add, "b is read from the row below"),
      Row("elementwise", "wrong-column", kFloats, "bound", Of("add", true),
          "the one row of b is read one column to the right"),
      Row("elementwise", "one-row-for-all", kFloats, "bound", gate,
          "the first row of b serves all rows, and b has as many as a"),
      Row("elementwise", "dropped-residual", kFloats, "bound", Of("add", true), "b is not added"),
      Row("elementwise", "other-gelu", kWide, "bound", Of("gelu"),
          "GELU is taken by tanh, not by erf: up to 5e-4"),
      Row("elementwise", "sigmoid-gelu", kNarrow, "bound", Of("gelu_tanh"),
          "GELU is taken as a·sigmoid(1.702·a): up to 2e-2"),
      Row("elementwise", "exp-overflow", kNarrow, "class", Of("gelu_tanh"),
          "tanh as (exp(2t) - 1)/(exp(2t) + 1), which is Inf/Inf for large t")
          .OnData("normal:10"),
      Row("elementwise", "truncating-output", k16Bit, "bias", add,
          "results are cut, not rounded: half a unit in the last place"),
      Row("elementwise", "unwritten-tail", kFloats, "unwritten", gate,
          "the last 8 of every row are not written"),
  };
}

std::vector<PlantedDefect> ElementwiseGpuTable() {
  const auto of = [](std::int64_t cols, bool broadcast = false) {
    return ElementwiseProblem{.rows = 16, .cols = cols, .kind = "silu_mul", .broadcast = broadcast};
  };
  std::vector<PlantedDefect> rows = OfAnyFloats("elementwise", kNarrow, of(64), of(70));
  rows.push_back(Row("elementwise", "swapped-rows", kNarrow, "bound", of(64, true),
                     "two rows have each other's results"));
  return rows;
}

}  // namespace assay::kernels::planted
