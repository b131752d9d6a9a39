// Writes a share as a percentage with two digits, which is as much as a person reads of it.
// Standard library only.
#ifndef ASSAY_KERNELS_TEXT_PERCENT_H_
#define ASSAY_KERNELS_TEXT_PERCENT_H_

#include <cstdio>
#include <string>

namespace assay::inline kernels {

// 0.062 is "6.2 %", 0.5 is "50 %", 1.2 is "120 %".
inline std::string Percent(double share) {
  char text[32];
  const double percent = 100 * share;
  std::snprintf(text, sizeof text, percent < 99.5 ? "%.2g %%" : "%.0f %%", percent);
  return text;
}

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_TEXT_PERCENT_H_
