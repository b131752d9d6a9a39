// Every number format through the built-in kernels, judged as the harness judges: the
// operator's own reference and bound on a CPU device. Also what must not pass: kernels
// that leave out a scale or apply an epilogue in another order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/numerics/convert.h"
#include "tests/unit/providers/provider_testing.h"

namespace assay {
namespace {

using testing::RunCase;

constexpr DType kNewFloats[] = {DType::kTF32, DType::kE4M3FN,   DType::kE4M3FNUZ,
                                DType::kE5M2, DType::kE5M2FNUZ, DType::kE2M1};

std::vector<DType> Outputs(DType in) {
  if (in == DType::kTF32) return {DType::kF32};
  return {DType::kF32, DType::kBF16, DType::kF16};
}

// A gemm's, which may be the input's own too.
std::vector<DType> GemmOutputs(DType in) {
  std::vector<DType> outputs = Outputs(in);
  if (Info(in).storage_bits == 8) outputs.push_back(in);
  return outputs;
}

// As the harness has it: the probabilistic bound counts where data are zero-mean.
void ExpectRight(const testing::Ran& ran) {
  EXPECT_TRUE(ran.right()) << ran.Describe();
  if (ran.zero_mean_random) {
    EXPECT_EQ(ran.compare.beyond_probable, 0) << ran.Describe();
  }
}

GemmProblem Awkward(int variant) {
  GemmProblem p{.m = 37, .n = 51, .k = 67};
  p.trans_a = (variant & 1) != 0;
  p.trans_b = (variant & 2) != 0;
  if ((variant & 4) != 0) {
    p.batch = 3;
    p.lda = p.ldb = 71;
    p.ldc = 55;
    p.stride_a = 71 * 70 + 1;
  }
  return p;
}

GemmProblem WithEpilogue(const std::string& activation) {
  GemmProblem p{.m = 29, .n = 45, .k = 40, .batch = 2};
  p.alpha = 0.75;
  p.beta = -0.5;
  p.scale_a = 0.3;
  p.scale_b = 2.5;
  p.channel_scale = p.bias = true;
  p.activation = activation;
  return p;
}

TEST(Formats, GemmOfEveryFormatOnAwkwardShapes) {
  for (DType in : kNewFloats) {
    for (DType out : GemmOutputs(in)) {
      for (int variant = 0; variant < 8; ++variant) {
        SCOPED_TRACE(::testing::Message()
                     << Name(in) << " " << Name(out) << " variant " << variant);
        ExpectRight(RunCase(Awkward(variant), "builtin", in, out));
      }
    }
  }
}

TEST(Formats, GemmEpilogueOfEveryFormat) {
  for (const FormatInfo& f : kFormats) {
    if (f.dtype == DType::kUnspecified || f.dtype == DType::kI32) continue;
    for (const char* activation : {"none", "relu", "gelu", "gelu_tanh"}) {
      SCOPED_TRACE(::testing::Message() << f.name << " " << activation);
      const DType out = f.dtype == DType::kI8 ? DType::kF32 : DType::kUnspecified;
      ExpectRight(RunCase(WithEpilogue(activation), "builtin", f.dtype, out));
      if (f.storage_bits == 8 && !f.is_integer) {
        ExpectRight(RunCase(WithEpilogue(activation), "builtin", f.dtype, f.dtype));
      }
      GemmProblem p{.m = 33, .n = 17, .k = 65};
      p.bias = true;
      p.activation = activation;
      ExpectRight(RunCase(p, "builtin", f.dtype, out));
    }
  }
}

// Beyond the format is its largest number, whichever way the data go there.
TEST(Formats, EightBitOutputsSaturate) {
  for (DType in : {DType::kE4M3FN, DType::kE4M3FNUZ, DType::kE5M2, DType::kE5M2FNUZ}) {
    for (const char* pattern : {"normal:10", "normal:100", "constant:100", "uniform:-300:300",
                                "denormal", "normal:0.05", "all-inf"}) {
      for (double beta : {0.0, -1.5}) {
        GemmProblem p{.m = 33, .n = 65, .k = 50};
        p.beta = beta;
        p.scale_a = 3;
        Case c;
        c.problem = p;
        c.provider = "builtin";
        c.dtype = c.out_dtype = in;
        c.pattern = pattern;
        SCOPED_TRACE(::testing::Message() << Name(in) << " " << pattern);
        const testing::Ran ran = testing::CaseRun(c, true).ran();
        ExpectRight(ran);
        if (std::string(pattern) == "normal:100") {
          EXPECT_DOUBLE_EQ(ran.compare.max_abs_expected, Info(in).max_finite);
        }
      }
    }
  }
}

TEST(Formats, Int8DequantisesToEveryFloat) {
  for (DType out : {DType::kF32, DType::kBF16, DType::kF16}) {
    GemmProblem p{.m = 40, .n = 36, .k = 515};
    p.channel_scale = true;
    p.scale_a = 0.01;
    const testing::Ran ran = RunCase(p, "builtin", DType::kI8, out, "integers:-128:127");
    ExpectRight(ran);
    // Sums are exact, so nothing but the epilogue may be off: a tight bound.
    EXPECT_GT(ran.compare.rho, 0.1);
  }
}

TEST(Formats, ConvOfEveryFormat) {
  for (DType in :
       {DType::kTF32, DType::kE4M3FN, DType::kE4M3FNUZ, DType::kE5M2, DType::kE5M2FNUZ}) {
    for (DType out : Outputs(in)) {
      for (const char* layout : {"nchw", "nhwc"}) {
        SCOPED_TRACE(::testing::Message() << Name(in) << " " << Name(out) << " " << layout);
        ConvProblem p;
        p.batch = 2;
        p.channels = 6;
        p.filters = 10;
        p.groups = 2;
        p.input = {11, 9};
        p.kernel = {3, 2};
        p.padding = {1};
        p.layout = layout;
        ExpectRight(RunCase(p, "builtin", in, out));
        p.stride = {2};
        p.dilation = {2, 1};
        ExpectRight(RunCase(p, "builtin", in, out));
      }
    }
  }
}

AttentionProblem Heads() {
  AttentionProblem p;
  p.batch = 2;
  p.heads = 4;
  p.kv_heads = 2;
  p.seq = 37;
  p.kv_seq = 150;
  p.dim = 33;
  return p;
}

TEST(Formats, AttentionOfEveryFormatWithScales) {
  for (DType in : {DType::kF64, DType::kF32, DType::kTF32, DType::kF16, DType::kBF16,
                   DType::kE4M3FN, DType::kE4M3FNUZ, DType::kE5M2, DType::kE5M2FNUZ}) {
    for (int variant = 0; variant < 4; ++variant) {
      SCOPED_TRACE(::testing::Message() << Name(in) << " variant " << variant);
      AttentionProblem p = Heads();
      p.causal = (variant & 1) != 0;
      if ((variant & 2) != 0) p.mask_density = 0.6;
      ExpectRight(RunCase(p, "builtin", in));
      p.scale_q = 1.5;
      p.scale_k = -0.4;
      p.scale_v = 3.1;
      ExpectRight(RunCase(p, "builtin", in,
                          Info(in).storage_bits == 8 ? DType::kBF16 : DType::kUnspecified));
    }
  }
}

TEST(Formats, RowOperatorsOfEveryFormat) {
  for (DType in :
       {DType::kTF32, DType::kE4M3FN, DType::kE4M3FNUZ, DType::kE5M2, DType::kE5M2FNUZ}) {
    for (DType out : Outputs(in)) {
      SCOPED_TRACE(::testing::Message() << Name(in) << " " << Name(out));
      ExpectRight(RunCase(SoftmaxProblem{.rows = 19, .cols = 333}, "builtin", in, out));
      ExpectRight(
          RunCase(LayerNormProblem{.rows = 300, .cols = 101, .affine = true}, "builtin", in, out));
      ExpectRight(RunCase(LayerNormProblem{.rows = 3, .cols = 7, .rms = true}, "builtin", in, out));
    }
  }
}

// ---- every pattern, a few seeds: no false alarm, no missed class ----

std::vector<std::string> PatternTexts() {
  std::vector<std::string> texts;
  for (const PatternInfo& info : Patterns()) texts.emplace_back(info.name);
  for (const char* more : {"normal:0.01", "normal:3", "normal:100", "uniform:-1:1",
                           "uniform:-10:10", "extremes:100", "extremes:1000", "constant:300"}) {
    texts.emplace_back(more);
  }
  return texts;
}

Case CaseOf(const Problem& problem, DType in, const std::string& pattern, std::uint64_t seed) {
  Case c;
  c.problem = problem;
  c.provider = "builtin";
  c.dtype = in;
  c.pattern = pattern;
  c.seed = seed;
  return c;
}

std::int64_t ExpectNoFalseAlarm(const Problem& problem, DType in) {
  std::int64_t runs = 0;
  for (const std::string& pattern : PatternTexts()) {
    for (std::uint64_t seed : {1, 2, 3}) {
      const Case c = CaseOf(problem, in, pattern, seed);
      if (!Check(c).empty()) continue;  // a pattern its format cannot hold
      SCOPED_TRACE(DefaultName(c));
      ExpectRight(testing::CaseRun(c, true).ran());
      ++runs;
    }
  }
  return runs;
}

TEST(Formats, NoPatternFailsAGemm) {
  for (DType in : kNewFloats) {
    GemmProblem p{.m = 24, .n = 40, .k = 70};
    EXPECT_GT(ExpectNoFalseAlarm(p, in), 60);
    p.scale_a = 0.5;
    p.scale_b = 3;
    p.channel_scale = p.bias = true;
    p.activation = "relu";
    ExpectNoFalseAlarm(p, in);
    p.activation = "gelu";
    ExpectNoFalseAlarm(p, in);
  }
}

TEST(Formats, NoPatternFailsAConvOrAnAttention) {
  ConvProblem conv;
  conv.channels = 4;
  conv.filters = 6;
  conv.input = {9, 8};
  conv.kernel = {3, 3};
  conv.padding = {1};
  AttentionProblem attention;
  attention.heads = 2;
  attention.seq = 20;
  attention.kv_seq = 140;
  attention.dim = 16;
  for (DType in :
       {DType::kTF32, DType::kE4M3FN, DType::kE4M3FNUZ, DType::kE5M2, DType::kE5M2FNUZ}) {
    conv.padding = {0};
    ExpectNoFalseAlarm(conv, in);
    conv.padding = {1};
    ExpectNoFalseAlarm(conv, in);
    attention.causal = false;
    ExpectNoFalseAlarm(attention, in);
    attention.causal = true;
    attention.scale_v = 2.5;
    attention.scale_q = 0.6;
    ExpectNoFalseAlarm(attention, in);
    ExpectNoFalseAlarm(SoftmaxProblem{.rows = 6, .cols = 100}, in);
    ExpectNoFalseAlarm(LayerNormProblem{.rows = 6, .cols = 100, .affine = true}, in);
  }
}

// ---- tightness ----

double MedianRho(DType in, DType out) {
  std::vector<double> rho;
  for (std::int64_t size : {48, 64, 96}) {
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      Case c = CaseOf(GemmProblem{.m = size, .n = size, .k = size}, in, "", seed);
      c.out_dtype = out;
      rho.push_back(testing::CaseRun(c, true).ran().compare.rho);
    }
  }
  std::sort(rho.begin(), rho.end());
  return rho[rho.size() / 2];
}

// The bound is as wide as output rounding needs, and no wider.
TEST(Formats, SixteenBitOutputsFillTheirBound) {
  // e2m1's sums are multiples of 1, most of them exact in 16 bits.
  for (DType in : {DType::kF16, DType::kBF16, DType::kE4M3FN, DType::kE5M2}) {
    for (DType out : {DType::kF16, DType::kBF16}) {
      if (Info(in).storage_bits == 16 && in != out) continue;
      const double median = MedianRho(in, out);
      EXPECT_GE(median, 0.3) << Name(in) << " to " << Name(out);
      EXPECT_LE(median, 1.0) << Name(in) << " to " << Name(out);
    }
  }
}

// ---- what must not pass ----

enum class Slip {
  kNone,
  kForgetScaleA,
  kForgetChannelScale,
  kScaleByRow,
  kForgetBias,
  kBiasBeforeScale,
  kBiasTwice,
  kActivationFirst,
  kForgetActivation,
  kOtherGelu,
  kForgetC,
};

// Plain loops in fp32, with one slip.
class PlainGemm : public Kernel {
 public:
  PlainGemm(GemmProblem p, Slip slip) : p_(std::move(p)), slip_(slip) {}

  absl::Status Launch(std::span<const TensorView> in, const TensorView& out) override {
    for (std::int64_t i = 0; i < p_.m; ++i) {
      for (std::int64_t j = 0; j < p_.n; ++j) {
        float sum = 0;
        for (std::int64_t k = 0; k < p_.k; ++k) sum += At(in[0], i, k) * At(in[1], k, j);
        const float y = Finish(sum, i, j, in);
        StoreBits(out.dtype, out.data, i * out.extents.ld + j, RoundToFormat(y, out.dtype));
      }
    }
    return absl::OkStatus();
  }

 private:
  static float At(const TensorView& v, std::int64_t row, std::int64_t col) {
    return static_cast<float>(LoadDouble(v.dtype, v.data, row * v.extents.ld + col));
  }

  float Activate(float x) const {
    if (p_.activation == "relu") return x > 0 ? x : 0;
    if (p_.activation == "none") return x;
    if ((p_.activation == "gelu") != (slip_ == Slip::kOtherGelu)) {
      return 0.5f * x * (1 + std::erf(x * 0.70710678f));
    }
    return 0.5f * x * (1 + std::tanh(0.79788456f * (x + 0.044715f * x * x * x)));
  }

  float Finish(float sum, std::int64_t i, std::int64_t j, std::span<const TensorView> in) const {
    const auto column = [&](int operand, std::int64_t at) {
      return At(in[static_cast<std::size_t>(operand)], 0, at);
    };
    float scale = static_cast<float>(p_.alpha) * static_cast<float>(p_.scale_b);
    if (slip_ != Slip::kForgetScaleA) scale *= static_cast<float>(p_.scale_a);
    if (p_.channel_scale && slip_ != Slip::kForgetChannelScale) {
      scale *= column(p_.channel_scale_operand(), slip_ == Slip::kScaleByRow ? i : j);
    }
    const float bias = p_.bias ? column(p_.bias_operand(), j) : 0;
    float x = (slip_ == Slip::kBiasBeforeScale ? sum + bias : sum) * scale;
    if (slip_ == Slip::kActivationFirst) x = Activate(x);
    if (p_.beta != 0 && slip_ != Slip::kForgetC) {
      x += static_cast<float>(p_.beta) * At(in[2], i, j);
    }
    if (slip_ != Slip::kBiasBeforeScale && slip_ != Slip::kForgetBias) x += bias;
    if (slip_ == Slip::kBiasTwice) x += bias;
    return slip_ == Slip::kActivationFirst || slip_ == Slip::kForgetActivation ? x : Activate(x);
  }

  GemmProblem p_;
  Slip slip_;
};

template <Slip kSlip>
absl::StatusOr<std::unique_ptr<Kernel>> MakePlain(const Case& c, const Plan&, Device&) {
  return std::make_unique<PlainGemm>(std::get<GemmProblem>(c.problem), kSlip);
}

testing::Ran RunPlain(const std::string& activation, DType in, DType out, KernelFactory make) {
  GemmProblem p = WithEpilogue(activation);
  p.batch = 1;
  Case c = CaseOf(p, in, "", 1);
  c.out_dtype = out;
  return testing::CaseRun(c, true, make).ran();
}

TEST(Formats, PlainLoopsAreRightAndEachSlipIsCaught) {
  constexpr std::pair<Slip, KernelFactory> kSlips[] = {
      {Slip::kForgetScaleA, &MakePlain<Slip::kForgetScaleA>},
      {Slip::kForgetChannelScale, &MakePlain<Slip::kForgetChannelScale>},
      {Slip::kScaleByRow, &MakePlain<Slip::kScaleByRow>},
      {Slip::kForgetBias, &MakePlain<Slip::kForgetBias>},
      {Slip::kBiasBeforeScale, &MakePlain<Slip::kBiasBeforeScale>},
      {Slip::kBiasTwice, &MakePlain<Slip::kBiasTwice>},
      {Slip::kActivationFirst, &MakePlain<Slip::kActivationFirst>},
      {Slip::kForgetActivation, &MakePlain<Slip::kForgetActivation>},
      {Slip::kOtherGelu, &MakePlain<Slip::kOtherGelu>},
      {Slip::kForgetC, &MakePlain<Slip::kForgetC>},
  };
  for (DType in :
       {DType::kF32, DType::kTF32, DType::kE4M3FN, DType::kE5M2FNUZ, DType::kE2M1, DType::kI8}) {
    for (DType out : {DType::kF32, DType::kBF16}) {
      if (out == DType::kBF16 && Info(in).storage_bits == 32) continue;
      for (const char* activation : {"none", "relu", "gelu", "gelu_tanh"}) {
        SCOPED_TRACE(::testing::Message() << Name(in) << " " << Name(out) << " " << activation);
        ExpectRight(RunPlain(activation, in, out, &MakePlain<Slip::kNone>));
        const bool gelu = std::string(activation).starts_with("gelu");
        for (const auto& [slip, make] : kSlips) {
          if (slip == Slip::kOtherGelu && (!gelu || out != DType::kF32)) continue;
          const bool of_activation =
              slip == Slip::kActivationFirst || slip == Slip::kForgetActivation;
          if (of_activation && std::string(activation) == "none") continue;
          EXPECT_FALSE(RunPlain(activation, in, out, make).right())
              << "slip " << static_cast<int>(slip);
        }
      }
    }
  }
}

// The right kernel with another problem's scales: each must show.
struct Rescaled {
  static inline AttentionProblem problem;
  static absl::StatusOr<std::unique_ptr<Kernel>> Make(const Case& c, const Plan& plan,
                                                      Device& device) {
    Case other = c;
    other.problem = problem;
    return testing::AllKernels().Find("attention", "builtin", "cpu")->make(other, plan, device);
  }
};

TEST(Formats, AttentionWithoutOneOfItsScalesIsCaught) {
  AttentionProblem p = Heads();
  p.scale_q = 1.5;
  p.scale_k = 0.7;
  p.scale_v = 1.4;
  for (DType in : {DType::kF32, DType::kTF32, DType::kBF16, DType::kE4M3FN, DType::kE5M2}) {
    const Case c = CaseOf(p, in, "", 1);
    Rescaled::problem = p;
    ExpectRight(testing::CaseRun(c, true, &Rescaled::Make).ran());
    for (double AttentionProblem::*scale :
         {&AttentionProblem::scale_q, &AttentionProblem::scale_k, &AttentionProblem::scale_v}) {
      Rescaled::problem = p;
      Rescaled::problem.*scale = 1;
      EXPECT_FALSE(testing::CaseRun(c, true, &Rescaled::Make).ran().right()) << Name(in);
    }
  }
}

// ---- the libraries' epilogues ----

TEST(Formats, OnednnTakesEpilogues) {
  for (const char* activation : {"none", "gelu", "gelu_tanh"}) {
    for (const auto& [in, out] : {std::pair{DType::kF32, DType::kF32},
                                  {DType::kBF16, DType::kBF16},
                                  {DType::kBF16, DType::kF32},
                                  {DType::kI8, DType::kF32},
                                  {DType::kI8, DType::kBF16}}) {
      for (int terms = 0; terms < 16; ++terms) {
        GemmProblem p{.m = 21, .n = 35, .k = 40};
        p.batch = (terms & 8) != 0 ? 2 : 1;
        p.scale_a = 0.5;
        p.scale_b = 0.1;
        p.channel_scale = (terms & 1) != 0;
        p.bias = (terms & 2) != 0;
        p.beta = (terms & 4) != 0 ? -0.75 : 0;
        p.activation = activation;
        SCOPED_TRACE(::testing::Message() << p.Describe() << " " << Name(in) << " " << Name(out));
        const testing::Ran ran = RunCase(p, "onednn", in, out);
        if (ran.status.code() == absl::StatusCode::kUnimplemented) {
          // A machine without bf16 or VNNI; fp32 there must be.
          EXPECT_NE(in, DType::kF32) << ran.status;
          continue;
        }
        ExpectRight(ran);
      }
    }
  }
}

TEST(Formats, OpenblasTakesScales) {
  GemmProblem p{.m = 21, .n = 35, .k = 40};
  p.alpha = -2;
  p.scale_a = 0.3;
  p.scale_b = 7;
  p.beta = 0.5;
  ExpectRight(RunCase(p, "openblas", DType::kF32));
  ExpectRight(RunCase(p, "openblas", DType::kF64));
}

// ---- refusals ----

TEST(Formats, ProvidersRefuseWhatTheyCannot) {
  const auto refused = [](const testing::Ran& ran, const std::string& what) {
    EXPECT_EQ(ran.status.code(), absl::StatusCode::kUnimplemented) << ran.Describe();
    EXPECT_THAT(std::string(ran.status.message()), ::testing::HasSubstr(what));
  };
  GemmProblem p{.m = 8, .n = 8, .k = 8};
  for (const char* provider : {"onednn", "openblas"}) {
    AttentionProblem a = Heads();
    a.scale_v = 2;
    refused(RunCase(a, provider, DType::kF32), "scale_v 2");
    refused(RunCase(p, provider, DType::kE4M3FN), "");
    refused(RunCase(p, provider, DType::kTF32), "");
  }
  GemmProblem q = p;
  q.channel_scale = true;
  refused(RunCase(q, "openblas", DType::kF32), "gemm.channel_scale");
  q = p;
  q.bias = true;
  refused(RunCase(q, "openblas", DType::kF32), "gemm.bias");
  q.activation = "relu";
  refused(RunCase(q, "onednn", DType::kF32), "gemm.activation relu");
  q = p;
  q.activation = "gelu";
  refused(RunCase(q, "openblas", DType::kF32), "gemm.activation gelu");
}

}  // namespace
}  // namespace assay
