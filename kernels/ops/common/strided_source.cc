#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/ops/common/load.h"
#include "kernels/ops/common/packed_product.h"

namespace assay {

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
  // k lies behind one another: four rows at a time, so that a store fills half a
  // cache line.
  constexpr std::int64_t kLines = 4;
  line.resize(static_cast<std::size_t>(kLines * kc));
  for (std::int64_t p = 0; p < panels; ++p) {
    double* panel = dst + p * kc * width;
    for (std::int64_t w = 0; w < width; w += kLines) {
      const std::int64_t first = p * width + w;
      for (std::int64_t j = 0; j < std::min(kLines, width - w); ++j) {
        double* to = line.data() + j * kc;
        if (first + j < rows) {
          LoadDoubles(dtype_, base_, origin_ + (r0 + first + j) * row_stride_ + k0 * k_stride_, kc,
                      to);
        } else {
          std::fill_n(to, kc, 0.0);
        }
      }
      const double* from = line.data();
      if (width - w >= kLines) {
        for (std::int64_t i = 0; i < kc; ++i) {
          double* to = panel + i * width + w;
          to[0] = from[i];
          to[1] = from[kc + i];
          to[2] = from[2 * kc + i];
          to[3] = from[3 * kc + i];
        }
        continue;
      }
      for (std::int64_t j = 0; j < width - w; ++j) {
        for (std::int64_t i = 0; i < kc; ++i) panel[i * width + w + j] = from[j * kc + i];
      }
    }
  }
}

}  // namespace assay
