// What gemm knows of wrong results of its kernels.
#include <variant>

#include "kernels/ops/case.h"
#include "kernels/ops/common/diagnosing.h"
#include "kernels/ops/diagnostics.h"
#include "kernels/ops/gemm/gemm_suspects.h"

namespace assay::inline kernels {
namespace {

class OfGemm final : public Diagnostics {
 public:
  std::optional<Reading> NonFinite(const Signs& signs) const override {
    return SumOverflows(signs);
  }

  bool StaysFinite(const Signs& signs) const override {
    return LargestSum(signs) < Info(DType::kF16).max_finite;
  }

  std::vector<std::pair<std::string, double>> Factors(const Case& c) const override {
    const auto& p = std::get<GemmProblem>(c.problem);
    return {{"alpha", p.alpha},
            {"scale_a", p.scale_a},
            {"scale_b", p.scale_b},
            {"k", static_cast<double>(p.k)}};
  }

  std::vector<Suspect> Suspects(const Scene& scene) const override { return GemmSuspects(scene); }
};

}  // namespace

const Diagnostics& GemmDiagnostics() {
  static const OfGemm diagnostics;
  return diagnostics;
}

}  // namespace assay::kernels
