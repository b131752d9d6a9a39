// cuBLASLt's provider against a stand-in of the library that computes what it is told, on
// the emulator's device: what is proven is that the row-major problem is described to it
// rightly, that what it has not is refused with the reason, and what is asked of it. Nothing
// is proven of cuBLASLt itself.
#include <cublasLt.h>
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "fake_cublaslt.h"
#include "kernels/backends/vendor_product.h"
#include "kernels/providers/cublaslt/cublaslt.h"
#include "kernels/providers/cublaslt/forms.h"
#include "vendor_testing.h"

namespace assay {
namespace {

using ::testing::HasSubstr;

class CublasltTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv("ASSAY_CUBLASLT", FAKE_CUBLASLT_PATH, 1);
    void* library = dlopen(FAKE_CUBLASLT_PATH, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << dlerror();
    const auto get =
        reinterpret_cast<const fake::CublasltSeen* (*)()>(dlsym(library, "fake_cublaslt_seen"));
    ASSERT_NE(get, nullptr);
    seen_ = get();
  }
  void SetUp() override { bench_.Add(CublasltGemm("simt")); }

  CaseOutcome Run(GemmProblem p, DType in, DType out = DType::kUnspecified) {
    return bench_.Run(p, in, "cublaslt", out);
  }
  void ExpectPassed(const GemmProblem& p, DType in, DType out = DType::kUnspecified) {
    const int before = seen_->launches;
    const CaseOutcome outcome = Run(p, in, out);
    EXPECT_EQ(outcome.verdict, Verdict::kPassed)
        << p.Describe() << " " << Name(in) << " to " << Name(out) << ": " << Said(outcome);
    EXPECT_GT(seen_->launches, before);
    EXPECT_EQ(seen_->live_objects, 0);
  }
  void ExpectRefused(const GemmProblem& p, DType in, DType out, const std::string& why) {
    const int before = seen_->launches;
    const CaseOutcome outcome = Run(p, in, out);
    EXPECT_EQ(outcome.verdict, Verdict::kUnsupported) << p.Describe();
    EXPECT_THAT(Said(outcome), HasSubstr(why));
    EXPECT_EQ(seen_->launches, before);
    EXPECT_EQ(seen_->live_objects, 0);
  }

  static const fake::CublasltSeen* seen_;
  VendorBench bench_;
};

const fake::CublasltSeen* CublasltTest::seen_ = nullptr;

TEST_F(CublasltTest, IsListedWithTheLibrarysVersion) {
  const KernelEntry entry = CublasltGemm("cuda");
  EXPECT_EQ(entry.version, "13.0.2");
  EXPECT_EQ(entry.unavailable_reason, "");
  EXPECT_EQ(entry.backend, "cuda");
}

TEST_F(CublasltTest, EveryTransposeBatchLeadingDimensionAndScalarIsTheRowMajorProblem) {
  for (const bool trans_a : {false, true}) {
    for (const bool trans_b : {false, true}) {
      GemmProblem p{.m = 19, .n = 33, .k = 45, .trans_a = trans_a, .trans_b = trans_b};
      ExpectPassed(p, DType::kF32);
      p.lda = 61;
      p.ldb = 63;
      p.ldc = 51;
      ExpectPassed(p, DType::kF32);
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

TEST_F(CublasltTest, EveryFormatWithItsComputeAndScaleType) {
  const GemmProblem p{.m = 17, .n = 31, .k = 40, .trans_b = true, .beta = 1};
  const auto expect = [&](DType in, DType out, cublasComputeType_t compute, cudaDataType_t scale,
                          const GemmProblem& problem) {
    ExpectPassed(problem, in, out);
    EXPECT_EQ(seen_->compute_type, compute) << Name(in);
    EXPECT_EQ(seen_->scale_type, scale) << Name(in);
  };
  expect(DType::kF64, DType::kF64, CUBLAS_COMPUTE_64F, CUDA_R_64F, p);
  expect(DType::kF32, DType::kF32, CUBLAS_COMPUTE_32F, CUDA_R_32F, p);
  expect(DType::kTF32, DType::kF32, CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_R_32F, p);
  for (const DType half : {DType::kF16, DType::kBF16}) {
    expect(half, half, CUBLAS_COMPUTE_32F, CUDA_R_32F, p);
    expect(half, DType::kF32, CUBLAS_COMPUTE_32F, CUDA_R_32F, p);
  }
  const GemmProblem quads{.m = 17, .n = 32, .k = 40, .trans_b = true};
  GemmProblem with_c = quads;
  with_c.beta = 1;
  expect(DType::kI8, DType::kI32, CUBLAS_COMPUTE_32I, CUDA_R_32I, quads);
  expect(DType::kI8, DType::kI32, CUBLAS_COMPUTE_32I, CUDA_R_32I, with_c);
}

TEST_F(CublasltTest, Tf32CutsOffWhateverTheLibraryCallsTheAlgorithm) {
  const CaseOutcome outcome = Run({.m = 17, .n = 31, .k = 40}, DType::kTF32, DType::kUnspecified);
  EXPECT_THAT(outcome.implementation, HasSubstr(", fma, "));
  EXPECT_THAT(outcome.implementation, HasSubstr("cuts sums off"));
}

TEST_F(CublasltTest, EpiloguesAreTheLibrarysOwn) {
  for (const std::string activation : {"none", "relu", "gelu_tanh"}) {
    for (const bool bias : {false, true}) {
      GemmProblem p{.m = 9, .n = 21, .k = 33, .batch = 2, .beta = 0.5};
      p.activation = activation;
      p.bias = bias;
      ExpectPassed(p, DType::kF32);
      ExpectPassed(p, DType::kBF16, DType::kF32);
      p.bias = false;
      ExpectPassed(p, DType::kF16);
    }
  }
  ExpectRefused({.m = 8, .n = 8, .k = 8, .activation = "gelu"}, DType::kF32, DType::kF32,
                "cuBLASLt's GELU is the tanh form, gelu_tanh");
  ExpectRefused({.m = 8, .n = 8, .k = 8, .bias = true}, DType::kF16, DType::kF16,
                "cuBLASLt's bias has the output's format");
}

TEST_F(CublasltTest, AScaleAColumnIsAVectorInPlaceOfAlpha) {
  GemmProblem p{.m = 12, .n = 20, .k = 36, .trans_b = true, .channel_scale = true};
  ExpectPassed(p, DType::kI8, DType::kF32);
  EXPECT_EQ(seen_->pointer_mode, CUBLASLT_POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_ZERO);
  p.beta = 0.5;
  ExpectPassed(p, DType::kF32);
  EXPECT_EQ(seen_->pointer_mode, CUBLASLT_POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_HOST);
  ExpectRefused(p, DType::kF16, DType::kF16,
                "a scale a column (gemm.channel_scale) exists for few");
  p.alpha = 2;
  ExpectRefused(p, DType::kF32, DType::kF32,
                "in place of alpha; got gemm.alpha, scale_a and scale_b");
}

TEST_F(CublasltTest, Fp8RunsAccuratelyWithItsScalesBehindPointers) {
  GemmProblem p{.m = 32, .n = 48, .k = 64, .trans_b = true};
  for (const DType out : {DType::kF32, DType::kF16, DType::kBF16, DType::kE4M3FN}) {
    p.scale_a = p.scale_b = 1;
    ExpectPassed(p, DType::kE4M3FN, out);
    EXPECT_EQ(seen_->fast_accum, 0);
    EXPECT_FALSE(seen_->scales_behind_pointers);
    p.scale_a = 0.5;
    p.scale_b = 0.125;
    ExpectPassed(p, DType::kE4M3FN, out);
    EXPECT_TRUE(seen_->scales_behind_pointers);
  }
  p.alpha = 1.5;
  p.beta = 1;
  p.channel_scale = true;
  ExpectPassed(p, DType::kE4M3FN, DType::kBF16);
  EXPECT_TRUE(seen_->scales_behind_pointers);
}

TEST_F(CublasltTest, Fp8sDemandsAreNamed) {
  const GemmProblem p{.m = 32, .n = 48, .k = 64, .trans_b = true};
  const auto but = [&](auto change) {
    GemmProblem other = p;
    change(other);
    return other;
  };
  ExpectRefused(but([](GemmProblem& q) { q.k = 40; }), DType::kE4M3FN, DType::kF32,
                "takes multiples of 16 only; got gemm.k 40");
  ExpectRefused(but([](GemmProblem& q) { q.ldc = 49; }), DType::kE4M3FN, DType::kF32,
                "got gemm.ldc 49");
  ExpectRefused(but([](GemmProblem& q) { q.beta = 1; }), DType::kE4M3FN, DType::kE4M3FN,
                "takes C as bf16 or fp16");
  ExpectRefused(but([](GemmProblem& q) { q.bias = true; }), DType::kE4M3FN, DType::kF32,
                "cuBLASLt's bias has the output's format");
  // What depends on the card.
  Case c;
  c.problem = p;
  c.dtype = DType::kE4M3FN;
  const absl::StatusOr<Plan> plan = FindOp("gemm")->MakePlan(c);
  ASSERT_TRUE(plan.ok());
  EXPECT_TRUE(cublaslt::CheckProblem(p, *plan, 90).ok());
  EXPECT_THAT(cublaslt::CheckProblem(p, *plan, 80).message(),
              HasSubstr("needs compute capability 8.9 or later; this device is sm_80"));
  const GemmProblem nn = but([](GemmProblem& q) { q.trans_b = false; });
  EXPECT_THAT(cublaslt::CheckProblem(nn, *plan, 90).message(),
              HasSubstr("gemm.trans_b true; got false and false"));
  EXPECT_TRUE(cublaslt::CheckProblem(nn, *plan, 100).ok());
}

TEST_F(CublasltTest, WhatIntegersCannotIsNamed) {
  ExpectRefused({.m = 16, .n = 16, .k = 16}, DType::kI8, DType::kI32,
                "need gemm.trans_a false, gemm.trans_b true");
  ExpectRefused({.m = 16, .n = 16, .k = 2048, .trans_b = true, .scale_a = 0.5}, DType::kI8,
                DType::kF32, "exactly for gemm.k up to 1024; got 2048");
  ExpectPassed({.m = 16, .n = 16, .k = 1024, .trans_b = true, .scale_a = 0.5}, DType::kI8,
               DType::kF32);
}

TEST_F(CublasltTest, TheAlgorithmIsOneThatSumsInTheComputeTypeAndIsNamed) {
  const CaseOutcome outcome = Run({.m = 16, .n = 16, .k = 16}, DType::kF16);
  EXPECT_EQ(outcome.verdict, Verdict::kPassed) << Said(outcome);
  EXPECT_THAT(outcome.implementation,
              HasSubstr("cublaslt 13.0.2 algo 66 tile id 20 stages id 35 split-k 3, hmma, "
                        "workspace 1048576 bytes"));
  EXPECT_EQ(seen_->reduction_schemes,
            static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  EXPECT_EQ(seen_->workspace_limit, std::uint64_t{4} << 20);
  EXPECT_NE(seen_->stream, nullptr);
  EXPECT_EQ(seen_->handles, 1);
}

// What the ceiling of matrix units is measured with.
TEST_F(CublasltTest, ALargeProductIsReadyToBeTimed) {
  constexpr std::int64_t kEdge = 64;
  std::vector<KernelEntry> entries = {CublasltGemm("simt")};
  Device& device = bench_.device();
  for (const DType t : {DType::kF64, DType::kTF32, DType::kF16, DType::kBF16, DType::kI8}) {
    device.arena().Reset();
    const absl::StatusOr<LargeProduct> product = VendorProduct(entries, t, kEdge, device);
    ASSERT_TRUE(product.ok()) << Name(t) << ": " << product.status();
    EXPECT_EQ(product->operations, 2.0 * kEdge * kEdge * kEdge);
    const int before = seen_->launches;
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(product->launch().ok()) << Name(t);
    EXPECT_EQ(seen_->launches - before, 2);
    EXPECT_TRUE(device.Synchronize().ok());
  }
  EXPECT_EQ(seen_->live_objects, 0);
  device.arena().Reset();
  EXPECT_TRUE(
      absl::IsResourceExhausted(VendorProduct(entries, DType::kF16, 1 << 14, device).status()));
  device.arena().Reset();
  EXPECT_TRUE(absl::IsNotFound(VendorProduct(entries, DType::kE5M2, kEdge, device).status()));
  entries[0].unavailable_reason = "no such library";
  EXPECT_TRUE(absl::IsNotFound(VendorProduct(entries, DType::kF16, kEdge, device).status()));
}

}  // namespace
}  // namespace assay
