// A whole number with its digits in groups of three, as messages show counts. std-only.
#ifndef ASSAY_KERNELS_NUMERICS_GROUPED_H_
#define ASSAY_KERNELS_NUMERICS_GROUPED_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace assay::inline kernels {

// "2,097,152".
inline std::string Grouped(std::int64_t n) {
  const std::string digits = std::to_string(n < 0 ? -n : n);
  std::string out = n < 0 ? "-" : "";
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) out += ',';
    out += digits[i];
  }
  return out;
}

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_NUMERICS_GROUPED_H_
