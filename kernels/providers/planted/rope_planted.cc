// rotary embedding, correct except for one defect; see the table.
#include <array>
#include <cmath>
#include <memory>
#include <utility>
#include <variant>

#include "kernels/ops/rope/rope_bound.h"
#include "kernels/providers/planted/factories.h"

namespace assay::planted {
namespace {

enum class Defect : std::uint8_t {
  kWrongSign,
  kSwappedHalves,
  kOtherPairs,
  kNextPosition,
  kIgnoredStart,
  kHeadAsPosition,
  kWrongBase,
  kWrongExponent,
  kAngleIn16Bits,
  kHalfTurned,
  kUnturned,
  kUnwrittenTail,
};

constexpr std::array<std::pair<std::string_view, Defect>, 12> kDefects = {{
    {"wrong-sign", Defect::kWrongSign},
    {"swapped-halves", Defect::kSwappedHalves},
    {"other-pairs", Defect::kOtherPairs},
    {"next-position", Defect::kNextPosition},
    {"ignored-start", Defect::kIgnoredStart},
    {"head-as-position", Defect::kHeadAsPosition},
    {"wrong-base", Defect::kWrongBase},
    {"wrong-exponent", Defect::kWrongExponent},
    {"angle-in-16-bits", Defect::kAngleIn16Bits},
    {"half-turned", Defect::kHalfTurned},
    {"unturned", Defect::kUnturned},
    {"unwritten-tail", Defect::kUnwrittenTail},
}};

class RopeKernel : public Kernel {
 public:
  RopeKernel(const RopeProblem& p, Defect defect) : p_(p), defect_(defect) {}

  absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) override {
    const bool interleaved = p_.interleaved != Is(Defect::kOtherPairs);
    for (std::int64_t row = 0; row < p_.rows(); ++row) {
      for (std::int64_t i = 0; i < p_.dim / 2; ++i) {
        if (Is(Defect::kUnwrittenTail) && i + 1 == p_.dim / 2) continue;
        const double angle = AngleOf(row, i);
        const double cosine = std::cos(angle);
        const double sine = Is(Defect::kWrongSign) ? -std::sin(angle) : std::sin(angle);
        const RopePlace at = PlaceOfPair(i, p_.dim, interleaved);
        const double x1 = Get(inputs[0], 0, row, at.first);
        const double x2 = Get(inputs[0], 0, row, at.first + at.distance);
        double y1 = x1 * cosine - x2 * sine, y2 = x2 * cosine + x1 * sine;
        if (Is(Defect::kSwappedHalves)) std::swap(y1, y2);
        Put(output, 0, row, at.first, y1);
        Put(output, 0, row, at.first + at.distance, y2);
      }
    }
    return absl::OkStatus();
  }

 private:
  bool Is(Defect defect) const { return defect_ == defect; }

  double AngleOf(std::int64_t row, std::int64_t i) const {
    std::int64_t position = p_.PositionOf(row);
    if (Is(Defect::kNextPosition)) ++position;
    if (Is(Defect::kIgnoredStart)) position -= p_.start;
    if (Is(Defect::kHeadAsPosition)) position = p_.start + row % p_.seq;
    const bool still = Is(Defect::kUnturned) || (Is(Defect::kHalfTurned) && i >= p_.dim / 4);
    if (still) return 0.0;
    const double theta = Is(Defect::kWrongBase) ? 1000.0 : p_.theta;
    // The exponent of a pair is 2i/dim, not i/dim.
    const double share = static_cast<double>(Is(Defect::kWrongExponent) ? i : 2 * i);
    const double angle =
        static_cast<double>(position) * std::pow(theta, -share / static_cast<double>(p_.dim));
    return Is(Defect::kAngleIn16Bits) ? Quantise(angle, DType::kF16) : angle;
  }

  const RopeProblem p_;
  const Defect defect_;
};

}  // namespace

Made MakeRope(const Case& c, const Plan&, Device&) {
  const std::string_view wanted = DefectOf(c);
  for (const auto& [name, defect] : kDefects) {
    if (name != wanted) continue;
    return std::make_unique<RopeKernel>(std::get<RopeProblem>(c.problem), defect);
  }
  return NoSuchDefect(c);
}

}  // namespace assay::planted
