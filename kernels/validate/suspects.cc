#include "kernels/validate/suspects.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <utility>
#include <variant>

#include "kernels/numerics/bound.h"
#include "kernels/numerics/cat.h"

namespace assay {
namespace {

constexpr std::size_t kMaxTested = 16;
constexpr std::size_t kMostOfRow = 4;  // where there are other rows
// Fewer elements than this could agree by chance.
constexpr std::size_t kLeastTested = 4;
// Input elements a test may read; above, a case is too long to look into.
constexpr std::int64_t kMostRead = std::int64_t{1} << 23;

// Elements of the inputs that the reference of `elements` outputs reads, about.
std::int64_t ReadFor(const Case& c, const Plan& plan, std::int64_t elements) {
  if (const auto* p = std::get_if<AttentionProblem>(&c.problem)) {
    return 2 * p->KvSeq() * p->dim * std::min<std::int64_t>(elements, p->batch * p->heads);
  }
  if (std::holds_alternative<SoftmaxProblem>(c.problem) ||
      std::holds_alternative<LayerNormProblem>(c.problem)) {
    return plan.output.extents.cols * elements;
  }
  if (std::holds_alternative<DequantSoftmaxProblem>(c.problem)) {
    return plan.inputs[1].extents.count() + plan.accumulations * elements;
  }
  return 2 * plan.accumulations * elements;
}

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

std::optional<Conviction> FindSuspect(const Scene& scene, const Anatomy& anatomy) {
  const std::vector<WrongElement> spread = Spread(anatomy.samples);
  if (spread.size() < kLeastTested ||
      ReadFor(scene.c, scene.plan, static_cast<std::int64_t>(spread.size())) > kMostRead) {
    return std::nullopt;
  }
  std::vector<Suspect> suspects;
  if (std::holds_alternative<GemmProblem>(scene.c.problem)) suspects = GemmSuspects(scene);
  if (std::holds_alternative<ConvProblem>(scene.c.problem)) suspects = ConvSuspects(scene);
  if (std::holds_alternative<AttentionProblem>(scene.c.problem))
    suspects = AttentionSuspects(scene);
  if (std::holds_alternative<SoftmaxProblem>(scene.c.problem)) suspects = SoftmaxSuspects(scene);
  if (std::holds_alternative<LayerNormProblem>(scene.c.problem))
    suspects = LayerNormSuspects(scene);
  if (std::holds_alternative<DequantSoftmaxProblem>(scene.c.problem))
    suspects = DequantSoftmaxSuspects(scene);
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

}  // namespace assay
