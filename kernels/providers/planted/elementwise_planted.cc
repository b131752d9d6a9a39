// elementwise operators, correct except for one defect; see the table.
#include <cmath>
#include <memory>
#include <numbers>
#include <optional>
#include <variant>

#include "kernels/ops/elementwise/elementwise_bound.h"
#include "kernels/providers/planted/defect.h"
#include "kernels/providers/planted/factories.h"

namespace assay::inline kernels::planted {
namespace {

constexpr std::string_view kNames[] = {"dropped-multiply", "dropped-silu",      "swapped-operands",
                                       "wrong-row",        "wrong-column",      "one-row-for-all",
                                       "dropped-residual", "other-gelu",        "sigmoid-gelu",
                                       "exp-overflow",     "truncating-output", "unwritten-tail"};
using Defect = NamedDefect<kNames>;

constexpr std::int64_t kTail = 8;  // elements at the end of a row

class ElementwiseKernel : public Kernel {
 public:
  ElementwiseKernel(const ElementwiseProblem& p, Defect defect) : p_(p), defect_(defect) {}

  absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) override {
    for (std::int64_t r = 0; r < p_.rows; ++r) {
      for (std::int64_t c = 0; c < p_.cols; ++c) {
        if (Is("unwritten-tail") && c >= p_.cols - kTail) continue;
        const double b = p_.has_b() ? B(inputs[1], r, c) : 0.0;
        const double y = Of(Get(inputs[0], 0, r, c), b);
        if (Is("truncating-output")) {
          PutBits(output, 0, r, c, Truncated(y, output.dtype));
        } else {
          Put(output, 0, r, c, y);
        }
      }
    }
    return absl::OkStatus();
  }

 private:
  bool Is(Defect defect) const { return defect_ == defect; }

  double B(const TensorView& b, std::int64_t r, std::int64_t c) const {
    if (Is("wrong-column")) c = (c + 1) % p_.cols;
    if (Is("wrong-row")) r = (r + 1) % p_.rows;
    if (Is("one-row-for-all") || p_.broadcast) r = 0;
    return Get(b, 0, r, c);
  }

  double Of(double a, double b) const {
    const ElementwiseKind kind = p_.kind_of();
    if (Is("dropped-multiply")) return ElementwiseValue(kind, a, 1.0);
    if (Is("dropped-silu")) return a * b;
    if (Is("swapped-operands")) return ElementwiseValue(kind, b, a);
    if (Is("dropped-residual")) return a;
    if (Is("other-gelu")) {
      return ElementwiseValue(
          kind == ElementwiseKind::kGelu ? ElementwiseKind::kGeluTanh : ElementwiseKind::kGelu, a,
          b);
    }
    if (Is("sigmoid-gelu")) return a / (1 + std::exp(-1.702 * a));
    if (Is("exp-overflow")) {
      const auto x = static_cast<float>(a);
      const float z = std::sqrt(2.0F / std::numbers::pi_v<float>) * (x + 0.044715F * x * x * x);
      const float e = std::exp(2 * z);
      return static_cast<double>(0.5F * x * (1 + (e - 1) / (e + 1)));
    }
    return ElementwiseValue(kind, a, b);
  }

  const ElementwiseProblem p_;
  const Defect defect_;
};

}  // namespace

Made MakeElementwise(const Case& c, const Plan&, Device&) {
  const std::optional<Defect> defect = Defect::Find(DefectOf(c));
  if (!defect) return NoSuchDefect(c);
  return std::make_unique<ElementwiseKernel>(std::get<ElementwiseProblem>(c.problem), *defect);
}

}  // namespace assay::kernels::planted
