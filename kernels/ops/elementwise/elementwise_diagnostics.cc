// What elementwise knows of wrong results of its kernels.
#include <cmath>
#include <functional>
#include <utility>
#include <variant>

#include "kernels/ops/case.h"
#include "kernels/ops/diagnostics.h"
#include "kernels/ops/elementwise/elementwise_bound.h"

namespace assay::inline kernels {
namespace {

using Faulty = std::function<double(double a, double b)>;

// The suspect that every element is what `faulty` makes of a and b, with b read from `b_at`.
Suspect OfOperands(const Scene& scene, Faulty faulty,
                   std::function<std::int64_t(std::int64_t)> b_at, std::string reads_as,
                   std::string next_step) {
  auto simulate = [&scene, faulty = std::move(faulty), b_at = std::move(b_at)](std::int64_t index) {
    double a = 0, b = 0;
    scene.inputs.Read(0, index, 1, &a);
    if (scene.plan.inputs.size() > 1) scene.inputs.Read(1, b_at(index), 1, &b);
    return faulty(a, b);
  };
  return Simulated(scene, std::move(simulate), std::move(reads_as), std::move(next_step));
}

std::vector<Suspect> SuspectsOf(const Scene& scene) {
  const auto& p = std::get<ElementwiseProblem>(scene.c.problem);
  const ElementwiseKind kind = p.kind_of();
  const std::int64_t cols = p.cols, rows = p.rows;
  const auto b_at = [p](std::int64_t i) { return p.broadcast ? i % p.cols : i; };
  std::vector<Suspect> suspects;
  const auto add = [&](Faulty faulty, std::string reads_as, std::string next_step) {
    suspects.push_back(
        OfOperands(scene, std::move(faulty), b_at, std::move(reads_as), std::move(next_step)));
  };
  switch (kind) {
    case ElementwiseKind::kAdd:
      add([](double a, double) { return a; }, "b is not added", "add b to every element");
      break;
    case ElementwiseKind::kSiluMul:
      add([](double a, double) { return ElementwiseValue(ElementwiseKind::kSiluMul, a, 1.0); },
          "silu(a) is not multiplied by b", "multiply silu(a) by b");
      add([](double a, double b) { return a * b; }, "silu is left out: the output is a·b",
          "take silu of a before the product");
      add([](double a, double b) { return ElementwiseValue(ElementwiseKind::kSiluMul, b, a); },
          "silu is taken of b, not of a: the operands are exchanged",
          "take silu of the first operand, the gate");
      break;
    case ElementwiseKind::kGelu:
    case ElementwiseKind::kGeluTanh: {
      const bool tanh = kind == ElementwiseKind::kGeluTanh;
      add(
          [tanh](double a, double) {
            return ElementwiseValue(tanh ? ElementwiseKind::kGelu : ElementwiseKind::kGeluTanh, a,
                                    0);
          },
          tanh ? "GELU is taken by erf, not by tanh" : "GELU is taken by tanh, not by erf",
          "use the form that the case asks for");
      add([](double a, double) { return a / (1 + std::exp(-1.702 * a)); },
          "GELU is taken as a·sigmoid(1.702·a)", "use the form that the case asks for");
      break;
    }
  }
  if (p.broadcast && rows > 1) {
    suspects.push_back(OfOperands(
        scene, [kind](double a, double b) { return ElementwiseValue(kind, a, b); },
        [cols](std::int64_t i) { return (i % cols + 1) % cols; },
        "b is read one column to the right", "read b[j] for column j"));
  }
  return suspects;
}

class OfElementwise final : public Diagnostics {
 public:
  bool StaysFinite(const Signs& signs) const override {
    // exp(−a) may be infinite on the way to a result of 0; no kernel divides by 0.
    return std::get<ElementwiseProblem>(signs.c.problem).kind_of() == ElementwiseKind::kAdd;
  }

  std::optional<Reading> NonFinite(const Signs& signs) const override {
    const auto& p = std::get<ElementwiseProblem>(signs.c.problem);
    if (!signs.made_by_kernel || p.kind_of() == ElementwiseKind::kAdd) return std::nullopt;
    if (signs.compare.unexpected_nan == 0) return std::nullopt;
    return Reading{
        "NaN from finite inputs: an infinite exp is divided by an infinite exp, as in "
        "(exp(2t) - 1)/(exp(2t) + 1)",
        "write the quotient so that it has one exp, of a number that is not positive",
        "exp-overflows"};
  }

  std::vector<Suspect> Suspects(const Scene& scene) const override { return SuspectsOf(scene); }

  std::int64_t ReadFor(const Case&, const Plan& plan, std::int64_t elements) const override {
    return static_cast<std::int64_t>(plan.inputs.size()) * elements;
  }
};

}  // namespace

const Diagnostics& ElementwiseDiagnostics() {
  static const OfElementwise diagnostics;
  return diagnostics;
}

}  // namespace assay::kernels
