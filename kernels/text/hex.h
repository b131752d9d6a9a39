// Writes numbers in hexadecimal digits. Standard library only.
#ifndef ASSAY_KERNELS_TEXT_HEX_H_
#define ASSAY_KERNELS_TEXT_HEX_H_

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <string>

namespace assay::inline kernels {

// A digest of 128 bits as 32 digits, the first word first.
inline std::string Hex128(const std::uint64_t (&words)[2]) {
  char text[33];
  std::snprintf(text, sizeof text, "%016" PRIx64 "%016" PRIx64, words[0], words[1]);
  return text;
}

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_TEXT_HEX_H_
