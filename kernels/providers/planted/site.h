// Where a defect sits: which tile, element, bit or launch, drawn from the case's seed
// and never from its data, so that no choice of data hides or shows it.
#ifndef ASSAY_KERNELS_PROVIDERS_PLANTED_SITE_H_
#define ASSAY_KERNELS_PROVIDERS_PLANTED_SITE_H_

#include <cstdint>

#include "kernels/numerics/philox.h"
#include "kernels/ops/case.h"

namespace assay::planted {

class Site {
 public:
  explicit Site(const Case& c) : seed_(c.seed.value_or(1)) {}

  // One of 0 … n − 1, n >= 1; `what` names the draw, so that two of them differ.
  std::int64_t Draw(std::uint32_t what, std::int64_t n) const {
    return static_cast<std::int64_t>(PhiloxWord(seed_, kStream, what, 0) %
                                     static_cast<std::uint64_t>(n));
  }

 private:
  // Far from the tensor numbers that operands are filled with.
  static constexpr std::uint32_t kStream = 0x73697465;

  std::uint64_t seed_;
};

}  // namespace assay::planted

#endif  // ASSAY_KERNELS_PROVIDERS_PLANTED_SITE_H_
