// Indices to recompute on the host: spread over an extent, in short runs, since
// the generator makes four elements at a time.
#ifndef ASSAY_KERNELS_OPS_COMMON_SAMPLING_H_
#define ASSAY_KERNELS_OPS_COMMON_SAMPLING_H_

#include <cstdint>
#include <vector>

namespace assay::inline kernels {

// At least min(n, at_least) indices of [0, n), sorted, in aligned runs of `run`,
// the first and the last run among them, the others one to a stratum by `seed`.
std::vector<std::int64_t> SpreadIndices(std::int64_t n, std::int64_t at_least, std::int64_t run,
                                        std::uint64_t seed);

// A grid of rows and columns with at least min(rows·cols, at_least) points, about
// as many rows as columns where both are long enough.
struct Grid {
  std::vector<std::int64_t> rows;
  std::vector<std::int64_t> cols;
};
Grid SpreadGrid(std::int64_t rows, std::int64_t cols, std::int64_t at_least, std::uint64_t seed);

// Elements of whole rows of a [rows, cols] tensor, for operators where an element
// needs its row anyway: as many rows as at_least asks for, four or more.
std::vector<std::int64_t> SpreadRows(std::int64_t rows, std::int64_t cols, std::int64_t at_least,
                                     std::uint64_t seed);

// 0, 1, … n − 1.
std::vector<std::int64_t> AllIndices(std::int64_t n);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_COMMON_SAMPLING_H_
