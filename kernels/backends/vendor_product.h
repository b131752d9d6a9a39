// A large product by a vendor's library, for the ceiling of matrix units: what the library
// reaches, no loop of this project's may be below.
#ifndef ASSAY_KERNELS_BACKENDS_VENDOR_PRODUCT_H_
#define ASSAY_KERNELS_BACKENDS_VENDOR_PRODUCT_H_

#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "kernels/bench/gpu_ceilings.h"
#include "kernels/providers/provider.h"
#include "kernels/runtime/device.h"

namespace assay {

// n by n by n, A·Bᵀ of random numbers, by the first of `entries` that has gemm for `dtype`
// and can run here. Operands and workspace are the arena's until its next Reset; the launch
// is valid as long. NOT_FOUND where there is none; else the kernel's status, and
// RESOURCE_EXHAUSTED where the arena has no room.
absl::StatusOr<LargeProduct> VendorProduct(std::span<const KernelEntry> entries, DType dtype,
                                           std::int64_t n, Device& device);

}  // namespace assay

#endif  // ASSAY_KERNELS_BACKENDS_VENDOR_PRODUCT_H_
