// What reduce knows of wrong results of its kernels.
#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <utility>
#include <variant>

#include "kernels/ops/case.h"
#include "kernels/ops/common/diagnosing.h"
#include "kernels/ops/diagnostics.h"
#include "kernels/ops/reduce/reduce_bound.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

using Slice = std::vector<double>;
using Faulty = std::function<double(const Slice&)>;

// The elements behind an output.
Slice SliceOf(const Scene& scene, std::int64_t index) {
  const ReduceShape s = std::get<ReduceProblem>(scene.c.problem).Split();
  Slice x(static_cast<std::size_t>(s.length));
  const std::int64_t begin = index / s.inner * s.length * s.inner + index % s.inner;
  if (s.inner == 1) {
    scene.inputs.Read(0, begin, s.length, x.data());
    return x;
  }
  for (std::int64_t l = 0; l < s.length; ++l) {
    scene.inputs.Read(0, begin + l * s.inner, 1, x.data() + l);
  }
  return x;
}

// The suspect that every output is what `faulty` makes of its slice.
Suspect OfSlices(const Scene& scene, Faulty faulty, std::string reads_as, std::string next_step) {
  auto simulate = [&scene, faulty = std::move(faulty)](std::int64_t index) {
    return faulty(SliceOf(scene, index));
  };
  return Simulated(scene, std::move(simulate), std::move(reads_as), std::move(next_step));
}

double Sum(std::span<const double> x) {
  SliceSum sum;
  for (const double v : x) sum.Take(v);
  return sum.sum;
}

SliceLargest LargestOf(std::span<const double> x) {
  SliceLargest largest;
  for (std::size_t i = 0; i < x.size(); ++i) largest.Take(x[i], static_cast<std::int64_t>(i));
  return largest;
}

std::vector<Suspect> SuspectsOf(const Scene& scene) {
  const auto& p = std::get<ReduceProblem>(scene.c.problem);
  const ReduceKind kind = p.kind_of();
  const auto result = [kind](std::span<const double> x) {
    if (kind == ReduceKind::kSum) return Sum(x);
    const SliceLargest largest = LargestOf(x);
    return kind == ReduceKind::kMax ? largest.value : static_cast<double>(largest.index);
  };
  std::vector<Suspect> suspects;
  const std::int64_t length = p.Split().length;
  // What lies behind the last whole vector of some width, and the last element alone.
  std::set<std::int64_t> tails = {1};
  for (const std::int64_t width : {4, 8, 16, 32, 64, 128, 256}) tails.insert(length % width);
  for (const std::int64_t tail : tails) {
    if (tail == 0 || tail >= length) continue;
    suspects.push_back(OfSlices(
        scene,
        [result, tail](const Slice& x) {
          return result({x.data(), x.size() - static_cast<std::size_t>(tail)});
        },
        Cat("the last ", tail, " of ", length, " elements of each slice are left out"),
        "look at the bounds of the loop along the axis: its last iteration and its remainder"));
  }
  if (length > 1) {
    suspects.push_back(OfSlices(
        scene,
        [result](const Slice& x) {
          return result({x.data() + 1, x.size() - 1});
        },
        "the first element of each slice is left out, or indices begin there",
        "look at where the loop along the axis begins, and at what an accumulator starts with"));
  }
  if (kind == ReduceKind::kMax) {
    suspects.push_back(OfSlices(
        scene, [](const Slice& x) { return std::max(0.0, LargestOf(x).value); },
        "the maximum of negative elements is 0: the accumulator starts at 0",
        "start with -Inf, or with the first element"));
  }
  if (kind == ReduceKind::kArgmax) {
    suspects.push_back(OfSlices(
        scene,
        [](const Slice& x) {
          const double most = LargestOf(x).value;
          const auto last =
              std::find_if(x.rbegin(), x.rend(), [&](double v) { return Ties(v, most); });
          return static_cast<double>(x.rend() - last - 1);
        },
        "of equal elements the last index is given, not the first",
        "compare with > and not with >=; where partial results meet, let the lower index win"));
  }
  return suspects;
}

class OfReduce final : public Diagnostics {
 public:
  std::optional<Reading> NonFinite(const Signs& signs) const override {
    if (std::get<ReduceProblem>(signs.c.problem).kind_of() != ReduceKind::kSum) return std::nullopt;
    if (!signs.made_by_kernel || signs.c.dtype == DType::kF64) return std::nullopt;
    const double fp16 = Info(DType::kF16).max_finite;
    const double sum = static_cast<double>(signs.plan.accumulations) *
                       (signs.inputs.empty() ? 0.0 : signs.inputs.front().largest());
    if (!(sum > fp16 && sum < Info(DType::kF32).max_finite)) return std::nullopt;
    return Reading{Cat(UnexpectedKinds(signs.compare),
                       " though every result is finite: a sum may pass the largest fp16 on its "
                       "way, which an accumulator in FP32 holds"),
                   "accumulate in FP32 and round once, at the end", "sum-overflows"};
  }

  bool StaysFinite(const Signs& signs) const override {
    return std::get<ReduceProblem>(signs.c.problem).kind_of() != ReduceKind::kSum;
  }

  std::optional<Reading> FailedProbe(std::string_view name,
                                     const ElementSample* first) const override {
    if (name != "negative-integers" || first == nullptr || first->actual != 0.0) {
      return std::nullopt;
    }
    return Reading{"0 where every element is negative: the accumulator starts at 0",
                   "start with -Inf, or with the first element"};
  }

  std::vector<Suspect> Suspects(const Scene& scene) const override { return SuspectsOf(scene); }

  std::int64_t ReadFor(const Case& c, const Plan&, std::int64_t elements) const override {
    return std::get<ReduceProblem>(c.problem).Split().length * elements;
  }
};

}  // namespace

const Diagnostics& ReduceDiagnostics() {
  static const OfReduce diagnostics;
  return diagnostics;
}

}  // namespace assay::kernels
