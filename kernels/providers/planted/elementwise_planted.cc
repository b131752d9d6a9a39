// elementwise operators, correct except for one defect; see the table.
#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <numbers>
#include <utility>
#include <variant>

#include "kernels/ops/elementwise/elementwise_bound.h"
#include "kernels/providers/planted/factories.h"

namespace assay::planted {
namespace {

enum class Defect : std::uint8_t {
  kDroppedMultiply,
  kDroppedSilu,
  kSwappedOperands,
  kWrongRow,
  kWrongColumn,
  kOneRowForAll,
  kDroppedResidual,
  kOtherGelu,
  kSigmoidGelu,
  kExpOverflow,
  kTruncatingOutput,
  kUnwrittenTail,
};

constexpr std::array<std::pair<std::string_view, Defect>, 12> kDefects = {{
    {"dropped-multiply", Defect::kDroppedMultiply},
    {"dropped-silu", Defect::kDroppedSilu},
    {"swapped-operands", Defect::kSwappedOperands},
    {"wrong-row", Defect::kWrongRow},
    {"wrong-column", Defect::kWrongColumn},
    {"one-row-for-all", Defect::kOneRowForAll},
    {"dropped-residual", Defect::kDroppedResidual},
    {"other-gelu", Defect::kOtherGelu},
    {"sigmoid-gelu", Defect::kSigmoidGelu},
    {"exp-overflow", Defect::kExpOverflow},
    {"truncating-output", Defect::kTruncatingOutput},
    {"unwritten-tail", Defect::kUnwrittenTail},
}};

constexpr std::int64_t kTail = 8;  // elements at the end of a row

class ElementwiseKernel : public Kernel {
 public:
  ElementwiseKernel(const ElementwiseProblem& p, Defect defect) : p_(p), defect_(defect) {}

  absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) override {
    for (std::int64_t r = 0; r < p_.rows; ++r) {
      for (std::int64_t c = 0; c < p_.cols; ++c) {
        if (Is(Defect::kUnwrittenTail) && c >= p_.cols - kTail) continue;
        const double b = p_.has_b() ? B(inputs[1], r, c) : 0.0;
        const double y = Of(Get(inputs[0], 0, r, c), b);
        if (Is(Defect::kTruncatingOutput)) {
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
    if (Is(Defect::kWrongColumn)) c = (c + 1) % p_.cols;
    if (Is(Defect::kWrongRow)) r = (r + 1) % p_.rows;
    if (Is(Defect::kOneRowForAll) || p_.broadcast) r = 0;
    return Get(b, 0, r, c);
  }

  double Of(double a, double b) const {
    const ElementwiseKind kind = p_.kind_of();
    switch (defect_) {
      case Defect::kDroppedMultiply:
        return ElementwiseValue(kind, a, 1.0);
      case Defect::kDroppedSilu:
        return a * b;
      case Defect::kSwappedOperands:
        return ElementwiseValue(kind, b, a);
      case Defect::kDroppedResidual:
        return a;
      case Defect::kOtherGelu:
        return ElementwiseValue(
            kind == ElementwiseKind::kGelu ? ElementwiseKind::kGeluTanh : ElementwiseKind::kGelu, a,
            b);
      case Defect::kSigmoidGelu:
        return a / (1 + std::exp(-1.702 * a));
      case Defect::kExpOverflow: {
        const auto x = static_cast<float>(a);
        const float z = std::sqrt(2.0F / std::numbers::pi_v<float>) * (x + 0.044715F * x * x * x);
        const float e = std::exp(2 * z);
        return static_cast<double>(0.5F * x * (1 + (e - 1) / (e + 1)));
      }
      default:
        return ElementwiseValue(kind, a, b);
    }
  }

  const ElementwiseProblem p_;
  const Defect defect_;
};

}  // namespace

Made MakeElementwise(const Case& c, const Plan&, Device&) {
  const std::string_view wanted = DefectOf(c);
  for (const auto& [name, defect] : kDefects) {
    if (name != wanted) continue;
    return std::make_unique<ElementwiseKernel>(std::get<ElementwiseProblem>(c.problem), defect);
  }
  return NoSuchDefect(c);
}

}  // namespace assay::planted
