// What an elementwise kernel computes, on host and device. std-only.
#ifndef ASSAY_KERNELS_OPS_ELEMENTWISE_ELEMENTWISE_KIND_H_
#define ASSAY_KERNELS_OPS_ELEMENTWISE_ELEMENTWISE_KIND_H_

#include <cstdint>

namespace assay {

enum class ElementwiseKind : std::uint8_t { kAdd, kSiluMul, kGelu, kGeluTanh };

}  // namespace assay

#endif  // ASSAY_KERNELS_OPS_ELEMENTWISE_ELEMENTWISE_KIND_H_
