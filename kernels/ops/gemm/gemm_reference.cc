#include "kernels/ops/gemm/gemm_reference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "kernels/ops/common/dot.h"
#include "kernels/ops/common/product_residuals.h"
#include "kernels/ops/common/vector_cache.h"
#include "kernels/ops/gemm/gemm_probes.h"
#include "kernels/runtime/cpu/parallel.h"

namespace assay::inline kernels {
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
  // What lies between two elements that are read together, at most; short lines are read whole.
  constexpr std::int64_t kShort = 64;
  const std::int64_t gap = extent <= kShort ? kShort : 4;
  constexpr std::int64_t kBlock = std::int64_t{1} << 16;  // what is read at a time
  std::vector<double> run;
  for (std::size_t first = 0; first < ids.size();) {
    std::size_t last = first + 1;
    while (last < ids.size() && ids[last] > ids[last - 1] && ids[last] - ids[last - 1] <= gap &&
           ids[last] / extent == ids[first] / extent) {
      ++last;
    }
    const std::int64_t batch = ids[first] / extent;
    std::int64_t low = ids[first] % extent, width = ids[last - 1] - ids[first] + 1, step = 1;
    if (extent - width <= gap) {  // whole lines, which lie behind one another
      low = 0;
      width = extent;
      step = std::clamp<std::int64_t>(kBlock / extent, 1, k);
    }
    run.resize(static_cast<std::size_t>(step * width));
    for (std::int64_t i = 0; i < k; i += step) {
      const std::int64_t lines = std::min(step, k - i);
      inputs.Read(operand, (batch * k + i) * extent + low, lines * width, run.data());
      for (std::size_t j = first; j < last; ++j) {
        const double* from = run.data() + (ids[j] % extent - low);
        double* to = vectors.vector(j) + i;
        for (std::int64_t line = 0; line < lines; ++line) to[line] = from[line * width];
      }
    }
    first = last;
  }
}

// The rows of op(A) and the columns of op(B) behind some output elements.
struct Vectors {
  VectorCache a, b;
};

Vectors ReadBoth(const GemmProblem& problem, const HostInputs& inputs,
                 std::span<const std::int64_t> indices) {
  const std::int64_t m = problem.m, n = problem.n;
  std::vector<std::int64_t> row_ids, col_ids;
  for (std::int64_t index : indices) {
    row_ids.push_back(index / n);
    col_ids.push_back(index / (m * n) * n + index % n);
  }
  Vectors v = {VectorCache(row_ids, problem.k), VectorCache(col_ids, problem.k)};
  ReadVectors(inputs, 0, m, problem.k, !problem.trans_a, v.a);
  ReadVectors(inputs, 1, n, problem.k, problem.trans_b, v.b);
  return v;
}

// The sums of elements [begin, end), in stretches of terms for which all vectors lie in a cache.
std::vector<DotParts> DotsOf(const Vectors& vectors, std::int64_t begin, std::int64_t end,
                             std::int64_t k) {
  constexpr std::int64_t kStretch = 1024;
  std::vector<DotParts> dots(static_cast<std::size_t>(end - begin));
  for (std::int64_t from = 0; from < k; from += kStretch) {
    for (std::size_t i = 0; i < dots.size(); ++i) {
      const std::size_t element = static_cast<std::size_t>(begin) + i;
      dots[i].Add(vectors.a.of(element) + from, vectors.b.of(element) + from,
                  std::min(kStretch, k - from));
    }
  }
  return dots;
}

// An operand with one value a column.
std::vector<double> ReadColumns(const GemmProblem& problem, const HostInputs& inputs, int operand) {
  std::vector<double> columns(static_cast<std::size_t>(problem.n));
  inputs.Read(operand, 0, problem.n, columns.data());
  return columns;
}

}  // namespace

double SaturatesTo(DType output) {
  const FormatInfo& f = Info(output);
  if (f.is_integer || f.storage_bits > 8) return 0;
  return std::nextafter(f.max_finite, std::numeric_limits<double>::infinity());
}

GemmEpilogue MakeGemmEpilogue(const GemmProblem& problem, DType input, bool flushes_subnormals,
                              const Accumulator& accumulator) {
  // Of the epilogue: integers leave theirs behind there.
  const bool integer = Info(input).is_integer;
  const Arithmetic arithmetic = ArithmeticOf(integer ? DType::kF32 : input);
  GemmEpilogue e;
  e.product = MakeProductBound(input, problem.k, flushes_subnormals, accumulator);
  e.sums = MakeSumModel(input, problem.k, AccumulatorOf(input, accumulator));
  int factors = integer ? 1 : 0;
  for (double f : {problem.alpha, problem.scale_a, problem.scale_b}) {
    e.factor *= KernelScalar(input, f);
    factors += f != 1.0 ? 1 : 0;
  }
  if (problem.channel_scale) ++factors;
  e.beta = KernelScalar(input, problem.beta);
  e.activation = problem.activation_kind();
  e.adds_bias = problem.bias;
  e.plain = problem.plain() && problem.alpha == 1.0 && problem.beta == 0.0;
  e.roundings = std::max(1, factors);
  e.u = arithmetic.u;
  e.times = arithmetic.times;
  e.underflow =
      flushes_subnormals ? 4.0 * arithmetic.min_normal : UnderflowAllowance(4, arithmetic.quantum);
  return e;
}

GemmEpilogue MakeGemmEpilogue(const Case& c, const Plan& plan) {
  GemmEpilogue e = MakeGemmEpilogue(std::get<GemmProblem>(c.problem), c.dtype,
                                    plan.flushes_subnormals, plan.accumulator);
  e.steps = OutputStepsOf(plan.output.dtype);
  e.one_product = IsOneProduct(c);
  if (e.one_product) {
    e.product = MakeProductBound(c.dtype, 1, plan.flushes_subnormals, plan.accumulator);
  }
  return e;
}

void GemmReferenceAt(const GemmProblem& problem, const GemmEpilogue& epilogue,
                     const HostInputs& inputs, std::span<const std::int64_t> indices, double* value,
                     double* allowance) {
  const std::int64_t n = problem.n, k = problem.k;
  const Vectors vectors = ReadBoth(problem, inputs, indices);
  std::vector<double> scales, biases;  // of all columns
  if (problem.channel_scale) {
    scales = ReadColumns(problem, inputs, problem.channel_scale_operand());
  }
  if (problem.bias) biases = ReadColumns(problem, inputs, problem.bias_operand());
  const std::size_t count = indices.size();
  std::vector<double> c(count, 0.0);
  // Inputs that lie on a device are read by one thread.
  for (std::size_t i = 0; problem.beta != 0.0 && i < count; ++i) {
    inputs.Read(2, indices[i], 1, &c[i]);
  }
  constexpr std::int64_t kGrain = std::int64_t{1} << 18;  // products
  ParallelFor(static_cast<std::int64_t>(count), kGrain / k + 1,
              [&](std::int64_t begin, std::int64_t end) {
                const std::vector<DotParts> dots = DotsOf(vectors, begin, end, k);
                for (std::size_t i = static_cast<std::size_t>(begin);
                     i < static_cast<std::size_t>(end); ++i) {
                  const DotSums sums = dots[i - static_cast<std::size_t>(begin)].sums();
                  const std::size_t column = static_cast<std::size_t>(indices[i] % n);
                  const double scale = scales.empty() ? 1.0 : scales[column];
                  const double bias = biases.empty() ? 0.0 : biases[column];
                  value[i] = epilogue.Value(sums.sum, c[i], scale, bias);
                  if (allowance != nullptr) {
                    allowance[i] = epilogue.Allowance(sums.sum, sums.absolute, c[i], scale, bias);
                  }
                }
              });
}

SampledProducts GemmProducts(const GemmProblem& problem, DType input, const HostInputs& inputs,
                             std::span<const std::int64_t> indices) {
  const double factor = MakeGemmEpilogue(problem, input, /*flushes_subnormals=*/false).factor;
  std::vector<double> scales;
  if (problem.channel_scale) {
    scales = ReadColumns(problem, inputs, problem.channel_scale_operand());
  }
  Vectors vectors = ReadBoth(problem, inputs, indices);
  SampledProducts products;
  products.format = input;
  products.terms = problem.k;
  products.told_above = LinearAbove(problem.activation_kind());
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const std::size_t column = static_cast<std::size_t>(indices[i] % problem.n);
    products.elements.push_back(
        {vectors.a.slot(i), vectors.b.slot(i), factor * (scales.empty() ? 1.0 : scales[column])});
  }
  products.left = {"a", vectors.a.TakeVectors()};
  products.right = {"b", vectors.b.TakeVectors()};
  return products;
}

}  // namespace assay::kernels
