#include "kernels/validate/host_inputs.h"

#include <algorithm>
#include <bit>
#include <cstddef>

#include "kernels/runtime/cpu/parallel.h"
#include "kernels/validate/host_draws.h"

namespace assay::inline kernels {
namespace {

constexpr std::int64_t kWord = 64;  // elements

// The end of the elements from `at` that are known, or are not, as the one at `at`; at most `end`.
std::int64_t EndOfRun(const std::vector<std::uint64_t>& known, std::int64_t at, std::int64_t end) {
  const auto word = [&](std::int64_t i) { return known[static_cast<std::size_t>(i / kWord)]; };
  const std::uint64_t same = (word(at) >> at % kWord & 1) != 0 ? ~std::uint64_t{0} : 0;
  while (at < end) {
    const std::uint64_t others = (word(at) ^ same) >> at % kWord;
    if (others != 0) return std::min(end, at + std::countr_zero(others));
    at = (at / kWord + 1) * kWord;
  }
  return end;
}

void SetKnown(std::vector<std::uint64_t>& known, std::int64_t at, std::int64_t end) {
  while (at < end) {
    const std::int64_t from = at % kWord, count = std::min(kWord - from, end - at);
    known[static_cast<std::size_t>(at / kWord)] |= ~std::uint64_t{0} >> (kWord - count) << from;
    at += count;
  }
}

}  // namespace

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

void RegeneratedInputs::Read(int operand, std::int64_t begin, std::int64_t count,
                             double* out) const {
  const auto slot = static_cast<std::size_t>(operand);
  const std::int64_t size = plan_.inputs[slot].extents.count();
  if (size > kMostKept) return Draw(operand, begin, count, out);
  kept_.resize(plan_.inputs.size());
  Kept& kept = kept_[slot];
  // A new page of memory for each few elements would cost more than they do.
  constexpr std::int64_t kFew = 8, kSmall = std::int64_t{1} << 16;
  if (kept.values == nullptr && count < kFew && size > kSmall) {
    return Draw(operand, begin, count, out);
  }
  if (kept.values == nullptr) {
    kept.values.reset(new double[static_cast<std::size_t>(size)]);
    kept.known.resize(static_cast<std::size_t>((size + kWord - 1) / kWord));
  }
  const std::int64_t end = begin + count;
  for (std::int64_t at = begin; at < end;) {
    const bool known = (kept.known[static_cast<std::size_t>(at / kWord)] >> at % kWord & 1) != 0;
    const std::int64_t next = EndOfRun(kept.known, at, end);
    if (!known) {
      Draw(operand, at, next - at, kept.values.get() + at);
      SetKnown(kept.known, at, next);
    }
    at = next;
  }
  std::copy_n(kept.values.get() + begin, count, out);
}

}  // namespace assay::kernels
