// What is usually wrong with a dequant_softmax: where scales and weights are read.
#include <algorithm>
#include <utility>
#include <variant>

#include "kernels/ops/case.h"
#include "kernels/ops/dequant_softmax/dequant_softmax_suspects.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

// The scale of the column `by` further, round the end.
AlteredInputs::Reader ShiftedScales(const Scene& scene, std::int64_t by) {
  const std::int64_t n = std::get<DequantSoftmaxProblem>(scene.c.problem).n;
  return
      [&scene, n, by](std::string_view name, std::int64_t begin, std::int64_t count, double* out) {
        if (name != "scale") return false;
        for (std::int64_t i = 0; i < count; ++i)
          scene.inputs.Read(2, (begin + i + by + n) % n, 1, out + i);
        return true;
      };
}

AlteredInputs::Reader NoScales() {
  return [](std::string_view name, std::int64_t, std::int64_t count, double* out) {
    if (name != "scale") return false;
    std::fill_n(out, count, 1.0);
    return true;
  };
}

AlteredInputs::Reader UnsignedWeights(const Scene& scene) {
  return [&scene](std::string_view name, std::int64_t begin, std::int64_t count, double* out) {
    if (name != "w") return false;
    scene.inputs.Read(1, begin, count, out);
    for (std::int64_t i = 0; i < count; ++i) out[i] += out[i] < 0 ? 256 : 0;
    return true;
  };
}

// The last `width` terms of each sum are 0.
AlteredInputs::Reader ShortSums(const Scene& scene, std::int64_t width) {
  const std::int64_t k = std::get<DequantSoftmaxProblem>(scene.c.problem).k;
  return [&scene, k, width](std::string_view name, std::int64_t begin, std::int64_t count,
                            double* out) {
    if (name != "a") return false;
    scene.inputs.Read(0, begin, count, out);
    for (std::int64_t i = 0; i < count; ++i) {
      if ((begin + i) % k >= k - width) out[i] = 0;
    }
    return true;
  };
}

}  // namespace

std::vector<Suspect> DequantSoftmaxSuspects(const Scene& scene) {
  const auto& p = std::get<DequantSoftmaxProblem>(scene.c.problem);
  std::vector<Suspect> suspects;
  const auto add = [&](AlteredInputs::Reader read, std::string reads_as, std::string next_step) {
    suspects.push_back(
        AlteredCase(scene, scene.c, std::move(read), std::move(reads_as), std::move(next_step)));
  };
  const std::string scales =
      "multiply the sum of column j by scale[j], before the maximum is taken";
  add(NoScales(), "the scales of the columns are left out", scales);
  if (p.n > 1) {
    add(ShiftedScales(scene, 1), "every column has the scale of the column behind it", scales);
    add(ShiftedScales(scene, -1), "every column has the scale of the column before it", scales);
  }
  add(UnsignedWeights(scene), "negative weights are read as unsigned bytes, 256 too large",
      "read W as signed 8-bit integers");
  Case other = scene.c;
  std::get<DequantSoftmaxProblem>(other.problem).transpose_w = !p.transpose_w;
  suspects.push_back(AlteredCase(scene, std::move(other), nullptr,
                                 "W is read in the other order, as if transpose_w were the other",
                                 "look at W's row length: n, or k where transpose_w"));
  for (std::int64_t width = 1; width < p.k && width <= 64; width *= 2) {
    add(ShortSums(scene, width),
        width == 1 ? std::string("the last term of each sum is left out")
                   : Cat("the last ", width, " terms of each sum are left out"),
        "look at the bounds of the loop over k: its last iteration and its remainder");
  }
  return suspects;
}

}  // namespace assay::kernels
