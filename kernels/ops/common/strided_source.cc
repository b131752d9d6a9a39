#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/ops/common/load.h"
#include "kernels/ops/common/packed_product.h"

namespace assay {
namespace {

// to[i·width + w] = lines[w·chunk + i], kStep rows at a time.
template <std::int64_t kStep>
void Transpose(const double* lines, std::int64_t chunk, std::int64_t count, std::int64_t width,
               double* to) {
  for (std::int64_t i = 0; i < count; ++i) {
    for (std::int64_t w = 0; w < width; w += kStep) {
#pragma GCC unroll 4
      for (std::int64_t j = 0; j < kStep; ++j) {
        to[i * width + w + j] = lines[(w + j) * chunk + i];
      }
    }
  }
}

}  // namespace

void StridedSource::Pack(std::int64_t r0, std::int64_t rows, std::int64_t k0, std::int64_t kc,
                         std::int64_t width, double* dst) const {
  const std::int64_t panels = (rows + width - 1) / width;
  static thread_local std::vector<double> line;
  if (row_stride_ == 1) {
    // Rows lie behind one another: a line of them for each k, cut into panels.
    line.assign(static_cast<std::size_t>(panels * width), 0.0);
    for (std::int64_t i = 0; i < kc; ++i) {
      LoadDoubles(dtype_, base_, origin_ + r0 + (k0 + i) * k_stride_, rows, line.data());
      for (std::int64_t p = 0; p < panels; ++p) {
        std::memcpy(dst + (p * kc + i) * width, line.data() + p * width,
                    static_cast<std::size_t>(width) * sizeof(double));
      }
    }
    return;
  }
  // k lies behind one another: all rows of a panel, as much of k as keeps both the
  // lines and the panel in the first-level cache.
  constexpr std::int64_t kChunk = 128;
  line.resize(static_cast<std::size_t>(width * kChunk));
  for (std::int64_t p = 0; p < panels; ++p) {
    const std::int64_t here = std::min(width, rows - p * width);
    for (std::int64_t i0 = 0; i0 < kc; i0 += kChunk) {
      const std::int64_t count = std::min(kChunk, kc - i0);
      for (std::int64_t w = 0; w < here; ++w) {
        LoadDoubles(dtype_, base_,
                    origin_ + (r0 + p * width + w) * row_stride_ + (k0 + i0) * k_stride_, count,
                    line.data() + w * kChunk);
      }
      std::fill(line.data() + here * kChunk, line.data() + width * kChunk, 0.0);
      double* to = dst + (p * kc + i0) * width;
      if (width % 4 != 0) {
        Transpose<2>(line.data(), kChunk, count, width, to);
      } else {
        Transpose<4>(line.data(), kChunk, count, width, to);
      }
    }
  }
}

}  // namespace assay
