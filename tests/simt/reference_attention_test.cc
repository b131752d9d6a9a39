// The attention reference for GPUs under the emulator, held to the plain one.
#include "kernels/numerics/key_groups.h"
#include "kernels/ops/attention/attention_probes.h"
#include "kernels/ops/attention/attention_reference_cpu.h"
#include "simt/references.h"

namespace assay {
namespace {

class SimtAttentionReference : public SimtReference {
 protected:
  void ExpectKeyGroupsToTheBit(bool causal, double density, bool single);
};
INSTANTIATE_TEST_SUITE_P(Waves, SimtAttentionReference, ::testing::Values(32, 64));

AttentionProblem Problem(std::int64_t queries, std::int64_t keys, std::int64_t dim) {
  AttentionProblem p;
  p.heads = 2;
  p.seq = queries;
  p.kv_seq = keys;
  p.dim = dim;
  return p;
}

TEST_P(SimtAttentionReference, FormatsAtAwkwardSizes) {
  for (const DType t : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16, DType::kE4M3FN}) {
    ExpectPlain(MakeCase(Problem(67, 37, 18), t));
    ExpectPlain(MakeCase(Problem(3, 70, 65), t));
    ExpectPlain(MakeCase(Problem(1, 1, 1), t));
  }
}

TEST_P(SimtAttentionReference, HeadsThatShareKeys) {
  AttentionProblem p = Problem(20, 33, 7);
  p.batch = 2;
  p.heads = 6;
  p.kv_heads = 2;
  ExpectPlain(MakeCase(p, DType::kF16));
}

// Fewer keys than queries leave queries without any.
TEST_P(SimtAttentionReference, CausalAndMasked) {
  for (const char* empty : {"zero", "nan"}) {
    for (const std::int64_t keys : {40, 66, 130}) {
      AttentionProblem p = Problem(66, keys, 20);
      p.causal = true;
      p.masked_rows = empty;
      ExpectPlain(MakeCase(p, DType::kBF16));
      p.mask_density = 0.5;
      const Case c = MakeCase(p, DType::kF32);
      ExpectPlain(c);
      const Plan plan = PlanOf(c);
      const auto random = RandomValues(plan);
      // Whole rows masked, too.
      ExpectPlain(c, plan, [&](int operand, std::int64_t i) {
        return operand == 3 && i / keys % 3 == 0 ? 0.0 : random(operand, i);
      });
    }
  }
}

TEST_P(SimtAttentionReference, ScalesAndWhatTheKernelDeclares) {
  AttentionProblem p = Problem(10, 70, 33);
  p.scale_q = 0.25;
  p.scale_k = 1.5;
  p.scale_v = -0.5;
  p.scale = 0.4;
  const Case c = MakeCase(p, DType::kE4M3FN);
  ExpectPlain(c);
  Plan plan = PlanOf(c);
  FindOp("attention")->HoldTo(c, Accumulator{0x1p-14, 32}, plan);
  plan.flushes_subnormals = true;
  ExpectPlain(c, plan, RandomValues(plan));
}

// Scores that drive weights to 0, equal largest ones with different errors.
TEST_P(SimtAttentionReference, LargeAndEqualScores) {
  AttentionProblem p = Problem(5, 65, 16);
  p.scale = 1;
  for (const double size : {1.0, 16.0, 64.0}) {
    ExpectPlain(MakeCase(p, DType::kF32), [&](int operand, std::int64_t i) {
      return (operand == 2 ? 1.0 : size) * static_cast<double>((i * 7 + i / 16) % 5 - 2);
    });
  }
}

TEST_P(SimtAttentionReference, NonFiniteElements) {
  for (const double x : {HUGE_VAL, -HUGE_VAL, std::nan("")}) {
    for (int where = 0; where < 3; ++where) {
      AttentionProblem p = Problem(40, 40, 5);
      p.causal = true;  // a value that a query does not see is nothing to it
      const Case c = MakeCase(p, DType::kF32);
      ExpectPlain(c, [&](int operand, std::int64_t i) {
        if (operand == where && i == 33 * 5 + 2) return x;
        return std::sin(static_cast<double>(i + operand)) + 0.01;
      });
    }
  }
}

TEST_P(SimtAttentionReference, LargestScoreOfVisiblePairs) {
  AttentionProblem p = Problem(66, 70, 9);
  p.causal = true;
  const Case c = MakeCase(p, DType::kF32);
  const Plan plan = PlanOf(c);
  const Tensors tensors(plan, RandomValues(plan));
  const Result result = Run(c, plan, tensors);
  std::vector<double> value(result.value.size()), allowance(result.value.size());
  const double largest =
      AttentionReferenceCpu(p, c.dtype, false, tensors.views(), value.data(), allowance.data());
  EXPECT_NEAR(result.max_abs_score, largest, 1e-12 * largest);
  EXPECT_GT(largest, 0.0);
}

TEST_P(SimtAttentionReference, TheSameLaunchGivesTheSameBits) {
  const Case c = MakeCase(Problem(70, 90, 70), DType::kF16);
  const Plan plan = PlanOf(c);
  const Tensors tensors(plan, RandomValues(plan));
  const Result first = Run(c, plan, tensors);
  simt::CurrentConfig().seed = 99;
  const Result second = Run(c, plan, tensors);
  EXPECT_EQ(first.value, second.value);
  EXPECT_EQ(first.allowance, second.allowance);
  EXPECT_EQ(first.max_abs_score, second.max_abs_score);
}

void SimtAttentionReference::ExpectKeyGroupsToTheBit(bool causal, double density, bool single) {
  AttentionProblem p = Problem(75, 83, 17);
  p.batch = 2;
  p.heads = 4;
  p.kv_heads = 2;
  p.causal = causal;
  p.mask_density = density;
  p.scale_v = 0.5;
  Case c = MakeCase(p, DType::kF16);
  c.exact = true;
  if (single) c.significand = 2;
  const Plan plan = PlanOf(c);
  const KeyGroups groups(p.seq, p.KvSeq(), causal);
  const Tensors tensors(plan, [&](int operand, std::int64_t i) {
    if (operand == 3) return single || groups.Keeps(i / 83, i % 83) ? 1.0 : 0.0;
    return static_cast<double>(i * 11 % 8 + 1);
  });
  const Result result = Run(c, plan, tensors);
  std::vector<double> plain(result.value.size());
  AttentionKeyGroupsCpu(c, tensors.views(), plain.data());
  EXPECT_EQ(result.value, plain);
  for (const double e : result.allowance) EXPECT_EQ(e, kUnwritten);
}

TEST_P(SimtAttentionReference, KeyGroupsToTheBit) {
  for (const bool causal : {false, true}) {
    for (const double density : {0.0, 0.5}) {
      for (const bool single : {false, true}) ExpectKeyGroupsToTheBit(causal, density, single);
    }
  }
}

TEST_P(SimtAttentionReference, FirstRowsAreLookedAt) {
  for (const std::int64_t dim : {8, 300}) {
    AttentionProblem p = Problem(20, 15, dim);
    p.heads = 4;
    p.kv_heads = 2;
    p.causal = true;
    const Case c = MakeCase(p, DType::kF16);
    const Plan plan = PlanOf(c);
    const Tensors tensors(plan, RandomValues(plan));
    Result right = Run(c, plan, tensors);
    const ReferenceBuffers reference{right.value.data(), right.allowance.data()};
    for (const bool wrong : {false, true}) {
      Plan outputs = plan;
      outputs.inputs = {plan.output};
      const Tensors o(outputs, [&](int, std::int64_t i) {
        const bool here = wrong && i == (20 + 5) * dim + dim - 1;  // head 1, query 5
        return right.value[static_cast<std::size_t>(i)] + (here ? 1.0 : 0.0);
      });
      const auto found =
          references_.CheckIdentities(c, plan, *device_, tensors.views(), o.views()[0], reference);
      ASSERT_TRUE(found.ok()) << found.status();
      ASSERT_EQ(found->size(), 1U);
      EXPECT_EQ(found->front().name, "first-row");
      EXPECT_EQ(found->front().count, 4 * dim);
      EXPECT_EQ(found->front().broken, wrong ? 1 : 0);
      if (wrong) {
        EXPECT_EQ(found->front().message.substr(0, 14), "head 1 query 5");
      }
    }
  }
}

}  // namespace
}  // namespace assay
