// The end of a row's deviations in the GPU references of softmax and dequant_softmax. For kernels
// only, whose blocks have kRowThreads threads.
#ifndef ASSAY_KERNELS_OPS_COMMON_SOFTMAX_DEVIATION_GPU_H_
#define ASSAY_KERNELS_OPS_COMMON_SOFTMAX_DEVIATION_GPU_H_

#include "kernels/ops/common/rows_gpu.h"
#include "kernels/ops/common/softmax_deviation.h"
#include "kernels/runtime/gpu/port.h"
#include "kernels/runtime/gpu/reduce.h"

namespace assay::inline kernels::gpu {

// Writes σ_β, and 0 for σ_α, from each thread's sums and from what all threads know: m,
// Σ LostAddend(r, u) and `seen`. All threads of the block take part.
template <class Partial>
ASSAY_DEVICE void FinishSoftmaxDeviations(const SoftmaxDeviation& model, double max, double lost,
                                          double seen, SoftmaxRowSums sums, Partial partial,
                                          const RowDeviations& to) {
  if (to.gain == nullptr) return;  // for all threads alike
  sums.squares = BlockReduce<Sum>(sums.squares, partial, kRowThreads);
  sums.logits = BlockReduce<Sum>(sums.logits, partial, kRowThreads);
  sums.fit.squares = BlockReduce<Sum>(sums.fit.squares, partial, kRowThreads);
  if (Thread().x != 0) return;
  if (to.offset != nullptr) *to.offset = 0;
  *to.gain = static_cast<float>(sums.Gain(model, max, lost, seen));
}

}  // namespace assay::kernels::gpu

#endif  // ASSAY_KERNELS_OPS_COMMON_SOFTMAX_DEVIATION_GPU_H_
