// Describes the residual pass: one read of the output under test, of the reference r and of the
// deviation σ that rounding makes likely in each element. It gives sums over all elements, which
// show a small error that many elements share, although each element is within its bound.
//
// With e = o − r and z = e/σ:
//   R of a group = √(Σz²/n). A group is the whole output, a row, a column, or a 16×16 tile.
//   gain         g of the fit e = g·r, with weights 1/σ²
//   rows         for each row the fit e = α + β·r with weights 1/σ²; A = α/σ_α, B = β/σ_β
//   direction    s of the fit e = s·D with weights 1/σ²; rows have T = Σe·D/σ² and X = ΣD²/σ²
// An element counts if o and r are finite and σ is a positive normal float. Rows and columns are
// those of the output's extents; the rows of all batches count as different rows, and a column is
// the same column of all rows of all batches.
//
// Source of the statistics: weighted least squares; the model of σ is the operator's
// (kernels/numerics/deviation.h).
#ifndef ASSAY_KERNELS_RUNTIME_RESIDUALS_H_
#define ASSAY_KERNELS_RUNTIME_RESIDUALS_H_

#include <cstdint>

#include "kernels/runtime/tensor.h"

namespace assay::inline kernels {

// Elements of a tile's side.
inline constexpr std::int64_t kResidualTile = 16;
// A row is fitted if so many of its elements count.
inline constexpr std::int64_t kFittedElements = 8;

// The arrays are in logical order and in the device's memory; see ReferenceBuffers.
struct ResidualRequest {
  TensorView output;                  // any format
  const double* reference = nullptr;  // r
  const float* deviation = nullptr;   // σ
  const float* direction = nullptr;   // D; nullptr: no direction is fitted
  const float* row_offset = nullptr;  // σ_α; nullptr: rows have no common offset, α = 0
  const float* row_gain = nullptr;    // σ_β; nullptr: no rows are fitted
};

// The group of one kind whose R is largest; of several, the first. index -1: there is no group of
// at least 8 elements that count.
struct ResidualGroup {
  std::int64_t index = -1;  // row, column, or tile in row-major order (a batch's tiles together)
  std::int64_t count = 0;   // elements that count
  std::int64_t groups = 0;  // of this kind
  double sum_squared = 0;   // Σz²
};

// Plain data, so GPU threads use it, too.
struct ResidualSums {
  std::int64_t count = 0;           // elements that count
  double sum_squared = 0;           // Σz²
  double largest = 0;               // max |z|
  std::int64_t largest_index = -1;  // its first element, logical
  double error_reference = 0;       // Σ e·r/σ²
  double reference_squared = 0;     // Σ r²/σ²
  double error_direction = 0;       // Σ e·D/σ²
  double direction_squared = 0;     // Σ D²/σ²
  // Sums over rows. They show how far s scatters from row to row.
  double direction_errors = 0;    // ΣT²
  double direction_products = 0;  // ΣT·X
  double direction_weights = 0;   // ΣX²
  ResidualGroup row, column, tile;
  // Of the rows that are fitted.
  std::int64_t rows = 0;
  double offset_squared = 0;    // ΣA²
  double gain_squared = 0;      // ΣB²
  double offset = 0;            // Σα
  double gain = 0;              // Σβ
  std::int64_t rest_count = 0;  // elements of fitted rows less the two parameters of each
  double rest_squared = 0;      // Σ(e − α − β·r)²/σ²
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_RUNTIME_RESIDUALS_H_
