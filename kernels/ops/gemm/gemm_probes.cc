#include "kernels/ops/gemm/gemm_probes.h"

#include <cmath>

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
  return ProductProbes(c, p, p.k, use);
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
