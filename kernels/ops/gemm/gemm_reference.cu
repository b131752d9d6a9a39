// The right output of a gemm and its allowance, for GPUs: S = Σ a·b and Σ |a||b| of an
// element in one FP64 pass (kernels/ops/common/product_gpu.h), then GemmEpilogue, which
// the host's references use too. One block a tile of the output.
//
// σ needs Σ(a·b)², for which R_i·C_j/M stands (kernels/ops/common/product_residuals.h):
//   α_k = Σ_i a_ik²   β_k = Σ_j b_kj²   M = Σ_k α_k·β_k   R_i = Σ_k a_ik²·β_k   C_j = Σ_k b_kj²·α_k
// Each of α, β, R and C sums the squares of one line of A or B. They lie in scratch memory. Orders
// are fixed.
#include "kernels/ops/common/element_gpu.h"
#include "kernels/ops/common/product_gpu.h"
#include "kernels/ops/common/rows_gpu.h"
#include "kernels/ops/gemm/gemm_reference_gpu.h"
#include "kernels/runtime/gpu/reduce.h"

namespace assay::inline kernels::gpu {
namespace {

// ---- margins of Σ(a·b)² ----

// x², or 0 if that is not finite: the elements behind it have no deviation anyway.
ASSAY_DEVICE double FiniteSquare(double x) {
  const double square = x * x;
  return std::isfinite(square) ? square : 0;
}

constexpr int kLines = 8;   // of a block
constexpr int kSlots = 32;  // threads that share a line
static_assert(kLines * kSlots == kProductThreads);

// The margins of one product, in the scratch memory.
struct GemmSquares {
  double* terms[2];    // α and β, [k] each
  double* margins[2];  // R [m] and C [n]
  double* scale;       // 1/√M
};
ASSAY_HOST_DEVICE inline GemmSquares SquaresOf(const GemmReference& g, std::int64_t product) {
  double* const at =
      static_cast<double*>(g.scratch) +
      product * (SquareBytes(g.m, g.n, g.k) / static_cast<std::int64_t>(sizeof(double)));
  return {{at, at + g.k}, {at + 2 * g.k, at + 2 * g.k + g.m}, at + 2 * g.k + g.m + g.n};
}

// Sums the lines of A (y = 0) and B (y = 1). A line is a term, or, if kWeighted, a row of A or a
// column of B.
template <class Element, bool kWeighted>
ASSAY_GLOBAL void ASSAY_BOUNDS(kProductThreads, 2) GemmLines(GemmReference g) {
  ASSAY_SHARED(double, parts, kProductThreads);
  const bool of_b = Block().y == 1;
  const GemmReference::Matrix& x = of_b ? g.b : g.a;
  const std::int64_t rows = of_b ? g.n : g.m;
  const std::int64_t lines = kWeighted ? rows : g.k, along = kWeighted ? g.k : rows;
  const std::int64_t line_stride = kWeighted ? x.row_stride : x.term_stride;
  const std::int64_t step = kWeighted ? x.term_stride : x.row_stride;
  const std::int64_t groups = (lines + kLines - 1) / kLines;
  const int thread = static_cast<int>(Thread().x);
  // Neighbours in memory belong to neighbouring threads.
  const int line_at = line_stride == 1 ? thread % kLines : thread / kSlots;
  const int slot = line_stride == 1 ? thread / kLines : thread % kSlots;
  for (std::int64_t t = Block().x; t < g.batch * groups; t += GridExtent().x) {
    const std::int64_t product = t / groups, line0 = t % groups * kLines, line = line0 + line_at;
    const GemmSquares squares = SquaresOf(g, product);
    const double* const weights = squares.terms[of_b ? 0 : 1];
    double sum = 0;
    if (line < lines) {
      const std::int64_t origin = (g.first_batch + product) * x.batch_stride + line * line_stride;
      for (std::int64_t i = slot; i < along; i += kSlots) {
        const double square = FiniteSquare(Element::At(x.data, g.input, origin + i * step));
        sum += kWeighted ? square * weights[i] : square;
      }
    }
    parts[line_at * kSlots + slot] = sum;
    SyncBlock();
    if (thread < kLines && line0 + thread < lines) {
      double all = 0;
      for (int s = 0; s < kSlots; ++s) all += parts[thread * kSlots + s];
      (kWeighted ? squares.margins : squares.terms)[of_b ? 1 : 0][line0 + thread] = all;
    }
    SyncBlock();  // the next lines' parts are written
  }
}

// 1/√M of each product; without any product Σ(a·b)² is 0 everywhere.
ASSAY_GLOBAL void ASSAY_BOUNDS(kProductThreads, 2) GemmSquareScales(GemmReference g) {
  ASSAY_SHARED(double, partial, kMostWaves);
  for (std::int64_t product = Block().x; product < g.batch; product += GridExtent().x) {
    const GemmSquares squares = SquaresOf(g, product);
    double sum = 0;
    for (std::int64_t k = Thread().x; k < g.k; k += kProductThreads) {
      sum += squares.terms[0][k] * squares.terms[1][k];
    }
    sum = BlockReduce<Sum>(sum, partial, kProductThreads);
    if (Thread().x == 0) *squares.scale = sum > 0 ? 1 / std::sqrt(sum) : 0;
  }
}

// ---- products ----

ASSAY_DEVICE std::int64_t Tiles(std::int64_t extent) {
  return (extent + kProductTile - 1) / kProductTile;
}

// One element, from its sums, which value and allowance hold.
ASSAY_DEVICE void Finish(const GemmReference& g, std::int64_t product, std::int64_t row,
                         std::int64_t col) {
  const std::int64_t batch = g.first_batch + product;
  double c0 = 0.0, scale = 1.0, bias = 0.0;
  if (g.c.data != nullptr) {
    c0 = LoadDouble(g.output, g.c.data, batch * g.c.batch_stride + row * g.c.row_stride + col);
  }
  if (g.channel_scale != nullptr) scale = LoadDouble(g.columns, g.channel_scale, col);
  if (g.bias != nullptr) bias = LoadDouble(g.columns, g.bias, col);
  const std::int64_t at = (batch * g.m + row) * g.n + col;
  const double sum = g.value[at];
  if (g.deviation != nullptr) {
    const GemmSquares squares = SquaresOf(g, product);
    const double q =
        squares.margins[0][row] * *squares.scale * (squares.margins[1][col] * *squares.scale);
    g.deviation[at] =
        static_cast<float>(g.epilogue.Deviation(sum, g.allowance[at], q, c0, scale, bias));
  }
  double r = g.epilogue.Value(sum, c0, scale, bias);
  if (g.largest > 0 && std::abs(r) > g.largest) r = r < 0 ? -g.largest : g.largest;
  g.value[at] = r;
  if (g.allowance != nullptr) {
    const double absolute = g.epilogue.one_product ? std::abs(sum) : g.allowance[at];
    g.allowance[at] = g.epilogue.Allowance(sum, absolute, c0, scale, bias);
  }
}

template <class Element, bool kAbsolute>
ASSAY_GLOBAL void ASSAY_BOUNDS(kProductThreads, 2) GemmTiles(GemmReference g) {
  ASSAY_SHARED(double, a_tile, kProductShared);
  ASSAY_SHARED(double, b_tile, kProductShared);
  const std::int64_t col_tiles = Tiles(g.n), row_tiles = Tiles(g.m);
  int no_gaps = 0;
  for (std::int64_t t = Block().x; t < g.batch * row_tiles * col_tiles; t += GridExtent().x) {
    const std::int64_t product = t / (row_tiles * col_tiles), batch = g.first_batch + product;
    const std::int64_t row0 = t / col_tiles % row_tiles * kProductTile;
    const std::int64_t col0 = t % col_tiles * kProductTile;
    const StridedRows<Element> a = {g.a.data,       g.input,         batch * g.a.batch_stride,
                                    g.a.row_stride, g.a.term_stride, g.a.term_stride == 1};
    const StridedRows<Element> b = {g.b.data,       g.input,         batch * g.b.batch_stride,
                                    g.b.row_stride, g.b.term_stride, g.b.term_stride == 1};
    ProductSums<kAbsolute> sums;
    ProductOfTile(a, row0, g.m, b, col0, g.n, g.k, a_tile, b_tile, no_gaps, sums);
    // Where the sums are kept until the thread that made them finishes them, one by one:
    // sixteen epilogues in a row would be all of the kernel's code.
    ASSAY_UNROLL
    for (int i = 0; i < kProductEach; ++i) {
      ASSAY_UNROLL
      for (int j = 0; j < kProductEach; ++j) {
        const std::int64_t row = row0 + sums.Row(i), col = col0 + sums.Col(j);
        if (row >= g.m || col >= g.n) continue;
        const std::int64_t at = (batch * g.m + row) * g.n + col;
        g.value[at] = sums.sum[i][j];
        if constexpr (kAbsolute) g.allowance[at] = sums.absolute[i][j];
      }
    }
    ASSAY_UNROLL_BY(1)
    for (int e = 0; e < kProductEach * kProductEach; ++e) {
      const std::int64_t row = row0 + sums.Row(e / kProductEach);
      const std::int64_t col = col0 + sums.Col(e % kProductEach);
      if (row < g.m && col < g.n) Finish(g, product, row, col);
    }
  }
}

ErrorCode LaunchProducts(const GemmReference& g, Stream stream) {
  const std::int64_t tiles = g.batch * ((g.m + kProductTile - 1) / kProductTile) *
                             ((g.n + kProductTile - 1) / kProductTile);
  return ForElement(g.input, [&](auto element) {
    using Element = decltype(element);
    const Extent block{kProductThreads, 1, 1};
    return g.allowance == nullptr || g.epilogue.one_product
               ? Launch(GemmTiles<Element, false>, RowGrid(tiles), block, 0, stream, g)
               : Launch(GemmTiles<Element, true>, RowGrid(tiles), block, 0, stream, g);
  });
}

ErrorCode LaunchSquares(const GemmReference& g, Stream stream) {
  return ForElement(g.input, [&](auto element) {
    using Element = decltype(element);
    const Extent block{kProductThreads, 1, 1};
    const auto grid = [&](std::int64_t lines) {
      Extent both = RowGrid(g.batch * ((lines + kLines - 1) / kLines));
      both.y = 2;
      return both;
    };
    ErrorCode error = Launch(GemmLines<Element, false>, grid(g.k), block, 0, stream, g);
    if (error != kOk) return error;
    error = Launch(GemmSquareScales, RowGrid(g.batch), block, 0, stream, g);
    if (error != kOk) return error;
    return Launch(GemmLines<Element, true>, grid(g.m > g.n ? g.m : g.n), block, 0, stream, g);
  });
}

}  // namespace

ErrorCode LaunchGemmReference(const GemmReference& g, Stream stream) {
  if (g.deviation == nullptr) return LaunchProducts(g, stream);
  GemmReference group = g;
  const std::int64_t most = g.scratch_bytes / SquareBytes(g.m, g.n, g.k);
  for (std::int64_t first = 0; first < g.batch; first += most) {
    group.first_batch = first;
    group.batch = g.batch - first < most ? g.batch - first : most;
    ErrorCode error = LaunchSquares(group, stream);
    if (error == kOk) error = LaunchProducts(group, stream);
    if (error != kOk) return error;
  }
  return kOk;
}

}  // namespace assay::kernels::gpu
