#include "kernels/ops/gemm/gemm_reference_cpu.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/ops/common/exact_product.h"
#include "kernels/ops/common/load.h"
#include "kernels/ops/common/packed_product.h"
#include "kernels/ops/common/product_residuals.h"
#include "kernels/ops/common/unit_product.h"
#include "kernels/runtime/cpu/parallel.h"

namespace assay::inline kernels {
namespace {

// The margins of Σ(a·b)²: an element has about rows[i]·columns[j].
struct Squares {
  const double* rows = nullptr;     // [batch·m]
  const double* columns = nullptr;  // [batch·n]
};

// From the two sums of a tile's rows to r and E, in place, and to σ.
void Finish(const GemmProblem& problem, const GemmEpilogue& epilogue,
            std::span<const TensorView> inputs, std::int64_t batch, const ProductTile& tile,
            double* value, double* allowance, const Squares& squares, float* deviation) {
  if (epilogue.plain && allowance != nullptr) {
    TileDeviations to = {epilogue.sums, epilogue.steps, nullptr, nullptr, deviation};
    if (deviation != nullptr) {
      to.rows = squares.rows + batch * problem.m + tile.row0;
      to.columns = squares.columns + batch * problem.n + tile.col0;
    }
    FinishTile(epilogue.product, tile.rows, tile.cols, problem.n, value, allowance, to);
    return;
  }
  if (epilogue.plain) return;  // r is the sum
  const TensorView* c = problem.beta != 0.0 ? &inputs[2] : nullptr;
  double c0[kTileCols] = {}, scale[kTileCols], bias[kTileCols] = {};
  std::fill_n(scale, kTileCols, 1.0);
  const auto load = [&](int operand, double* columns) {
    const TensorView& v = inputs[static_cast<std::size_t>(operand)];
    LoadDoubles(v.dtype, v.data, tile.col0, tile.cols, columns);
  };
  if (problem.channel_scale) load(problem.channel_scale_operand(), scale);
  if (problem.bias) load(problem.bias_operand(), bias);
  for (std::int64_t i = 0; i < tile.rows; ++i) {
    if (c != nullptr) {
      LoadDoubles(c->dtype, c->data,
                  batch * c->extents.batch_stride + (tile.row0 + i) * c->extents.ld + tile.col0,
                  tile.cols, c0);
    }
    double* r = value + i * problem.n;
    double* e = allowance == nullptr ? nullptr : allowance + i * problem.n;
    if (deviation != nullptr) {
      const double row = squares.rows[batch * problem.m + tile.row0 + i];
      const double* columns = squares.columns + batch * problem.n + tile.col0;
      float* sigma = deviation + i * problem.n;
      for (std::int64_t j = 0; j < tile.cols; ++j) {
        sigma[j] = static_cast<float>(
            epilogue.Deviation(r[j], e[j], row * columns[j], c0[j], scale[j], bias[j]));
      }
    }
    for (std::int64_t j = 0; j < tile.cols; ++j) {
      const double sum = r[j];
      r[j] = epilogue.Value(sum, c0[j], scale[j], bias[j]);
      if (e == nullptr) continue;
      const double absolute = epilogue.one_product ? std::abs(sum) : e[j];
      e[j] = epilogue.Allowance(sum, absolute, c0[j], scale[j], bias[j]);
    }
  }
}

// op(A) and op(B) of a batch, by [row, k] and [column, k].
StridedMatrix MatrixA(const GemmProblem& problem, DType input, const TensorView& a,
                      std::int64_t batch) {
  const Extents& e = a.extents;
  return {input, a.data, batch * e.batch_stride, problem.trans_a ? 1 : e.ld,
          problem.trans_a ? e.ld : 1};
}

StridedMatrix MatrixB(const GemmProblem& problem, DType input, const TensorView& b,
                      std::int64_t batch) {
  const Extents& e = b.extents;
  return {input, b.data, batch * e.batch_stride, problem.trans_b ? e.ld : 1,
          problem.trans_b ? 1 : e.ld};
}

// Makes the sums of the first batches that are single products, and returns how many these are.
std::int64_t MakeUnitProducts(const GemmProblem& problem, DType input,
                              std::span<const TensorView> inputs, double* value) {
  std::int64_t batch = 0;
  while (batch < problem.batch && UnitProduct(MatrixA(problem, input, inputs[0], batch), problem.m,
                                              MatrixB(problem, input, inputs[1], batch), problem.n,
                                              problem.k, value + batch * problem.m * problem.n)) {
    ++batch;
  }
  return batch;
}

// The margins of all batches.
void MakeSquares(const GemmProblem& problem, DType input, std::span<const TensorView> inputs,
                 std::vector<double>& rows, std::vector<double>& columns) {
  rows.resize(static_cast<std::size_t>(problem.batch * problem.m));
  columns.resize(static_cast<std::size_t>(problem.batch * problem.n));
  for (std::int64_t batch = 0; batch < problem.batch; ++batch) {
    SquareMargins(MatrixA(problem, input, inputs[0], batch), problem.m,
                  MatrixB(problem, input, inputs[1], batch), problem.n, problem.k,
                  rows.data() + batch * problem.m, columns.data() + batch * problem.n);
  }
}

}  // namespace

void GemmReferenceCpu(const GemmProblem& problem, DType input, const GemmEpilogue& epilogue,
                      std::span<const TensorView> inputs, double* value, double* allowance,
                      double largest, float* deviation) {
  const auto source = [](const StridedMatrix& m) {
    return StridedSource(m.dtype, m.base, m.origin, m.row_stride, m.k_stride);
  };
  std::vector<double> rows, columns;
  if (deviation != nullptr) MakeSquares(problem, input, inputs, rows, columns);
  const Squares squares = {rows.data(), columns.data()};
  const bool exact = allowance == nullptr || epilogue.one_product;
  const std::int64_t made = exact ? MakeUnitProducts(problem, input, inputs, value) : 0;

  const std::int64_t col_tiles = (problem.n + kTileCols - 1) / kTileCols;
  const std::int64_t height = TileHeight(problem.m, problem.batch * col_tiles);
  const std::int64_t row_tiles = (problem.m + height - 1) / height;
  ParallelForDynamic(problem.batch * row_tiles * col_tiles, [&](std::int64_t t) {
    const std::int64_t batch = t / (row_tiles * col_tiles);
    const std::int64_t row0 = t / col_tiles % row_tiles * height;
    const std::int64_t col0 = t % col_tiles * kTileCols;
    const ProductTile tile = {row0, std::min(height, problem.m - row0), col0,
                              std::min(kTileCols, problem.n - col0)};
    const StridedSource a = source(MatrixA(problem, input, inputs[0], batch)),
                        b = source(MatrixB(problem, input, inputs[1], batch));
    const auto place = [&](const ProductTile& part) {
      return (batch * problem.m + part.row0) * problem.n + part.col0;
    };
    const auto finish = [&](const ProductTile& part) {
      const std::int64_t at = place(part);
      Finish(problem, epilogue, inputs, batch, part, value + at,
             allowance == nullptr ? nullptr : allowance + at, squares,
             deviation == nullptr ? nullptr : deviation + at);
    };
    double* r = value + place(tile);
    if (!exact) {
      PackedProduct(a, b, problem.k, tile, r, allowance + place(tile), problem.n, finish);
      return;
    }
    if (batch >= made) ExactProduct(a, b, problem.k, largest, tile, r, problem.n);
    finish(tile);
  });
}

}  // namespace assay::kernels
