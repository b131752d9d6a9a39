// The vector part of a checksum pass: a panel of rows against all probes.
#ifndef ASSAY_KERNELS_RUNTIME_CPU_CHECKSUM_SIMD_H_
#define ASSAY_KERNELS_RUNTIME_CPU_CHECKSUM_SIMD_H_

#include <cstdint>

#include "kernels/numerics/dtype.h"

namespace assay::internal {

// A panel is walked in tiles of kChecksumTile columns, a tile in strips of
// kChecksumStrip rows: a strip's values, the probes and the column sums of a tile
// stay in the first-level cache.
inline constexpr std::int64_t kChecksumPanel = 32;  // [rows] at most
inline constexpr std::int64_t kChecksumStrip = 4;   // [rows]
inline constexpr std::int64_t kChecksumTile = 256;  // [columns]
inline constexpr int kProbeGroup = 4;               // probes taken at a time

// Vectors along columns are cut into tiles, zero behind cols, and those of a tile lie
// together: [tiles, vectors, kChecksumTile]. Apart by a large power of two they would
// share the cache's sets. Null: not asked for.
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

  double* row_products = nullptr;  // set, at [p·row_stride + row]
  std::int64_t row_stride = 0;
  double* row_absolute = nullptr;  // set, [rows]
  double* row_squares = nullptr;   // set, [rows]
  double* col_products = nullptr;  // added to, [tiles, probes, kChecksumTile]
  double* col_absolute = nullptr;  // added to, [tiles, kChecksumTile]
  double* col_squares = nullptr;   // added to, [tiles, kChecksumTile]
};

// Returns how many elements are 0, where the panel asks for counts.
std::int64_t AddChecksumPanel(const ChecksumPanel& panel);

}  // namespace assay::internal

#endif  // ASSAY_KERNELS_RUNTIME_CPU_CHECKSUM_SIMD_H_
