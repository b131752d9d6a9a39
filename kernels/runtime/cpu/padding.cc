#include "kernels/runtime/cpu/padding.h"

#include <cstring>

#include "kernels/runtime/arena.h"
#include "kernels/runtime/cpu/arena_cpu.h"

namespace assay::inline kernels {
namespace {

// Calls f(pointer, bytes) for each stretch of padding.
template <class F>
void ForEachPadding(const TensorView& view, F&& f) {
  const Extents& e = view.extents;
  if (e.count() == 0 || e.dense()) return;
  const std::int64_t bits = Info(view.dtype).storage_bits;
  auto* base = static_cast<unsigned char*>(view.data);
  const auto stretch = [&](std::int64_t from, std::int64_t to) {  // elements
    const std::int64_t begin = (from * bits + 7) / 8;
    const std::int64_t end = to * bits / 8;
    if (begin < end) f(base + begin, end - begin);
  };
  for (std::int64_t b = 0; b < e.batch; ++b) {
    const std::int64_t matrix = b * e.batch_stride;
    if (e.ld > e.cols) {
      for (std::int64_t r = 0; r + 1 < e.rows; ++r) {
        stretch(matrix + r * e.ld + e.cols, matrix + (r + 1) * e.ld);
      }
    }
    if (b + 1 < e.batch) {
      stretch(matrix + (e.rows - 1) * e.ld + e.cols, matrix + e.batch_stride);
    }
  }
}

}  // namespace

void WritePadding(unsigned char byte, const TensorView& view) {
  ForEachPadding(view, [byte](unsigned char* at, std::int64_t n) {
    std::memset(at, byte, static_cast<std::size_t>(n));
  });
}

std::int64_t CountPaddingDamage(unsigned char byte, const TensorView& view) {
  std::int64_t damaged = 0;
  ForEachPadding(view, [&damaged, byte](const unsigned char* at, std::int64_t n) {
    damaged += CountNotGuard(byte, at, n);
  });
  return damaged;
}

}  // namespace assay::kernels
