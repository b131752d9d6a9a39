// reduce along an axis, correct except for one defect; see the table.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "kernels/providers/planted/defect.h"
#include "kernels/providers/planted/factories.h"
#include "kernels/providers/planted/site.h"

namespace assay::inline kernels::planted {
namespace {

constexpr std::string_view kNames[] = {
    "dropped-tail", "sum-in-16-bits",    "tf32-elements", "doubled-element", "wrong-axis",
    "stale-slice",  "truncating-output", "nan-in-tail",   "zero-start",      "of-magnitudes",
    "last-tie",     "block-index",       "near-index"};
using Defect = NamedDefect<kNames>;

constexpr std::int64_t kLanes = 8;   // elements of a slice that are taken together
constexpr std::int64_t kBlock = 32;  // elements whose largest is found first

class ReduceKernel : public Kernel {
 public:
  ReduceKernel(const ReduceProblem& p, Defect defect, const Site& site)
      : s_(p.Split()),
        kind_(p.kind_of()),
        defect_(defect),
        output_(site.Draw(0, s_.outer * s_.inner)),
        element_(site.Draw(1, s_.length)) {}

  absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) override {
    for (std::int64_t i = 0; i < s_.outer * s_.inner; ++i) {
      const std::int64_t from = Is("stale-slice") ? std::max<std::int64_t>(0, i - 1) : i;
      const double value = Of(SliceOf(inputs[0], from), i);
      if (Is("truncating-output")) {
        StoreBits(output.dtype, output.data, i, Truncated(value, output.dtype));
      } else {
        Put(output, i, value);
      }
    }
    return absl::OkStatus();
  }

 private:
  using Slice = std::vector<double>;

  bool Is(Defect defect) const { return defect_ == defect; }

  Slice SliceOf(const TensorView& x, std::int64_t i) const {
    // A square matrix that is read along its other axis.
    const bool across = Is("wrong-axis");
    const std::int64_t first = across ? i : i / s_.inner * s_.length * s_.inner + i % s_.inner;
    const std::int64_t step = across ? s_.length : s_.inner;
    Slice slice;
    for (std::int64_t l = 0; l < s_.length; ++l) slice.push_back(Get(x, first + l * step));
    return slice;
  }

  double Of(Slice x, std::int64_t output) const {
    const auto length = static_cast<std::int64_t>(x.size());
    if (Is("dropped-tail")) x.resize(static_cast<std::size_t>(length / kLanes * kLanes));
    if (Is("nan-in-tail") && output == output_ && length % kLanes != 0) {
      return std::numeric_limits<double>::quiet_NaN();
    }
    switch (kind_) {
      case ReduceKind::kSum:
        return Sum(x, output);
      case ReduceKind::kMax:
        return Max(x);
      case ReduceKind::kArgmax:
        return static_cast<double>(Argmax(x));
    }
    return 0;
  }

  double Sum(const Slice& x, std::int64_t output) const {
    double sum = 0;
    for (const double v : x) {
      sum += Is("tf32-elements") ? Quantise(v, DType::kTF32) : v;
      if (Is("sum-in-16-bits")) sum = Quantise(sum, DType::kF16);
    }
    const bool doubled = Is("doubled-element") && output == output_;
    return doubled ? sum + x[static_cast<std::size_t>(element_)] : sum;
  }

  double Max(const Slice& x) const {
    double largest = Is("zero-start") ? 0.0 : x[0];
    for (const double v : x) {
      const bool beats = Is("of-magnitudes") ? std::abs(v) > std::abs(largest) : v > largest;
      if (beats) largest = v;
    }
    return largest;
  }

  std::int64_t Argmax(const Slice& x) const {
    std::size_t at = 0;
    for (std::size_t i = 1; i < x.size(); ++i) {
      if (Is("last-tie") ? x[i] >= x[at] : x[i] > x[at]) at = i;
    }
    const auto index = static_cast<std::int64_t>(at);
    if (Is("block-index")) return index % kBlock;
    // The neighbour of the right one, whatever it holds.
    if (Is("near-index")) return std::max<std::int64_t>(0, index - 1);
    return index;
  }

  const ReduceShape s_;
  const ReduceKind kind_;
  const Defect defect_;
  const std::int64_t output_;   // the output of a defect that only one has
  const std::int64_t element_;  // its element
};

}  // namespace

Made MakeReduce(const Case& c, const Plan&, Device&) {
  const std::optional<Defect> defect = Defect::Find(DefectOf(c));
  if (!defect) return NoSuchDefect(c);
  return std::make_unique<ReduceKernel>(std::get<ReduceProblem>(c.problem), *defect, Site(c));
}

}  // namespace assay::kernels::planted
