// What rope knows of wrong results of its kernels.
#include <utility>
#include <variant>

#include "kernels/ops/case.h"
#include "kernels/ops/diagnostics.h"
#include "kernels/ops/rope/rope_reference.h"

namespace assay::inline kernels {
namespace {

// What a faulty kernel does otherwise.
struct Fault {
  double sign = 1;          // of the sine
  bool swapped = false;     // the outputs of a pair are exchanged
  bool other_form = false;  // pairs are those of the other form
  std::int64_t shift = 0;   // of the position
  bool still = false;       // nothing is turned
};

// An element by a faulty kernel.
double Turned(const Scene& scene, const Fault& fault, std::int64_t index) {
  const auto& p = std::get<RopeProblem>(scene.c.problem);
  const RopeTerms terms = MakeRopeTerms(p, scene.c.dtype, scene.plan);
  const std::int64_t row = index / p.dim, col = index % p.dim;
  const bool interleaved = p.interleaved != fault.other_form;
  const std::int64_t pair = interleaved ? col / 2 : col % (p.dim / 2);
  const RopePlace at = PlaceOfPair(pair, p.dim, interleaved);
  double x1 = 0, x2 = 0;
  scene.inputs.Read(0, row * p.dim + at.first, 1, &x1);
  scene.inputs.Read(0, row * p.dim + at.first + at.distance, 1, &x2);
  const double angle = fault.still ? 0.0
                                   : static_cast<double>(p.PositionOf(row) + fault.shift) *
                                         RopeFrequency(terms, pair);
  const RopePair turned =
      MakeRopePair(terms, 0.0, std::cos(angle), fault.sign * std::sin(angle), x1, x2);
  return (col == at.first) != fault.swapped ? turned.first : turned.second;
}

Suspect Faulty(const Scene& scene, const Fault& fault, std::string reads_as,
               std::string next_step) {
  return Simulated(
      scene, [&scene, fault](std::int64_t index) { return Turned(scene, fault, index); },
      std::move(reads_as), std::move(next_step));
}

class OfRope final : public Diagnostics {
 public:
  bool StaysFinite(const Signs&) const override { return true; }

  std::vector<Suspect> Suspects(const Scene& scene) const override {
    const auto& p = std::get<RopeProblem>(scene.c.problem);
    const std::string_view other = p.interleaved ? "dim/2 apart" : "neighbours";
    std::vector<Suspect> suspects = {
        Faulty(scene, {.sign = -1}, "pairs are turned the other way: the sine has the wrong sign",
               "compute x1·cos - x2·sin and x2·cos + x1·sin"),
        Faulty(scene, {.swapped = true}, "the two elements of each pair are exchanged",
               "write x1·cos - x2·sin to the first element of the pair"),
        Faulty(scene, {.other_form = true}, std::string("pairs are taken to be ").append(other),
               "use the pairing that the case asks for (rope.interleaved)"),
        Faulty(scene, {.shift = 1}, "positions are one too high",
               "the first position of a sequence is rope.start"),
        Faulty(scene, {.still = true}, "nothing is turned: the output is the input",
               "turn every pair by position·theta^(-2i/dim)"),
    };
    if (p.start != 0) {
      suspects.push_back(Faulty(scene, {.shift = -p.start},
                                "positions begin at 0, not at rope.start",
                                "add rope.start to every position"));
    }
    return suspects;
  }

  std::int64_t ReadFor(const Case&, const Plan& plan, std::int64_t elements) const override {
    return plan.output.extents.cols * elements;
  }
};

}  // namespace

const Diagnostics& RopeDiagnostics() {
  static const OfRope diagnostics;
  return diagnostics;
}

}  // namespace assay::kernels
