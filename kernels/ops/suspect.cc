#include "kernels/ops/suspect.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/numerics/bound.h"
#include "kernels/numerics/convert.h"
#include "kernels/ops/case.h"
#include "kernels/ops/op.h"
#include "kernels/text/cat.h"

namespace assay {

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
                               std::span<const double> value, std::span<const double> bound) {
  std::size_t agree = 0;
  std::size_t telling = 0;
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const WrongElement& e = elements[i];
    const bool agrees =
        std::isnan(value[i]) ? std::isnan(e.actual) : std::abs(e.actual - value[i]) <= bound[i];
    if (!agrees) continue;
    ++agree;
    // What would be accepted as right as well tells nothing.
    if (std::isnan(value[i]) || std::abs(value[i] - e.expected) > bound[i]) ++telling;
  }
  const std::size_t n = elements.size();
  if (n < kLeastTested || agree + n / 8 < n || 2 * telling < n) return std::nullopt;
  return Proof{Cat(agree, " of ", n, " sampled elements are what that gives"), "", false};
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
    scene.op.ReferenceAt(altered, *plan, inputs, at, value.data(), bound.data());
    const OutputRounding rounding = OutputRoundingOf(scene.plan.output.dtype);
    const double factor = scene.plan.zero_mean_random ? 1.0 : scene.plan.proven_factor;
    for (std::size_t i = 0; i < at.size(); ++i) {
      bound[i] = scene.plan.exact ? 0.25 : TBound(rounding, value[i], factor * bound[i]);
    }
    return Agreement(elements, value, bound);
  };
  return {std::move(reads_as), std::move(next_step), std::move(test)};
}

Suspect Simulated(const Scene& scene, std::function<double(std::int64_t index)> simulate,
                  std::string reads_as, std::string next_step) {
  auto test = [&scene, simulate = std::move(simulate)](
                  std::span<const WrongElement> elements) -> std::optional<Proof> {
    std::vector<double> value, bound;
    for (const WrongElement& e : elements) {
      value.push_back(Quantise(simulate(e.index), scene.plan.output.dtype));
      bound.push_back(e.bound);
    }
    return Agreement(elements, value, bound);
  };
  return {std::move(reads_as), std::move(next_step), std::move(test)};
}

}  // namespace assay
