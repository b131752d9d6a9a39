// Looks at the outputs of launches on the same inputs, one after the other, and keeps the first few
// that differ. On a device whose memory is not this process's, digests and outputs stay there: the
// host learns of all looks together.
//
// An output is told from others by its raw digest (kernels/numerics/digest.h). Kept outputs lie in
// blocks of the arena until its next Reset. They take at most half of what is free there, so there
// may be room for none.
#ifndef ASSAY_KERNELS_RUNTIME_OUTPUT_WATCH_H_
#define ASSAY_KERNELS_RUNTIME_OUTPUT_WATCH_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/numerics/host_device.h"
#include "kernels/runtime/arena.h"
#include "kernels/runtime/tensor.h"

namespace assay::inline kernels {

inline constexpr int kMostKeptOutputs = 3;

struct WatchFindings {
  std::int64_t looks = 0;
  std::int64_t others = 0;  // looks at an output unlike the known one, or unlike the first look's
  std::int64_t unkept = 0;  // looks at an output that is neither known nor kept: no room
  std::vector<TensorView>
      kept;  // dense, without a repetition; the first look's too if none is known
};

class OutputWatch {
 public:
  virtual ~OutputWatch() = default;
  // Every output has the format and extents that the watch was made for. A look may be enqueued
  // only; the output must stay until it is done.
  virtual absl::Status Look(const TensorView& output) = 0;
  // Of all looks until now.
  virtual absl::StatusOr<WatchFindings> Findings() = 0;
};

namespace internal {

// All that a watch remembers, without the kept outputs themselves.
struct WatchState {
  std::uint64_t outputs[1 + kMostKeptOutputs][2] = {};  // raw digests: the known one, kept ones
  std::int64_t looks = 0;
  std::int64_t others = 0;
  std::int64_t unkept = 0;
  std::int32_t digests = 0;  // in `outputs`
  std::int32_t kept = 0;
  std::int32_t slot = -1;  // where the output of the last look is to be kept; -1: nowhere
  std::int32_t unused = 0;
};

ASSAY_HOST_DEVICE inline void TakeLook(std::uint64_t raw0, std::uint64_t raw1, int slots,
                                       WatchState& s) {
  bool seen = false, first = s.digests == 0;
  for (int i = 0; i < s.digests; ++i) {
    const bool same = s.outputs[i][0] == raw0 && s.outputs[i][1] == raw1;
    seen = seen || same;
    first = first || (same && i == 0);
  }
  ++s.looks;
  s.others += first ? 0 : 1;
  s.slot = -1;
  if (seen) return;
  if (s.kept < slots) {
    s.slot = s.kept++;
  } else {
    ++s.unkept;
  }
  // The first one is remembered even if there is no room to keep it.
  if (s.slot < 0 && s.digests > 0) return;
  s.outputs[s.digests][0] = raw0;
  s.outputs[s.digests][1] = raw1;
  ++s.digests;
}

// Room for kept outputs.
struct WatchSlots {
  TensorView first;         // the others lie behind it
  std::int64_t stride = 0;  // [bytes]
  int count = 0;

  TensorView At(int i) const;
};
WatchSlots AllocateSlots(Arena& arena, const TensorView& output);
WatchFindings FindingsOf(const WatchState& state, const WatchSlots& slots);

}  // namespace internal
}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_RUNTIME_OUTPUT_WATCH_H_
