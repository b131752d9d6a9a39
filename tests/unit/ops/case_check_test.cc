// Check names every bad field of a case, and accepts what is right.
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/numerics/bound.h"
#include "kernels/ops/case.h"
#include "kernels/ops/criterion.h"

namespace assay {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

std::vector<std::string> BadFields(const Case& c) {
  std::vector<std::string> fields;
  for (const FieldError& e : Check(c)) {
    fields.push_back(e.field);
    EXPECT_FALSE(e.message.empty());
  }
  return fields;
}

Case Gemm() {
  Case c;
  c.problem = GemmProblem{.m = 64, .n = 48, .k = 32};
  c.dtype = DType::kBF16;
  return c;
}

Case Conv() {
  ConvProblem p;
  p.channels = 4;
  p.filters = 8;
  p.input = {9, 7};
  p.kernel = {3, 3};
  Case c;
  c.problem = p;
  c.dtype = DType::kF32;
  return c;
}

Case Attention() {
  AttentionProblem p;
  p.heads = 4;
  p.seq = 16;
  p.dim = 8;
  Case c;
  c.problem = p;
  c.dtype = DType::kF16;
  return c;
}

template <class P>
Case With(Case c, const std::function<void(P&)>& change) {
  change(std::get<P>(c.problem));
  return c;
}

Case WithGemm(const std::function<void(GemmProblem&)>& change) {
  return With<GemmProblem>(Gemm(), change);
}
Case WithConv(const std::function<void(ConvProblem&)>& change) {
  return With<ConvProblem>(Conv(), change);
}
Case WithAttention(const std::function<void(AttentionProblem&)>& change) {
  return With<AttentionProblem>(Attention(), change);
}

TEST(CaseCheck, AcceptsWhatIsRight) {
  EXPECT_THAT(BadFields(Gemm()), IsEmpty());
  EXPECT_THAT(BadFields(Conv()), IsEmpty());
  EXPECT_THAT(BadFields(Attention()), IsEmpty());
  Case c = Gemm();
  c.atol = 0.0;  // present and exact, not missing
  c.rtol = 0.0;
  c.criterion = Criterion::kAllClose;
  c.out_dtype = DType::kF32;
  c.min_efficiency = 1.0;
  c.repeats = 10000;
  c.deadline_seconds = 0.5;
  EXPECT_THAT(BadFields(c), IsEmpty());
}

TEST(CaseCheck, WhatAKernelDoesByDesignIsSaidOfTheCallersOwn) {
  Case c = Conv();
  c.operand_roundoff = 0x1p-15;
  c.flushes_subnormals = true;
  for (const char* others : {"", "all", "onednn"}) {
    c.provider = others;
    EXPECT_THAT(BadFields(c), ElementsAre("operand_roundoff", "flushes_subnormals"));
  }
  for (const char* own : {"user/0123456789ab", "external"}) {
    c.provider = own;
    EXPECT_THAT(BadFields(c), IsEmpty());
  }
  for (const double beyond : {0x1.1p-15, -0x1p-30, kNaN}) {
    c.operand_roundoff = beyond;
    EXPECT_THAT(BadFields(c), ElementsAre("operand_roundoff"));
  }
  c = Gemm();
  c.provider = "external";
  c.operand_roundoff = 0x1p-16;
  EXPECT_THAT(BadFields(c), IsEmpty());
  c.operand_roundoff = 0x1.1p-16;
  ASSERT_THAT(BadFields(c), ElementsAre("operand_roundoff"));
  EXPECT_THAT(Check(c)[0].message, HasSubstr("must be from 0 to 1.52587890625e-05 for gemm of"));
  c.dtype = DType::kE2M1;
  ASSERT_THAT(BadFields(c), ElementsAre("operand_roundoff"));
  EXPECT_THAT(Check(c)[0].message, HasSubstr("changes nothing for gemm of e2m1"));
  c.dtype = DType::kE4M3FN;
  c.operand_roundoff = 0x1p-22;
  EXPECT_THAT(BadFields(c), IsEmpty()) << "every number of it is shown";
}

TEST(CaseCheck, OnlySumsOfFormatsThatMatrixUnitsMultiplyAreCutOff) {
  Case c = Gemm();
  c.dtype = DType::kBF16;
  c.cuts_off_sums = true;
  c.provider = "cublaslt";
  EXPECT_THAT(BadFields(c), ElementsAre("cuts_off_sums")) << "it says so itself";
  c.provider = "external";
  EXPECT_THAT(BadFields(c), IsEmpty());
  for (const DType t : {DType::kF64, DType::kF32, DType::kE4M3FN, DType::kE2M1, DType::kI8}) {
    c.dtype = t;
    ASSERT_THAT(BadFields(c), ElementsAre("cuts_off_sums")) << Name(t);
    EXPECT_THAT(Check(c)[0].message,
                HasSubstr(MayBeSummedNarrowly(t) ? "is for tf32, fp16 and bf16, got e"
                                                 : "changes nothing for gemm of"));
  }
  c.dtype = DType::kTF32;
  c.problem = ReduceProblem{.extents = {4, 8}, .kind = "sum"};
  EXPECT_THAT(BadFields(c), IsEmpty());
  c.problem = ReduceProblem{.extents = {4, 8}, .kind = "max"};
  ASSERT_THAT(BadFields(c), ElementsAre("cuts_off_sums"));
  EXPECT_THAT(Check(c)[0].message, HasSubstr("changes nothing for a max"));
  c.problem = SoftmaxProblem{.rows = 4, .cols = 8};
  c.dtype = DType::kBF16;
  ASSERT_THAT(BadFields(c), ElementsAre("cuts_off_sums"));
  EXPECT_THAT(Check(c)[0].message, HasSubstr("changes nothing for softmax of bf16"));
}

TEST(CaseCheck, IntermediatesOfTheCallersOwnAreNoCoarserThanItsFormats) {
  Case c;
  c.problem = SoftmaxProblem{.rows = 4, .cols = 8};
  c.dtype = DType::kBF16;
  c.intermediate_dtype = DType::kBF16;
  c.provider = "onednn";
  EXPECT_THAT(BadFields(c), ElementsAre("intermediate_dtype"));
  c.provider = "external";
  EXPECT_THAT(BadFields(c), IsEmpty());
  for (const DType coarse : {DType::kE4M3FN, DType::kI8}) {
    c.intermediate_dtype = coarse;
    ASSERT_THAT(BadFields(c), ElementsAre("intermediate_dtype"));
    EXPECT_THAT(Check(c)[0].message, HasSubstr("the coarser one of bf16 and bf16, got "));
  }
  c.problem = AttentionProblem{.heads = 1, .seq = 4, .dim = 8};
  c.intermediate_dtype = DType::kF16;
  EXPECT_THAT(BadFields(c), IsEmpty()) << "weights in fp16";
  c.dtype = c.intermediate_dtype = DType::kE4M3FN;
  ASSERT_THAT(BadFields(c), ElementsAre("intermediate_dtype"));
  EXPECT_THAT(Check(c)[0].message, HasSubstr("16 bits or more for attention"));
  c = Gemm();
  c.provider = "external";
  c.intermediate_dtype = DType::kBF16;
  ASSERT_THAT(BadFields(c), ElementsAre("intermediate_dtype"));
  EXPECT_THAT(Check(c)[0].message, HasSubstr("changes nothing for gemm"));
}

TEST(CaseCheck, NamesEveryBadExtentAtOnce) {
  EXPECT_THAT(BadFields(WithGemm([](auto& p) {
                p.m = 0;
                p.n = -3;
                p.k = std::int64_t{1} << 50;
                p.batch = 0;
              })),
              ElementsAre("gemm.m", "gemm.n", "gemm.k", "gemm.batch"));
  const auto errors = Check(WithGemm([](auto& p) { p.m = 0; }));
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].message, "must be at least 1, got 0");
}

TEST(CaseCheck, RefusesShapesThatOverflow) {
  const std::int64_t big = std::int64_t{1} << 39;
  EXPECT_THAT(BadFields(WithGemm([&](auto& p) { p.m = p.n = big; })), Contains("gemm.m"));
  EXPECT_THAT(BadFields(WithGemm([&](auto& p) { p.stride_a = INT64_MAX; })),
              ElementsAre("gemm.stride_a"));
  EXPECT_THAT(BadFields(WithConv([&](auto& p) { p.input = {big, big}; })), Contains("conv.input"));
  EXPECT_THAT(BadFields(WithConv([&](auto& p) { p.dilation = {INT64_MAX}; })),
              ElementsAre("conv.dilation"));
  EXPECT_THAT(BadFields(WithAttention([&](auto& p) { p.batch = p.heads = big; })),
              Contains("attention.seq"));
  Case c;
  c.dtype = DType::kF32;
  c.problem = SoftmaxProblem{.rows = big, .cols = big};
  EXPECT_THAT(BadFields(c), ElementsAre("softmax.rows"));
  c.problem = LayerNormProblem{.rows = big, .cols = big};
  EXPECT_THAT(BadFields(c), ElementsAre("layer_norm.rows"));
  c.problem = CopyProblem{.count = INT64_MAX};
  EXPECT_THAT(BadFields(c), ElementsAre("copy.count"));
  c.problem = DequantSoftmaxProblem{.m = big, .n = big, .k = 1};
  EXPECT_THAT(BadFields(c), ElementsAre("dequant_softmax.m"));
}

TEST(CaseCheck, DequantSoftmaxTakesActivationsAndGivesThem) {
  Case c;
  c.problem = DequantSoftmaxProblem{.m = 2, .n = 8, .k = 4};
  for (const FormatInfo& in : kFormats) {
    if (in.dtype == DType::kUnspecified) continue;
    const auto wanted = [](DType t) {
      return t == DType::kF32 || t == DType::kF16 || t == DType::kBF16;
    };
    for (const FormatInfo& out : kFormats) {
      c.dtype = in.dtype;
      c.out_dtype = out.dtype;
      if (!wanted(in.dtype)) {
        EXPECT_THAT(BadFields(c), ElementsAre("dtype")) << in.name;
      } else if (out.dtype == DType::kUnspecified || wanted(out.dtype)) {
        EXPECT_THAT(BadFields(c), IsEmpty()) << in.name << " " << out.name;
      } else {
        EXPECT_THAT(BadFields(c), ElementsAre("out_dtype")) << in.name << " " << out.name;
      }
    }
  }
  c.dtype = DType::kBF16;
  c.out_dtype = DType::kUnspecified;
  c.problem = DequantSoftmaxProblem{.m = 0};
  EXPECT_THAT(BadFields(c),
              ElementsAre("dequant_softmax.m", "dequant_softmax.n", "dequant_softmax.k"));
  c.problem = DequantSoftmaxProblem{.m = 1, .n = 1, .k = (1 << 23) + 1};
  EXPECT_THAT(BadFields(c), ElementsAre("dequant_softmax.k"));
  c.problem = DequantSoftmaxProblem{.m = 1, .n = 1, .k = 8};
  c.pattern = "normal/normal";
  EXPECT_THAT(BadFields(c), ElementsAre("pattern")) << "a pattern fills a alone";
}

TEST(CaseCheck, HoldsLeadingDimensionsAndStridesToTheExtents) {
  EXPECT_THAT(BadFields(WithGemm([](auto& p) {
                p.lda = 31;
                p.ldb = 47;
                p.ldc = 47;
              })),
              ElementsAre("gemm.lda", "gemm.ldb", "gemm.ldc"));
  EXPECT_THAT(BadFields(WithGemm([](auto& p) {
                p.trans_a = p.trans_b = true;
                p.lda = 63;
                p.ldb = 31;
              })),
              ElementsAre("gemm.lda", "gemm.ldb"));
  EXPECT_THAT(BadFields(WithGemm([](auto& p) {
                p.batch = 2;
                p.lda = 40;
                p.stride_a = 64 * 40 - 1;
                p.stride_b = -1;
                p.stride_c = 1;
              })),
              ElementsAre("gemm.stride_a", "gemm.stride_b", "gemm.stride_c"));
  EXPECT_THAT(BadFields(WithGemm([](auto& p) {
                p.alpha = kNaN;
                p.beta = std::numeric_limits<double>::infinity();
              })),
              ElementsAre("gemm.alpha", "gemm.beta"));
}

TEST(CaseCheck, ConvListsAndGroups) {
  EXPECT_THAT(BadFields(WithConv([](auto& p) {
                p.kernel = {3};
                p.stride = {1, 1, 1};
                p.padding = {-1};
                p.dilation = {0};
                p.layout = "hwcn";
                p.groups = 3;
              })),
              ElementsAre("conv.kernel", "conv.stride", "conv.padding", "conv.dilation",
                          "conv.layout", "conv.groups", "conv.groups"));
  EXPECT_THAT(BadFields(WithConv([](auto& p) { p.input = {1, 1, 1, 1}; })), Contains("conv.input"));
  EXPECT_THAT(BadFields(WithConv([](auto& p) { p.input = {}; })), Contains("conv.input"));
  // 7 + 2·0 − 4·(3 − 1) − 1 < 0: no output.
  EXPECT_THAT(BadFields(WithConv([](auto& p) { p.dilation = {4}; })), ElementsAre("conv.kernel"));
  EXPECT_THAT(BadFields(WithConv([](auto& p) { p.dilation = {3}; })), IsEmpty());
}

TEST(CaseCheck, AttentionHeadsAndWords) {
  EXPECT_THAT(BadFields(WithAttention([](auto& p) {
                p.kv_heads = 3;
                p.scale = kNaN;
                p.mask_density = 1.0;
                p.masked_rows = "one";
              })),
              ElementsAre("attention.kv_heads", "attention.scale", "attention.mask_density",
                          "attention.masked_rows"));
  EXPECT_THAT(BadFields(WithAttention([](auto& p) {
                p.heads = 0;
                p.kv_heads = -1;
                p.seq = 0;
                p.kv_seq = -5;
                p.dim = 0;
              })),
              ElementsAre("attention.heads", "attention.kv_heads", "attention.seq",
                          "attention.kv_seq", "attention.dim"));
}

TEST(CaseCheck, LayerNormEpsilon) {
  Case c;
  c.dtype = DType::kF32;
  c.problem = LayerNormProblem{.rows = 1, .cols = 8, .eps = -1e-5};
  EXPECT_THAT(BadFields(c), ElementsAre("layer_norm.eps"));
  c.problem = LayerNormProblem{.rows = 1, .cols = 8, .eps = kNaN};
  EXPECT_THAT(BadFields(c), ElementsAre("layer_norm.eps"));
  c.problem = LayerNormProblem{.rows = 1, .cols = 8, .eps = 0};
  EXPECT_THAT(BadFields(c), IsEmpty());
  c.problem = LayerNormProblem{.rows = 1, .cols = 8, .eps = 1e-46};  // 0 in fp32
  for (const char* const pattern :
       {"constant:0.1", "ones", "zeros", "row-vary", "denormal", "normal:1e-25", "one-hot:3:3",
        "integers:7:7", "near-constant:2:0"}) {
    c.pattern = pattern;
    EXPECT_THAT(BadFields(c), ElementsAre("layer_norm.eps")) << pattern;
  }
  c.problem = LayerNormProblem{.rows = 1, .cols = 8, .eps = 0, .rms = true};
  c.pattern = "constant:0.1";
  EXPECT_THAT(BadFields(c), IsEmpty());
  c.problem = LayerNormProblem{.rows = 4, .cols = 1, .eps = 0};
  c.pattern.clear();
  EXPECT_THAT(BadFields(c), ElementsAre("layer_norm.eps"));
}

TEST(CaseCheck, LayerNormWeights) {
  Case c;
  c.dtype = DType::kBF16;
  LayerNormProblem p{.rows = 2, .cols = 8, .affine = true, .weight_format = "input"};
  c.problem = p;
  EXPECT_THAT(BadFields(c), IsEmpty());
  EXPECT_EQ(p.columns(DType::kBF16), DType::kBF16);
  EXPECT_EQ(LayerNormProblem{}.columns(DType::kBF16), DType::kF32);
  p.weight_format = "bf16";
  c.problem = p;
  EXPECT_THAT(BadFields(c), ElementsAre("layer_norm.weight_format"));
  c.problem = LayerNormProblem{.rows = 2, .cols = 8, .weight_format = "input"};
  EXPECT_THAT(BadFields(c), ElementsAre("layer_norm.weight_format"));
}

TEST(CaseCheck, FormatsAnOperatorTakes) {
  Case c = Gemm();
  c.dtype = DType::kUnspecified;
  EXPECT_THAT(BadFields(c), ElementsAre("dtype"));
  for (const FormatInfo& f : kFormats) {
    if (f.dtype == DType::kUnspecified) continue;
    c.dtype = f.dtype;
    if (f.dtype == DType::kI32) {
      EXPECT_THAT(BadFields(c), ElementsAre("dtype"));
    } else {
      EXPECT_THAT(BadFields(c), IsEmpty()) << f.name;
    }
  }
  Case attention = Attention();
  Case conv = Conv();
  Case softmax;
  softmax.problem = SoftmaxProblem{.rows = 2, .cols = 8};
  for (DType t : {DType::kTF32, DType::kE4M3FN, DType::kE4M3FNUZ, DType::kE5M2, DType::kE5M2FNUZ}) {
    conv.dtype = attention.dtype = softmax.dtype = t;
    EXPECT_THAT(BadFields(conv), IsEmpty()) << Name(t);
    EXPECT_THAT(BadFields(attention), IsEmpty()) << Name(t);
    EXPECT_THAT(BadFields(softmax), IsEmpty()) << Name(t);
  }
  attention.dtype = softmax.dtype = DType::kI8;
  EXPECT_THAT(BadFields(attention), ElementsAre("dtype"));
  EXPECT_THAT(BadFields(softmax), ElementsAre("dtype"));
  conv.dtype = attention.dtype = DType::kE2M1;
  EXPECT_THAT(BadFields(conv), ElementsAre("dtype"));
  EXPECT_THAT(BadFields(attention), ElementsAre("dtype"));
  c.problem = CopyProblem{.count = 10};
  for (const FormatInfo& f : kFormats) {
    if (f.dtype == DType::kUnspecified) continue;
    c.dtype = f.dtype;
    EXPECT_THAT(BadFields(c), IsEmpty()) << f.name;
  }
}

TEST(CaseCheck, FormatsAnOutputTakes) {
  Case c = Gemm();
  c.out_dtype = DType::kF16;
  EXPECT_THAT(BadFields(c), ElementsAre("out_dtype"));
  c.dtype = DType::kF32;
  EXPECT_THAT(BadFields(c), ElementsAre("out_dtype"));
  c.dtype = DType::kI8;
  c.out_dtype = DType::kF32;
  EXPECT_THAT(BadFields(c), ElementsAre("out_dtype"));
  c.out_dtype = DType::kI32;
  EXPECT_THAT(BadFields(c), IsEmpty());
  c.dtype = DType::kTF32;
  EXPECT_THAT(BadFields(c), ElementsAre("out_dtype"));
  for (DType t : {DType::kE4M3FN, DType::kE5M2FNUZ, DType::kE2M1}) {
    c.dtype = t;
    for (DType out : {DType::kUnspecified, DType::kF32, DType::kF16, DType::kBF16}) {
      c.out_dtype = out;
      EXPECT_THAT(BadFields(c), IsEmpty()) << Name(t) << " to " << Name(out);
    }
    c.out_dtype = t;
    EXPECT_EQ(BadFields(c).empty(), t != DType::kE2M1) << Name(t);
    for (DType out : {DType::kF64, DType::kTF32, DType::kI32, DType::kE5M2}) {
      c.out_dtype = out;
      EXPECT_THAT(BadFields(c), ElementsAre("out_dtype")) << Name(t) << " to " << Name(out);
    }
    c.out_dtype = DType::kUnspecified;
    EXPECT_EQ(OutputType(c), DType::kF32);
  }
  c = Gemm();
  c.problem = CopyProblem{.count = 10};
  c.out_dtype = DType::kF32;
  EXPECT_THAT(BadFields(c), ElementsAre("out_dtype"));
}

TEST(CaseCheck, Int8OutputsFollowTheEpilogue) {
  Case c = WithGemm([](auto& p) {
    p.channel_scale = p.bias = true;
    p.scale_a = 0.5;
    p.activation = "relu";
  });
  c.dtype = DType::kI8;
  EXPECT_THAT(BadFields(c),
              ElementsAre("gemm.scale_a", "gemm.channel_scale", "gemm.bias", "gemm.activation"));
  for (DType out : {DType::kF32, DType::kF16, DType::kBF16}) {
    c.out_dtype = out;
    EXPECT_THAT(BadFields(c), IsEmpty());
  }
  std::get<GemmProblem>(c.problem).alpha = 0.5;
  std::get<GemmProblem>(c.problem).beta = 2;
  c.pattern = "integers/integers/constant:2147483000";  // no int32 to overflow
  EXPECT_THAT(BadFields(c), IsEmpty());
  c.out_dtype = DType::kF64;
  EXPECT_THAT(BadFields(c), ElementsAre("out_dtype"));
}

TEST(CaseCheck, InfiniteWeightsBesidePadding) {
  Case c = WithConv([](auto& p) { p.padding = {0, 1}; });
  for (const char* pattern : {"all-inf", "normal/all-neg-inf", "ones/constant:1e38"}) {
    c.pattern = pattern;
    c.dtype = std::string(pattern) == "ones/constant:1e38" ? DType::kF16 : DType::kF32;
    EXPECT_THAT(BadFields(c), ElementsAre("pattern")) << pattern;
    EXPECT_THAT(Check(c)[0].message, HasSubstr("0·Inf"));
  }
  c.dtype = DType::kE5M2;  // saturates
  EXPECT_THAT(BadFields(c), IsEmpty());
  c.dtype = DType::kF32;
  c.pattern = "all-inf/normal";  // only padding meets no Inf
  EXPECT_THAT(BadFields(c), IsEmpty());
  c.pattern = "all-inf";
  std::get<ConvProblem>(c.problem).padding = {};
  EXPECT_THAT(BadFields(c), IsEmpty());
}

TEST(CaseCheck, ScalesAndActivations) {
  EXPECT_THAT(BadFields(WithGemm([](auto& p) {
                p.scale_a = kNaN;
                p.activation = "swish";
              })),
              ElementsAre("gemm.scale_a", "gemm.activation"));
  Case c = WithGemm([](auto& p) { p.scale_a = p.scale_b = 1e30; });
  EXPECT_THAT(BadFields(c), ElementsAre("gemm.scale_a"));
  EXPECT_THAT(Check(c)[0].message, HasSubstr("fp32 cannot hold"));
  c = WithGemm([](auto& p) {
    p.scale_a = p.scale_b = 1e-10;
    p.alpha = 1e-20;
  });
  EXPECT_THAT(BadFields(c), ElementsAre("gemm.scale_a"));
  c = WithGemm([](auto& p) { p.scale_a = p.alpha = 0; });
  EXPECT_THAT(BadFields(c), IsEmpty());
  c = WithAttention([](auto& p) { p.scale_q = p.scale_k = p.scale_v = 1e-25; });
  EXPECT_THAT(BadFields(c), ElementsAre("attention.scale_q"));
  c = WithAttention([](auto& p) { p.scale_v = 1e-40; });
  EXPECT_THAT(BadFields(c), ElementsAre("attention.scale_v"));
  for (const char* activation : {"gelu", "gelu_tanh", "relu", "none"}) {
    c = WithGemm([&](auto& p) { p.activation = activation; });
    EXPECT_THAT(BadFields(c), IsEmpty());
    c.pattern = "normal/all-neg-inf";
    const bool gelu = std::string(activation).starts_with("gelu");
    EXPECT_EQ(BadFields(c).size(), gelu ? 1u : 0u) << activation;
  }
}

TEST(CaseCheck, SumsThatAFormatCanHold) {
  Case c = WithGemm([](auto& p) { p.k = 131072; });
  EXPECT_THAT(BadFields(c), IsEmpty());
  c.dtype = DType::kI8;
  EXPECT_THAT(BadFields(c), ElementsAre("gemm.k"));
  c = WithGemm([](auto& p) { p.k = (std::int64_t{1} << 23) + 1; });
  EXPECT_THAT(BadFields(c), ElementsAre("gemm.k"));
  c.dtype = DType::kF64;
  EXPECT_THAT(BadFields(c), IsEmpty());
  c = WithGemm([](auto& p) {
    p.alpha = 0.5;
    p.beta = 2;
  });
  EXPECT_THAT(BadFields(c), IsEmpty());
  c.dtype = DType::kI8;
  EXPECT_THAT(BadFields(c), ElementsAre("gemm.alpha", "gemm.beta"));
}

// An int32 that overflows has no right answer: products and addend must fit together.
TEST(CaseCheck, Int8SumsWithAnAddendFitInt32) {
  Case c = WithGemm([](auto& p) {
    p.k = 1024;
    p.beta = 1;
  });
  c.dtype = DType::kI8;
  EXPECT_THAT(BadFields(c), IsEmpty());
  const std::int64_t most = 2147483647 - 1024 * 16384;
  c.pattern = "integers/integers/constant:" + std::to_string(most);
  EXPECT_THAT(BadFields(c), IsEmpty());
  for (const std::string& addend :
       {"constant:" + std::to_string(most + 1), std::string("integers:-2147483648:0"),
        std::string("normal:1e9")}) {
    c.pattern = "integers/integers/" + addend;
    EXPECT_THAT(BadFields(c), ElementsAre("pattern")) << addend;
    EXPECT_THAT(Check(c)[0].message, HasSubstr("only up to 2130706431"));
  }
  c.dtype = DType::kF32;
  EXPECT_THAT(BadFields(c), IsEmpty());
}

TEST(CaseCheck, PatternsMatchTheOperands) {
  Case c = Gemm();
  c.pattern = "gaussian";
  EXPECT_THAT(BadFields(c), ElementsAre("pattern"));
  c.pattern = "normal:1/normal:2/normal:3";
  EXPECT_THAT(BadFields(c), ElementsAre("pattern"));
  std::get<GemmProblem>(c.problem).beta = 1;
  EXPECT_THAT(BadFields(c), IsEmpty());
  c = Attention();
  c.pattern = "normal:1/ones/zeros";
  EXPECT_THAT(BadFields(c), IsEmpty());
  c.pattern = "ones/ones";
  EXPECT_THAT(Check(c)[0].message, HasSubstr("3 operands"));
  c = Gemm();
  c.dtype = DType::kI8;
  c.pattern = "ones/all-inf";
  EXPECT_THAT(BadFields(c), ElementsAre("pattern"));
}

// Kernels may skip a key without weight or multiply by its 0, which is NaN beside Inf.
TEST(CaseCheck, InfiniteValuesNeedAWeightForEveryKey) {
  Case c = WithAttention([](auto& p) { p.dim = 64; });
  c.pattern = "normal/normal/all-inf";  // exponentials may underflow
  EXPECT_THAT(BadFields(c), ElementsAre("pattern"));
  c.pattern = "uniform:-0.2:0.2/uniform:-0.2:0.2/all-inf";
  EXPECT_THAT(BadFields(c), IsEmpty());
  std::get<AttentionProblem>(c.problem).causal = true;
  EXPECT_THAT(BadFields(c), ElementsAre("pattern"));
  c.pattern = "all-inf";  // NaN everywhere
  EXPECT_THAT(BadFields(c), IsEmpty());
  c.pattern = "normal/all-inf/normal";
  EXPECT_THAT(BadFields(c), IsEmpty());
}

// A figure that the criterion does not read is refused, never ignored.
TEST(CaseCheck, FiguresBelongToACriterion) {
  for (const bool absolute : {true, false}) {
    Case c = Gemm();
    (absolute ? c.atol : c.rtol) = 0.0;
    EXPECT_THAT(BadFields(c), IsEmpty());
    EXPECT_EQ(GatingCriterion(c), Criterion::kAllClose) << "a tolerance asks for allclose";
    for (const Criterion other : {Criterion::kBound, Criterion::kDerived, Criterion::kBitwise}) {
      c.criterion = other;
      EXPECT_EQ(GatingCriterion(c), other);
      EXPECT_THAT(BadFields(c), ElementsAre(absolute ? "atol" : "rtol"));
      EXPECT_THAT(Check(c)[0].message, HasSubstr("belongs to allclose and legacy, not to "));
    }
    c.criterion = Criterion::kLegacy;
    EXPECT_THAT(BadFields(c), IsEmpty());
    c.criterion = Criterion::kUnspecified;
    c.verify = Verification::kChecksum;
    EXPECT_THAT(BadFields(c), ElementsAre("criterion"));
  }
  for (const bool split : {true, false}) {
    Case c = Gemm();
    if (split) c.split_k = 5;
    if (!split) c.accumulations = 5;
    EXPECT_EQ(GatingCriterion(c), Criterion::kBound);
    EXPECT_THAT(BadFields(c), ElementsAre(split ? "split_k" : "accumulations"));
    EXPECT_EQ(Check(c)[0].message, "belongs to derived, not to bound");
    c.criterion = Criterion::kDerived;
    EXPECT_THAT(BadFields(c), IsEmpty());
  }
  Case c = Gemm();
  c.max_ulp = 1;  // a limit beside every criterion
  EXPECT_THAT(BadFields(c), IsEmpty());
}

TEST(CaseCheck, TolerancesAndLimits) {
  Case c = Gemm();
  c.atol = -1e-3;
  c.rtol = kNaN;
  c.max_abs_error = kNaN;
  c.max_rel_error = -1;
  c.max_ulp = kNaN;
  c.min_efficiency = 1.5;
  c.repeats = -1;
  c.deadline_seconds = 0;
  EXPECT_THAT(BadFields(c), ElementsAre("atol", "rtol", "max_abs_error", "max_rel_error", "max_ulp",
                                        "min_efficiency", "repeats", "deadline"));
  c = Gemm();
  c.criterion = Criterion::kAllClose;
  EXPECT_THAT(BadFields(c), ElementsAre("criterion"));
  c.criterion = Criterion::kUlp;
  EXPECT_THAT(BadFields(c), ElementsAre("criterion"));
  c = Gemm();
  c.atol = c.rtol = c.max_abs_error = HUGE_VAL;  // everything would pass
  EXPECT_THAT(BadFields(c), ElementsAre("atol", "rtol", "max_abs_error"));
  c = Gemm();
  c.dtype = DType::kI8;
  c.criterion = Criterion::kUlp;
  c.max_ulp = 1;
  EXPECT_THAT(BadFields(c), ElementsAre("criterion"));
  EXPECT_THAT(Check(c)[0].message, HasSubstr("int32 has none"));
  c.criterion = Criterion::kBound;
  EXPECT_THAT(BadFields(c), ElementsAre("max_ulp"));
  c = Gemm();
  c.dtype = DType::kI8;
  c.criterion = Criterion::kDerived;
  EXPECT_THAT(BadFields(c), ElementsAre("criterion"));
  EXPECT_THAT(Check(c)[0].message, HasSubstr("int32 has none"));
  c = Gemm();
  c.min_efficiency = kNaN;
  c.repeats = 10001;
  c.deadline_seconds = kNaN;
  EXPECT_THAT(BadFields(c), ElementsAre("min_efficiency", "repeats", "deadline"));
}

}  // namespace
}  // namespace assay
