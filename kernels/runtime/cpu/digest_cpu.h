// Computes digests on the CPU; kernels/numerics/digest.h defines them.
#ifndef ASSAY_KERNELS_RUNTIME_CPU_DIGEST_CPU_H_
#define ASSAY_KERNELS_RUNTIME_CPU_DIGEST_CPU_H_

#include <cstdint>

#include "kernels/runtime/device.h"
#include "kernels/runtime/tensor.h"

namespace assay::inline kernels {

// The digest of the logical elements, on all cores.
TensorDigest DigestCpu(const TensorView& view);

// Adds words first_word … first_word + n − 1 of a tensor's packed bytes to a digest.
void AccumulateDigest(DType dtype, const void* words, std::int64_t n, std::int64_t first_word,
                      TensorDigest& digest);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_RUNTIME_CPU_DIGEST_CPU_H_
