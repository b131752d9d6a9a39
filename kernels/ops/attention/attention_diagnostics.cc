// What attention knows of wrong results of its kernels.
#include <algorithm>
#include <cmath>
#include <variant>

#include "kernels/ops/attention/attention_suspects.h"
#include "kernels/ops/case.h"
#include "kernels/ops/common/diagnosing.h"
#include "kernels/ops/diagnostics.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

std::optional<Reading> MaskedRows(const Signs& s) {
  if (s.compare.unexpected_nan == 0) return std::nullopt;
  const auto& p = std::get<AttentionProblem>(s.c.problem);
  const bool may_be_empty = p.masked() || (p.causal && p.KvSeq() < p.seq);
  const auto& samples = s.compare.samples;
  const bool zeros =
      !samples.empty() && std::all_of(samples.begin(), samples.end(), [](const ElementSample& e) {
        return e.expected == 0.0 && std::isnan(e.actual);
      });
  if (!may_be_empty || !zeros || p.masked_rows != "zero") return std::nullopt;
  return Reading{"rows in which every key is masked come out as NaN (0/0), and 0 is asked for",
                 "give such rows 0, or say --masked-rows nan where NaN is the policy",
                 "masked-rows"};
}

class OfAttention final : public Diagnostics {
 public:
  std::optional<Reading> NonFinite(const Signs& signs) const override {
    if (std::optional<Reading> masked = MaskedRows(signs)) return masked;
    if (!signs.made_by_kernel) return std::nullopt;
    return ExpOverflows(signs.c, signs.max_abs_score.value_or(0), "score is");
  }

  bool StaysFinite(const Signs& signs) const override {
    return signs.max_abs_score.value_or(ExpLimit()) < ExpLimit();
  }

  std::string_view OutsideLoads() const override {
    return "look at the last tile of keys: what lies behind kv_seq must not be loaded, for a "
           "weight "
           "of 0 times NaN is NaN";
  }

  std::string_view TileEdges(const Case& c, std::string_view axis) const override {
    const bool causal = std::get<AttentionProblem>(c.problem).causal;
    return causal && axis == "row" ? "look at the causal mask's comparison at tile edges" : "";
  }

  std::vector<std::pair<std::string, double>> Factors(const Case& c) const override {
    const auto& p = std::get<AttentionProblem>(c.problem);
    return {{"scale_v", p.scale_v}, {"√dim", std::sqrt(static_cast<double>(p.dim))}};
  }

  Reading RowFactor(const Case&) const override {
    return {": the sum of the exponentials (l) is wrong, their weights are right",
            "keep l in FP32, and rescale it whenever the running maximum grows"};
  }

  bool Exponentials() const override { return true; }

  std::optional<Reading> FailedProbe(std::string_view name,
                                     const ElementSample* first) const override {
    if (name == "key-groups") return ScoresOverflow(name, first);
    const bool far = name == "far-above-0" || name == "far-below-0";
    // A maximum that begins too high, or is not subtracted, leaves NaN, Inf or 0.
    if (far && first != nullptr && std::isfinite(first->actual) && first->actual != 0.0) {
      return Reading{Cat("with scores far from 0, the wrong key gets the weight (", name,
                         "): they are rounded to few digits, so that their order is lost, or they "
                         "are limited, or a hidden key keeps a weight"),
                     "take the scores as they are, in FP32, and give hidden keys the score -Inf; "
                     "if scores are meant to have fewer digits, declare their format with "
                     "--intermediate-dtype"};
    }
    if (name == "far-above-0") {
      return Reading{
          "scores far above 0 come out wrong (far-above-0): they are limited, or the row's maximum "
          "is not subtracted",
          "take the scores as they are, and subtract the largest visible one before exp"};
    }
    if (name == "far-below-0") {
      return Reading{
          "scores far below 0 come out wrong (far-below-0): the running maximum begins above them, "
          "or hidden keys keep a weight",
          "begin the maximum at -Inf, and give hidden keys the score -Inf"};
    }
    if (name == "small-weights") {
      return Reading{"weights far below 1 are lost (small-weights)",
                     "sum every weight, however small; a key's V may be all that an element has"};
    }
    return std::nullopt;
  }

  std::vector<Suspect> Suspects(const Scene& scene) const override {
    return AttentionSuspects(scene);
  }

  std::int64_t ReadFor(const Case& c, const Plan&, std::int64_t elements) const override {
    const auto& p = std::get<AttentionProblem>(c.problem);
    return 2 * p.KvSeq() * p.dim * std::min<std::int64_t>(elements, p.batch * p.heads);
  }
};

}  // namespace

const Diagnostics& AttentionDiagnostics() {
  static const OfAttention diagnostics;
  return diagnostics;
}

}  // namespace assay::kernels
