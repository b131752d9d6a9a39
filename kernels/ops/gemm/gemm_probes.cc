#include "kernels/ops/gemm/gemm_probes.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "kernels/numerics/unit_places.h"
#include "kernels/ops/common/probe_data.h"
#include "kernels/ops/gemm/problem.h"

namespace assay {
namespace {

constexpr double kLargestAddend = 8;   // of C and of bias
constexpr double kLargestChannel = 2;  // of channel_scale

}  // namespace

std::vector<KernelProbe> GemmProbes(const Case& c) {
  GemmProblem p = std::get<GemmProblem>(c.problem);
  p.alpha = NearPowerOfTwo(p.alpha, 1);
  p.beta = NearPowerOfTwo(p.beta, 1);
  p.scale_a = NearPowerOfTwo(p.scale_a, 1);
  p.scale_b = NearPowerOfTwo(p.scale_b, 1);
  const Activation activation = p.activation_kind();
  if (activation == Activation::kGelu || activation == Activation::kGeluTanh) p.activation = "none";
  SumUse use;
  use.factor = std::abs(p.alpha * p.scale_a * p.scale_b) * (p.channel_scale ? kLargestChannel : 1);
  use.addend = (std::abs(p.beta) + (p.bias ? 1 : 0)) * kLargestAddend;
  std::vector<KernelProbe> probes = ProductProbes(c, p, p.k, use);
  // Positive, so that relu changes nothing.
  for (double* factor : {&p.alpha, &p.scale_a, &p.scale_b}) {
    *factor = *factor == 0 ? 1 : std::abs(*factor);
    // The largest number of an 8-bit format is the output's largest, too.
    if (!HasSignificandProbes(c.dtype)) *factor = std::min(*factor, 1.0);
  }
  std::vector<KernelProbe> more =
      SignificandProbes(c, p, "exact-significand-a", "exact-significand-b");
  std::move(more.begin(), more.end(), std::back_inserter(probes));
  return probes;
}

void SetGemmSignificands(const Case& c, Plan& plan) {
  const auto& p = std::get<GemmProblem>(c.problem);
  for (Operand& operand : plan.inputs) {
    operand.pattern = {operand.name == "channel_scale" ? PatternKind::kOnes : PatternKind::kZeros,
                       0, 0};
  }
  const bool of_a = c.significand == 0;
  plan.inputs[of_a ? 0 : 1].pattern = SignificandData(c);
  // One 1 for each row of the output in A, or one for each column in B.
  const bool in_rows = of_a ? p.trans_b : !p.trans_a;
  plan.inputs[of_a ? 1 : 0].pattern = in_rows ? UnitRows() : UnitColumns();
}

void SetExactAddends(Plan& plan) {
  for (Operand& operand : plan.inputs) {
    if (operand.name == "channel_scale") {
      operand.pattern = {PatternKind::kIntegers, 1, kLargestChannel};
    } else if (operand.name == "c" || operand.name == "bias") {
      operand.pattern = {PatternKind::kIntegers, -kLargestAddend, kLargestAddend};
    }
  }
}

}  // namespace assay
