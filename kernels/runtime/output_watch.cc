#include "kernels/runtime/output_watch.h"

#include <algorithm>

#include "kernels/runtime/device.h"

namespace assay::inline kernels {
namespace internal {

TensorView WatchSlots::At(int i) const {
  TensorView view = first;
  view.data = static_cast<unsigned char*>(first.data) + i * stride;
  return view;
}

WatchSlots AllocateSlots(Arena& arena, const TensorView& output) {
  const Extents& e = output.extents;
  const std::int64_t blocks = (StorageBytes(output.dtype, e.count()) - 1) / kBlockAlignment + 1;
  WatchSlots slots;
  slots.first = {nullptr, output.dtype, Extents::Dense(e.batch, e.rows, e.cols)};
  slots.stride = blocks * kBlockAlignment;
  const std::int64_t fit = arena.available_bytes(1) / 2 / slots.stride;
  const std::int64_t count = std::min<std::int64_t>(fit, kMostKeptOutputs);
  if (count <= 0) return slots;
  const absl::StatusOr<Block> block = arena.Allocate(count * slots.stride, /*guarded=*/false);
  if (!block.ok()) return slots;
  slots.first.data = block->data;
  slots.count = static_cast<int>(count);
  return slots;
}

WatchFindings FindingsOf(const WatchState& state, const WatchSlots& slots) {
  WatchFindings findings{state.looks, state.others, state.unkept, {}};
  for (int i = 0; i < state.kept; ++i) findings.kept.push_back(slots.At(i));
  return findings;
}

}  // namespace internal

namespace {

// For devices that have no watch of their own: the host holds the digests.
class HostWatch final : public OutputWatch {
 public:
  HostWatch(Device& device, const internal::WatchSlots& slots, const internal::WatchState& state)
      : device_(device), slots_(slots), state_(state) {}

  absl::Status Look(const TensorView& output) override {
    const absl::StatusOr<TensorDigest> digest = device_.Digest(output);
    if (!digest.ok()) return digest.status();
    internal::TakeLook(digest->raw[0], digest->raw[1], slots_.count, state_);
    return state_.slot < 0 ? absl::OkStatus() : device_.Copy(output, slots_.At(state_.slot));
  }
  absl::StatusOr<WatchFindings> Findings() override { return internal::FindingsOf(state_, slots_); }

 private:
  Device& device_;
  const internal::WatchSlots slots_;
  internal::WatchState state_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<OutputWatch>> Device::WatchOutputs(
    const TensorView& output, const std::optional<TensorDigest>& known) {
  internal::WatchState state;
  if (known) {
    std::copy_n(known->raw, 2, state.outputs[0]);
    state.digests = 1;
  }
  return std::make_unique<HostWatch>(*this, internal::AllocateSlots(arena(), output), state);
}

}  // namespace assay::kernels
