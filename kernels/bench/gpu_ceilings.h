// Measures the ceilings of a GPU with the launches of ceilings_gpu.h.
#ifndef ASSAY_KERNELS_BENCH_GPU_CEILINGS_H_
#define ASSAY_KERNELS_BENCH_GPU_CEILINGS_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/bench/ceilings.h"
#include "kernels/runtime/gpu/gpu_device.h"

namespace assay::inline kernels {

// A product of large matrices that the library of the card's vendor computes.
struct LargeProduct {
  std::function<absl::Status()> launch;  // enqueues the product on the device's stream
  double operations = 0;                 // two a multiply-add
};

// Makes the product of two n by n matrices of a format. Returns RESOURCE_EXHAUSTED if the arena has
// no room, and any other error if there is no such product.
using LargeProductMaker = std::function<absl::StatusOr<LargeProduct>(DType dtype, std::int64_t n)>;

// Makes the ceilings of a GPU. Buffers come from the arena, on top of the blocks in use. If the
// arena has no room, the ceiling is absent, and the next call tries again.
//
// Vector units: a loop of nothing but multiply-adds in fp16 (two at a time), fp32 and fp64.
//
// Matrix units: the faster of such a loop (fp16 and bf16, CUDA only) and of the vendor's products
// of 4096³ and 8192³ numbers. The loop uses mma.sync. On cards of sm_90 and later, mma.sync does
// not reach the rate of the asynchronous instructions that the library uses. So without the library
// the ceiling is too low there. A ceiling from the library is the best rate that the library was
// seen to reach; it is no limit of the hardware, and the library itself reaches about 100 % of it.
// If the arena has no room for the product, the loop's ceiling is marked suspect. There is no
// ceiling for formats that have neither loop nor product (e5m2, the 4-bit floats), and none for
// fp32 on CUDA, because matrix units do not compute fp32 products there.
std::unique_ptr<Ceilings> MakeGpuCeilings(GpuDevice& device, LargeProductMaker products = nullptr);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_BENCH_GPU_CEILINGS_H_
