// Makes words canonical, for the canonical digest.
#ifndef ASSAY_KERNELS_RUNTIME_CPU_COMPARE_CANONICAL_H_
#define ASSAY_KERNELS_RUNTIME_CPU_COMPARE_CANONICAL_H_

#include <array>
#include <cstdint>
#include <cstring>

#include "kernels/numerics/convert.h"
#include "kernels/numerics/digest.h"

namespace assay::inline kernels::internal {

// Does what CanonicalWord does, for all words of a block. It works by element, or by byte for the
// 8- and 4-bit formats, so it is faster.
class Canonical {
 public:
  explicit Canonical(DType dtype) : dtype_(dtype), layout_(LayoutOf(dtype)) {
    if (Info(dtype).storage_bits > 8 || Info(dtype).is_integer) return;
    for (std::size_t byte = 0; byte < bytes_.size(); ++byte) {
      bytes_[byte] = static_cast<std::uint8_t>(CanonicalWord(dtype, byte));
    }
  }
  void Copy(const unsigned char* raw, std::int64_t words, unsigned char* out) const {
    switch (Info(dtype_).storage_bits) {
      case 64:
        return CopyAs<std::uint64_t>(raw, words * 8, out);
      case 32:
        return CopyAs<std::uint32_t>(raw, words * 8, out);
      case 16:
        return CopyAs<std::uint16_t>(raw, words * 8, out);
      default:
        for (std::int64_t i = 0; i < words * 8; ++i) out[i] = bytes_[raw[i]];
    }
  }

 private:
  template <class T>
  void CopyAs(const unsigned char* raw, std::int64_t bytes, unsigned char* out) const {
    const T magnitude = static_cast<T>((T{1} << layout_.sign_bit) - 1);
    const T infinity = static_cast<T>(layout_.inf_code);
    const T nan = static_cast<T>(layout_.nan_code);
    for (std::int64_t i = 0; i < bytes; i += static_cast<std::int64_t>(sizeof(T))) {
      T v;
      std::memcpy(&v, raw + i, sizeof v);
      const T m = v & magnitude;
      v = m == 0 ? T{0} : m > infinity ? nan : v;
      std::memcpy(out + i, &v, sizeof v);
    }
  }

  DType dtype_;
  Layout layout_;
  std::array<std::uint8_t, 256> bytes_ = {};
};

}  // namespace assay::kernels::internal

#endif  // ASSAY_KERNELS_RUNTIME_CPU_COMPARE_CANONICAL_H_
