// Measured ceilings of a GPU, from the launches of ceilings_gpu.h.
#ifndef ASSAY_KERNELS_BENCH_GPU_CEILINGS_H_
#define ASSAY_KERNELS_BENCH_GPU_CEILINGS_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/bench/ceilings.h"
#include "kernels/runtime/gpu/gpu_device.h"

namespace assay {

// A product of large matrices by the library that the card's vendor tuned for it.
struct LargeProduct {
  std::function<absl::Status()> launch;  // enqueues it on the device's stream
  double operations = 0;                 // two a multiply-add
};

// n by n by n numbers of a format; RESOURCE_EXHAUSTED where the arena has no room, any other
// error where there is no such product.
using LargeProductMaker = std::function<absl::StatusOr<LargeProduct>(DType dtype, std::int64_t n)>;

// Buffers come from the arena, on top of what is in use there; where it has no room a
// ceiling is absent, and is tried again at the next call.
//
// Multiply-adds on the vector units: fp16 (two at a time), fp32 and fp64, in a loop of
// nothing else.
//
// On the matrix units: the faster of such a loop (fp16 and bf16, CUDA only) and of the vendor's
// own products of 4096³ and 8192³ numbers. The loop's instructions, mma.sync, do not reach what
// cards of sm_90 and later do with their asynchronous ones, which the library uses: there,
// without the library, the ceiling is too low. A ceiling that is the library's is what it was
// seen to reach and no bound of the hardware's: the library itself comes to about 1 of it.
// Where the arena has no room for the product, the loop's is suspect. Absent for formats that
// have neither (e5m2, the 4-bit floats), and for fp32 on CUDA, whose products are none of the
// matrix units'.
std::unique_ptr<Ceilings> MakeGpuCeilings(GpuDevice& device, LargeProductMaker products = nullptr);

}  // namespace assay

#endif  // ASSAY_KERNELS_BENCH_GPU_CEILINGS_H_
