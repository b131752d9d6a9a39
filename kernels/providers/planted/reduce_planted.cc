// reduce along an axis, correct except for one defect; see the table.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "kernels/providers/planted/factories.h"
#include "kernels/providers/planted/site.h"

namespace assay::planted {
namespace {

enum class Defect : std::uint8_t {
  kDroppedTail,
  kSumInFp16,
  kTf32Elements,
  kDoubledElement,
  kWrongAxis,
  kStaleSlice,
  kTruncatingOutput,
  kNanInTail,
  kZeroStart,
  kOfMagnitudes,
  kLastTie,
  kBlockIndex,
  kNearIndex,
};

constexpr std::array<std::pair<std::string_view, Defect>, 13> kDefects = {{
    {"dropped-tail", Defect::kDroppedTail},
    {"sum-in-16-bits", Defect::kSumInFp16},
    {"tf32-elements", Defect::kTf32Elements},
    {"doubled-element", Defect::kDoubledElement},
    {"wrong-axis", Defect::kWrongAxis},
    {"stale-slice", Defect::kStaleSlice},
    {"truncating-output", Defect::kTruncatingOutput},
    {"nan-in-tail", Defect::kNanInTail},
    {"zero-start", Defect::kZeroStart},
    {"of-magnitudes", Defect::kOfMagnitudes},
    {"last-tie", Defect::kLastTie},
    {"block-index", Defect::kBlockIndex},
    {"near-index", Defect::kNearIndex},
}};

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
      const std::int64_t from = Is(Defect::kStaleSlice) ? std::max<std::int64_t>(0, i - 1) : i;
      const double value = Of(SliceOf(inputs[0], from), i);
      if (Is(Defect::kTruncatingOutput)) {
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
    const bool across = Is(Defect::kWrongAxis);
    const std::int64_t first = across ? i : i / s_.inner * s_.length * s_.inner + i % s_.inner;
    const std::int64_t step = across ? s_.length : s_.inner;
    Slice slice;
    for (std::int64_t l = 0; l < s_.length; ++l) slice.push_back(Get(x, first + l * step));
    return slice;
  }

  double Of(Slice x, std::int64_t output) const {
    const auto length = static_cast<std::int64_t>(x.size());
    if (Is(Defect::kDroppedTail)) x.resize(static_cast<std::size_t>(length / kLanes * kLanes));
    if (Is(Defect::kNanInTail) && output == output_ && length % kLanes != 0) {
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
      sum += Is(Defect::kTf32Elements) ? Quantise(v, DType::kTF32) : v;
      if (Is(Defect::kSumInFp16)) sum = Quantise(sum, DType::kF16);
    }
    const bool doubled = Is(Defect::kDoubledElement) && output == output_;
    return doubled ? sum + x[static_cast<std::size_t>(element_)] : sum;
  }

  double Max(const Slice& x) const {
    double largest = Is(Defect::kZeroStart) ? 0.0 : x[0];
    for (const double v : x) {
      const bool beats = Is(Defect::kOfMagnitudes) ? std::abs(v) > std::abs(largest) : v > largest;
      if (beats) largest = v;
    }
    return largest;
  }

  std::int64_t Argmax(const Slice& x) const {
    std::size_t at = 0;
    for (std::size_t i = 1; i < x.size(); ++i) {
      if (Is(Defect::kLastTie) ? x[i] >= x[at] : x[i] > x[at]) at = i;
    }
    const auto index = static_cast<std::int64_t>(at);
    if (Is(Defect::kBlockIndex)) return index % kBlock;
    // The neighbour of the right one, whatever it holds.
    if (Is(Defect::kNearIndex)) return std::max<std::int64_t>(0, index - 1);
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
  const std::string_view wanted = DefectOf(c);
  for (const auto& [name, defect] : kDefects) {
    if (name != wanted) continue;
    return std::make_unique<ReduceKernel>(std::get<ReduceProblem>(c.problem), defect, Site(c));
  }
  return NoSuchDefect(c);
}

}  // namespace assay::planted
