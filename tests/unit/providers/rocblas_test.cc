// rocBLAS's provider against a stand-in of the library that computes what it is told, on the
// emulator's device. Nothing is proven of rocBLAS itself.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "fake_rocblas.h"
#include "kernels/providers/rocblas/api.h"
#include "kernels/providers/rocblas/rocblas.h"
#include "vendor_testing.h"

namespace assay {
namespace {

using ::testing::HasSubstr;

class RocblasTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv("ASSAY_ROCBLAS", FAKE_ROCBLAS_PATH, 1);
    void* library = dlopen(FAKE_ROCBLAS_PATH, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << dlerror();
    const auto get =
        reinterpret_cast<const fake::RocblasSeen* (*)()>(dlsym(library, "fake_rocblas_seen"));
    ASSERT_NE(get, nullptr);
    seen_ = get();
  }
  void SetUp() override { bench_.Add(RocblasGemm("simt")); }

  void ExpectPassed(const GemmProblem& p, DType in, DType out = DType::kUnspecified) {
    const int before = seen_->launches;
    const CaseOutcome outcome = bench_.Run(p, in, "rocblas", out);
    EXPECT_EQ(outcome.verdict, Verdict::kPassed)
        << p.Describe() << " " << Name(in) << ": " << Said(outcome);
    EXPECT_GT(seen_->launches, before);
  }
  void ExpectRefused(const GemmProblem& p, DType in, DType out, const std::string& why) {
    const int before = seen_->launches;
    const CaseOutcome outcome = bench_.Run(p, in, "rocblas", out);
    EXPECT_EQ(outcome.verdict, Verdict::kUnsupported) << p.Describe();
    EXPECT_THAT(Said(outcome), HasSubstr(why));
    EXPECT_EQ(seen_->launches, before);
  }

  static const fake::RocblasSeen* seen_;
  VendorBench bench_;
};

const fake::RocblasSeen* RocblasTest::seen_ = nullptr;

TEST_F(RocblasTest, EveryTransposeBatchLeadingDimensionAndScalarIsTheRowMajorProblem) {
  for (const bool trans_a : {false, true}) {
    for (const bool trans_b : {false, true}) {
      GemmProblem p{.m = 19, .n = 33, .k = 45, .trans_a = trans_a, .trans_b = trans_b};
      const int singles = seen_->single_launches;
      ExpectPassed(p, DType::kF32);
      EXPECT_GT(seen_->single_launches, singles);
      p.lda = 61;
      p.ldb = 63;
      p.ldc = 51;
      p.batch = 3;
      p.alpha = 0.75;
      p.beta = -0.5;
      p.scale_a = 1.5;
      p.scale_b = 0.25;
      ExpectPassed(p, DType::kF32);
      p.stride_a = 61 * 70;
      p.stride_b = 63 * 70;
      p.stride_c = 51 * 40;
      ExpectPassed(p, DType::kF64);
    }
  }
}

TEST_F(RocblasTest, EveryFormatWithItsComputeType) {
  const GemmProblem p{.m = 17, .n = 31, .k = 40, .trans_b = true, .beta = 1};
  const auto expect = [&](DType in, DType out, rocblas::DataType compute) {
    ExpectPassed(p, in, out);
    EXPECT_EQ(seen_->compute_type, static_cast<int>(compute)) << Name(in);
  };
  expect(DType::kF64, DType::kF64, rocblas::DataType::kF64);
  for (const DType in : {DType::kF32, DType::kF16, DType::kBF16}) {
    expect(in, in, rocblas::DataType::kF32);
    expect(in, DType::kF32, rocblas::DataType::kF32);
  }
  expect(DType::kI8, DType::kI32, rocblas::DataType::kI32);
}

TEST_F(RocblasTest, WhatItHasNotIsNamed) {
  ExpectRefused({.m = 8, .n = 8, .k = 8, .bias = true}, DType::kF32, DType::kF32,
                "rocBLAS gemm_ex has no bias (gemm.bias)");
  ExpectRefused({.m = 8, .n = 8, .k = 8, .activation = "relu"}, DType::kF32, DType::kF32,
                "gemm.activation relu");
  ExpectRefused({.m = 8, .n = 8, .k = 8, .scale_a = 0.5}, DType::kI8, DType::kF32,
                "rocBLAS has no int8 to fp32 gemm_ex");
}

TEST_F(RocblasTest, RunsOnTheDevicesStreamInTheArenasWorkspaceWithoutAtomics) {
  const CaseOutcome outcome =
      bench_.Run(GemmProblem{.m = 8, .n = 8, .k = 8}, DType::kF32, "rocblas");
  EXPECT_EQ(outcome.verdict, Verdict::kPassed) << Said(outcome);
  EXPECT_THAT(outcome.implementation, HasSubstr("rocblas 4.4.0.1234 standard"));
  EXPECT_THAT(outcome.implementation, HasSubstr("tells neither its index"));
  EXPECT_EQ(seen_->handles, 1);
  EXPECT_EQ(seen_->atomics, 0);
  EXPECT_NE(seen_->stream, nullptr);
  EXPECT_GT(seen_->workspace_bytes, 0U);
}

}  // namespace
}  // namespace assay
