// The planted kernels of rope.
#include "kernels/providers/planted/row.h"
#include "kernels/providers/planted/table.h"

namespace assay::inline kernels::planted {
namespace {

RopeProblem Of(std::int64_t start, bool interleaved = false) {
  return {.batch = 2, .seq = 16, .heads = 4, .dim = 32, .interleaved = interleaved, .start = start};
}

}  // namespace

std::vector<PlantedDefect> RopeTable() {
  const Problem plain = Of(0);
  const Problem later = Of(100);
  const Problem neighbours = Of(100, true);
  return {
      Row("rope", "wrong-sign", kFloats, "bound", plain, "the sine has the wrong sign"),
      Row("rope", "swapped-halves", kFloats, "bound", plain,
          "the two elements of each pair are exchanged"),
      Row("rope", "other-pairs", kFloats, "bound", neighbours,
          "pairs are taken half a row apart, not beside one another"),
      Row("rope", "next-position", kFloats, "bound", later, "positions are one too high"),
      Row("rope", "ignored-start", kFloats, "bound", later, "positions begin at 0"),
      Row("rope", "head-as-position", kFloats, "bound", plain,
          "every head of a token has a position of its own"),
      Row("rope", "wrong-base", kFloats, "bound", neighbours, "the base is 1,000, not 10,000"),
      Row("rope", "wrong-exponent", kFloats, "bound", later,
          "the exponent of pair i is -i/dim, not -2i/dim"),
      Row("rope", "angle-in-16-bits", kNarrow, "bound", Of(1000),
          "angles up to 1,000 are rounded to fp16"),
      Row("rope", "half-turned", kFloats, "bound", later, "the upper half of the pairs stays"),
      Row("rope", "unturned", kFloats, "bound", later, "the output is the input"),
      Row("rope", "unwritten-tail", kFloats, "unwritten", plain,
          "the last pair of every row is not written"),
  };
}

std::vector<PlantedDefect> RopeGpuTable() {
  const auto of = [](std::int64_t dim) { return RopeProblem{.seq = 8, .heads = 2, .dim = dim}; };
  std::vector<PlantedDefect> rows = OfAnyFloats("rope", kNarrow, of(64), of(38));
  rows.push_back(
      Row("rope", "swapped-rows", kNarrow, "bound", of(64), "two rows have each other's results"));
  return rows;
}

}  // namespace assay::kernels::planted
