// rotary embedding, correct except for one defect; see the table.
#include <cmath>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include "kernels/ops/rope/rope_bound.h"
#include "kernels/providers/planted/defect.h"
#include "kernels/providers/planted/factories.h"

namespace assay::inline kernels::planted {
namespace {

constexpr std::string_view kNames[] = {"wrong-sign",    "swapped-halves", "other-pairs",
                                       "next-position", "ignored-start",  "head-as-position",
                                       "wrong-base",    "wrong-exponent", "angle-in-16-bits",
                                       "half-turned",   "unturned",       "unwritten-tail"};
using Defect = NamedDefect<kNames>;

class RopeKernel : public Kernel {
 public:
  RopeKernel(const RopeProblem& p, Defect defect) : p_(p), defect_(defect) {}

  absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) override {
    const bool interleaved = p_.interleaved != Is("other-pairs");
    for (std::int64_t row = 0; row < p_.rows(); ++row) {
      for (std::int64_t i = 0; i < p_.dim / 2; ++i) {
        if (Is("unwritten-tail") && i + 1 == p_.dim / 2) continue;
        const double angle = AngleOf(row, i);
        const double cosine = std::cos(angle);
        const double sine = Is("wrong-sign") ? -std::sin(angle) : std::sin(angle);
        const RopePlace at = PlaceOfPair(i, p_.dim, interleaved);
        const double x1 = Get(inputs[0], 0, row, at.first);
        const double x2 = Get(inputs[0], 0, row, at.first + at.distance);
        double y1 = x1 * cosine - x2 * sine, y2 = x2 * cosine + x1 * sine;
        if (Is("swapped-halves")) std::swap(y1, y2);
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
    if (Is("next-position")) ++position;
    if (Is("ignored-start")) position -= p_.start;
    if (Is("head-as-position")) position = p_.start + row % p_.seq;
    const bool still = Is("unturned") || (Is("half-turned") && i >= p_.dim / 4);
    if (still) return 0.0;
    const double theta = Is("wrong-base") ? 1000.0 : p_.theta;
    // The exponent of a pair is 2i/dim, not i/dim.
    const double share = static_cast<double>(Is("wrong-exponent") ? i : 2 * i);
    const double angle =
        static_cast<double>(position) * std::pow(theta, -share / static_cast<double>(p_.dim));
    return Is("angle-in-16-bits") ? Quantise(angle, DType::kF16) : angle;
  }

  const RopeProblem p_;
  const Defect defect_;
};

}  // namespace

Made MakeRope(const Case& c, const Plan&, Device&) {
  const std::optional<Defect> defect = Defect::Find(DefectOf(c));
  if (!defect) return NoSuchDefect(c);
  return std::make_unique<RopeKernel>(std::get<RopeProblem>(c.problem), *defect);
}

}  // namespace assay::kernels::planted
