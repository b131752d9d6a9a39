#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/ops/common/load.h"
#include "kernels/ops/common/packed_product.h"

namespace assay::inline kernels {
namespace {

// to[i·width + w] = lines[w·chunk + i], kStep rows at a time.
template <std::int64_t kStep, class T>
void Transpose(const T* lines, std::int64_t chunk, std::int64_t count, std::int64_t width, T* to) {
  for (std::int64_t i = 0; i < count; ++i) {
    for (std::int64_t w = 0; w < width; w += kStep) {
#pragma GCC unroll 4
      for (std::int64_t j = 0; j < kStep; ++j) {
        to[i * width + w + j] = lines[(w + j) * chunk + i];
      }
    }
  }
}

void Load(DType dtype, const void* base, std::int64_t begin, std::int64_t count, double* dst) {
  LoadDoubles(dtype, base, begin, count, dst);
}
void Load(DType dtype, const void* base, std::int64_t begin, std::int64_t count, float* dst) {
  LoadFloats(dtype, base, begin, count, dst);
}

// A stored matrix, as StridedSource has it.
struct Stored {
  DType dtype;
  const void* base;
  std::int64_t origin, row_stride, k_stride;
};

template <class T>
void PackStored(const Stored& m, std::int64_t r0, std::int64_t rows, std::int64_t k0,
                std::int64_t kc, std::int64_t width, T* dst) {
  const std::int64_t panels = (rows + width - 1) / width;
  static thread_local std::vector<T> line;
  if (m.row_stride == 1) {
    // Rows lie behind one another: a line of them for each k, cut into panels.
    line.assign(static_cast<std::size_t>(panels * width), T{0});
    for (std::int64_t i = 0; i < kc; ++i) {
      Load(m.dtype, m.base, m.origin + r0 + (k0 + i) * m.k_stride, rows, line.data());
      for (std::int64_t p = 0; p < panels; ++p) {
        std::memcpy(dst + (p * kc + i) * width, line.data() + p * width,
                    static_cast<std::size_t>(width) * sizeof(T));
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
        Load(m.dtype, m.base,
             m.origin + (r0 + p * width + w) * m.row_stride + (k0 + i0) * m.k_stride, count,
             line.data() + w * kChunk);
      }
      std::fill(line.data() + here * kChunk, line.data() + width * kChunk, T{0});
      T* to = dst + (p * kc + i0) * width;
      if (width % 4 != 0) {
        Transpose<2>(line.data(), kChunk, count, width, to);
      } else {
        Transpose<4>(line.data(), kChunk, count, width, to);
      }
    }
  }
}

}  // namespace

void PanelSource::PackFloats(std::int64_t r0, std::int64_t rows, std::int64_t k0, std::int64_t kc,
                             std::int64_t width, float* dst) const {
  // In strips that stay in the second-level cache.
  constexpr std::int64_t kStrip = 64;
  static thread_local std::vector<double> strip;
  const std::int64_t step = std::max<std::int64_t>(1, kStrip / width) * width;
  strip.resize(static_cast<std::size_t>((step + width) * kc));
  for (std::int64_t r = 0; r < rows; r += step) {
    const std::int64_t here = std::min(step, rows - r);
    Pack(r0 + r, here, k0, kc, width, strip.data());
    const std::int64_t count = (here + width - 1) / width * width * kc;
    float* to = dst + r * kc;
    for (std::int64_t i = 0; i < count; ++i) {
      to[i] = static_cast<float>(strip[static_cast<std::size_t>(i)]);
    }
  }
}

void StridedSource::Pack(std::int64_t r0, std::int64_t rows, std::int64_t k0, std::int64_t kc,
                         std::int64_t width, double* dst) const {
  PackStored(Stored{dtype_, base_, origin_, row_stride_, k_stride_}, r0, rows, k0, kc, width, dst);
}

void StridedSource::PackFloats(std::int64_t r0, std::int64_t rows, std::int64_t k0, std::int64_t kc,
                               std::int64_t width, float* dst) const {
  PackStored(Stored{dtype_, base_, origin_, row_stride_, k_stride_}, r0, rows, k0, kc, width, dst);
}

}  // namespace assay::kernels
