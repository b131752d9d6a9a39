// What dequant_softmax knows of wrong results of its kernels.
#include <cmath>

#include "kernels/ops/case.h"
#include "kernels/ops/common/diagnosing.h"
#include "kernels/ops/dequant_softmax/dequant_softmax_suspects.h"
#include "kernels/ops/diagnostics.h"

namespace assay::inline kernels {
namespace {

// The largest logit, about: four deviations of sums of products whose signs are
// independent.
double LargestLogit(const Signs& signs) {
  double logit = 4 * std::sqrt(static_cast<double>(signs.plan.accumulations));
  for (const OperandStats& o : signs.inputs) logit *= o.rms.value_or(0);
  return logit;
}

class OfDequantSoftmax final : public Diagnostics {
 public:
  std::optional<Reading> NonFinite(const Signs& signs) const override {
    if (!signs.made_by_kernel) return std::nullopt;
    return ExpOverflows(signs.c, LargestLogit(signs), "logit is about");
  }

  Reading RowFactor(const Case&) const override { return SoftmaxRowFactor(); }
  bool Exponentials() const override { return true; }

  std::optional<Reading> FailedProbe(std::string_view name,
                                     const ElementSample* first) const override {
    return name == "argmax" ? ScoresOverflow(name, first) : std::nullopt;
  }

  std::vector<Suspect> Suspects(const Scene& scene) const override {
    return DequantSoftmaxSuspects(scene);
  }

  std::int64_t ReadFor(const Case&, const Plan& plan, std::int64_t elements) const override {
    return plan.inputs[1].extents.count() + plan.accumulations * elements;
  }
};

}  // namespace

const Diagnostics& DequantSoftmaxDiagnostics() {
  static const OfDequantSoftmax diagnostics;
  return diagnostics;
}

}  // namespace assay::kernels
