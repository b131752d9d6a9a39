// Computes the checksums of a panel, a few rows of a matrix, in vectors.
#ifndef ASSAY_KERNELS_RUNTIME_CPU_CHECKSUM_SIMD_H_
#define ASSAY_KERNELS_RUNTIME_CPU_CHECKSUM_SIMD_H_

#include <cstdint>

#include "kernels/numerics/dtype.h"

namespace assay::inline kernels::internal {

// A panel is processed in tiles of kChecksumTile columns, and a tile in strips of kChecksumStrip
// rows. A strip's values, the probes, and the column sums of a tile stay in the first-level cache.
inline constexpr std::int64_t kChecksumPanel = 32;  // [rows] the most
inline constexpr std::int64_t kChecksumStrip = 4;   // [rows]
inline constexpr std::int64_t kChecksumTile = 256;  // [columns]
inline constexpr int kProbeGroup = 4;               // probes that are computed together

// The input and the sums of a panel. Vectors along columns are cut into tiles, with zeros behind
// the last column. The vectors of one tile lie together, [tiles, vectors, kChecksumTile]: if a
// large power of two lay between them, they would compete for the same cache sets. A null pointer
// means that the sum is not asked for.
struct ChecksumPanel {
  DType dtype = DType::kUnspecified;
  const void* data = nullptr;
  std::int64_t offset = 0;  // [elements] from data to the first row
  std::int64_t ld = 0;      // [elements]
  std::int64_t rows = 0;    // <= kChecksumPanel
  std::int64_t cols = 0;
  int probes = 0;  // a multiple of kProbeGroup

  const double* right = nullptr;        // [tiles, probes, kChecksumTile]
  const double* row_weights = nullptr;  // [tiles, kChecksumTile]
  const double* left = nullptr;         // [probes] at left[p·left_stride + row]
  std::int64_t left_stride = 0;
  const double* col_weights = nullptr;  // [rows]
  bool squares = false;
  bool counts = false;

  double* row_products = nullptr;  // written, at [p·row_stride + row]
  std::int64_t row_stride = 0;
  double* row_absolute = nullptr;  // written, [rows]
  double* row_squares = nullptr;   // written, [rows]
  double* col_products = nullptr;  // added to, [tiles, probes, kChecksumTile]
  double* col_absolute = nullptr;  // added to, [tiles, kChecksumTile]
  double* col_squares = nullptr;   // added to, [tiles, kChecksumTile]
};

// Computes the sums. Returns the number of zeros if the panel asks for counts.
std::int64_t AddChecksumPanel(const ChecksumPanel& panel);

}  // namespace assay::kernels::internal

#endif  // ASSAY_KERNELS_RUNTIME_CPU_CHECKSUM_SIMD_H_
