#include "kernels/runtime/cpu/residuals_cpu.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "kernels/numerics/convert.h"
#include "kernels/runtime/compare_rule.h"
#include "kernels/runtime/cpu/parallel.h"
#include "kernels/runtime/tensor_check.h"

namespace assay {
namespace {

using internal::RowResiduals;

// A group of fewer elements says nothing.
constexpr std::int64_t kLeastGroup = 8;

double MeanSquare(double sum, std::int64_t count) {
  return count > 0 ? sum / static_cast<double>(count) : 0;
}

// Keeps the group with the larger R; of equal ones the first.
void Offer(std::int64_t index, std::int64_t count, double sum_squared, ResidualGroup& group) {
  ++group.groups;
  if (count < kLeastGroup) return;
  const double here = MeanSquare(sum_squared, count);
  const double best = MeanSquare(group.sum_squared, group.count);
  if (group.index >= 0 && (here < best || (here == best && index > group.index))) return;
  group.index = index;
  group.count = count;
  group.sum_squared = sum_squared;
}

void Merge(const ResidualGroup& from, ResidualGroup& to) {
  const std::int64_t groups = to.groups + from.groups;
  if (from.index >= 0) Offer(from.index, from.count, from.sum_squared, to);
  to.groups = groups;
}

bool Usable(float deviation) {
  return deviation >= std::numeric_limits<float>::min() &&
         deviation <= std::numeric_limits<float>::max();
}

// The weighted fit e = α + β·r of one row.
void FitRow(const RowResiduals& row, float offset_deviation, float gain_deviation,
            ResidualSums& sums) {
  if (row.count < kFittedElements || !Usable(gain_deviation)) return;
  // A row without σ_α has no common offset: e = β·r is fitted.
  const bool offsets = Usable(offset_deviation);
  double alpha = 0, beta = 0;
  if (offsets) {
    const double mean_r = row.reference / row.weight;
    const double mean_e = row.error / row.weight;
    const double spread = row.reference_squared - mean_r * row.reference;
    // References that are all equal determine no gain.
    if (!(spread > 1e-12 * row.reference_squared)) return;
    beta = (row.error_reference - mean_e * row.reference) / spread;
    alpha = mean_e - beta * mean_r;
  } else {
    if (!(row.reference_squared > 0)) return;
    beta = row.error_reference / row.reference_squared;
  }
  const double explained = alpha * row.error + beta * row.error_reference;
  ++sums.rows;
  if (offsets) {
    const double a = alpha / static_cast<double>(offset_deviation);
    sums.offset_squared += a * a;
    sums.offset += alpha;
  }
  const double b = beta / static_cast<double>(gain_deviation);
  sums.gain_squared += b * b;
  sums.gain += beta;
  sums.rest_count += row.count - (offsets ? 2 : 1);
  sums.rest_squared += std::max(0.0, row.sum_squared - explained);
}

// The logical index of the first element of a row with the largest |z|.
std::int64_t LargestOfRow(const ResidualRequest& request, std::int64_t row) {
  const Extents& x = request.output.extents;
  std::int64_t found = -1;
  double largest = -1;
  for (std::int64_t at = row * x.cols; at < (row + 1) * x.cols; ++at) {
    if (!Usable(request.deviation[at])) continue;
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
  std::vector<double> columns, counts;  // Σz² and elements, by column
  ResidualGroup row, tile;
};

}  // namespace

absl::StatusOr<ResidualSums> ResidualsCpu(const ResidualRequest& request) {
  if (absl::Status s = CheckView(request.output); !s.ok()) return s;
  if (request.reference == nullptr || request.deviation == nullptr) {
    return absl::InvalidArgumentError("residuals need the reference and the deviations");
  }
  const Extents& x = request.output.extents;
  const std::int64_t bands_each = (x.rows + kResidualTile - 1) / kResidualTile;
  const std::int64_t bands = x.batch * bands_each;
  const std::int64_t tiles_across = (x.cols + kResidualTile - 1) / kResidualTile;
  const auto cols = static_cast<std::size_t>(x.cols);

  std::vector<RowResiduals> rows(static_cast<std::size_t>(x.batch * x.rows));
  std::vector<double> columns(cols, 0.0), counts(cols, 0.0);
  ResidualSums sums;
  std::mutex mutex;
  const std::int64_t grain = std::max<std::int64_t>(1, 16384 / (kResidualTile * x.cols + 1));
  ParallelFor(bands, grain, [&](std::int64_t first, std::int64_t last) {
    Part part;
    part.columns.assign(cols, 0.0);
    part.counts.assign(cols, 0.0);
    std::vector<double> band_squares(cols), band_counts(cols);
    for (std::int64_t band = first; band < last; ++band) {
      std::fill(band_squares.begin(), band_squares.end(), 0.0);
      std::fill(band_counts.begin(), band_counts.end(), 0.0);
      const std::int64_t row0 = band / bands_each * x.rows + band % bands_each * kResidualTile;
      const std::int64_t height =
          std::min(kResidualTile, x.rows - band % bands_each * kResidualTile);
      for (std::int64_t row = row0; row < row0 + height; ++row) {
        RowResiduals& here = rows[static_cast<std::size_t>(row)];
        internal::SumRow(request, row, band_squares.data(), band_counts.data(), &here);
        Offer(row, here.count, here.sum_squared, part.row);
      }
      for (std::int64_t tile = 0; tile < tiles_across; ++tile) {
        const std::int64_t end = std::min(x.cols, (tile + 1) * kResidualTile);
        double squares = 0, count = 0;
        for (std::int64_t j = tile * kResidualTile; j < end; ++j) {
          squares += band_squares[static_cast<std::size_t>(j)];
          count += band_counts[static_cast<std::size_t>(j)];
        }
        Offer(band * tiles_across + tile, static_cast<std::int64_t>(count), squares, part.tile);
      }
      for (std::size_t j = 0; j < cols; ++j) {
        part.columns[j] += band_squares[j];
        part.counts[j] += band_counts[j];
      }
    }
    const std::lock_guard<std::mutex> lock(mutex);
    for (std::size_t j = 0; j < cols; ++j) {
      columns[j] += part.columns[j];
      counts[j] += part.counts[j];
    }
    Merge(part.row, sums.row);
    Merge(part.tile, sums.tile);
  });

  for (std::size_t j = 0; j < cols; ++j) {
    Offer(static_cast<std::int64_t>(j), static_cast<std::int64_t>(counts[j]), columns[j],
          sums.column);
  }
  std::int64_t largest_row = -1;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const RowResiduals& row = rows[i];
    sums.count += row.count;
    sums.sum_squared += row.sum_squared;
    sums.error_reference += row.error_reference;
    sums.reference_squared += row.reference_squared;
    sums.error_direction += row.error_direction;
    sums.direction_squared += row.direction_squared;
    if (row.count > 0 && (largest_row < 0 || row.largest > sums.largest)) {
      sums.largest = row.largest;
      largest_row = static_cast<std::int64_t>(i);
    }
    if (request.row_gain != nullptr) {
      FitRow(row, request.row_offset == nullptr ? 0.0f : request.row_offset[i], request.row_gain[i],
             sums);
    }
  }
  if (largest_row >= 0) sums.largest_index = LargestOfRow(request, largest_row);
  return sums;
}

}  // namespace assay
