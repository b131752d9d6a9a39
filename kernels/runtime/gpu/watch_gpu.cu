// Looks at outputs on a GPU: the digest, then one thread that tells whether the output is known,
// then a copy of those that are to be kept.
#include "kernels/runtime/gpu/watch_gpu.h"

#include "kernels/runtime/gpu/primitives.h"
#include "kernels/runtime/gpu/runs.h"

namespace assay::inline kernels::gpu {
namespace {

ASSAY_GLOBAL void BeginWatch(int digests, std::uint64_t known0, std::uint64_t known1,
                             WatchMemory* memory) {
  *memory = WatchMemory{};
  memory->state.digests = digests;
  memory->state.outputs[0][0] = known0;
  memory->state.outputs[0][1] = known1;
}

ASSAY_GLOBAL void TakeLook(int slots, WatchMemory* memory) {
  internal::TakeLook(memory->digest[0], memory->digest[1], slots, memory->state);
  for (unsigned long long& word : memory->digest) word = 0;
}

}  // namespace

ErrorCode LaunchBeginWatch(const std::uint64_t* known, WatchMemory* memory, Stream stream) {
  const bool any = known != nullptr;
  return Launch(BeginWatch, Extent{1, 1, 1}, Extent{1, 1, 1}, 0, stream, any ? 1 : 0,
                any ? known[0] : 0, any ? known[1] : 0, memory);
}

ErrorCode LaunchLook(const TensorView& output, const internal::WatchSlots& slots,
                     WatchMemory* memory, Stream stream) {
  ErrorCode code = LaunchDigest(output, memory->digest, stream);
  if (code == kOk) {
    code = Launch(TakeLook, Extent{1, 1, 1}, Extent{1, 1, 1}, 0, stream, slots.count, memory);
  }
  if (code != kOk || slots.count == 0) return code;
  return LaunchCopyToSlot(output, slots.first, &memory->state.slot, slots.stride, stream);
}

}  // namespace assay::kernels::gpu
