// A chain of multiply-adds whose result nobody uses.
#include "kernels/runtime/gpu/spin.h"

#include "kernels/runtime/gpu/port.h"

namespace assay::inline kernels::gpu {
namespace {

ASSAY_GLOBAL void Spin(int rounds, float multiplier, float addend, float* unused) {
  float x = 1;
  ASSAY_ROLLED
  for (int r = 0; r < rounds; ++r) x = Fma(x, multiplier, addend);
  if (x < 0) *unused = x;  // never; the compiler does not know that
}

}  // namespace

ErrorCode LaunchSpin(int rounds, float* unused, Stream stream) {
  return Launch(Spin, Extent{1, 1, 1}, Extent{1, 1, 1}, 0, stream, rounds, 0.5F, 1.0F, unused);
}

}  // namespace assay::kernels::gpu
