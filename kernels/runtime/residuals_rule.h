// Says which elements count in the residual pass (residuals.h), and makes the sums of groups and
// rows from those of elements. Host and device share this source. std-only.
#ifndef ASSAY_KERNELS_RUNTIME_RESIDUALS_RULE_H_
#define ASSAY_KERNELS_RUNTIME_RESIDUALS_RULE_H_

#include <cmath>
#include <cstdint>

#include "kernels/numerics/host_device.h"
#include "kernels/runtime/residuals.h"

namespace assay::inline kernels::internal {

// A group of fewer elements says nothing.
inline constexpr std::int64_t kLeastGroup = 8;
// σ and D count up to the largest float, σ from the smallest normal one on.
inline constexpr double kLeastDeviation = 0x1p-126;
inline constexpr double kMostDeviation = 0x1.fffffep127;
// |e| and |r| count up to this magnitude, so that no square overflows.
inline constexpr double kMostCounted = 1e300;

// Sums of the elements of one row that count.
struct RowResiduals {
  std::int64_t count = 0;
  double sum_squared = 0;        // Σz²
  double largest = 0;            // max |z|
  double weight = 0;             // Σ1/σ²
  double reference = 0;          // Σr/σ²
  double reference_squared = 0;  // Σr²/σ²
  double error = 0;              // Σe/σ²
  double error_reference = 0;    // Σe·r/σ²
  double error_direction = 0;    // Σe·D/σ²
  double direction_squared = 0;  // ΣD²/σ²
};

// A NaN fails every comparison.
ASSAY_HOST_DEVICE inline bool IsUsable(double deviation) {
  return deviation >= kLeastDeviation && deviation <= kMostDeviation;
}
ASSAY_HOST_DEVICE inline bool Counts(double deviation, double reference, double error) {
  return IsUsable(deviation) && std::abs(error) <= kMostCounted &&
         std::abs(reference) <= kMostCounted;
}

ASSAY_HOST_DEVICE inline double MeanSquare(double sum, std::int64_t count) {
  return count > 0 ? sum / static_cast<double>(count) : 0;
}

// Keeps the group with the larger R; of equal ones the first. Does not count groups.
ASSAY_HOST_DEVICE inline void Offer(std::int64_t index, std::int64_t count, double sum_squared,
                                    ResidualGroup& group) {
  if (index < 0 || count < kLeastGroup) return;
  // Most groups have the same count, and need no division.
  const bool alike = count == group.count;
  const double here = alike ? sum_squared : MeanSquare(sum_squared, count);
  const double best = alike ? group.sum_squared : MeanSquare(group.sum_squared, group.count);
  if (group.index >= 0 && (here < best || (here == best && index > group.index))) return;
  group.index = index;
  group.count = count;
  group.sum_squared = sum_squared;
}
ASSAY_HOST_DEVICE inline void Offer(const ResidualGroup& from, ResidualGroup& to) {
  Offer(from.index, from.count, from.sum_squared, to);
}

// The weighted fit e = α + β·r of one row.
ASSAY_HOST_DEVICE inline void FitRow(const RowResiduals& row, float offset_deviation,
                                     float gain_deviation, ResidualSums& sums) {
  if (row.count < kFittedElements || !IsUsable(static_cast<double>(gain_deviation))) return;
  // A row without σ_α has no common offset: e = β·r is fitted.
  const bool offsets = IsUsable(static_cast<double>(offset_deviation));
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
  const double rest = row.sum_squared - explained;
  sums.rest_squared += rest > 0 ? rest : 0;
}

// Adds a row to the sums over all elements, without its largest |z|.
ASSAY_HOST_DEVICE inline void AddRow(const RowResiduals& row, ResidualSums& sums) {
  sums.count += row.count;
  sums.sum_squared += row.sum_squared;
  sums.error_reference += row.error_reference;
  sums.reference_squared += row.reference_squared;
  sums.error_direction += row.error_direction;
  sums.direction_squared += row.direction_squared;
  sums.direction_errors += row.error_direction * row.error_direction;
  sums.direction_products += row.error_direction * row.direction_squared;
  sums.direction_weights += row.direction_squared * row.direction_squared;
}

// Bands of kResidualTile rows, and tiles, of a tensor.
struct ResidualTiling {
  std::int64_t rows = 0;        // of a batch
  std::int64_t bands_each = 0;  // of a batch
  std::int64_t bands = 0;
  std::int64_t across = 0;  // tiles of a band

  explicit ResidualTiling(const Extents& x)
      : rows(x.rows),
        bands_each((x.rows + kResidualTile - 1) / kResidualTile),
        bands(x.batch * bands_each),
        across((x.cols + kResidualTile - 1) / kResidualTile) {}
  ASSAY_HOST_DEVICE std::int64_t FirstRow(std::int64_t band) const {
    return band / bands_each * rows + band % bands_each * kResidualTile;
  }
  ASSAY_HOST_DEVICE std::int64_t Height(std::int64_t band) const {
    const std::int64_t rest = rows - band % bands_each * kResidualTile;
    return rest < kResidualTile ? rest : kResidualTile;
  }
};

// How many groups of each kind there are.
inline void SetGroups(const Extents& x, ResidualSums& sums) {
  const ResidualTiling tiling(x);
  sums.row.groups = x.batch * x.rows;
  sums.column.groups = x.cols;
  sums.tile.groups = tiling.bands * tiling.across;
}

}  // namespace assay::kernels::internal

#endif  // ASSAY_KERNELS_RUNTIME_RESIDUALS_RULE_H_
