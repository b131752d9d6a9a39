// Describes the checksums of a matrix M: its products with a few vectors from either side, and the
// size of its rows and columns. One pass over M computes them all in FP64. Verification by
// checksums is built on them.
//
// For every matrix of a batch [rows, cols], with P vectors on each side:
//   row_products[p][i] = Σ_j M_ij·right[p][j]      col_products[p][j] = Σ_i left[p][i]·M_ij
//   row_absolute[i]    = Σ_j |M_ij|·row_weights[j] col_absolute[j]    = Σ_i col_weights[i]·|M_ij|
//   row_squares[i]     = Σ_j M_ij²                 col_squares[j]     = Σ_i M_ij²
//
// Vectors and results are O((rows + cols)·P) and lie in host memory. A backend with memory of its
// own copies them. Each backend chooses the order of its sums.
#ifndef ASSAY_KERNELS_RUNTIME_CHECKSUM_H_
#define ASSAY_KERNELS_RUNTIME_CHECKSUM_H_

#include <cstdint>
#include <vector>

#include "kernels/runtime/tensor.h"

namespace assay::inline kernels {

// Vectors, one after the other. The vectors of a matrix begin `batch_stride` elements after those
// of the matrix before; 0: all matrices share them. If `data` is null, the sums that need these
// vectors are not computed.
struct ProbeVectors {
  const double* data = nullptr;
  std::int64_t batch_stride = 0;  // [elements]
};

struct ChecksumRequest {
  TensorView matrix;         // any format
  int probes = 0;            // P: vectors in `right` and in `left`
  ProbeVectors right;        // [probes, cols] for each matrix
  ProbeVectors left;         // [probes, rows]
  ProbeVectors row_weights;  // [cols], >= 0
  ProbeVectors col_weights;  // [rows], >= 0
  bool squares = false;      // row_squares and col_squares
  bool counts = false;       // count NaN, infinities, zeros, poisons; needs squares
};

// The results. A vector that was not asked for is empty.
struct ChecksumSums {
  std::vector<double> row_products;  // [batch, probes, rows]
  std::vector<double> col_products;  // [batch, probes, cols]
  std::vector<double> row_absolute;  // [batch, rows]
  std::vector<double> col_absolute;  // [batch, cols]
  std::vector<double> row_squares;   // [batch, rows]; not finite if the row is not
  std::vector<double> col_squares;   // [batch, cols]
  std::int64_t nan_count = 0;
  std::int64_t inf_count = 0;
  std::int64_t zero_count = 0;
  std::int64_t unwritten = 0;   // equal to the first poison (formats with a payload)
  std::int64_t first_nan = -1;  // logical index; unwritten elements do not count
  std::int64_t first_inf = -1;
  std::int64_t first_unwritten = -1;
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_RUNTIME_CHECKSUM_H_
