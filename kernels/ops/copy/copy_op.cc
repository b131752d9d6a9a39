// copy as an operator. Its reference is the input itself, so there is no file for
// it: values go through FP64, which holds every format's.
#include <algorithm>
#include <limits>

#include "kernels/numerics/unit_places.h"
#include "kernels/ops/common/planning.h"
#include "kernels/ops/common/probe_data.h"
#include "kernels/ops/common/view_inputs.h"
#include "kernels/ops/diagnostics.h"
#include "kernels/ops/op.h"
#include "kernels/runtime/cpu/parallel.h"

namespace assay::inline kernels {
namespace {

class CopyDiagnostics final : public Diagnostics {
 public:
  bool StaysFinite(const Signs&) const override { return true; }
};

class Copy final : public Op {
 public:
  std::string_view name() const override { return CopyProblem::kOp; }
  std::span<const DType> InputFormats() const override { return {}; }
  std::vector<DType> OutputFormats(const Case& c) const override { return {c.dtype}; }
  DType DefaultOutput(const Case& c) const override { return c.dtype; }

  const Diagnostics& diagnostics() const override {
    static const CopyDiagnostics diagnostics;
    return diagnostics;
  }

  absl::StatusOr<Plan> MakePlan(const Case& c) const override {
    const std::int64_t count = std::get<CopyProblem>(c.problem).count;
    const Pattern data = Info(c.dtype).is_integer ? Pattern{PatternKind::kIntegers, -127, 127}
                                                  : Pattern{PatternKind::kNormal, 1, 0};
    const Operand x = {"x", c.dtype, Extents::Dense(1, 1, count), {count}, data};
    Plan plan;
    plan.inputs = {x};
    plan.output = x;
    plan.output.name = "y";
    plan.exact = true;
    plan.elementwise = true;
    if (absl::Status s = ApplyPatterns(c, 1, plan); !s.ok()) return s;
    if (c.significand >= 0) plan.inputs[0].pattern = kEveryFiniteNumber;
    plan.bytes = BytesMoved(plan);
    return plan;
  }

  // Of a user's kernel, numbers that other data have not. extremes: all that an integer format has,
  // or the largest finite number and a NaN. small: subnormal numbers. every-number: all that an
  // 8-bit float has.
  std::vector<KernelProbe> Probes(const Case& c, const Plan&) const override {
    const FormatInfo& f = Info(c.dtype);
    if (IsOurs(c)) return {};
    const auto probe = [&c](std::string_view name, std::string pattern) {
      return KernelProbe{name, ProbeCase(c, c.problem, std::move(pattern), /*exact=*/true)};
    };
    if (f.is_integer) {
      const double lowest = -f.max_finite - 1;
      return {probe("extremes", ToString({PatternKind::kIntegers, lowest, f.max_finite}))};
    }
    if (IsEightBitFloat(c.dtype)) {
      if (c.flushes_subnormals) return {};
      std::vector<KernelProbe> every = {probe("every-number", "")};
      every[0].data.significand = 0;
      return every;
    }
    if (!HasSignificandProbes(c.dtype)) return {};
    // No pattern has a number beyond float's.
    const double largest = std::min(f.max_finite, Info(DType::kF32).max_finite);
    constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
    KernelProbe extremes = probe("extremes", ToString({PatternKind::kOneHot, kNan, largest}));
    extremes.may_refuse = true;
    std::vector<KernelProbe> probes = {std::move(extremes)};
    if (!c.flushes_subnormals) probes.push_back(probe("small", "denormal"));
    return probes;
  }

  absl::Status ReferenceHere(const Case&, const Plan&, std::span<const TensorView> inputs,
                             ReferenceBuffers& out) const override {
    constexpr std::int64_t kGrain = 1 << 14;
    ParallelFor(inputs[0].count(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      ViewInputs(inputs).Read(0, begin, end - begin, out.value + begin);
    });
    return absl::OkStatus();
  }

  void ReferenceAt(const Case&, const Plan&, const HostInputs& inputs,
                   std::span<const std::int64_t> indices, double* value, double*) const override {
    for (std::size_t i = 0; i < indices.size();) {
      std::size_t last = i + 1;
      while (last < indices.size() && indices[last] == indices[last - 1] + 1) ++last;
      inputs.Read(0, indices[i], static_cast<std::int64_t>(last - i), value + i);
      i = last;
    }
  }
};

}  // namespace

const Op& CopyOp() {
  static const Copy op;
  return op;
}

}  // namespace assay::kernels
