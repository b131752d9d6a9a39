// OpenBLAS's kernels: right for awkward shapes in fp32 and fp64, refused with a reason
// in the other formats.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/providers/provider_testing.h"

namespace assay::testing {
namespace {

using ::testing::HasSubstr;

constexpr DType kFormats[] = {DType::kF32, DType::kF64};

TEST(OpenblasGemm, TransposesLeadingDimensionsBatchesAndScalars) {
  struct Shape {
    std::int64_t m, n, k;
  };
  for (const DType t : kFormats) {
    for (const Shape& s :
         {Shape{33, 65, 47}, Shape{1, 7, 129}, Shape{64, 1, 1}, Shape{140, 130, 150}}) {
      for (int bits = 0; bits < 32; ++bits) {
        GemmProblem p{.m = s.m, .n = s.n, .k = s.k};
        p.trans_a = (bits & 1) != 0;
        p.trans_b = (bits & 2) != 0;
        p.batch = (bits & 4) != 0 ? 3 : 1;
        if ((bits & 8) != 0) {
          p.lda = (p.trans_a ? p.m : p.k) + 3;
          p.ldb = (p.trans_b ? p.k : p.n) + 5;
          p.ldc = p.n + 7;
        }
        if ((bits & 16) != 0) {
          p.alpha = 0.5;
          p.beta = -1.5;
        }
        const Ran ran = RunCase(p, "openblas", t);
        EXPECT_TRUE(ran.right()) << Name(t) << " " << p.Describe() << ": " << ran.Describe();
      }
    }
  }
}

TEST(OpenblasConv, OneToThreeDimensionsGroupsLayoutsStridesDilations) {
  for (const DType t : kFormats) {
    for (const char* layout : {"nchw", "nhwc"}) {
      for (const std::int64_t groups : {1, 2, 6}) {
        for (const int spatial : {1, 2, 3}) {
          ConvProblem p;
          p.batch = 2;
          p.channels = 6;
          p.filters = 12;
          p.input = {9, 11, 13};
          p.kernel = {3, 2, 3};
          p.input.resize(static_cast<std::size_t>(spatial));
          p.kernel.resize(static_cast<std::size_t>(spatial));
          p.stride = {2};
          p.padding = {1};
          p.dilation = {spatial == 2 ? 2 : 1};
          p.groups = groups;
          p.layout = layout;
          const Ran ran = RunCase(p, "openblas", t);
          EXPECT_TRUE(ran.right()) << Name(t) << " " << p.Describe() << ": " << ran.Describe();
        }
      }
    }
  }
}

// More patches than 16 MiB: the output positions go in several runs.
TEST(OpenblasConv, RunsOfOutputPositions) {
  for (const char* layout : {"nchw", "nhwc"}) {
    ConvProblem p;
    p.channels = 64;
    p.filters = 2;
    p.input = {97, 101};
    p.kernel = {3, 3};
    p.padding = {1};
    p.layout = layout;
    const Ran ran = RunCase(p, "openblas", DType::kF32);
    EXPECT_TRUE(ran.right()) << layout << ": " << ran.Describe();
  }
}

TEST(OpenblasAttention, MasksGroupsAndUnequalLengths) {
  for (const DType t : kFormats) {
    for (int bits = 0; bits < 16; ++bits) {
      AttentionProblem p{.batch = 2, .heads = 4, .seq = 17, .kv_seq = 29, .dim = 20};
      p.kv_heads = (bits & 1) != 0 ? 2 : 0;
      p.causal = (bits & 2) != 0;
      p.mask_density = (bits & 4) != 0 ? 0.2 : 0.0;
      if ((bits & 8) != 0) p.kv_seq = 9;
      for (const char* policy : {"zero", "nan"}) {
        p.masked_rows = policy;
        const Ran ran = RunCase(p, "openblas", t);
        EXPECT_TRUE(ran.right()) << Name(t) << " " << p.Describe() << " masked rows " << policy
                                 << ": " << ran.Describe();
      }
    }
  }
}

// A row that sees nothing is the policy's, though 0·Inf is NaN.
// Infinite values are refused where a weight may be 0: see the case's check.
TEST(OpenblasAttention, RowsWithoutKeysAreZero) {
  AttentionProblem p{.heads = 2, .seq = 8, .kv_seq = 4, .dim = 4, .causal = true};
  const Ran ran = RunCase(p, "openblas", DType::kF32, DType::kF32, "normal/normal/constant:1e30");
  ASSERT_TRUE(ran.status.ok()) << ran.status;
  EXPECT_EQ(ran.compare.zero_count, 2 * 4 * 4) << ran.Describe();
}

// An fp64 kernel is given the scale as it was asked for, not fp32's nearest.
TEST(Attention, Fp64ScaleKeepsItsDigits) {
  for (const double scale : {0.3, 0.0}) {
    const AttentionProblem p{.heads = 2, .seq = 33, .dim = 20, .scale = scale};
    for (const char* provider : {"builtin", "openblas"}) {
      const Ran ran = RunCase(p, provider, DType::kF64);
      EXPECT_TRUE(ran.right()) << provider << " scale " << scale << ": " << ran.Describe();
    }
  }
}

TEST(OpenblasCopy, OddSizes) {
  for (const DType t : kFormats) {
    for (const std::int64_t count : {1, 7, 1000, 100003}) {
      const Ran ran = RunCase(CopyProblem{.count = count}, "openblas", t);
      EXPECT_TRUE(ran.right()) << Name(t) << " " << count << ": " << ran.Describe();
    }
  }
}

TEST(Openblas, RefusesWithTheReason) {
  const GemmProblem p{.m = 8, .n = 8, .k = 8};
  const auto refused = [](const Ran& ran, const char* what) {
    EXPECT_EQ(ran.status.code(), absl::StatusCode::kUnimplemented) << ran.status;
    EXPECT_THAT(std::string(ran.status.message()), HasSubstr(what));
  };
  refused(RunCase(p, "openblas", DType::kBF16), "no sbgemm");
  refused(RunCase(p, "openblas", DType::kF16), "computes fp32 and fp64, got fp16");
}

// Threads of its own would fight with the other providers' for the cores.
TEST(Openblas, IsTheOpenMpFlavour) {
  EXPECT_THAT(RunCase(GemmProblem{.m = 8, .n = 8, .k = 8}, "openblas", DType::kF32).implementation,
              HasSubstr("openmp"));
}

}  // namespace
}  // namespace assay::testing
