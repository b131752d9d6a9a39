// What an elementwise kernel computes, on host and device. std-only.
#ifndef ASSAY_KERNELS_OPS_ELEMENTWISE_ELEMENTWISE_KIND_H_
#define ASSAY_KERNELS_OPS_ELEMENTWISE_ELEMENTWISE_KIND_H_

#include <cstdint>

namespace assay::inline kernels {

enum class ElementwiseKind : std::uint8_t { kAdd, kSiluMul, kGelu, kGeluTanh };

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_ELEMENTWISE_ELEMENTWISE_KIND_H_
