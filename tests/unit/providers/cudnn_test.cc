// cuDNN's provider against a stand-in of the library that computes what its descriptors say,
// on the emulator's device: what is proven is that problems are described rightly, which
// engines are taken, and what is refused. Nothing is proven of cuDNN itself.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "fake_cudnn.h"
#include "kernels/providers/cudnn/cudnn.h"
#include "vendor_testing.h"

namespace assay {
namespace {

using ::testing::HasSubstr;

class CudnnTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv("ASSAY_CUDNN", FAKE_CUDNN_PATH, 1);
    void* library = dlopen(FAKE_CUDNN_PATH, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << dlerror();
    const auto get = reinterpret_cast<fake::CudnnSeen* (*)()>(dlsym(library, "fake_cudnn_seen"));
    ASSERT_NE(get, nullptr);
    seen_ = get();
  }
  void SetUp() override {
    seen_->without_sdpa = seen_->without_matmul = false;
    bench_.Add(CudnnConv("simt"));
    bench_.Add(CudnnSoftmax("simt"));
    bench_.Add(CudnnLayerNorm("simt"));
    bench_.Add(CudnnAttention("simt"));
  }

  CaseOutcome ExpectPassed(const Problem& p, DType in, DType out = DType::kUnspecified) {
    const int before = seen_->launches;
    CaseOutcome outcome = bench_.Run(p, in, "cudnn", out);
    EXPECT_EQ(outcome.verdict, Verdict::kPassed)
        << std::visit([](const auto& q) { return q.Describe(); }, p) << " " << Name(in) << ": "
        << Said(outcome);
    EXPECT_GT(seen_->launches, before);
    EXPECT_EQ(seen_->live_objects, 0);
    return outcome;
  }
  void ExpectRefused(const Problem& p, DType in, DType out, const std::string& why) {
    const int before = seen_->launches;
    const CaseOutcome outcome = bench_.Run(p, in, "cudnn", out);
    EXPECT_EQ(outcome.verdict, Verdict::kUnsupported) << Said(outcome);
    EXPECT_THAT(Said(outcome), HasSubstr(why));
    EXPECT_EQ(seen_->launches, before);
    EXPECT_EQ(seen_->live_objects, 0);
  }

  static fake::CudnnSeen* seen_;
  VendorBench bench_;
};

fake::CudnnSeen* CudnnTest::seen_ = nullptr;

TEST_F(CudnnTest, IsListedWithTheLibrarysVersion) {
  EXPECT_EQ(CudnnConv("cuda").version, "9.19.0");
  EXPECT_EQ(CudnnConv("cuda").unavailable_reason, "");
}

TEST_F(CudnnTest, ConvolutionsOfEveryShapeAreTheProblem) {
  ConvProblem one;
  one.channels = 3;
  one.filters = 4;
  one.input = {17};
  one.kernel = {5};
  one.padding = {2};
  one.stride = {2};
  ConvProblem two;
  two.batch = 2;
  two.channels = 4;
  two.filters = 6;
  two.input = {9, 11};
  two.kernel = {3, 2};
  two.padding = {1, 0};
  two.stride = {1, 2};
  two.dilation = {2, 1};
  two.groups = 2;
  ConvProblem three;
  three.channels = 2;
  three.filters = 3;
  three.input = {4, 5, 6};
  three.kernel = {2, 3, 1};
  three.padding = {1};
  for (const ConvProblem& p : {one, two, three}) {
    for (const std::string layout : {"nchw", "nhwc"}) {
      ConvProblem q = p;
      q.layout = layout;
      ExpectPassed(q, DType::kF32);
    }
  }
  for (const DType t : {DType::kF64, DType::kTF32, DType::kF16, DType::kBF16}) {
    ExpectPassed(two, t);
  }
  ExpectPassed(two, DType::kBF16, DType::kF32);
}

TEST_F(CudnnTest, TakesTheFirstEngineWhoseArithmeticIsWhatWasAsked) {
  ConvProblem p;
  p.channels = 4;
  p.filters = 4;
  p.input = {6, 6};
  p.kernel = {3, 3};
  EXPECT_THAT(ExpectPassed(p, DType::kF16).implementation,
              HasSubstr("cudnn 9.19.0 engine 14, tensor cores, workspace 65536 bytes, "
                        "deterministic"));
  EXPECT_EQ(seen_->engine, fake::kTensorCores);
  // For fp32 tensor cores would round the inputs to tf32; for tf32 that is what was asked.
  ExpectPassed(p, DType::kF32);
  EXPECT_EQ(seen_->engine, fake::kPlain);
  ExpectPassed(p, DType::kTF32);
  EXPECT_EQ(seen_->engine, fake::kTensorCores);
  EXPECT_NE(seen_->stream, nullptr);
  EXPECT_EQ(seen_->handles, 1);
}

TEST_F(CudnnTest, SoftmaxInEveryFormat) {
  for (const DType t : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16}) {
    const std::string said = ExpectPassed(SoftmaxProblem{.rows = 5, .cols = 143}, t).implementation;
    EXPECT_THAT(said, HasSubstr("cudnnSoftmaxForward accurate"));
    const bool half = t == DType::kF16 || t == DType::kBF16;
    EXPECT_EQ(said.find("exponentials held in") != said.npos, half) << said;
  }
  ExpectRefused(SoftmaxProblem{.rows = 2, .cols = 8}, DType::kF16, DType::kF32,
                "writes the format it reads, fp16; got fp32");
}

TEST_F(CudnnTest, LayerNormAndRmsNormWithAndWithoutWeights) {
  for (const bool rms : {false, true}) {
    for (const bool affine : {false, true}) {
      const LayerNormProblem p{.rows = 7, .cols = 65, .eps = 1e-3, .affine = affine, .rms = rms};
      for (const DType t : {DType::kF32, DType::kF16, DType::kBF16}) ExpectPassed(p, t);
    }
  }
  ExpectRefused(LayerNormProblem{.rows = 2, .cols = 8, .compensated = true}, DType::kF32,
                DType::kF32, "no compensated sums (layer_norm.compensated)");
}

TEST_F(CudnnTest, AttentionWithGroupedQueriesAndKeysOfAnotherLength) {
  AttentionProblem p;
  p.batch = 2;
  p.heads = 4;
  p.kv_heads = 2;
  p.seq = 13;
  p.kv_seq = 21;
  p.dim = 16;
  for (const DType t : {DType::kF16, DType::kBF16}) ExpectPassed(p, t);
  p.scale = 0.3;
  EXPECT_THAT(ExpectPassed(p, DType::kF16).implementation, HasSubstr("one node"));
  p.mask_density = 0.5;
  ExpectRefused(p, DType::kF16, DType::kF16, "no mask of single pairs; got attention.mask_density");
  p.mask_density = 0;
  p.scale_q = 0.5;
  ExpectRefused(p, DType::kF16, DType::kF16, "attention.scale_q 0.5");
}

// The last query sees the last key, of however many there are.
TEST_F(CudnnTest, CausalAttentionIsAGraphOfProductsAndPointwiseOperations) {
  AttentionProblem p;
  p.batch = 2;
  p.heads = 4;
  p.kv_heads = 2;
  p.seq = 13;
  p.dim = 16;
  p.causal = true;
  for (const std::int64_t keys : {0, 13, 14, 21}) {
    p.kv_seq = keys;
    for (const DType t : {DType::kF16, DType::kBF16}) {
      EXPECT_THAT(ExpectPassed(p, t).implementation, HasSubstr("flash attention's graph"));
    }
  }
  p.scale = 0.3;
  ExpectPassed(p, DType::kBF16);
  p.kv_seq = 12;
  ExpectRefused(p, DType::kF16, DType::kF16,
                "wants attention.seq at most attention.kv_seq: the first queries would see no key; "
                "got 13 and 12");
}

TEST_F(CudnnTest, WhereThereIsNoEngineForTheNodeAttentionIsTheGraph) {
  seen_->without_sdpa = true;
  AttentionProblem p;
  p.heads = 2;
  p.seq = 9;
  p.kv_seq = 5;
  p.dim = 8;
  EXPECT_THAT(ExpectPassed(p, DType::kF16).implementation, HasSubstr("flash attention's graph"));
  seen_->without_matmul = true;
  ExpectRefused(p, DType::kF16, DType::kF16, "as flash attention's graph: cuDNN 9.19.0");
}

// Host work in a launch would be in its time.
TEST_F(CudnnTest, OperandsThatDoNotChangeAreDescribedOnce) {
  Case c;
  c.problem = LayerNormProblem{.rows = 2, .cols = 8};
  c.dtype = DType::kF32;
  const absl::StatusOr<Plan> plan = FindOp("layer_norm")->MakePlan(c);
  ASSERT_TRUE(plan.ok());
  Arena& arena = bench_.device().arena();
  const auto view = [&](const Operand& o) {
    const absl::StatusOr<Block> block = arena.Allocate(o.extents.span() * 4, /*guarded=*/false);
    EXPECT_TRUE(block.ok());
    std::memset(block->data, 0, static_cast<std::size_t>(block->bytes));
    return TensorView{block->data, o.dtype, o.extents};
  };
  const TensorView x = view(plan->inputs[0]), y = view(plan->output), z = view(plan->output);
  absl::StatusOr<std::unique_ptr<Kernel>> kernel =
      CudnnLayerNorm("simt").make(c, *plan, bench_.device());
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  const int packs = seen_->packs, launches = seen_->launches;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE((*kernel)->Launch({&x, 1}, y).ok());
  EXPECT_EQ(seen_->launches - launches, 3);
  EXPECT_EQ(seen_->packs - packs, 1);
  ASSERT_TRUE((*kernel)->Launch({&x, 1}, z).ok());
  EXPECT_EQ(seen_->packs - packs, 2);
  arena.Reset();
}

}  // namespace
}  // namespace assay
