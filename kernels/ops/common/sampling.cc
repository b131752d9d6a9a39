#include "kernels/ops/common/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/numerics/digest.h"

namespace assay::inline kernels {
namespace {

// Any good mixer does, samples need no compatible bits.
std::uint64_t Mix(std::uint64_t x) { return DigestFinalise(x + kDigestStep); }

}  // namespace

std::vector<std::int64_t> AllIndices(std::int64_t n) {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(n));
  std::iota(indices.begin(), indices.end(), std::int64_t{0});
  return indices;
}

std::vector<std::int64_t> SpreadIndices(std::int64_t n, std::int64_t at_least, std::int64_t run,
                                        std::uint64_t seed) {
  // One run more than needed, since the last one may be short.
  const std::int64_t runs = (std::max<std::int64_t>(at_least, 1) + run - 1) / run + (run > 1);
  const std::int64_t slots = (n + run - 1) / run;
  if (runs >= slots) return AllIndices(n);
  std::vector<std::int64_t> indices;
  for (std::int64_t g = 0; g < runs; ++g) {
    // Strata are cut by division first, so that nothing overflows.
    const std::int64_t low = slots / runs * g + std::min(g, slots % runs);
    const std::int64_t width = slots / runs + (g < slots % runs);
    std::int64_t slot =
        low + static_cast<std::int64_t>(Mix(seed ^ Mix(static_cast<std::uint64_t>(g))) %
                                        static_cast<std::uint64_t>(width));
    if (g == 0) slot = 0;
    if (g == runs - 1) slot = slots - 1;
    for (std::int64_t i = slot * run; i < std::min(n, (slot + 1) * run); ++i) indices.push_back(i);
  }
  return indices;
}

Grid SpreadGrid(std::int64_t rows, std::int64_t cols, std::int64_t at_least, std::uint64_t seed) {
  constexpr std::int64_t kRun = 4;
  const auto cover = [&](std::int64_t per) { return (at_least + per - 1) / per; };
  const std::int64_t side =
      static_cast<std::int64_t>(std::ceil(std::sqrt(static_cast<double>(at_least))));
  Grid grid;
  grid.rows = SpreadIndices(rows, side, kRun, seed);
  grid.cols =
      SpreadIndices(cols, cover(static_cast<std::int64_t>(grid.rows.size())), kRun, seed + 1);
  const std::int64_t got = static_cast<std::int64_t>(grid.cols.size());
  if (got == cols && static_cast<std::int64_t>(grid.rows.size()) * got < at_least) {
    grid.rows = SpreadIndices(rows, cover(got), kRun, seed);
  }
  return grid;
}

std::vector<std::int64_t> SpreadRows(std::int64_t rows, std::int64_t cols, std::int64_t at_least,
                                     std::uint64_t seed) {
  constexpr std::int64_t kFewRows = 4;
  // Of rows longer than this, runs of columns do: each costs the whole row once.
  const std::int64_t each = std::max((at_least + kFewRows - 1) / kFewRows, std::int64_t{256});
  std::vector<std::int64_t> indices;
  for (std::int64_t row :
       SpreadIndices(rows, std::max(kFewRows, (at_least + cols - 1) / cols), 1, seed)) {
    for (std::int64_t col : SpreadIndices(cols, rows < kFewRows ? at_least : each, 64, seed + 1)) {
      indices.push_back(row * cols + col);
    }
  }
  return indices;
}

}  // namespace assay::kernels
