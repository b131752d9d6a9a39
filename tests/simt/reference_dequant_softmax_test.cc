// The GPU reference of dequant_softmax and its identities under the emulator, held to the
// plain one.
#include <random>

#include "kernels/ops/dequant_softmax/dequant_softmax_identities.h"
#include "simt/references.h"

namespace assay {
namespace {

class SimtDequantSoftmaxReference : public SimtReference {};
INSTANTIATE_TEST_SUITE_P(Waves, SimtDequantSoftmaxReference, ::testing::Values(32, 64));

// Whole weights, scales that keep the logits small.
std::function<double(int, std::int64_t)> Values(const Plan& plan, double sigma = 1) {
  auto engine = std::make_shared<std::mt19937_64>(9);
  const Pattern scales = plan.inputs[2].pattern;
  return [=](int operand, std::int64_t) -> double {
    if (operand == 0) return sigma * std::normal_distribution<double>()(*engine);
    if (operand == 1) return static_cast<double>((*engine)() % 255) - 127;
    return std::uniform_real_distribution<double>(scales.a, scales.b)(*engine);
  };
}

TEST_P(SimtDequantSoftmaxReference, AwkwardSizes) {
  for (const DType t : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const std::int64_t n : {1, 31, 33, 63, 65, 1000, 1025}) {
      const DequantSoftmaxProblem p{.m = 3, .n = n, .k = 1 + n % 70, .transpose_w = n % 2 == 1};
      const Case c = MakeCase(p, t);
      const Plan plan = PlanOf(c);
      ExpectPlain(c, plan, Values(plan));
      if (HasFailure()) return;
    }
    for (const std::int64_t k : {1, 15, 17, 1025}) {
      const Case c = MakeCase(DequantSoftmaxProblem{.m = 66, .n = 5, .k = k}, t);
      const Plan plan = PlanOf(c);
      ExpectPlain(c, plan, Values(plan, 5));
      if (HasFailure()) return;
    }
  }
}

TEST_P(SimtDequantSoftmaxReference, OfTheExactProbe) {
  Case c = MakeCase(DequantSoftmaxProblem{.m = 5, .n = 130, .k = 100}, DType::kBF16);
  c.exact = true;
  auto plan = DequantSoftmaxOp().MakePlan(c);
  ASSERT_TRUE(plan.ok());
  ASSERT_TRUE(plan->exact);
  std::mt19937_64 engine(3);
  ExpectPlain(c, *plan, [&](int operand, std::int64_t i) -> double {
    if (operand == 2) return i % 2 == 0 ? 1 : -1;
    return operand == 0 ? (engine() % 2 == 0 ? 128 : -128) : static_cast<double>(engine() % 3) - 1;
  });
}

TEST_P(SimtDequantSoftmaxReference, RowsWithInfinities) {
  const Case c = MakeCase(DequantSoftmaxProblem{.m = 4, .n = 70, .k = 9}, DType::kF32);
  const Plan plan = PlanOf(c);
  const auto base = Values(plan);
  ExpectPlain(c, plan, [&](int operand, std::int64_t i) {
    const double v = base(operand, i);
    if (operand != 0) return v;
    if (i == 9) return HUGE_VAL;
    return i == 3 * 9 + 8 ? std::nan("") : v;
  });
}

// Rows that do not sum to 1, and elements out of range: counted and named as on the CPU.
TEST_P(SimtDequantSoftmaxReference, IdentitiesAreThoseOfTheHost) {
  for (const bool transposed : {false, true}) {
    const DequantSoftmaxProblem p{.m = 6, .n = 300, .k = 40, .transpose_w = transposed};
    const Case c = MakeCase(p, DType::kF32);
    const Plan plan = PlanOf(c);
    const Tensors tensors(plan, Values(plan, 2));
    const Result reference = Run(c, plan, tensors);
    std::vector<float> y(reference.value.begin(), reference.value.end());
    const TensorView output{y.data(), DType::kF32, plan.output.extents};
    ReferenceBuffers buffers{const_cast<double*>(reference.value.data()),
                             const_cast<double*>(reference.allowance.data())};
    const auto look = [&](std::int64_t sums, std::int64_t range) {
      const auto here =
          references_.CheckIdentities(c, plan, *device_, tensors.views(), output, buffers);
      ASSERT_TRUE(here.ok()) << here.status();
      const std::vector<Identity> host =
          CheckDequantSoftmaxRows(c, plan, tensors.views(), output, buffers);
      ASSERT_EQ(here->size(), host.size());
      for (std::size_t i = 0; i < host.size(); ++i) {
        EXPECT_EQ((*here)[i].name, host[i].name);
        EXPECT_EQ((*here)[i].count, host[i].count);
        EXPECT_EQ((*here)[i].broken, host[i].broken);
        // Sums in another order differ in their last digits.
        EXPECT_EQ((*here)[i].message.substr(0, 14), host[i].message.substr(0, 14));
      }
      EXPECT_EQ(host[0].broken, range);
      EXPECT_EQ(host[1].broken, sums);
    };
    look(0, 0);
    y[3 * 300 + 7] += 0.01F;
    look(1, 0);
    y[300 + 9] = -y[300 + 9] - 0.01F;
    look(2, 1);
    y[5 * 300] = 1.5F;
    look(3, 2);
  }
}

}  // namespace
}  // namespace assay
