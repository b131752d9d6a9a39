// Makes a large product with a vendor's library, for the ceiling of matrix units. The ceiling must
// not be below the rate that the library reaches.
#ifndef ASSAY_KERNELS_BACKENDS_VENDOR_PRODUCT_H_
#define ASSAY_KERNELS_BACKENDS_VENDOR_PRODUCT_H_

#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "kernels/bench/gpu_ceilings.h"
#include "kernels/providers/provider.h"
#include "kernels/runtime/device.h"

namespace assay::inline kernels {

// Makes the product A·Bᵀ of two n by n matrices of random numbers. The kernel is the first of
// `entries` that has gemm for `dtype` and can run here. Operands and workspace belong to the arena,
// and the launch is valid, until the arena's next Reset. NOT_FOUND if there is no such kernel.
// RESOURCE_EXHAUSTED if the arena has no room. Other errors come from the kernel's factory or the
// fill.
absl::StatusOr<LargeProduct> VendorProduct(std::span<const KernelEntry> entries, DType dtype,
                                           std::int64_t n, Device& device);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_BACKENDS_VENDOR_PRODUCT_H_
