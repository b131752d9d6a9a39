// The primitive that verification by checksums stands on: what a matrix M does to a
// few vectors from either side, and how large its rows and columns are, all in one
// read of it, in FP64.
//
// Of every matrix of a batch [rows, cols], with P probes:
//   row_products[p][i] = Σ_j M_ij·right[p][j]      col_products[p][j] = Σ_i left[p][i]·M_ij
//   row_absolute[i]    = Σ_j |M_ij|·row_weights[j] col_absolute[j]    = Σ_i col_weights[i]·|M_ij|
//   row_squares[i]     = Σ_j M_ij²                 col_squares[j]     = Σ_i M_ij²
//
// Vectors and results are O((rows + cols)·P) and lie in host memory: a backend with
// memory of its own moves them. The order of the sums is the backend's.
#ifndef ASSAY_KERNELS_RUNTIME_CHECKSUM_H_
#define ASSAY_KERNELS_RUNTIME_CHECKSUM_H_

#include <cstdint>
#include <vector>

#include "kernels/runtime/tensor.h"

namespace assay {

// Vectors one behind the other, those of a matrix `batch_stride` after those of the
// one before; 0: all matrices share them. No data: not asked for.
struct ProbeVectors {
  const double* data = nullptr;
  std::int64_t batch_stride = 0;  // [elements]
};

struct ChecksumRequest {
  TensorView matrix;         // any format
  int probes = 0;            // vectors in `right` and in `left`
  ProbeVectors right;        // [probes, cols] a matrix
  ProbeVectors left;         // [probes, rows]
  ProbeVectors row_weights;  // [cols], >= 0
  ProbeVectors col_weights;  // [rows], >= 0
  bool squares = false;      // row_squares and col_squares
  bool counts = false;       // needs squares: how many NaN, infinities, zeros and poisons
};

// Empty where not asked for.
struct ChecksumSums {
  std::vector<double> row_products;  // [batch, probes, rows]
  std::vector<double> col_products;  // [batch, probes, cols]
  std::vector<double> row_absolute;  // [batch, rows]
  std::vector<double> col_absolute;  // [batch, cols]
  std::vector<double> row_squares;   // [batch, rows]; not finite where the row is not
  std::vector<double> col_squares;   // [batch, cols]
  std::int64_t nan_count = 0;
  std::int64_t inf_count = 0;
  std::int64_t zero_count = 0;
  std::int64_t unwritten = 0;   // equal to the first poison (formats with a payload)
  std::int64_t first_nan = -1;  // logical index, unwritten elements not counted
  std::int64_t first_inf = -1;
  std::int64_t first_unwritten = -1;
};

}  // namespace assay

#endif  // ASSAY_KERNELS_RUNTIME_CHECKSUM_H_
