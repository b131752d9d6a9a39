// The residual pass for GPUs; kernels/runtime/residuals.h has the formulas, residuals_rule.h the
// rules that the CPU shares.
//
// The pass reads output, r and σ twice, 16 bytes for each element of fp32. Rows and columns need
// sums across each other: one of them would have to lie in memory between, and with few columns or
// few rows that is as much as the tensor.
//   ResidualRows     A team sums a row's elements, and its leader fits the row. A team is a wave,
//                    or the whole block if rows are long.
//   ResidualTiles    A wave takes one column of tiles through a range of bands (16 rows). The lanes
//                    hold 2 or 4 rows of 16 elements. The wave's sum is the tile's; each lane keeps
//                    the sum of its column.
//   ResidualColumns  If several ranges share a column, their sums are added in order.
//   ResidualMerge    One block merges the results of all blocks in order.
//
// Sums are in FP64, along a lane's elements, then over the lanes, waves and blocks, each in a fixed
// order. There are no atomics. Largest values and first indices do not depend on the order.
#include "kernels/runtime/gpu/residuals_gpu.h"

#include <algorithm>

#include "kernels/numerics/convert.h"
#include "kernels/runtime/gpu/element.h"
#include "kernels/runtime/gpu/port.h"
#include "kernels/runtime/gpu/primitives.h"
#include "kernels/runtime/gpu/reduce.h"
#include "kernels/runtime/residuals_rule.h"

namespace assay::inline kernels::gpu {
namespace {

using internal::Offer;
using internal::ResidualTiling;
using internal::RowResiduals;

constexpr int kThreads = 256;
constexpr int kMostWavesOfBlock = kThreads / 32;
constexpr std::int64_t kMostBlocks = 4 * 132;  // of a launch: enough for any device
constexpr std::int64_t kLongRow = 4096;        // elements for which a block pays
constexpr int kMergeThreads = 64;              // their results fit the shared memory

// The scratch memory: the result, the results of blocks, and the sums of columns.
constexpr std::int64_t kPartsAt = 1024;       // [bytes]
constexpr std::int64_t kColumnsAt = 1 << 19;  // [bytes]
constexpr std::int64_t kMostParts = 3 * kMostBlocks;
static_assert(kPartsAt + kMostParts * sizeof(ResidualSums) <= kColumnsAt);
struct ColumnSum {
  double squared;
  double count;
};
constexpr std::int64_t kMostColumnSums = (kScratchBytes - kColumnsAt) / sizeof(ColumnSum);

struct Pass {
  explicit Pass(const ResidualRequest& r) : request(r), tiling(r.output.extents) {}
  ResidualRequest request;
  ResidualTiling tiling;
  std::int64_t ranges = 1;  // of bands, that share a column of tiles
};

// Stored elements: a type for each format that is read fast, one for all others.
template <class Format>
struct Stored {
  static ASSAY_DEVICE_MEMBER double At(const TensorView& v, std::int64_t i) {
    return static_cast<double>(Format::Load(static_cast<const typename Format::Store*>(v.data)[i]));
  }
};
struct AnyStored {
  static ASSAY_DEVICE_MEMBER double At(const TensorView& v, std::int64_t i) {
    return LoadDouble(v.dtype, v.data, i);
  }
};

// Where a row begins in storage.
ASSAY_DEVICE std::int64_t OriginOf(const Extents& x, std::int64_t row) {
  return row / x.rows * x.batch_stride + row % x.rows * x.ld;
}

struct Residual {
  bool counts;
  double e, r, inverse;  // inverse: 1/σ
};

// The element at `column` of a row that begins at `origin`.
template <class Element>
ASSAY_DEVICE Residual ResidualAt(const ResidualRequest& q, std::int64_t row, std::int64_t origin,
                                 std::int64_t column) {
  const std::int64_t at = row * q.output.extents.cols + column;
  const double sigma = static_cast<double>(q.deviation[at]);
  const double r = q.reference[at];
  const double e = Element::At(q.output, origin + column) - r;
  if (!internal::Counts(sigma, r, e)) return {false, 0, 0, 0};
  return {true, e, r, 1 / sigma};
}

// ---- rows ----

struct RowSums : RowResiduals {
  std::int64_t largest_index = -1;
};

ASSAY_DEVICE void TakeLargest(double z, std::int64_t index, double& largest, std::int64_t& at) {
  if (index < 0) return;
  if (at >= 0 && (z < largest || (z == largest && index > at))) return;
  largest = z;
  at = index;
}

ASSAY_DEVICE void Add(const RowSums& from, RowSums& to) {
  to.count += from.count;
  to.sum_squared += from.sum_squared;
  to.weight += from.weight;
  to.reference += from.reference;
  to.reference_squared += from.reference_squared;
  to.error += from.error;
  to.error_reference += from.error_reference;
  to.error_direction += from.error_direction;
  to.direction_squared += from.direction_squared;
  TakeLargest(from.largest, from.largest_index, to.largest, to.largest_index);
}

// The sums over a wave; every lane gets them.
ASSAY_DEVICE void SumOverWave(RowSums& s) {
  s.count = WaveSum(s.count);
  s.sum_squared = WaveSum(s.sum_squared);
  s.weight = WaveSum(s.weight);
  s.reference = WaveSum(s.reference);
  s.reference_squared = WaveSum(s.reference_squared);
  s.error = WaveSum(s.error);
  s.error_reference = WaveSum(s.error_reference);
  s.error_direction = WaveSum(s.error_direction);
  s.direction_squared = WaveSum(s.direction_squared);
  for (int by = WaveWidth() / 2; by > 0; by /= 2) {
    const double z = ShuffleXor(s.largest, by);
    const std::int64_t index = ShuffleXor(s.largest_index, by);
    TakeLargest(z, index, s.largest, s.largest_index);
  }
}

// Elements `first`, `first` + `step`, … of a row.
template <class Element>
ASSAY_DEVICE RowSums SumElements(const ResidualRequest& q, std::int64_t row, std::int64_t first,
                                 std::int64_t step) {
  const Extents& x = q.output.extents;
  const std::int64_t origin = OriginOf(x, row);
  RowSums s;
  for (std::int64_t j = first; j < x.cols; j += step) {
    const Residual d = ResidualAt<Element>(q, row, origin, j);
    if (!d.counts) continue;
    const double z = d.e * d.inverse;
    const double weight = d.inverse * d.inverse;
    ++s.count;
    s.sum_squared += z * z;
    TakeLargest(std::abs(z), row * x.cols + j, s.largest, s.largest_index);
    s.weight += weight;
    s.reference += d.r * weight;
    s.reference_squared += d.r * weight * d.r;
    s.error += d.e * weight;
    s.error_reference += d.e * weight * d.r;
    if (q.direction == nullptr) continue;
    const double direction = static_cast<double>(q.direction[row * x.cols + j]);
    if (!(std::abs(direction) <= internal::kMostDeviation)) continue;
    s.error_direction += d.e * weight * direction;
    s.direction_squared += direction * weight * direction;
  }
  return s;
}

// A whole row to the sums over all.
ASSAY_DEVICE void AddWholeRow(const ResidualRequest& q, std::int64_t row, const RowSums& s,
                              ResidualSums& sums) {
  internal::AddRow(s, sums);
  TakeLargest(s.largest, s.largest_index, sums.largest, sums.largest_index);
  Offer(row, s.count, s.sum_squared, sums.row);
  if (q.row_gain == nullptr) return;
  internal::FitRow(s, q.row_offset == nullptr ? 0.0f : q.row_offset[row], q.row_gain[row], sums);
}

ASSAY_DEVICE void Merge(const ResidualSums& from, ResidualSums& to) {
  to.count += from.count;
  to.sum_squared += from.sum_squared;
  TakeLargest(from.largest, from.largest_index, to.largest, to.largest_index);
  to.error_reference += from.error_reference;
  to.reference_squared += from.reference_squared;
  to.error_direction += from.error_direction;
  to.direction_squared += from.direction_squared;
  to.direction_errors += from.direction_errors;
  to.direction_products += from.direction_products;
  to.direction_weights += from.direction_weights;
  Offer(from.row, to.row);
  Offer(from.column, to.column);
  Offer(from.tile, to.tile);
  to.rows += from.rows;
  to.offset_squared += from.offset_squared;
  to.gain_squared += from.gain_squared;
  to.offset += from.offset;
  to.gain += from.gain;
  to.rest_count += from.rest_count;
  to.rest_squared += from.rest_squared;
}

// Merges the results of `count` threads, in order, and writes them.
ASSAY_DEVICE void MergeInOrder(const ResidualSums* parts, int count, ResidualSums* result) {
  ResidualSums all;
  for (int i = 0; i < count; ++i) Merge(parts[i], all);
  *result = all;
}

template <class Element>
ASSAY_GLOBAL void ASSAY_BOUNDS(kThreads, 2)
    ResidualRows(ASSAY_GRID_CONSTANT const Pass pass, ResidualSums* parts) {
  ASSAY_SHARED(unsigned char, room, kMostWavesOfBlock * sizeof(ResidualSums));
  const ResidualRequest& q = pass.request;
  const Extents& x = q.output.extents;
  const std::int64_t rows = x.batch * x.rows;
  const int thread = static_cast<int>(Thread().x);
  const int wave = thread / WaveWidth(), waves = kThreads / WaveWidth();
  auto* const of_waves = reinterpret_cast<ResidualSums*>(&room[0]);
  auto* const row_parts = reinterpret_cast<RowSums*>(&room[0]);
  static_assert(sizeof(RowSums) <= sizeof(ResidualSums));
  ResidualSums sums;  // of the team's leader
  if (x.cols >= kLongRow) {
    for (std::int64_t row = Block().x; row < rows; row += GridExtent().x) {
      RowSums mine = SumElements<Element>(q, row, thread, kThreads);
      SumOverWave(mine);
      if (Lane() == 0) row_parts[wave] = mine;
      SyncBlock();
      if (thread == 0) {
        for (int w = 1; w < waves; ++w) Add(row_parts[w], mine);
        AddWholeRow(q, row, mine, sums);
      }
      SyncBlock();  // the next row's parts are written
    }
  } else {
    const std::int64_t step = std::int64_t{GridExtent().x} * waves;
    for (std::int64_t row = std::int64_t{Block().x} * waves + wave; row < rows; row += step) {
      RowSums mine = SumElements<Element>(q, row, Lane(), WaveWidth());
      SumOverWave(mine);
      if (Lane() == 0) AddWholeRow(q, row, mine, sums);
    }
  }
  if (Lane() == 0) of_waves[wave] = sums;
  SyncBlock();
  if (thread == 0) MergeInOrder(of_waves, waves, parts + Block().x);
}

// ---- columns and tiles ----

template <class Element>
ASSAY_GLOBAL void ASSAY_BOUNDS(kThreads, 2)
    ResidualTiles(ASSAY_GRID_CONSTANT const Pass pass, ResidualSums* parts, ColumnSum* columns) {
  ASSAY_SHARED(unsigned char, room, kMostWavesOfBlock * sizeof(ResidualSums));
  static_assert(kResidualTile == 16);  // divides every wave's width
  const ResidualRequest& q = pass.request;
  const Extents& x = q.output.extents;
  const ResidualTiling& tiling = pass.tiling;
  const int width = WaveWidth();
  const int wave = static_cast<int>(Thread().x) / width, waves = kThreads / width;
  const int first_row = Lane() / 16, row_step = width / 16;
  const std::int64_t step = std::int64_t{GridExtent().x} * waves;
  const std::int64_t items = tiling.across * pass.ranges;
  ResidualSums sums;
  for (std::int64_t i = std::int64_t{Block().x} * waves + wave; i < items; i += step) {
    const std::int64_t across = i % tiling.across, range = i / tiling.across;
    const std::int64_t column = across * kResidualTile + Lane() % 16;
    const std::int64_t end = tiling.bands * (range + 1) / pass.ranges;
    double squared = 0, count = 0;  // of this lane's rows of the column
    for (std::int64_t band = tiling.bands * range / pass.ranges; band < end; ++band) {
      const std::int64_t row0 = tiling.FirstRow(band), height = tiling.Height(band);
      double tile_squared = 0, tile_count = 0;
      for (std::int64_t k = first_row; k < height; k += row_step) {
        if (column >= x.cols) break;
        const Residual d = ResidualAt<Element>(q, row0 + k, OriginOf(x, row0 + k), column);
        const double z = d.e * d.inverse;
        tile_squared += z * z;
        tile_count += d.counts ? 1 : 0;
      }
      squared += tile_squared;
      count += tile_count;
      tile_squared = WaveSum(tile_squared);
      tile_count = WaveSum(tile_count);
      Offer(band * tiling.across + across, static_cast<std::int64_t>(tile_count), tile_squared,
            sums.tile);
    }
    for (int by = width / 2; by >= 16; by /= 2) {
      squared += ShuffleXor(squared, by);
      count += ShuffleXor(count, by);
    }
    if (pass.ranges > 1) {
      if (Lane() < 16 && column < x.cols) columns[range * x.cols + column] = {squared, count};
      continue;
    }
    // Every lane offers all sixteen columns, so that they agree.
    for (int j = 0; j < 16; ++j) {
      const double column_squared = ShuffleFrom(squared, j);
      const auto column_count = static_cast<std::int64_t>(ShuffleFrom(count, j));
      Offer(across * kResidualTile + j, column_count, column_squared, sums.column);
    }
  }
  auto* const of_waves = reinterpret_cast<ResidualSums*>(&room[0]);
  if (Lane() == 0) of_waves[wave] = sums;
  SyncBlock();
  if (Thread().x == 0) MergeInOrder(of_waves, waves, parts + Block().x);
}

ASSAY_GLOBAL void ASSAY_BOUNDS(kMergeThreads, 1)
    ResidualColumns(ASSAY_GRID_CONSTANT const Pass pass, const ColumnSum* columns,
                    ResidualSums* parts) {
  ASSAY_SHARED(unsigned char, room, kMergeThreads * sizeof(ResidualSums));
  const std::int64_t cols = pass.request.output.extents.cols;
  const int thread = static_cast<int>(Thread().x);
  const std::int64_t step = std::int64_t{GridExtent().x} * kMergeThreads;
  ResidualSums mine;
  for (std::int64_t j = std::int64_t{Block().x} * kMergeThreads + thread; j < cols; j += step) {
    ColumnSum all = {0, 0};
    for (std::int64_t range = 0; range < pass.ranges; ++range) {
      all.squared += columns[range * cols + j].squared;
      all.count += columns[range * cols + j].count;
    }
    Offer(j, static_cast<std::int64_t>(all.count), all.squared, mine.column);
  }
  auto* const of_threads = reinterpret_cast<ResidualSums*>(&room[0]);
  of_threads[thread] = mine;
  SyncBlock();
  if (thread == 0) MergeInOrder(of_threads, kMergeThreads, parts + Block().x);
}

// ---- all blocks' results ----

ASSAY_GLOBAL void ASSAY_BOUNDS(kMergeThreads, 1)
    ResidualMerge(const ResidualSums* parts, int count, ResidualSums groups, ResidualSums* result) {
  ASSAY_SHARED(unsigned char, room, kMergeThreads * sizeof(ResidualSums));
  const int thread = static_cast<int>(Thread().x);
  ResidualSums mine;
  for (int i = thread; i < count; i += kMergeThreads) Merge(parts[i], mine);
  auto* const of_threads = reinterpret_cast<ResidualSums*>(&room[0]);
  of_threads[thread] = mine;
  SyncBlock();
  if (thread != 0) return;
  for (int t = 0; t < kMergeThreads; ++t) Merge(of_threads[t], groups);
  *result = groups;
}

std::int64_t Blocks(std::int64_t items, std::int64_t of_block) {
  return std::clamp<std::int64_t>((items + of_block - 1) / of_block, 1, kMostBlocks);
}

template <class Element>
ErrorCode LaunchFor(const ResidualRequest& request, void* scratch, Stream stream) {
  auto* const bytes = static_cast<unsigned char*>(scratch);
  auto* const parts = reinterpret_cast<ResidualSums*>(bytes + kPartsAt);
  auto* const columns = reinterpret_cast<ColumnSum*>(bytes + kColumnsAt);
  const Extents& x = request.output.extents;
  Pass pass(request);
  // As many waves as fit at once, if the sums of their columns fit the scratch memory.
  constexpr std::int64_t kWaves = kMostBlocks * kMostWavesOfBlock;
  const std::int64_t most = std::min(pass.tiling.bands, kMostColumnSums / x.cols);
  pass.ranges =
      std::clamp<std::int64_t>(kWaves / pass.tiling.across, 1, std::max(most, std::int64_t{1}));

  const auto grid = [](std::int64_t blocks) { return Extent{static_cast<unsigned>(blocks), 1, 1}; };
  constexpr int kFewestWaves = kThreads / 64;  // of a block
  const std::int64_t rows = x.batch * x.rows;
  std::int64_t done = Blocks(rows, x.cols >= kLongRow ? 1 : kFewestWaves);
  ErrorCode error =
      Launch(ResidualRows<Element>, grid(done), Extent{kThreads, 1, 1}, 0, stream, pass, parts);
  if (error != kOk) return error;
  std::int64_t blocks = Blocks(pass.tiling.across * pass.ranges, kFewestWaves);
  error = Launch(ResidualTiles<Element>, grid(blocks), Extent{kThreads, 1, 1}, 0, stream, pass,
                 parts + done, columns);
  if (error != kOk) return error;
  done += blocks;
  if (pass.ranges > 1) {
    blocks = Blocks(x.cols, kMergeThreads);
    error = Launch(ResidualColumns, grid(blocks), Extent{kMergeThreads, 1, 1}, 0, stream, pass,
                   static_cast<const ColumnSum*>(columns), parts + done);
    if (error != kOk) return error;
    done += blocks;
  }
  ResidualSums groups;
  internal::SetGroups(x, groups);
  return Launch(ResidualMerge, Extent{1, 1, 1}, Extent{kMergeThreads, 1, 1}, 0, stream,
                static_cast<const ResidualSums*>(parts), static_cast<int>(done), groups,
                static_cast<ResidualSums*>(scratch));
}

}  // namespace

ErrorCode LaunchResiduals(const ResidualRequest& request, void* scratch, Stream stream) {
  switch (request.output.dtype) {
    case DType::kF64:
      return LaunchFor<Stored<Float64>>(request, scratch, stream);
    case DType::kF32:
    case DType::kTF32:  // a float32 word
      return LaunchFor<Stored<Float32>>(request, scratch, stream);
    case DType::kF16:
      return LaunchFor<Stored<Half>>(request, scratch, stream);
    case DType::kBF16:
      return LaunchFor<Stored<BFloat>>(request, scratch, stream);
    default:
      return LaunchFor<AnyStored>(request, scratch, stream);
  }
}

}  // namespace assay::kernels::gpu
