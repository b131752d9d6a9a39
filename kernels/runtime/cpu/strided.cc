#include "kernels/runtime/cpu/strided.h"

#include <atomic>
#include <cstring>

#include "kernels/numerics/convert.h"

namespace assay::inline kernels {
namespace {

// Sets one half of a byte. Another thread may set the other half at the same time.
void StoreNibble(std::uint8_t code, void* dst, std::int64_t at) {
  std::atomic_ref<std::uint8_t> byte(static_cast<std::uint8_t*>(dst)[at >> 1]);
  const int shift = static_cast<int>(at & 1) * 4;
  // Each of the two steps changes this half alone.
  byte.fetch_and(static_cast<std::uint8_t>(0xf0 >> shift), std::memory_order_relaxed);
  byte.fetch_or(static_cast<std::uint8_t>(code << shift), std::memory_order_relaxed);
}

}  // namespace

void StoreNibbles(const std::uint8_t* codes, void* dst, std::int64_t at, std::int64_t n) {
  std::int64_t i = 0;
  if ((at & 1) != 0 && n > 0) StoreNibble(codes[i++], dst, at);
  auto* bytes = static_cast<std::uint8_t*>(dst);
  for (; i + 2 <= n; i += 2) {
    bytes[(at + i) >> 1] = static_cast<std::uint8_t>(codes[i] | (codes[i + 1] << 4));
  }
  if (i < n) StoreNibble(codes[i], dst, at + i);
}

void CopyElements(DType dtype, const void* src, std::int64_t src_at, void* dst, std::int64_t dst_at,
                  std::int64_t n) {
  if (dtype != DType::kE2M1) {
    const std::int64_t width = Info(dtype).storage_bits / 8;
    std::memcpy(static_cast<char*>(dst) + dst_at * width,
                static_cast<const char*>(src) + src_at * width,
                static_cast<std::size_t>(n * width));
    return;
  }
  if (((src_at | dst_at) & 1) == 0) {
    const std::int64_t whole = n / 2;
    std::memcpy(static_cast<char*>(dst) + dst_at / 2, static_cast<const char*>(src) + src_at / 2,
                static_cast<std::size_t>(whole));
    if ((n & 1) != 0) {
      const auto code = static_cast<std::uint8_t>(LoadBits(dtype, src, src_at + n - 1));
      StoreNibbles(&code, dst, dst_at + n - 1, 1);
    }
    return;
  }
  std::uint8_t codes[512];
  for (std::int64_t i = 0; i < n; i += 512) {
    const std::int64_t m = std::min<std::int64_t>(512, n - i);
    for (std::int64_t k = 0; k < m; ++k) {
      codes[k] = static_cast<std::uint8_t>(LoadBits(dtype, src, src_at + i + k));
    }
    StoreNibbles(codes, dst, dst_at + i, m);
  }
}

void PackElements(const TensorView& view, std::int64_t begin, std::int64_t n, void* dst) {
  ForEachRun(view.extents, begin, begin + n,
             [&](std::int64_t offset, std::int64_t logical, std::int64_t m) {
               CopyElements(view.dtype, view.data, offset, dst, logical - begin, m);
             });
}

}  // namespace assay::kernels
