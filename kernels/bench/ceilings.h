// Measured ceilings of a device: what its memory and its arithmetic reach at
// best, measured here and not read from a data sheet.
#ifndef ASSAY_KERNELS_BENCH_CEILINGS_H_
#define ASSAY_KERNELS_BENCH_CEILINGS_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "kernels/numerics/dtype.h"

namespace assay {

class Device;

class Ceilings {
 public:
  virtual ~Ceilings() = default;
  // Multiply-add throughput for inputs of `dtype`, two operations a multiply-add
  // [operations/s]; nothing where the device has no arithmetic for it. Measured
  // at the first call, then kept.
  virtual std::optional<double> FlopsPerSecond(DType dtype) = 0;
  // Copy bandwidth, read and written bytes both counted [bytes/s].
  virtual std::optional<double> BytesPerSecond() = 0;
  // The last cache before that memory [bytes]; 0: not known. What fits may be faster.
  virtual std::int64_t CacheBytes() const { return 0; }
};

// The ceilings of the cores and the memory this process may use, measured on the
// threads of ParallelFor in at most 60 ms each; `device` gives the cache's size. No
// flops for formats that a core converts but does not compute in (fp16, fp8, fp4,
// tf32, bf16 without AVX512-BF16). One thread.
std::unique_ptr<Ceilings> MakeCpuCeilings(Device& device);

}  // namespace assay

#endif  // ASSAY_KERNELS_BENCH_CEILINGS_H_
