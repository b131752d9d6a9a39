#include "tests/experiments/assay_rule.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <utility>

#include "kernels/judge/summation_orders.h"
#include "kernels/numerics/convert.h"
#include "kernels/ops/common/product_residuals.h"
#include "kernels/ops/op.h"
#include "kernels/runtime/cpu/residuals_cpu.h"
#include "tests/experiments/lanes.h"

namespace assay::experiment {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// The operands in logical order: A of [m, k], B of [k, n].
class Inputs : public HostInputs {
 public:
  explicit Inputs(const Operands& operands) : operands_(operands) {}
  void Read(int operand, std::int64_t begin, std::int64_t count, double* out) const override {
    for (std::int64_t i = 0; i < count; ++i) out[i] = At(operand, begin + i);
  }

 private:
  double At(int operand, std::int64_t index) const {
    if (operand == 0) return operands_.a[static_cast<std::size_t>(index)];
    const std::int64_t n = operands_.shape.n;
    const std::int64_t row = index / n, column = index % n;
    const std::int64_t panel = column / kPanel * operands_.shape.k * kPanel;
    return operands_.b[static_cast<std::size_t>(panel + row * kPanel + column % kPanel)];
  }

  const Operands& operands_;
};

// What kernels on such a unit declare (kernels/providers).
Accumulator AccumulatorOf(const Algorithm& algorithm) {
  switch (algorithm.unit) {
    case Unit::kNearest:
      return {};
    case Unit::kTruncating:
      return {.truncation = {.roundoff = kTruncatedRoundoff}};
    case Unit::kNarrow:
      return {kNarrowestRoundoff,
              kNarrowBlock,
              {kNarrowestRoundoff, kNarrowBlock, -1, algorithm.promoted}};
  }
  return {};
}

template <class T>
T Must(absl::StatusOr<T> made) {
  if (made.ok()) return *std::move(made);
  std::fprintf(stderr, "%s\n", std::string(made.status().message()).c_str());
  std::abort();
}

bool Fails(const PrecisionFinding& found) { return found.verdict == Verdict::kFailed; }

// The largest statistic over its limit, within a factor of 2^(1/4); `at(x)` is the gate that fails
// beyond x limits.
template <class Found>
double ShareOf(Found found) {
  double share = 0;
  for (int step = -24; step <= 24; ++step) {
    const double x = std::exp2(step / 4.0);
    if (!found(x)) break;
    share = x;
  }
  return share;
}

}  // namespace

AssayRule::AssayRule(const Data& data, const Formats& formats, const Operands& operands,
                     const Reference& reference)
    : reference_(reference), drawn_(data.pattern[0] != '\0') {
  const Shape& shape = operands.shape;
  case_.problem = GemmProblem{.m = shape.m, .n = shape.n, .k = shape.k};
  case_.dtype = formats.input;
  case_.out_dtype = formats.output;
  case_.pattern = data.pattern;
  plan_ = Must(GemmOp().MakePlan(case_));
  sampled_ = GemmOp().Samples(case_, plan_, 1, NarrowingSamples(shape.k));
  products_ = GemmOp().Products(case_, plan_, Inputs(operands), sampled_).value();
  order_factor_ = EmulateOrders(products_, formats.output).factor;
}

std::optional<Said> AssayRule::OfRun(std::span<const float> y, const Algorithm& algorithm) const {
  if (!drawn_) return std::nullopt;
  Held held{.plan = plan_, .received = false, .gate = {}};
  GemmOp().HoldTo(case_, assay::AccumulatorOf(case_.dtype, AccumulatorOf(algorithm)), held.plan);
  held.gate = GateOfGenerated(GemmOp().Residuals(case_, held.plan));
  if (held.gate.fails == kNever) return std::nullopt;
  return Judge(held, y);
}

Said AssayRule::OfCompare(std::span<const float> y) const {
  Held held{.plan = plan_, .received = true, .gate = GateOfReceived(case_, order_factor_)};
  held.plan.zero_mean_random = false;
  return Judge(held, y);
}

// As TellPrecision does: what is found of the right output as well accuses no kernel.
Said AssayRule::Judge(const Held& held, std::span<const float> y) const {
  PrecisionReading reading = Read(held, held.gate, true, y);
  if (!reading.findings.empty()) {
    std::vector<float> right;
    for (const double r : reference_.r) {
      right.push_back(static_cast<float>(Quantise(r, held.plan.output.dtype)));
    }
    const PrecisionReading of_right = Read(held, held.gate, true, right);
    std::erase_if(reading.findings, [&](const PrecisionFinding& f) {
      return std::any_of(
          of_right.findings.begin(), of_right.findings.end(),
          [&](const PrecisionFinding& other) { return other.finding.reason == f.finding.reason; });
    });
  }
  Said said;
  said.fails = std::any_of(reading.findings.begin(), reading.findings.end(), Fails);
  said.doubts = !said.fails && !reading.findings.empty();
  if (!reading.findings.empty()) said.why = reading.findings.front().finding.message;
  const double most = std::min(held.gate.fails, held.gate.doubtful);
  const double limit = held.gate.fails == kNever ? most : held.gate.fails;
  said.share = ShareOf([&](double x) {
    PrecisionGate gate = held.gate;
    gate.fails = x * limit;
    gate.doubtful = kNever;
    return !Read(held, gate, false, y).findings.empty();
  });
  return said;
}

PrecisionReading AssayRule::Read(const Held& held, const PrecisionGate& gate, bool filters,
                                 std::span<const float> y) const {
  const std::vector<float> deviations = Deviations(held.plan);
  ResidualRequest request;
  // The pass only reads.
  request.output = {const_cast<float*>(y.data()), DType::kF32, held.plan.output.extents};
  request.reference = reference_.r.data();
  request.deviation = deviations.data();
  const ResidualSums sums = Must(ResidualsCpu(request));
  const ResidualModel model = GemmOp().Residuals(case_, held.plan);
  PrecisionReading reading = ReadPrecision(model, held.plan, sums, gate);
  if (filters && sums.count > 0) {
    const double rms = std::sqrt(sums.sum_squared / static_cast<double>(sums.count));
    AddNarrowing(Filter(held, rms, y), reading);
  }
  return reading;
}

// As TakeSample does (kernels/judge/precision_evidence.cc).
Narrowing AssayRule::Filter(const Held& held, double rms, std::span<const float> y) const {
  const bool suspicious = !held.plan.zero_mean_random || !(rms <= 1);
  if (case_.dtype != DType::kF32 || !(held.received || suspicious)) return {};
  std::vector<double> output, reference;
  for (const std::int64_t at : sampled_) {
    output.push_back(y[static_cast<std::size_t>(at)]);
    reference.push_back(reference_.r[static_cast<std::size_t>(at)]);
  }
  Narrowing found = FindNarrowedOutput(held.plan.output.dtype, output, reference);
  return found.name.empty() ? FindNarrowedInputs(products_, output, reference) : found;
}

// Of Q by margins, as the reference on a CPU has it. 0 says nothing of an element: its output
// overflows.
std::vector<float> AssayRule::Deviations(const Plan& plan) const {
  const auto& p = std::get<GemmProblem>(case_.problem);
  const SumModel sums = MakeSumModel(case_.dtype, p.k, plan.accumulator);
  const OutputSteps steps = OutputStepsOf(plan.output.dtype);
  std::vector<float> deviations(reference_.r.size());
  for (std::size_t at = 0; at < deviations.size(); ++at) {
    const double r = reference_.r[at];
    if (!(std::abs(r) < Info(plan.output.dtype).max_finite)) continue;
    const double variance =
        sums.Variance(r, reference_.q[kMargins][at], reference_.s[at]) + steps.Variance(r);
    deviations[at] = static_cast<float>(std::sqrt(variance));
  }
  return deviations;
}

}  // namespace assay::experiment
