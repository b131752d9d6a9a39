#include "kernels/runtime/cpu/residuals_cpu.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "kernels/numerics/convert.h"
#include "kernels/runtime/compare_rule.h"
#include "kernels/runtime/cpu/parallel.h"
#include "kernels/runtime/tensor_check.h"

namespace assay {
namespace {

using internal::Offer;
using internal::ResidualTiling;
using internal::RowResiduals;

// The logical index of the first element of a row with the largest |z|.
std::int64_t LargestOfRow(const ResidualRequest& request, std::int64_t row) {
  const Extents& x = request.output.extents;
  std::int64_t found = -1;
  double largest = -1;
  for (std::int64_t at = row * x.cols; at < (row + 1) * x.cols; ++at) {
    if (!internal::IsUsable(static_cast<double>(request.deviation[at]))) continue;
    const double o =
        LoadDouble(request.output.dtype, request.output.data, internal::StorageIndex(x, at));
    const double z =
        std::abs(o - request.reference[at]) / static_cast<double>(request.deviation[at]);
    if (!std::isfinite(z) || !(z > largest)) continue;
    largest = z;
    found = at;
  }
  return found;
}

// The sums of a range of bands of kResidualTile rows.
struct Part {
  std::vector<double> columns, missed;  // Σz², and elements that do not count, by column
  ResidualGroup row, tile;
};

// Sums one band. band_squares and band_missed are 0 before and after.
void SumBand(const ResidualRequest& request, const ResidualTiling& tiling, std::int64_t band,
             double* band_squares, double* band_missed, RowResiduals* rows, Part& part) {
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
  for (std::int64_t tile = 0; tile < tiling.across; ++tile) {
    const std::int64_t begin = tile * kResidualTile, end = std::min(cols, begin + kResidualTile);
    double squares = 0, missed = 0;
    for (std::int64_t j = begin; j < end; ++j) {
      squares += band_squares[j];
      part.columns[static_cast<std::size_t>(j)] += band_squares[j];
      band_squares[j] = 0;
    }
    for (std::int64_t j = begin; j < end && !all; ++j) {
      missed += band_missed[j];
      part.missed[static_cast<std::size_t>(j)] += band_missed[j];
      band_missed[j] = 0;
    }
    Offer(band * tiling.across + tile, height * (end - begin) - static_cast<std::int64_t>(missed),
          squares, part.tile);
  }
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
  std::vector<double> columns(cols, 0.0), missed(cols, 0.0);
  ResidualSums sums;
  std::mutex mutex;
  const std::int64_t grain = std::max<std::int64_t>(1, 16384 / (kResidualTile * x.cols + 1));
  ParallelFor(tiling.bands, grain, [&](std::int64_t first, std::int64_t last) {
    Part part;
    part.columns.assign(cols, 0.0);
    part.missed.assign(cols, 0.0);
    std::vector<double> band_squares(cols, 0.0), band_missed(cols, 0.0);
    for (std::int64_t band = first; band < last; ++band) {
      SumBand(request, tiling, band, band_squares.data(), band_missed.data(), rows.data(), part);
    }
    const std::lock_guard<std::mutex> lock(mutex);
    for (std::size_t j = 0; j < cols; ++j) {
      columns[j] += part.columns[j];
      missed[j] += part.missed[j];
    }
    Offer(part.row, sums.row);
    Offer(part.tile, sums.tile);
  });

  for (std::size_t j = 0; j < cols; ++j) {
    Offer(static_cast<std::int64_t>(j), x.batch * x.rows - static_cast<std::int64_t>(missed[j]),
          columns[j], sums.column);
  }
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
  internal::SetGroups(x, sums);
  if (largest_row >= 0) sums.largest_index = LargestOfRow(request, largest_row);
  return sums;
}

}  // namespace assay
