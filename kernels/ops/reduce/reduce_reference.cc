#include "kernels/ops/reduce/reduce_reference.h"

#include <optional>
#include <vector>

namespace assay::inline kernels {
namespace {

// The slices of `columns` outputs side by side, in the order of x: element l of column j is at
// l·columns + j.
std::vector<double> ReadSlices(const HostInputs& inputs, const ReduceShape& s, std::int64_t first,
                               std::int64_t columns) {
  std::vector<double> x(static_cast<std::size_t>(s.length * columns));
  const std::int64_t begin = first / s.inner * s.length * s.inner + first % s.inner;
  if (s.inner == 1) {
    inputs.Read(0, begin, s.length, x.data());
    return x;
  }
  for (std::int64_t l = 0; l < s.length; ++l) {
    inputs.Read(0, begin + l * s.inner, columns, x.data() + l * columns);
  }
  return x;
}

}  // namespace

ProductBound MakeReduceBound(const ReduceProblem& problem, DType input, bool flushes_subnormals,
                             const Accumulator& accumulator) {
  const std::int64_t length = problem.Split().length;
  ProductBound bound = MakeProductBound(input, length, flushes_subnormals, accumulator);
  if (!flushes_subnormals) bound.underflow = 0;
  return bound;
}

void ReduceReferenceAt(const ReduceProblem& problem, const ProductBound& bound,
                       const HostInputs& inputs, std::span<const std::int64_t> indices,
                       double* value, double* allowance) {
  const ReduceShape s = problem.Split();
  const ReduceKind kind = problem.kind_of();
  for (std::size_t i = 0; i < indices.size();) {
    // Columns beside one another are read together.
    std::size_t last = i + 1;
    while (last < indices.size() && indices[last] == indices[last - 1] + 1 &&
           indices[last] % s.inner != 0) {
      ++last;
    }
    const auto columns = static_cast<std::int64_t>(last - i);
    const std::vector<double> x = ReadSlices(inputs, s, indices[i], columns);
    for (std::int64_t j = 0; j < columns; ++j, ++i) {
      const auto at = [&](std::int64_t l) { return x[static_cast<std::size_t>(l * columns + j)]; };
      if (kind == ReduceKind::kSum) {
        SliceSum sum;
        for (std::int64_t l = 0; l < s.length; ++l) sum.Take(at(l));
        value[i] = sum.sum;
        if (allowance != nullptr) allowance[i] = sum.Allowance(bound);
        continue;
      }
      SliceLargest largest;
      for (std::int64_t l = 0; l < s.length; ++l) largest.Take(at(l), l);
      value[i] = kind == ReduceKind::kMax ? largest.value : static_cast<double>(largest.index);
      if (kind != ReduceKind::kArgmax || !problem.any_tie()) continue;
      const std::optional<double> output = inputs.Output(indices[i]);
      const std::int64_t named = output ? IndexNamed(*output, s.length) : -1;
      if (named >= 0 && Ties(at(named), largest.value)) value[i] = *output;
    }
  }
}

}  // namespace assay::kernels
