// Sums a row's addends in the orders of sum_orders.h on a GPU, with the host's bits. For kernels
// only, whose blocks have kRowThreads threads.
//
// The orders are sequential, so the block puts kOrderChunk addends at a time into shared memory.
// Then 33 of its threads add them up, while the others make the next chunk in the other half of
// that memory. Every thread makes the addends thread, thread + kRowThreads, …: whatever it keeps of
// an element itself it finds again.
#ifndef ASSAY_KERNELS_OPS_COMMON_SUM_ORDERS_GPU_H_
#define ASSAY_KERNELS_OPS_COMMON_SUM_ORDERS_GPU_H_

#include "kernels/ops/common/rows_gpu.h"
#include "kernels/ops/common/sum_orders.h"
#include "kernels/runtime/gpu/port.h"
#include "kernels/runtime/gpu/reduce.h"

namespace assay::inline kernels::gpu {

inline constexpr int kOrderChunk = 1024;              // whole blocks of the order `blocks`
inline constexpr int kOrderShared = 2 * kOrderChunk;  // floats of shared memory
// The first thread of the lanes. Its wave is not that of the sequential orders.
inline constexpr int kFirstLane = 64;
static_assert(kOrderChunk % kRowThreads == 0 && kOrderChunk % kOrderBlock == 0);
static_assert(kFirstLane + kOrderLanes <= kRowThreads);

// Calls addend(i) once for each i < n, by the thread to which i belongs, and then
// visit(place, count, before) by every thread for each chunk: `count` addends, rounded to FP32,
// from shared[place] on, with `before` addends in earlier chunks. All threads of the block take
// part.
template <class Addend, class Shared, class Visit>
ASSAY_DEVICE void VisitInOrder(std::int64_t n, const Addend& addend, Shared shared,
                               const Visit& visit) {
  int place = 0;
  for (std::int64_t before = 0; before < n; before += kOrderChunk) {
    const int count = n - before < kOrderChunk ? static_cast<int>(n - before) : kOrderChunk;
    for (int i = static_cast<int>(Thread().x); i < count; i += kRowThreads) {
      shared[place + i] = static_cast<float>(addend(before + i));
    }
    SyncBlock();  // and the chunk before the last one is read
    visit(place, count, before);
    place = kOrderChunk - place;
  }
  SyncBlock();  // the last chunk is read
}

// The sums of n addends. Every thread gets them. `partial` is as BlockReduce has it.
template <class Addend, class Shared, class Partial>
ASSAY_DEVICE OrderedSums SumInOrders(std::int64_t n, const Addend& addend, Shared shared,
                                     Partial partial) {
  const int thread = static_cast<int>(Thread().x), lane = thread - kFirstLane;
  const bool is_lane = lane >= 0 && lane < kOrderLanes;
  double exact = 0;
  float of_lane = 0;
  SequentialOrders orders;
  VisitInOrder(
      n,
      [&](std::int64_t i) {
        const double v = addend(i);
        exact += static_cast<double>(static_cast<float>(v));
        return v;
      },
      shared,
      [&](int place, int count, std::int64_t before) {
        if (thread == 0) {
          for (int i = 0; i < count; ++i) orders.Add(shared[place + i], before + i + 1);
        }
        for (int i = lane; is_lane && i < count; i += kOrderLanes) of_lane += shared[place + i];
      });
  if (is_lane) shared[lane] = of_lane;
  if (thread == 0) {
    shared[kOrderLanes] = orders.sequential;
    shared[kOrderLanes + 1] = orders.blocks + orders.block;
  }
  OrderedSums sums;
  sums.exact = BlockReduce<Sum>(exact, partial, kRowThreads);  // with a barrier
  for (int i = 0; i < kOrderLanes; ++i) sums.lanes += shared[i];
  sums.sequential = shared[kOrderLanes];
  sums.blocks = shared[kOrderLanes + 1];
  SyncBlock();  // the next sums write `shared` again
  return sums;
}

}  // namespace assay::kernels::gpu

#endif  // ASSAY_KERNELS_OPS_COMMON_SUM_ORDERS_GPU_H_
