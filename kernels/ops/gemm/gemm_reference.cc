#include "kernels/ops/gemm/gemm_reference.h"

#include "kernels/ops/common/dot.h"
#include "kernels/ops/common/vector_cache.h"

namespace assay {
namespace {

// Reads, for each id = batch·extent + index, the k elements of one row of op(A) or
// one column of op(B). `along` is true where those lie behind one another.
void ReadVectors(const HostInputs& inputs, int operand, std::int64_t extent, std::int64_t k,
                 bool along, VectorCache& vectors) {
  const std::vector<std::int64_t>& ids = vectors.ids();
  if (along) {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      inputs.Read(operand, ids[i] * k, k, vectors.vector(i));
    }
    return;
  }
  std::vector<double> run;
  for (std::size_t first = 0; first < ids.size();) {
    std::size_t last = first + 1;
    while (last < ids.size() && ids[last] == ids[last - 1] + 1 &&
           ids[last] / extent == ids[first] / extent) {
      ++last;
    }
    const std::int64_t count = static_cast<std::int64_t>(last - first);
    const std::int64_t batch = ids[first] / extent;
    const std::int64_t index = ids[first] % extent;
    double* dst = vectors.vector(first);  // neighbours in the list are neighbours in the cache
    run.resize(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < k; ++i) {
      inputs.Read(operand, (batch * k + i) * extent + index, count, run.data());
      for (std::int64_t j = 0; j < count; ++j) dst[j * k + i] = run[static_cast<std::size_t>(j)];
    }
    first = last;
  }
}

}  // namespace

GemmEpilogue MakeGemmEpilogue(const GemmProblem& problem, DType input, bool flushes_subnormals) {
  const Arithmetic arithmetic = ArithmeticOf(input);
  return {MakeProductBound(input, problem.k, flushes_subnormals),
          KernelScalar(input, problem.alpha), KernelScalar(input, problem.beta), arithmetic.u,
          arithmetic.times};
}

void GemmReferenceAt(const GemmProblem& problem, DType input, bool flushes_subnormals,
                     const HostInputs& inputs, std::span<const std::int64_t> indices, double* value,
                     double* allowance) {
  const std::int64_t m = problem.m, n = problem.n, k = problem.k;
  std::vector<std::int64_t> row_ids, col_ids;
  for (std::int64_t index : indices) {
    row_ids.push_back(index / n);
    col_ids.push_back(index / (m * n) * n + index % n);
  }
  VectorCache a(row_ids, k);
  VectorCache b(col_ids, k);
  ReadVectors(inputs, 0, m, k, !problem.trans_a, a);
  ReadVectors(inputs, 1, n, k, problem.trans_b, b);

  const GemmEpilogue epilogue = MakeGemmEpilogue(problem, input, flushes_subnormals);
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const DotSums sums = Dot(a.of(i), b.of(i), k);
    double c0 = 0.0;
    if (problem.beta != 0.0) inputs.Read(2, indices[i], 1, &c0);
    value[i] = epilogue.Value(sums.sum, c0);
    if (input != DType::kI8) allowance[i] = epilogue.Allowance(sums.sum, sums.absolute, c0);
  }
}

}  // namespace assay
