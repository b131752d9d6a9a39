// Plans and samples of every operator, and the references through a device.
#include <algorithm>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "hwy/targets.h"
#include "kernels/ops/changed_fields.h"
#include "kernels/ops/op.h"
#include "kernels/runtime/device.h"
#include "tests/unit/ops/tensors.h"

namespace assay {
namespace {

std::vector<Case> OneOfEach() {
  ConvProblem conv;
  conv.batch = 3;
  conv.channels = 8;
  conv.filters = 40;
  conv.input = {40, 30};
  conv.kernel = {3, 3};
  AttentionProblem attention;
  attention.batch = 2;
  attention.heads = 4;
  attention.kv_heads = 2;
  attention.seq = 128;
  attention.dim = 32;
  attention.mask_density = 0.25;
  return {MakeCase(GemmProblem{.m = 100, .n = 200, .k = 30, .batch = 2, .beta = 1}, DType::kBF16),
          MakeCase(conv, DType::kI8),
          MakeCase(attention, DType::kF16),
          MakeCase(SoftmaxProblem{.rows = 30, .cols = 1000}, DType::kF32),
          MakeCase(LayerNormProblem{.rows = 3000, .cols = 8, .affine = true}, DType::kF64),
          MakeCase(CopyProblem{.count = 100000}, DType::kE2M1)};
}

TEST(Plan, OperandsAreThePatternsOperandsAndAMask) {
  for (const Case& c : OneOfEach()) {
    const Plan plan = PlanOf(c);
    const std::size_t data = static_cast<std::size_t>(DataOperands(c.problem));
    const bool mask = plan.inputs.back().name == "mask";
    EXPECT_EQ(plan.inputs.size(), data + mask) << OpName(c.problem);
    EXPECT_EQ(plan.output.dtype, OutputType(c));
    EXPECT_GE(plan.proven_factor, 1.0);
    EXPECT_GT(plan.bytes, 0.0);
    for (const Operand& operand : plan.inputs) {
      std::int64_t count = 1;
      for (std::int64_t d : operand.dims) count *= d;
      EXPECT_EQ(count, operand.extents.count()) << operand.name;
    }
  }
}

TEST(Plan, OnePatternGoesToEveryOperandButTheMask) {
  Case c = OneOfEach()[2];
  c.pattern = "uniform:-1:1";
  Plan plan = PlanOf(c);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(plan.inputs[i].pattern.kind, PatternKind::kUniform);
  }
  EXPECT_EQ(plan.inputs[3].pattern, (Pattern{PatternKind::kBernoulli, 0.25, 0}));
  c.pattern = "ones/zeros/normal:3";
  plan = PlanOf(c);
  EXPECT_EQ(plan.inputs[0].pattern.kind, PatternKind::kOnes);
  EXPECT_EQ(plan.inputs[1].pattern.kind, PatternKind::kZeros);
  EXPECT_EQ(plan.inputs[2].pattern, (Pattern{PatternKind::kNormal, 3, 0}));
  EXPECT_FALSE(plan.zero_mean_random);
  c.pattern.clear();
  EXPECT_TRUE(PlanOf(c).zero_mean_random);
}

TEST(Plan, PatternsThatDoNotFitAreRefused) {
  Case c = OneOfEach()[0];
  c.pattern = "ones/ones";
  EXPECT_EQ(GemmOp().MakePlan(c).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Plan, WorkOfCausalAttentionCountsVisiblePairs) {
  AttentionProblem p;
  p.heads = 1;
  p.dim = 1;
  p.seq = 4;
  p.causal = true;
  EXPECT_EQ(PlanOf(MakeCase(p, DType::kF32)).flops, 4.0 * (1 + 2 + 3 + 4));
  p.kv_seq = 6;
  EXPECT_EQ(PlanOf(MakeCase(p, DType::kF32)).flops, 4.0 * (3 + 4 + 5 + 6));
  p.kv_seq = 2;  // the first two queries see nothing
  EXPECT_EQ(PlanOf(MakeCase(p, DType::kF32)).flops, 4.0 * (1 + 2));
}

// The bound of a row of repeated elements grows with its length; other sums are held to the root's.
TEST(Plan, SaysWhereItsBoundProvesNothing) {
  const auto of = [](const Problem& p, DType t, const char* pattern) {
    Case c = MakeCase(p, t);
    c.pattern = pattern;
    return PlanOf(c).vacuous;
  };
  const auto vacuous = [&](const Problem& p, DType t) { return of(p, t, "constant"); };
  constexpr std::int64_t kMost = std::int64_t{1} << 20;  // · 2^-24 = 2^-4
  for (const DType t : {DType::kF32, DType::kF16}) {
    EXPECT_FALSE(vacuous(SoftmaxProblem{.cols = kMost}, t));
    EXPECT_TRUE(vacuous(SoftmaxProblem{.cols = kMost + 1}, t));
    EXPECT_FALSE(vacuous(LayerNormProblem{.cols = kMost}, t));
    EXPECT_FALSE(vacuous(DequantSoftmaxProblem{.n = kMost, .k = 8}, t));
    EXPECT_TRUE(vacuous(DequantSoftmaxProblem{.n = kMost + 1, .k = 8}, t));
    EXPECT_TRUE(vacuous(LayerNormProblem{.cols = kMost + 1}, t));
  }
  EXPECT_FALSE(of(SoftmaxProblem{.cols = kMost + 1}, DType::kF32, ""));
  EXPECT_FALSE(vacuous(SoftmaxProblem{.cols = kMost + 1}, DType::kF64));
  EXPECT_FALSE(vacuous(GemmProblem{.m = 1, .n = 1, .k = 8 * kMost}, DType::kF32));
  EXPECT_FALSE(vacuous(CopyProblem{.count = 8 * kMost}, DType::kF32));
}

// Flushed subnormals widen the allowance by k smallest normal numbers, no more.
TEST(Plan, FlushedSubnormalsWidenTheAllowance) {
  const Case c = MakeCase(GemmProblem{.m = 2, .n = 2, .k = 64}, DType::kBF16);
  Plan plan = PlanOf(c);
  const Tensors tensors(plan, [](int, std::int64_t) { return 0x1p-70; });
  const double exact = PlainReference(GemmOp(), c, plan, tensors).allowance[0];
  plan.flushes_subnormals = true;
  const double flushed = PlainReference(GemmOp(), c, plan, tensors).allowance[0];
  EXPECT_LT(exact, 64 * 0x1p-140);
  EXPECT_GE(flushed, 64 * 0x1p-126);
  EXPECT_LT(flushed, 65 * 0x1p-126);
}

// A declared accumulator of 14 bits, blocks of 32: γ_(k/32 + 8) of 2^-13 in the place of
// γ_(k+8) of 2^-24, of 8-bit floats alone.
TEST(Plan, ADeclaredAccumulatorWidensTheAllowance) {
  const Accumulator declared{0x1p-13, 32};
  const auto widened = [&](const Problem& problem, DType t) {
    const Case c = MakeCase(problem, t);
    const Op& op = *FindOp(OpName(problem));
    Plan plan = PlanOf(c);
    const Tensors tensors(plan, [](int, std::int64_t) { return 1.0; });
    const double own = PlainReference(op, c, plan, tensors).allowance[0];
    op.HoldTo(c, declared, plan);
    const double wide = PlainReference(op, c, plan, tensors).allowance[0];
    const auto device = MakeCpuDevice(0, ArenaOptions{.max_bytes = 1 << 20});
    const auto count = static_cast<std::size_t>(plan.output.extents.count());
    std::vector<double> value(count), allowance(count);
    ReferenceBuffers out{value.data(), allowance.data()};
    EXPECT_TRUE(op.Reference(c, plan, *device, tensors.views(), out).ok());
    EXPECT_NEAR(allowance[0], wide, 1e-9 * wide) << op.name();
    return std::pair(own, wide);
  };
  const double k = 1024;
  const double gamma = 40 * 0x1p-13 / (1 - 40 * 0x1p-13);  // below 8·√32·2^-13
  const auto [gemm_own, gemm] = widened(GemmProblem{.m = 2, .n = 3, .k = 1024}, DType::kE4M3FN);
  EXPECT_NEAR(gemm_own, 8 * 32 * 0x1p-24 * k, 1e-9 * k);
  EXPECT_NEAR(gemm, gamma * k, 1e-9 * k);
  ConvProblem conv;
  conv.batch = 1;
  conv.channels = 1024;
  conv.filters = 2;
  conv.input = {3, 3};
  conv.kernel = {1, 1};
  EXPECT_NEAR(widened(conv, DType::kE5M2).second, gamma * k, 1e-9 * k);
  const auto [own, wide] =
      widened(AttentionProblem{.heads = 1, .seq = 1, .kv_seq = 1024, .dim = 32}, DType::kE4M3FN);
  // V is 1: twice c_n and four times c_d·|q|·|k|·scale, with both sums' own.
  const double d = 8 * 0x1p-13, absolute = std::sqrt(32.0);  // 8·√1 < γ_9
  const double grown =
      2 * (gamma - 256 * 0x1p-24) + 4 * absolute * (d - 40 * 0x1p-24 / (1 - 40 * 0x1p-24));
  EXPECT_NEAR(wide - own, grown, 1e-3 * grown);
  const auto [bf16_own, bf16] = widened(GemmProblem{.m = 2, .n = 3, .k = 1024}, DType::kBF16);
  EXPECT_EQ(bf16, bf16_own);
}

TEST(Samples, AreSortedUniqueEnoughAndReachTheEnds) {
  for (const Case& c : OneOfEach()) {
    const Plan plan = PlanOf(c);
    const Op& op = *FindOp(OpName(c.problem));
    const std::int64_t count = plan.output.extents.count();
    for (std::uint64_t seed : {1u, 2u, 77u}) {
      const auto samples = op.Samples(c, plan, seed, 1024);
      SCOPED_TRACE(DefaultName(c));
      EXPECT_GE(samples.size(), 1024u);
      EXPECT_LE(samples.size(), 8192u);
      EXPECT_TRUE(std::is_sorted(samples.begin(), samples.end()));
      EXPECT_EQ(std::set<std::int64_t>(samples.begin(), samples.end()).size(), samples.size());
      EXPECT_EQ(samples.front(), 0);
      EXPECT_EQ(samples.back(), count - 1);
    }
    EXPECT_EQ(op.Samples(c, plan, 1, count).size(), static_cast<std::size_t>(count));
  }
}

TEST(Samples, CoverLongAndThinShapes) {
  const auto count = [](const Problem& problem) {
    const Case c = MakeCase(problem, DType::kF32);
    return FindOp(OpName(problem))->Samples(c, PlanOf(c), 1, 1024).size();
  };
  EXPECT_GE(count(GemmProblem{.m = 1, .n = 5000, .k = 4}), 1024u);
  EXPECT_GE(count(GemmProblem{.m = 5000, .n = 1, .k = 4}), 1024u);
  EXPECT_GE(count(GemmProblem{.m = 3, .n = 5, .k = 4, .batch = 500}), 1024u);
  EXPECT_EQ(count(GemmProblem{.m = 3, .n = 5, .k = 4}), 15u);
  EXPECT_GE(count(SoftmaxProblem{.rows = 1, .cols = 100000}), 1024u);
  EXPECT_LE(count(SoftmaxProblem{.rows = 1, .cols = 100000}), 2048u);
  EXPECT_GE(count(SoftmaxProblem{.rows = 100000, .cols = 1}), 1024u);
  AttentionProblem p;
  p.heads = 64;
  p.seq = 1;
  p.kv_seq = 300;
  p.dim = 64;
  EXPECT_GE(count(p), 1024u);
  // One head: its queries make up for the second.
  EXPECT_GE(count(AttentionProblem{.heads = 1, .seq = 64, .dim = 64}), 1024u);
}

TEST(Samples, OfAReferenceAreItsElements) {
  for (const Case& c : OneOfEach()) {
    const Plan plan = PlanOf(c);
    const Op& op = *FindOp(OpName(c.problem));
    const Tensors tensors(plan, RandomValues(plan));
    const PlainResult all = PlainReference(op, c, plan, tensors);
    const auto samples = op.Samples(c, plan, 5, 1024);
    std::vector<double> value(samples.size()), allowance(samples.size());
    op.ReferenceAt(c, plan, ViewInputs(tensors.views()), samples, value.data(), allowance.data());
    for (std::size_t i = 0; i < samples.size(); ++i) {
      EXPECT_EQ(value[i], all.value[static_cast<std::size_t>(samples[i])]);
      EXPECT_EQ(allowance[i], all.allowance[static_cast<std::size_t>(samples[i])]);
    }
  }
}

void ExpectReferencesArePlain(Device& device) {
  for (const Case& c : OneOfEach()) {
    SCOPED_TRACE(DefaultName(c));
    const Plan plan = PlanOf(c);
    const Op& op = *FindOp(OpName(c.problem));
    const Tensors tensors(plan, RandomValues(plan));
    const PlainResult plain = PlainReference(op, c, plan, tensors);
    std::vector<double> value(plain.value.size()), allowance(plain.value.size());
    ReferenceBuffers out{value.data(), allowance.data()};
    ASSERT_TRUE(op.Reference(c, plan, device, tensors.views(), out).ok());
    for (std::size_t i = 0; i < value.size(); ++i) {
      const std::int64_t index = static_cast<std::int64_t>(i);
      // FP64's own allowance is all that two orders of FP64 sums can be held to.
      const double share = c.dtype == DType::kF64 ? 1.0 : 1e-3;
      ExpectClose(value[i], plain.value[i], plan.exact ? 0.0 : share * plain.allowance[i], index);
      if (!plan.exact) {
        ExpectClose(allowance[i], plain.allowance[i], 1e-9 * plain.allowance[i], index);
      }
    }
    EXPECT_EQ(out.max_abs_score > 0, op.name() == "attention");
  }
}

TEST(Reference, RunsThroughACpuDevice) {
  const auto device = MakeCpuDevice(0, ArenaOptions{.max_bytes = 1 << 20});
  ExpectReferencesArePlain(*device);
}

TEST(Reference, HoldsOnEveryInstructionSetOfThisProcessor) {
  const auto device = MakeCpuDevice(0, ArenaOptions{.max_bytes = 1 << 20});
  const std::int64_t supported = hwy::SupportedTargets();
  for (std::int64_t target : {HWY_SSE4, HWY_AVX2, HWY_AVX3}) {
    if ((supported & target) == 0) continue;
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(target);
    ExpectReferencesArePlain(*device);
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().DeInit();
}

// An exact case may have other extents than the case of a user's kernel, and no other field.
TEST(ChangedFields, ExtentsShowInTheShapesAndNothingElseDoes) {
  Case gemm;
  gemm.dtype = DType::kF32;
  gemm.problem = GemmProblem{.m = 4, .n = 5, .k = 6};
  const auto differs = [](const Case& c, auto change) {
    Case other = c;
    change(other.problem);
    return !OnlyShapesDiffer(OpOf(c), c, other);
  };
  EXPECT_FALSE(differs(gemm, [](Problem&) {}));
  EXPECT_FALSE(differs(gemm, [](Problem& p) { std::get<GemmProblem>(p).k = 7; }));
  EXPECT_FALSE(differs(gemm, [](Problem& p) { std::get<GemmProblem>(p).batch = 2; }));
  EXPECT_TRUE(differs(gemm, [](Problem& p) { std::get<GemmProblem>(p).alpha = 0.5; }));
  EXPECT_TRUE(differs(gemm, [](Problem& p) { std::get<GemmProblem>(p).activation = "relu"; }));
  EXPECT_TRUE(differs(gemm, [](Problem& p) {
    std::get<GemmProblem>(p).k = 7;
    std::get<GemmProblem>(p).alpha = 0.5;
  }));
  EXPECT_TRUE(differs(gemm, [](Problem& p) { p = CopyProblem{.count = 4}; }));
  Case rope = gemm;
  rope.problem = RopeProblem{.seq = 4, .dim = 8, .start = 7};
  EXPECT_FALSE(differs(rope, [](Problem& p) { std::get<RopeProblem>(p).seq = 1; }));
  EXPECT_TRUE(differs(rope, [](Problem& p) { std::get<RopeProblem>(p).start = 0; }));
  Case reduce = gemm;
  reduce.problem = ReduceProblem{.extents = {40}, .kind = "sum"};
  EXPECT_TRUE(differs(reduce, [](Problem& p) {
    p = ReduceProblem{.extents = {16, 40}, .axis = 1, .kind = "sum"};
  })) << "neither field alone makes a problem";
}

// A kernel that takes the rank and the axis of a sum from its author gets no other.
TEST(ChangedFields, ExactSumsKeepTheirRankAndAxis) {
  for (const ReduceProblem& p :
       {ReduceProblem{.extents = {5000}, .axis = 0, .kind = "sum"},
        ReduceProblem{.extents = {2, 3, 4000}, .axis = -1, .kind = "sum"},
        ReduceProblem{.extents = {4000, 3}, .axis = 0, .kind = "sum"},
        ReduceProblem{.extents = {3, 4000, 5}, .axis = 1, .kind = "sum"},
        ReduceProblem{.extents = {1 << 23, 2}, .axis = 0, .kind = "sum"}}) {
    Case c;
    c.problem = p;
    c.dtype = DType::kF16;
    std::vector<std::string_view> names;
    for (const KernelProbe& probe : OpOf(c).Probes(c, *OpOf(c).MakePlan(c))) {
      const auto& exact = std::get<ReduceProblem>(probe.data.problem);
      names.push_back(probe.name);
      EXPECT_EQ(exact.extents.size(), p.extents.size());
      EXPECT_EQ(exact.axis, p.axis);
      EXPECT_TRUE(OnlyShapesDiffer(OpOf(c), c, probe.data));
      const ReduceShape s = exact.Split();
      EXPECT_EQ(s.length, p.Split().length);
      const bool several = p.extents.size() > 1 && s.length < 1 << 23;
      if (probe.name != "exact-signs") continue;
      EXPECT_EQ(s.outer * s.inner >= 16, several);
    }
    EXPECT_THAT(
        names, ::testing::ElementsAre("exact-integers", "exact-signs", "nan", "exact-significand"));
  }
}

// A user's copy must keep the numbers that other data have not.
TEST(CopyProbe, OfAUsersKernelHasTheEndsOfTheFormat) {
  for (const DType t : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16, DType::kE4M3FN,
                        DType::kE2M1, DType::kI8, DType::kI32}) {
    Case c = MakeCase(CopyProblem{.count = 5000}, t);
    SCOPED_TRACE(DefaultName(c));
    EXPECT_TRUE(CopyOp().Probes(c, PlanOf(c)).empty());
    c.kernel_file = "kernel.so";
    double largest = 0, smallest = 1;
    bool nan = false;
    for (const KernelProbe& probe : CopyOp().Probes(c, PlanOf(c))) {
      const Plan plan = PlanOf(probe.data);
      EXPECT_TRUE(plan.exact);
      for (const double v :
           PlainReference(CopyOp(), probe.data, plan, Tensors(plan, PatternValues(plan))).value) {
        if (v != 0) smallest = std::min(smallest, std::abs(v));
        largest = std::max(largest, std::abs(v));
        nan = nan || std::isnan(v);
      }
    }
    if (t == DType::kE2M1) continue;
    EXPECT_GE(largest,
              t == DType::kI32 ? 2e9 : std::min(Info(t).max_finite, Info(DType::kF32).max_finite));
    EXPECT_EQ(nan, Info(t).storage_bits >= 16 && !Info(t).is_integer);
    if (!Info(t).is_integer) {
      EXPECT_LT(smallest, Info(t).min_normal);
    }
  }
}

}  // namespace
}  // namespace assay
