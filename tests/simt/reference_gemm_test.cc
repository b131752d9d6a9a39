// The gemm reference for GPUs under the emulator, held to the plain one.
#include "kernels/ops/gemm/gemm_reference.h"
#include "kernels/ops/gemm/gemm_reference_gpu.h"
#include "simt/references.h"

namespace assay {
namespace {

class SimtGemmReference : public SimtReference {};
INSTANTIATE_TEST_SUITE_P(Waves, SimtGemmReference, ::testing::Values(32, 64));

TEST_P(SimtGemmReference, FormatsAtAwkwardSizes) {
  for (const DType t : kProductFormats) {
    ExpectPlain(MakeCase(GemmProblem{.m = 65, .n = 67, .k = 37}, t));
    ExpectPlain(MakeCase(GemmProblem{.m = 1, .n = 3, .k = 1}, t));
    ExpectPlain(MakeCase(GemmProblem{.m = 3, .n = 130, .k = 16}, t));
  }
}

TEST_P(SimtGemmReference, EveryStorageOrder) {
  for (const bool trans_a : {false, true}) {
    for (const bool trans_b : {false, true}) {
      GemmProblem p{.m = 70, .n = 33, .k = 50, .batch = 2, .trans_a = trans_a, .trans_b = trans_b};
      ExpectPlain(MakeCase(p, DType::kF16));
      p.lda = 81;
      p.ldb = 77;
      p.ldc = 71;
      p.stride_a = 6011;
      p.stride_b = 5987;
      p.stride_c = 5501;
      p.beta = -0.5;
      ExpectPlain(MakeCase(p, DType::kBF16));
    }
  }
}

TEST_P(SimtGemmReference, PackedHalfBytes) {
  ExpectPlain(MakeCase(GemmProblem{.m = 17, .n = 20, .k = 33, .trans_a = true}, DType::kE2M1));
}

TEST_P(SimtGemmReference, Epilogues) {
  for (const char* activation : {"none", "relu", "gelu", "gelu_tanh"}) {
    GemmProblem p{.m = 20, .n = 66, .k = 30, .alpha = 0.75, .beta = 1.5};
    p.scale_a = 0.3;
    p.scale_b = 2;
    p.channel_scale = true;
    p.bias = true;
    p.activation = activation;
    ExpectPlain(MakeCase(p, DType::kF32));
    ExpectPlain(MakeCase(p, DType::kF64));
    p.beta = 0;
    ExpectPlain(MakeCase(p, DType::kE4M3FN));
    Case integers = MakeCase(p, DType::kI8);
    integers.out_dtype = DType::kF16;
    ExpectPlain(integers);
  }
}

TEST_P(SimtGemmReference, WhatTheKernelDeclaresIsInTheBound) {
  const Case c = MakeCase(GemmProblem{.m = 9, .n = 9, .k = 70}, DType::kE4M3FN);
  Plan plan = PlanOf(c);
  FindOp("gemm")->HoldTo(c, Accumulator{0x1p-14, 32}, plan);
  plan.flushes_subnormals = true;
  ExpectPlain(c, plan, RandomValues(plan));
}

TEST_P(SimtGemmReference, SumsOfOneProductHaveItsBound) {
  GemmProblem p{.m = 66, .n = 20, .k = 30, .alpha = 0.75, .beta = 1.5, .bias = true};
  p.activation = "gelu";
  for (const DType t : {DType::kF64, DType::kF32, DType::kE4M3FN}) {
    const Case c = MakeCase(p, t);
    for (const KernelProbe& probe : FindOp("gemm")->Probes(c, PlanOf(c))) {
      if (probe.data.significand < 0) continue;
      const Plan plan = PlanOf(probe.data);
      ExpectPlain(probe.data, plan, PatternValues(plan));
    }
  }
}

TEST_P(SimtGemmReference, SmallFloatOutputsSaturate) {
  Case c = MakeCase(GemmProblem{.m = 10, .n = 12, .k = 40}, DType::kE4M3FN);
  c.out_dtype = DType::kE4M3FN;
  ExpectPlain(c, [](int operand, std::int64_t i) {
    return (operand == 0 ? 20.0 : 1.0) * static_cast<double>(i % 5 - 2);
  });
}

TEST_P(SimtGemmReference, DeviationsOfSeveralProducts) {
  GemmProblem p{.m = 40, .n = 70, .k = 33, .batch = 3};
  p.alpha = 0.5;
  p.trans_a = p.trans_b = p.bias = true;
  ExpectPlain(MakeCase(p, DType::kF32));
}

// Products in groups, because the scratch memory has no room for the margins of all.
TEST_P(SimtGemmReference, DeviationsDoNotDependOnTheScratchMemory) {
  constexpr std::int64_t kM = 5, kN = 6, kK = 40, kBatch = 7, kCount = kBatch * kM * kN;
  std::vector<float> a(kBatch * kM * kK), b(kBatch * kK * kN);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i * 37 % 101) - 40;
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i * 53 % 97) - 50;
  const auto deviations = [&](std::int64_t products) {
    std::vector<double> value(kCount), allowance(kCount);
    std::vector<float> deviation(kCount);
    std::vector<std::uint64_t> scratch(
        static_cast<std::size_t>(products * gpu::SquareBytes(kM, kN, kK) / 8));
    gpu::GemmReference g;
    g.m = kM;
    g.n = kN;
    g.k = kK;
    g.batch = kBatch;
    g.a = {a.data(), kK, 1, kM * kK};
    g.b = {b.data(), 1, kN, kK * kN};
    g.input = DType::kF32;
    g.epilogue = MakeGemmEpilogue({.m = kM, .n = kN, .k = kK}, DType::kF32, false);
    g.epilogue.steps = OutputStepsOf(DType::kF32);
    g.value = value.data();
    g.allowance = allowance.data();
    g.deviation = deviation.data();
    g.scratch = scratch.data();
    g.scratch_bytes = static_cast<std::int64_t>(scratch.size() * 8);
    EXPECT_EQ(gpu::LaunchGemmReference(g, nullptr), gpu::kOk);
    return deviation;
  };
  const std::vector<float> together = deviations(kBatch);
  EXPECT_GT(together.back(), 0);
  EXPECT_EQ(deviations(1), together);
  EXPECT_EQ(deviations(3), together);
}

TEST_P(SimtGemmReference, NoDeviationsWhereTheMarginsDoNotFit) {
  EXPECT_TRUE(
      references_.FillsDeviations(MakeCase(GemmProblem{.m = 1, .n = 1, .k = 200000}, DType::kF32)));
  EXPECT_FALSE(
      references_.FillsDeviations(MakeCase(GemmProblem{.m = 1, .n = 1, .k = 300000}, DType::kF32)));
}

// An infinity reaches its row and column only, through zeros too.
TEST_P(SimtGemmReference, NonFiniteElements) {
  for (const double x : {HUGE_VAL, -HUGE_VAL, std::nan("")}) {
    ExpectPlain(MakeCase(GemmProblem{.m = 66, .n = 5, .k = 20}, DType::kF32),
                [&](int operand, std::int64_t i) {
                  return operand == 0 && i == 777 ? x : static_cast<double>(i % 3 - 1);
                });
  }
}

TEST_P(SimtGemmReference, ExactCasesToTheBit) {
  Case c = MakeCase(GemmProblem{.m = 70, .n = 5, .k = 129, .alpha = 2, .bias = true}, DType::kF16);
  c.exact = true;
  const Plan plan = PlanOf(c);
  ASSERT_TRUE(plan.exact);
  ExpectPlain(c, plan, [](int operand, std::int64_t i) {
    return static_cast<double>((i * 7 + operand) % 5);
  });
}

}  // namespace
}  // namespace assay
