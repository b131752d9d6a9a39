#include "kernels/diagnose/suspects.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "kernels/ops/diagnostics.h"
#include "kernels/ops/op.h"

namespace assay::inline kernels {
namespace {

constexpr std::size_t kMaxTested = 16;
constexpr std::size_t kMostOfRow = 4;  // where there are other rows
// Input elements a test may read; above, a case is too long to look into.
constexpr std::int64_t kMostRead = std::int64_t{1} << 23;

std::vector<WrongElement> Spread(const std::vector<WrongElement>& samples) {
  std::vector<WrongElement> some;
  const std::size_t n = std::min(samples.size(), kMaxTested);
  for (std::size_t i = 0; i < n; ++i) some.push_back(samples[i * samples.size() / n]);
  return some;
}

// Those furthest beyond their bounds, ascending by index. Of a row the worst few first: what
// is chance in one row is none in several.
std::vector<WrongElement> Worst(std::vector<WrongElement> samples, std::int64_t cols) {
  const auto ratio = [](const WrongElement& e) {
    return std::abs(e.actual - e.expected) / std::max(e.bound, 1e-300);
  };
  std::sort(samples.begin(), samples.end(),
            [&](const WrongElement& a, const WrongElement& b) { return ratio(a) > ratio(b); });
  std::map<std::int64_t, std::size_t> of_row;
  std::stable_partition(samples.begin(), samples.end(), [&](const WrongElement& e) {
    return ++of_row[e.index / cols] <= kMostOfRow;
  });
  if (samples.size() > kMaxTested) samples.resize(kMaxTested);
  std::sort(samples.begin(), samples.end(),
            [](const WrongElement& a, const WrongElement& b) { return a.index < b.index; });
  return samples;
}

}  // namespace

std::optional<Conviction> FindSuspect(const Scene& scene, const Anatomy& anatomy) {
  const Diagnostics& diagnostics = scene.op.diagnostics();
  const std::vector<WrongElement> spread = Spread(anatomy.samples);
  if (spread.size() < kLeastTested ||
      diagnostics.ReadFor(scene.c, scene.plan, static_cast<std::int64_t>(spread.size())) >
          kMostRead) {
    return std::nullopt;
  }
  const std::vector<Suspect> suspects = diagnostics.Suspects(scene);
  std::optional<Conviction> likely;
  // Elements that are only just wrong tell little, so the worst are tried, too; what is
  // said of the size of errors holds of the spread ones alone.
  for (const bool worst : {false, true}) {
    const std::vector<WrongElement> tested =
        worst ? Worst(anatomy.samples, scene.plan.output.extents.cols) : spread;
    for (const Suspect& suspect : suspects) {
      std::optional<Proof> proof = suspect.test(tested);
      if (!proof.has_value()) continue;
      if (proof->circumstantial && (worst || likely.has_value())) continue;
      Conviction conviction{proof->reads_as.empty() ? suspect.reads_as : proof->reads_as,
                            proof->evidence, suspect.next_step, proof->circumstantial};
      if (!conviction.circumstantial) return conviction;
      likely = std::move(conviction);
    }
  }
  return likely;
}

}  // namespace assay::kernels
