// What conv knows of wrong results of its kernels.
#include <utility>
#include <variant>

#include "kernels/ops/case.h"
#include "kernels/ops/common/diagnosing.h"
#include "kernels/ops/diagnostics.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

// The taps of the filters: left out, or in the other order.
std::vector<Suspect> ConvSuspects(const Scene& scene) {
  const auto& p = std::get<ConvProblem>(scene.c.problem);
  std::int64_t taps = 1;
  for (const std::int64_t extent : p.kernel) taps *= extent;
  const std::int64_t channels = p.channels / p.groups;
  const bool last = p.layout == "nhwc";
  // The tap of a filter's weights that an element of w is.
  const auto tap_of = [=](std::int64_t at) {
    const std::int64_t within = at % (taps * channels);
    return last ? within / channels : within % taps;
  };
  std::vector<Suspect> suspects;
  const auto add = [&](AlteredInputs::Reader read, std::string reads_as, std::string next_step) {
    suspects.push_back(
        AlteredCase(scene, scene.c, std::move(read), std::move(reads_as), std::move(next_step)));
  };
  const auto without = [&scene, tap_of](std::int64_t tap) -> AlteredInputs::Reader {
    return [&scene, tap_of, tap](std::string_view name, std::int64_t begin, std::int64_t count,
                                 double* out) {
      if (name != "w") return false;
      scene.inputs.Read(1, begin, count, out);
      for (std::int64_t i = 0; i < count; ++i) {
        if (tap_of(begin + i) == tap) out[i] = 0;
      }
      return true;
    };
  };
  if (taps > 1) {
    const char* const loops = "look at the bounds of the loops over the filter's taps";
    add(without(taps - 1), "the last tap of the filters is left out", loops);
    add(without(0), "the first tap of the filters is left out", loops);
    add(
        [&scene, tap_of, taps, channels, last](std::string_view name, std::int64_t begin,
                                               std::int64_t count, double* out) {
          if (name != "w") return false;
          for (std::int64_t i = 0; i < count; ++i) {
            const std::int64_t tap = tap_of(begin + i);
            const std::int64_t step = (taps - 1 - 2 * tap) * (last ? channels : 1);
            scene.inputs.Read(1, begin + i + step, 1, out + i);
          }
          return true;
        },
        "the filters are flipped: a convolution in the strict sense, not a cross-correlation",
        "walk the filter in the input's order, not against it");
  }
  return suspects;
}

class OfConv final : public Diagnostics {
 public:
  std::optional<Reading> NonFinite(const Signs& signs) const override {
    return SumOverflows(signs);
  }

  bool StaysFinite(const Signs& signs) const override {
    return LargestSum(signs) < Info(DType::kF16).max_finite;
  }

  // Whole groups of filters are wrong, and no others.
  std::optional<Reading> Place(const Signs& signs) const override {
    using Kind = AxisErrors::Kind;
    const auto& p = std::get<ConvProblem>(signs.c.problem);
    if (p.groups < 2) return std::nullopt;
    const std::int64_t filters = p.filters / p.groups;
    for (const AxisErrors& axis : signs.axes) {
      if (axis.name != "filter" || axis.hit != axis.last - axis.first + 1) continue;
      const bool selective = axis.kind == Kind::kRange || axis.kind == Kind::kSingle;
      if (!selective || axis.first % filters != 0 || axis.hit % filters != 0) continue;
      const std::int64_t first = axis.first / filters + 1;
      const std::int64_t last = (axis.last + 1) / filters;
      return Reading{
          Cat("the wrong filters, ", axis.first, " to ", axis.last, ", are ",
              first == last ? Cat("group ", first) : Cat("groups ", first, " to ", last), " of ",
              p.groups, ", whole and alone"),
          "look at which channels and weights a group's filters read: those of its own group",
          "whole-groups"};
    }
    return std::nullopt;
  }

  std::vector<Suspect> Suspects(const Scene& scene) const override { return ConvSuspects(scene); }
};

}  // namespace

const Diagnostics& ConvDiagnostics() {
  static const OfConv diagnostics;
  return diagnostics;
}

}  // namespace assay::kernels
