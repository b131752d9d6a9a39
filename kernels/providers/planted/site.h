// Draws the site of a defect: its tile, element, bit or launch. The draw depends on the case's seed
// and never on its data, so no choice of data hides or shows the defect.
#ifndef ASSAY_KERNELS_PROVIDERS_PLANTED_SITE_H_
#define ASSAY_KERNELS_PROVIDERS_PLANTED_SITE_H_

#include <cstdint>

#include "kernels/numerics/philox.h"
#include "kernels/ops/case.h"

namespace assay::inline kernels::planted {

class Site {
 public:
  explicit Site(const Case& c) : seed_(c.seed.value_or(1)) {}

  // Draws one of 0 … n − 1; n >= 1. Each `what` is a separate draw.
  std::int64_t Draw(std::uint32_t what, std::int64_t n) const {
    return static_cast<std::int64_t>(PhiloxWord(seed_, kStream, what, 0) %
                                     static_cast<std::uint64_t>(n));
  }

 private:
  // This number is far from the tensor ids that operands are filled with.
  static constexpr std::uint32_t kStream = 0x73697465;

  std::uint64_t seed_;
};

}  // namespace assay::kernels::planted

#endif  // ASSAY_KERNELS_PROVIDERS_PLANTED_SITE_H_
