// Keeps elements of an output on a GPU and compares another output with them, one element for each
// thread. Counts and the smallest position are integers, so they do not depend on the order of
// blocks. A last launch looks up the first mismatch.
#include "kernels/runtime/gpu/kept_gpu.h"

#include "kernels/runtime/compare_rule.h"
#include "kernels/runtime/gpu/reduce.h"
#include "kernels/runtime/gpu/runs.h"

namespace assay::inline kernels::gpu {
namespace {

constexpr std::int64_t kMostCounters = 2048;  // blocks that add to one counter

ASSAY_DEVICE double ValueAt(const TensorView& output, std::int64_t index) {
  return LoadDouble(output.dtype, output.data, internal::StorageIndex(output.extents, index));
}

struct KeepPass {
  TensorView output;
  const double* reference;
  const double* allowance;
  KeepRule rule;
};

ASSAY_GLOBAL void Keep(KeepPass pass, const std::int64_t* at, std::int64_t count,
                       KeptElement* kept) {
  for (std::int64_t i = FirstItem(); i < count; i += ItemStep()) {
    const std::int64_t index = at[i];
    const double allowance = pass.allowance == nullptr ? 0.0 : pass.allowance[index];
    kept[i] = internal::Keep(pass.rule, index, ValueAt(pass.output, index), pass.reference[index],
                             allowance);
  }
}

ASSAY_GLOBAL void ClearCounts(HeldCounts* counts) {
  *counts = HeldCounts{};
  counts->first = ~0ULL;
}

ASSAY_GLOBAL void Hold(TensorView output, const KeptElement* kept, std::int64_t count,
                       HeldCounts* counts) {
  ASSAY_SHARED(unsigned long long, partial, kMostWaves);
  unsigned long long compared = 0, mismatches = 0, first = ~0ULL;
  for (std::int64_t i = FirstItem(); i < count; i += ItemStep()) {
    const Held held = internal::HoldAgainst(kept[i], ValueAt(output, kept[i].index));
    compared += held == Held::kLeftOut ? 0 : 1;
    if (held == Held::kOther && mismatches++ == 0) first = static_cast<unsigned long long>(i);
  }
  compared = BlockReduce<Sum>(compared, partial, kThreads);
  mismatches = BlockReduce<Sum>(mismatches, partial, kThreads);
  first = BlockReduce<Smallest>(first, partial, kThreads);
  if (Thread().x != 0) return;
  AtomicAdd(&counts->compared, compared);
  if (mismatches == 0) return;
  AtomicAdd(&counts->mismatches, mismatches);
  AtomicMin(&counts->first, first);
}

ASSAY_GLOBAL void ShowFirst(TensorView output, const KeptElement* kept, HeldCounts* counts) {
  if (counts->mismatches == 0) return;
  counts->kept = kept[counts->first];
  counts->actual = ValueAt(output, counts->kept.index);
}

}  // namespace

ErrorCode LaunchKeep(const KeepRequest& request, const std::int64_t* at, std::int64_t count,
                     KeptElement* kept, Stream stream) {
  const KeepPass pass = {request.output, request.reference, request.allowance, request.rule};
  return LaunchOver(count, /*one_thread=*/false, stream, Keep, pass, at, count, kept);
}

ErrorCode LaunchHold(const TensorView& output, const KeptElement* kept, std::int64_t count,
                     HeldCounts* counts, Stream stream) {
  const Extent one{1, 1, 1};
  ErrorCode code = Launch(ClearCounts, one, one, 0, stream, counts);
  if (code == kOk) {
    code = Launch(Hold, Extent{BlocksFor(count, kMostCounters), 1, 1}, Extent{kThreads, 1, 1}, 0,
                  stream, output, kept, count, counts);
  }
  if (code == kOk) code = Launch(ShowFirst, one, one, 0, stream, output, kept, counts);
  return code;
}

}  // namespace assay::kernels::gpu
