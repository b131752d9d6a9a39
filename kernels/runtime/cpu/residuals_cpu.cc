#include "kernels/runtime/cpu/residuals_cpu.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "kernels/numerics/convert.h"
#include "kernels/runtime/compare_rule.h"
#include "kernels/runtime/cpu/parallel.h"
#include "kernels/runtime/tensor_check.h"

namespace assay::inline kernels {
namespace {

using internal::Offer;
using internal::ResidualTiling;
using internal::RowResiduals;

// The logical index of the first element of a row with the largest |z|, which is about `largest`.
// `columns`: Σz² by column. No element of a column with a smaller sum is the largest, so that most
// elements of few long rows are not read again.
std::int64_t LargestOfRow(const ResidualRequest& request, std::int64_t row, double largest,
                          const std::vector<double>& columns) {
  constexpr double kNear = 1 - 0x1p-20;  // 1/σ of the sums is within 2^-30
  // An infinite z says nothing of its column; the largest of the others is looked for.
  const double least = std::isfinite(largest) ? largest * largest * kNear : 0.0;
  const Extents& x = request.output.extents;
  std::int64_t found = -1;
  double most = -1;
  for (std::int64_t j = 0; j < x.cols; ++j) {
    if (columns[static_cast<std::size_t>(j)] < least) continue;
    const std::int64_t at = row * x.cols + j;
    if (!internal::IsUsable(static_cast<double>(request.deviation[at]))) continue;
    const double o =
        LoadDouble(request.output.dtype, request.output.data, internal::StorageIndex(x, at));
    const double z =
        std::abs(o - request.reference[at]) / static_cast<double>(request.deviation[at]);
    if (!std::isfinite(z) || !(z > most)) continue;
    most = z;
    found = at;
  }
  return found;
}

// Σz², and elements that do not count, by column. Threads keep theirs: memory that each pass gives
// back to the system costs more than the pass.
struct Columns {
  std::vector<double> squares, missed;
  bool misses = false;  // or else `missed` is not filled

  void Clear(std::size_t cols) {
    squares.assign(cols, 0.0);
    misses = false;
  }
  void Miss(std::size_t cols) {
    if (!misses) missed.assign(cols, 0.0);
    misses = true;
  }
  void Add(const Columns& other, std::size_t cols) {
    for (std::size_t j = 0; j < cols; ++j) squares[j] += other.squares[j];
    if (!other.misses) return;
    Miss(cols);
    for (std::size_t j = 0; j < cols; ++j) missed[j] += other.missed[j];
  }
};

// The sums of a range of bands of kResidualTile rows.
struct Part {
  Columns& columns;
  ResidualGroup row = {}, tile = {};
};

// Sums one band, whose sums are 0 before and after.
void SumBand(const ResidualRequest& request, const ResidualTiling& tiling, std::int64_t band,
             Columns& sums, RowResiduals* rows, Part& part) {
  double* const band_squares = sums.squares.data();
  double* const band_missed = sums.missed.data();
  double* const all_squares = part.columns.squares.data();
  const std::int64_t cols = request.output.extents.cols;
  const std::int64_t row0 = tiling.FirstRow(band), height = tiling.Height(band);
  std::int64_t counted = 0;
  for (std::int64_t row = row0; row < row0 + height; ++row) {
    RowResiduals& here = rows[row];
    internal::SumRow(request, row, band_squares, band_missed, &here);
    Offer(row, here.count, here.sum_squared, part.row);
    counted += here.count;
  }
  const bool all = counted == height * cols;
  if (!all) part.columns.Miss(static_cast<std::size_t>(cols));
  double* const all_missed = part.columns.missed.data();
  for (std::int64_t tile = 0; tile < tiling.across; ++tile) {
    const std::int64_t begin = tile * kResidualTile, end = std::min(cols, begin + kResidualTile);
    double squares = 0, missed = 0;
    for (std::int64_t j = begin; j < end; ++j) {
      squares += band_squares[j];
      all_squares[j] += band_squares[j];
      band_squares[j] = 0;
    }
    for (std::int64_t j = begin; j < end && !all; ++j) {
      missed += band_missed[j];
      all_missed[j] += band_missed[j];
      band_missed[j] = 0;
    }
    Offer(band * tiling.across + tile, height * (end - begin) - static_cast<std::int64_t>(missed),
          squares, part.tile);
  }
}

// Adds the rows to the sums, and returns which row has the largest residual; -1 if none counts.
std::int64_t AddRows(const ResidualRequest& request, const std::vector<RowResiduals>& rows,
                     ResidualSums& sums) {
  std::int64_t largest_row = -1;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const RowResiduals& row = rows[i];
    AddRow(row, sums);
    if (row.count > 0 && (largest_row < 0 || row.largest > sums.largest)) {
      sums.largest = row.largest;
      largest_row = static_cast<std::int64_t>(i);
    }
    if (request.row_gain != nullptr) {
      internal::FitRow(row, request.row_offset == nullptr ? 0.0f : request.row_offset[i],
                       request.row_gain[i], sums);
    }
  }
  return largest_row;
}

}  // namespace

absl::StatusOr<ResidualSums> ResidualsCpu(const ResidualRequest& request) {
  if (absl::Status s = CheckView(request.output); !s.ok()) return s;
  if (request.reference == nullptr || request.deviation == nullptr) {
    return absl::InvalidArgumentError("residuals need the reference and the deviations");
  }
  const Extents& x = request.output.extents;
  const ResidualTiling tiling(x);
  const auto cols = static_cast<std::size_t>(x.cols);

  std::vector<RowResiduals> rows(static_cast<std::size_t>(x.batch * x.rows));
  static thread_local Columns of_thread;
  Columns& columns = of_thread;
  bool merged = false;
  ResidualSums sums;
  std::mutex mutex;
  const std::int64_t grain = std::max<std::int64_t>(1, 16384 / (kResidualTile * x.cols + 1));
  ParallelFor(tiling.bands, grain, [&](std::int64_t first, std::int64_t last) {
    static thread_local Columns of_range, of_band;
    of_range.Clear(cols);
    for (std::vector<double>* v : {&of_band.squares, &of_band.missed}) {
      if (v->size() < cols) v->assign(cols, 0.0);
    }
    Part part{of_range};
    for (std::int64_t band = first; band < last; ++band) {
      SumBand(request, tiling, band, of_band, rows.data(), part);
    }
    const std::lock_guard<std::mutex> lock(mutex);
    Offer(part.row, sums.row);
    Offer(part.tile, sums.tile);
    if (merged) {
      columns.Add(of_range, cols);
    } else {
      std::swap(columns, of_range);
      merged = true;
    }
  });

  const bool offers = merged && x.batch * x.rows >= internal::kLeastGroup;
  for (std::size_t j = 0; j < cols && offers; ++j) {
    const auto missed = columns.misses ? static_cast<std::int64_t>(columns.missed[j]) : 0;
    Offer(static_cast<std::int64_t>(j), x.batch * x.rows - missed, columns.squares[j], sums.column);
  }
  const std::int64_t largest_row = AddRows(request, rows, sums);
  internal::SetGroups(x, sums);
  if (largest_row >= 0) {
    sums.largest_index = LargestOfRow(request, largest_row, sums.largest, columns.squares);
  }
  return sums;
}

}  // namespace assay::kernels
