#include "kernels/validate/host_inputs.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "kernels/runtime/cpu/parallel.h"
#include "kernels/validate/host_draws.h"

namespace assay::inline kernels {
void RegeneratedInputs::Draw(int operand, std::int64_t begin, std::int64_t count,
                             double* out) const {
  constexpr std::int64_t kGrain = std::int64_t{1} << 13;
  const Operand& o = plan_.inputs[static_cast<std::size_t>(operand)];
  const auto draw = [&](std::int64_t from, std::int64_t to) {
    DrawOnHost(o, seed_, static_cast<std::uint32_t>(operand), begin + from, to - from, out + from);
  };
  if (count <= kGrain) return draw(0, count);
  ParallelFor(count, kGrain, draw);
}

RegeneratedInputs::~RegeneratedInputs() {
  if (draws_ == nullptr) return;
  for (Kept& kept : kept_) {
    if (!kept.drawn.empty()) draws_->Put(kept.key, std::move(kept.drawn));
  }
}

RegeneratedInputs::Kept& RegeneratedInputs::KeptOf(int operand) const {
  kept_.resize(plan_.inputs.size());
  const auto slot = static_cast<std::size_t>(operand);
  Kept& kept = kept_[slot];
  if (!kept.asked && draws_ != nullptr) {
    // The plan may be gone when it is put back.
    kept.key = DrawKeyOf(plan_.inputs[slot], seed_, static_cast<std::uint32_t>(operand));
    kept.drawn = draws_->Take(kept.key);
  }
  kept.asked = true;
  return kept;
}

void RegeneratedInputs::Read(int operand, std::int64_t begin, std::int64_t count,
                             double* out) const {
  const std::int64_t size = plan_.inputs[static_cast<std::size_t>(operand)].extents.count();
  if (size > kMostKept) return Draw(operand, begin, count, out);
  DrawnElements& drawn = KeptOf(operand).drawn;
  // A new page of memory for each few elements would cost more than they do.
  constexpr std::int64_t kFew = 8, kSmall = std::int64_t{1} << 16;
  if (drawn.empty() && count < kFew && size > kSmall) return Draw(operand, begin, count, out);
  if (drawn.empty()) {
    drawn = DrawnElements(size, plan_.inputs[static_cast<std::size_t>(operand)].dtype);
  }
  const std::int64_t end = begin + count;
  for (std::int64_t at = begin; at < end;) {
    const std::int64_t next = drawn.EndOfRun(at, end);
    double* const to = out + (at - begin);
    if (drawn.Knows(at)) {
      drawn.Get(at, next - at, to);
    } else {
      Draw(operand, at, next - at, to);
      drawn.Set(at, next - at, to);
    }
    at = next;
  }
}

}  // namespace assay::kernels
