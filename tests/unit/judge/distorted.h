// Runs cases whose kernel is right but for what a test does to its output.
#ifndef ASSAY_TESTS_UNIT_JUDGE_DISTORTED_H_
#define ASSAY_TESTS_UNIT_JUDGE_DISTORTED_H_

#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "kernels/numerics/convert.h"
#include "kernels/providers/provider.h"
#include "kernels/validate/host_inputs.h"
#include "kernels/validate/runner.h"

namespace assay::testing {

// Changes right values, in logical order, before they are rounded and stored.
using Distort = std::function<void(std::vector<double>& values, const Plan& plan)>;

inline Distort& TheDistortion() {
  static Distort distort;
  return distort;
}

class DistortedKernel : public Kernel {
 public:
  DistortedKernel(const Case& c, const Plan& plan) : case_(c), plan_(plan) {}

  absl::Status Launch(std::span<const TensorView>, const TensorView& output) override {
    const RegeneratedInputs inputs(plan_, case_.seed.value_or(1));
    const auto count = static_cast<std::size_t>(output.count());
    std::vector<std::int64_t> all(count);
    std::iota(all.begin(), all.end(), 0);
    std::vector<double> values(count), allowance(count);
    FindOp(OpName(case_.problem))
        ->ReferenceAt(case_, plan_, inputs, all, values.data(), allowance.data());
    TheDistortion()(values, plan_);
    const Extents& e = output.extents;
    for (std::size_t i = 0; i < count; ++i) {
      const auto at = static_cast<std::int64_t>(i);
      const std::int64_t row = at / e.cols;
      StoreBits(output.dtype, output.data,
                row / e.rows * e.batch_stride + row % e.rows * e.ld + at % e.cols,
                RoundToFormat(values[i], output.dtype));
    }
    return absl::OkStatus();
  }

 private:
  const Case case_;
  const Plan plan_;
};

// The outcome of a case whose kernel is `distort` of the right result.
inline CaseOutcome RunDistorted(Case c, Distort distort) {
  TheDistortion() = std::move(distort);
  Registry registry;
  const std::string op(OpName(c.problem));
  registry.Add(KernelEntry{.op = op,
                           .provider = "distorted",
                           .backend = "cpu",
                           .dtypes = {c.dtype},
                           .make = [](const Case& made, const Plan& plan,
                                      Device&) -> absl::StatusOr<std::unique_ptr<Kernel>> {
                             return std::make_unique<DistortedKernel>(made, plan);
                           },
                           .version = {},
                           .unavailable_reason = {}});
  const std::unique_ptr<Device> device =
      MakeCpuDevice(0, ArenaOptions{.max_bytes = std::int64_t{128} << 20});
  c.provider = "distorted";
  c.probes = false;
  if (!c.seed) c.seed = 1;
  PhaseObserver observer;
  return CaseRunner(*device, registry, nullptr).Run(c, observer);
}

inline Case GemmCase(DType dtype, std::int64_t m, std::int64_t n, std::int64_t k) {
  GemmProblem p;
  p.m = m;
  p.n = n;
  p.k = k;
  Case c;
  c.problem = p;
  c.dtype = dtype;
  return c;
}

inline Case AttentionCase(DType dtype, std::int64_t heads, std::int64_t seq, std::int64_t dim,
                          bool causal) {
  AttentionProblem p;
  p.heads = heads;
  p.seq = seq;
  p.dim = dim;
  p.causal = causal;
  Case c;
  c.problem = p;
  c.dtype = dtype;
  return c;
}

}  // namespace assay::testing

#endif  // ASSAY_TESTS_UNIT_JUDGE_DISTORTED_H_
