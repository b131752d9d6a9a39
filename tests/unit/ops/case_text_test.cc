// Names, patterns and the reproducing line of a case.
#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/ops/case.h"
#include "kernels/ops/op.h"

namespace assay {
namespace {

Case SmallGemm() {
  Case c;
  c.problem = GemmProblem{.m = 64, .n = 64, .k = 64};
  c.dtype = DType::kF16;
  c.provider = "onednn";
  c.seed = 1;
  return c;
}

TEST(ReproLine, IsTheCommandThatRunsTheCase) {
  EXPECT_EQ(ReproLine(SmallGemm(), "cpu:0"),
            "assay run gemm --m 64 --n 64 --k 64 --dtype fp16 --provider onednn --device cpu:0 "
            "--seed 1");
}

TEST(ReproLine, SaysOnlyWhatIsNotTheDefault) {
  Case c = SmallGemm();
  auto& p = std::get<GemmProblem>(c.problem);
  p.trans_b = true;
  p.beta = 0.1;
  p.stride_a = 8192;
  c.out_dtype = DType::kF32;
  c.seed = 18446744073709551615u;
  c.pattern = "uniform:-1:1/zeros/ones";
  c.criterion = Criterion::kAllClose;
  c.atol = 0.0;
  c.rtol = 1e-3;
  c.max_abs_error = 5e-6;
  c.max_rel_error = 1e-5;
  c.max_ulp = 2;
  c.min_efficiency = 0.5;
  c.repeats = 3;
  EXPECT_EQ(ReproLine(c, "cpu:0"),
            "assay run gemm --m 64 --n 64 --k 64 --trans-b --beta 0.1 --stride-a 8192 --dtype fp16 "
            "--out-dtype fp32 --provider onednn --device cpu:0 --seed 18446744073709551615 "
            "--pattern uniform:-1:1/zeros/ones --criterion allclose --atol 0 --rtol 0.001 "
            "--max-abs-error 5e-06 --max-rel-error 1e-05 --max-ulp 2 --min-efficiency 0.5 "
            "--repeat 3");
}

TEST(ReproLine, SaysWhatAKernelOfOnesOwnDoesByDesign) {
  Case c = SmallGemm();
  c.operand_roundoff = 0.25;
  c.flushes_subnormals = c.cuts_off_sums = true;
  c.intermediate_dtype = DType::kBF16;
  EXPECT_THAT(ReproLine(c, "cpu:0"),
              ::testing::HasSubstr(" --operand-roundoff 0.25 --flushes-subnormals "
                                   "--cuts-off-sums --intermediate-dtype bf16 "));
}

TEST(ReproLine, JoinsListsAndQuotesWhatAShellWouldSplit) {
  ConvProblem p;
  p.channels = 3;
  p.filters = 8;
  p.input = {32, 32};
  p.kernel = {3, 3};
  p.padding = {1};
  p.layout = "nhwc";
  Case c;
  c.problem = p;
  c.dtype = DType::kI8;
  c.provider = "my kernel's";
  c.mode = Mode::kBenchmark;
  EXPECT_EQ(ReproLine(c, "cpu:0"),
            "assay bench conv --channels 3 --filters 8 --input 32x32 --kernel 3x3 --padding 1 "
            "--layout nhwc --dtype int8 --provider 'my kernel'\\''s' --device cpu:0 --seed 1");
  c.mode = Mode::kBoth;
  EXPECT_EQ(ReproLine(c, "cpu:0"),
            "assay bench conv --channels 3 --filters 8 --input 32x32 --kernel 3x3 --padding 1 "
            "--layout nhwc --mode both --dtype int8 --provider 'my kernel'\\''s' --device cpu:0 "
            "--seed 1");
  c.mode = Mode::kValidate;
  c.provider = "user/0123456789ab";
  EXPECT_EQ(ReproLine(c, "cpu:0"),
            "assay run --kernel user/0123456789ab conv --channels 3 --filters 8 --input 32x32 "
            "--kernel 3x3 --padding 1 --layout nhwc --dtype int8 --device cpu:0 --seed 1")
      << "behind the operator --kernel is its filter";
}

TEST(DefaultName, SaysOutputFormatAndPatternWhereTheyAreNotTheDefault) {
  Case c = SmallGemm();
  EXPECT_EQ(DefaultName(c), "gemm 64x64x64 fp16 onednn");
  c.out_dtype = DType::kF16;
  EXPECT_EQ(DefaultName(c), "gemm 64x64x64 fp16 onednn");
  c.out_dtype = DType::kF32;
  c.pattern = "ones";
  EXPECT_EQ(DefaultName(c), "gemm 64x64x64 fp16->fp32 onednn ones");
}

TEST(Describe, IsShortAndSaysWhatDiffers) {
  EXPECT_EQ(
      (GemmProblem{.m = 64, .n = 64, .k = 64, .batch = 4, .trans_b = true, .beta = 1}).Describe(),
      "64x64x64 nt batch 4 beta 1");
  ConvProblem conv;
  conv.channels = 64;
  conv.filters = 64;
  conv.input = {56, 56};
  conv.kernel = {3, 3};
  conv.padding = {1};
  EXPECT_EQ(conv.Describe(), "1x64x56x56 64x3x3 pad 1");
  conv.stride = {1, 2};
  conv.padding = {0};
  EXPECT_EQ(conv.Describe(), "1x64x56x56 64x3x3 stride 1x2");
  AttentionProblem attention;
  attention.heads = 16;
  attention.seq = 2048;
  attention.dim = 64;
  attention.causal = true;
  EXPECT_EQ(attention.Describe(), "1x16x2048x64 causal");
  EXPECT_EQ((SoftmaxProblem{.rows = 1, .cols = 2048}).Describe(), "1x2048");
  EXPECT_EQ((LayerNormProblem{.rows = 1024, .cols = 4096, .affine = true}).Describe(),
            "1024x4096 affine");
  EXPECT_EQ(CopyProblem{.count = 1048576}.Describe(), "1048576");
  DequantSoftmaxProblem dequant{.m = 32, .n = 4096, .k = 1024};
  EXPECT_EQ(dequant.Describe(), "32x4096x1024");
  dequant.transpose_w = true;
  EXPECT_EQ(dequant.Describe(), "32x4096x1024 t");
}

TEST(ParsePatterns, SplitsOperandsAndSaysWhatIsWrong) {
  std::string error;
  const auto patterns = ParsePatterns("normal:0.5/ones", &error);
  ASSERT_TRUE(patterns.has_value()) << error;
  ASSERT_EQ(patterns->size(), 2u);
  EXPECT_EQ((*patterns)[0], (Pattern{PatternKind::kNormal, 0.5, 0}));
  EXPECT_EQ((*patterns)[1].kind, PatternKind::kOnes);
  EXPECT_FALSE(ParsePatterns("normal/", &error).has_value());
  EXPECT_FALSE(error.empty());
}

TEST(Problem, DefaultProblemKnowsEveryOperatorByName) {
  for (const Op* op : AllOps()) {
    const auto problem = DefaultProblem(op->name());
    ASSERT_TRUE(problem.has_value()) << op->name();
    EXPECT_EQ(OpName(*problem), op->name());
    EXPECT_EQ(FindOp(op->name()), op);
  }
  EXPECT_FALSE(DefaultProblem("fft").has_value());
  EXPECT_EQ(FindOp("fft"), nullptr);
  EXPECT_EQ(AllOps().size(), std::variant_size_v<Problem>);
}

TEST(Problem, FieldNamesAreUnique) {
  for (const Op* op : AllOps()) {
    std::visit(
        [&](auto problem) {
          std::set<std::string_view> names;
          VisitFields(problem, [&](std::string_view name, auto&) {
            EXPECT_TRUE(names.insert(name).second) << op->name() << "." << name;
          });
          EXPECT_FALSE(names.empty());
        },
        *DefaultProblem(op->name()));
  }
}

}  // namespace
}  // namespace assay
