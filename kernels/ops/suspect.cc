#include "kernels/ops/suspect.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/numerics/bound.h"
#include "kernels/numerics/convert.h"
#include "kernels/ops/case.h"
#include "kernels/ops/op.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

// Of n elements. More are no agreement.
std::size_t MostThatDiffer(std::size_t n) { return n / 8; }

}  // namespace

AlteredInputs::AlteredInputs(const Scene& scene, const Plan& plan, Reader read)
    : inputs_(scene.inputs), plan_(plan), read_(std::move(read)) {
  for (const Operand& operand : plan.inputs) {
    const auto& originals = scene.plan.inputs;
    const auto at = std::find_if(originals.begin(), originals.end(),
                                 [&](const Operand& o) { return o.name == operand.name; });
    source_.push_back(at == originals.end() ? -1 : static_cast<int>(at - originals.begin()));
  }
}

void AlteredInputs::Read(int operand, std::int64_t begin, std::int64_t count, double* out) const {
  const auto at = static_cast<std::size_t>(operand);
  if (read_ && read_(plan_.inputs[at].name, begin, count, out)) return;
  if (source_[at] < 0) {
    std::fill_n(out, count, 0.0);
    return;
  }
  inputs_.Read(source_[at], begin, count, out);
}

std::optional<Proof> Agreement(std::span<const WrongElement> elements,
                               absl::FunctionRef<Computed(std::size_t)> compute) {
  const std::size_t n = elements.size();
  if (n < kLeastTested) return std::nullopt;
  std::size_t differ = 0;
  std::size_t telling = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const WrongElement& e = elements[i];
    const auto [value, bound] = compute(i);
    const bool agrees =
        std::isnan(value) ? std::isnan(e.actual) : std::abs(e.actual - value) <= bound;
    if (!agrees) {
      if (++differ > MostThatDiffer(n)) return std::nullopt;
      continue;
    }
    // What would be accepted as right as well tells nothing.
    if (std::isnan(value) || std::abs(value - e.expected) > bound) ++telling;
  }
  if (2 * telling < n) return std::nullopt;
  return Proof{Cat(n - differ, " of ", n, " sampled elements are what that gives"), "", false};
}

Suspect AlteredCase(const Scene& scene, Case altered, AlteredInputs::Reader read,
                    std::string reads_as, std::string next_step) {
  auto test = [&scene, altered = std::move(altered), read = std::move(read)](
                  std::span<const WrongElement> elements) -> std::optional<Proof> {
    absl::StatusOr<Plan> plan = scene.op.MakePlan(altered);
    if (!plan.ok()) return std::nullopt;
    plan->intermediate_roundoff = scene.plan.intermediate_roundoff;
    plan->intermediate_step = scene.plan.intermediate_step;
    plan->flushes_subnormals = scene.plan.flushes_subnormals;
    plan->accumulator = scene.plan.accumulator;
    const AlteredInputs inputs(scene, *plan, read);
    std::vector<std::int64_t> at;
    for (const WrongElement& e : elements) at.push_back(e.index);
    std::vector<double> value(at.size()), bound(at.size(), 0.0);
    const OutputRounding rounding = OutputRoundingOf(scene.plan.output.dtype);
    const double factor = scene.plan.zero_mean_random ? 1.0 : scene.plan.proven_factor;
    std::size_t known = 0;
    return Agreement(elements, [&](std::size_t i) {
      if (i == known) {
        // The first few are enough for most suspects, which are not it.
        const std::size_t count = known == 0 ? MostThatDiffer(at.size()) + 1 : at.size() - known;
        scene.op.ReferenceAt(altered, *plan, inputs, std::span(at).subspan(known, count),
                             &value[known], &bound[known]);
        known += count;
      }
      const double allowed =
          scene.plan.exact ? 0.25 : TBound(rounding, value[i], factor * bound[i]);
      return Computed{value[i], allowed};
    });
  };
  return {std::move(reads_as), std::move(next_step), std::move(test)};
}

Suspect Simulated(const Scene& scene, std::function<double(std::int64_t index)> simulate,
                  std::string reads_as, std::string next_step) {
  auto test = [&scene, simulate = std::move(simulate)](
                  std::span<const WrongElement> elements) -> std::optional<Proof> {
    return Agreement(elements, [&](std::size_t i) {
      const WrongElement& e = elements[i];
      return Computed{Quantise(simulate(e.index), scene.plan.output.dtype), e.bound};
    });
  };
  return {std::move(reads_as), std::move(next_step), std::move(test)};
}

}  // namespace assay::kernels
