// Exact cases and identities: a right kernel passes them whatever its shape and
// formats, a wrong one fails them though the case's own data show nothing.
#include "kernels/validate/probes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "kernels/judge/phase_clock.h"
#include "kernels/numerics/convert.h"
#include "kernels/providers/planted/planted.h"
#include "kernels/text/cat.h"
#include "kernels/validate/host_inputs.h"
#include "kernels/validate/launcher.h"
#include "kernels/validate/runner.h"
#include "tests/outcome_text.h"

namespace assay {
namespace {

class ProbesTest : public ::testing::Test {
 protected:
  ProbesTest() { RegisterAll(registry_); }

  CaseOutcome Run(const Case& c) {
    for (const FieldError& e : Check(c)) ADD_FAILURE() << e.field << ": " << e.message;
    PhaseObserver observer;
    return CaseRunner(*device_, registry_, nullptr).Run(c, observer);
  }

  // A case for each provider that has the operator in the format; planted ones not.
  std::vector<Case> ForProviders(const Problem& problem, DType dtype,
                                 DType out = DType::kUnspecified) {
    std::vector<Case> cases;
    for (const KernelEntry& entry : registry_.entries()) {
      if (entry.op != OpName(problem) || entry.provider.starts_with(kPlantedPrefix)) continue;
      if (std::find(entry.dtypes.begin(), entry.dtypes.end(), dtype) == entry.dtypes.end())
        continue;
      Case c;
      c.problem = problem;
      c.dtype = dtype;
      c.out_dtype = out;
      c.provider = std::string(entry.provider);
      c.seed = 7;
      cases.push_back(std::move(c));
    }
    return cases;
  }

  // No false alarm, and each probe's digest the same for every provider.
  void ExpectPasses(const Problem& problem, DType dtype, DType out = DType::kUnspecified) {
    std::map<std::string, std::string> digests;
    for (const Case& c : ForProviders(problem, dtype, out)) {
      const CaseOutcome outcome = Run(c);
      if (outcome.verdict == Verdict::kUnsupported) continue;
      const std::string text = Cat(DefaultName(c), ": ", Describe(outcome));
      EXPECT_TRUE(outcome.verdict == Verdict::kPassed || outcome.verdict == Verdict::kInconclusive)
          << text;
      for (const ProbeOutcome& p : outcome.probes) {
        EXPECT_TRUE(p.verdict == Verdict::kPassed || p.verdict == Verdict::kSkipped) << text;
        EXPECT_EQ(p.mismatches, 0) << text;
        passed_[p.name] += p.verdict == Verdict::kPassed ? 1 : 0;
        if (p.verdict == Verdict::kSkipped && p.name != "nan") {  // nan_test.cc
          skipped_.insert(Cat(p.name, ": ", p.message));
        }
        if (p.digest.empty()) continue;
        const auto [at, fresh] = digests.emplace(p.name, p.digest);
        EXPECT_EQ(at->second, p.digest) << text;
      }
    }
  }

  Registry registry_;
  const std::unique_ptr<Device> device_ =
      MakeCpuDevice(0, ArenaOptions{.max_bytes = std::int64_t{512} << 20});
  std::map<std::string, int> passed_;
  std::set<std::string> skipped_;
};

constexpr DType kFormats[] = {DType::kF64,      DType::kF32,    DType::kTF32,     DType::kF16,
                              DType::kBF16,     DType::kE4M3FN, DType::kE4M3FNUZ, DType::kE5M2,
                              DType::kE5M2FNUZ, DType::kE2M1,   DType::kI8};

TEST_F(ProbesTest, RightGemmsPass) {
  const GemmProblem shapes[] = {
      {.m = 1, .n = 1, .k = 1},
      {.m = 33, .n = 17, .k = 65, .batch = 2, .trans_b = true},
      {.m = 96, .n = 80, .k = 72, .ldc = 84},
      {.m = 5, .n = 7, .k = 3000, .trans_a = true},
  };
  for (const DType t : kFormats) {
    for (const GemmProblem& p : shapes) ExpectPasses(p, t);
  }
  for (const DType t : {DType::kF16, DType::kBF16}) ExpectPasses(shapes[2], t, DType::kF32);
  for (const DType t : {DType::kE4M3FN, DType::kE5M2}) ExpectPasses(shapes[3], t, t);
  EXPECT_GT(passed_["exact-sparse"], 40);
  EXPECT_GT(passed_["exact-integers"], 40);
  // Of the floats of 8 bits and more.
  EXPECT_GT(passed_["exact-significand-a"], 40);
  EXPECT_EQ(passed_["exact-significand-a"], passed_["exact-significand-b"]);
  EXPECT_THAT(skipped_, ::testing::IsEmpty());
}

// A library's integers may pass through fp32, which it declares. Then there is no one result.
TEST_F(ProbesTest, LongSumsOfIntegersPassWhereTheirFormatIsDeclared) {
  const GemmProblem p{.m = 64, .n = 64, .k = 2048};
  ExpectPasses(p, DType::kI8);
  EXPECT_GE(passed_["exact-integers"], 1);
  for (const Case& c : ForProviders(p, DType::kI8)) {
    const CaseOutcome outcome = Run(c);
    if (outcome.probes.empty()) continue;
    const bool through = absl::StrContains(outcome.implementation, "sums pass through fp32");
    EXPECT_EQ(c.provider == "onednn", through) << outcome.implementation;
    EXPECT_TRUE(through || !outcome.probes[0].digest.empty()) << Describe(outcome);
  }
}

TEST_F(ProbesTest, RightEpiloguesPass) {
  GemmProblem p{.m = 40, .n = 24, .k = 520, .alpha = 0.3, .beta = -1.7, .bias = true};
  p.channel_scale = true;
  p.scale_a = 0.01;
  p.scale_b = 3;
  for (const char* activation : {"none", "relu", "gelu"}) {
    p.activation = activation;
    for (const DType t : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16}) ExpectPasses(p, t);
    ExpectPasses(p, DType::kE4M3FN, DType::kF16);
    for (const DType out : {DType::kF32, DType::kBF16}) ExpectPasses(p, DType::kI8, out);
  }
  GemmProblem blas{.m = 40, .n = 24, .k = 520, .alpha = 0.3, .beta = 1};
  for (const DType t : {DType::kF64, DType::kF32, DType::kBF16}) ExpectPasses(blas, t);
  EXPECT_GT(passed_["exact-sparse"], 15);
  EXPECT_GT(passed_["significand-a"], 15);
  EXPECT_EQ(passed_["significand-a"], passed_["significand-b"]);
  EXPECT_THAT(skipped_, ::testing::IsEmpty());
}

TEST_F(ProbesTest, RightConvolutionsPass) {
  ConvProblem p;
  p.channels = 6;
  p.filters = 9;
  p.input = {13, 11};
  p.kernel = {3, 3};
  p.padding = {1};
  ConvProblem strided = p;
  strided.stride = {2};
  strided.dilation = {2};
  strided.groups = 3;
  ConvProblem last = p;
  last.layout = "nhwc";
  last.batch = 2;
  for (const DType t : kFormats) {
    for (const ConvProblem& shape : {p, strided, last}) {
      if (t != DType::kE2M1) ExpectPasses(shape, t);
    }
  }
  EXPECT_GT(passed_["exact-sparse"], 20);
  EXPECT_GT(passed_["exact-significand-x"], 25);
  EXPECT_EQ(passed_["exact-significand-x"], passed_["exact-significand-w"]);
  EXPECT_THAT(skipped_, ::testing::IsEmpty());
}

TEST_F(ProbesTest, RightSumsPass) {
  for (const DType t : kFormats) {
    if (t == DType::kE2M1) continue;
    for (const IntList& extents : {IntList{5000}, IntList{3, 700}, IntList{2, 3, 4000}}) {
      ExpectPasses(ReduceProblem{.extents = extents, .axis = 0, .kind = "sum"}, t);
      ExpectPasses(ReduceProblem{.extents = extents, .kind = "sum"}, t);
    }
  }
  EXPECT_GT(passed_["exact-integers"], 50);
  EXPECT_GE(passed_["exact-significand"], 30);
  EXPECT_GT(passed_["exact-signs"], 5);
  EXPECT_THAT(skipped_, ::testing::IsEmpty());
}

TEST_F(ProbesTest, RightAttentionsPass) {
  const AttentionProblem shapes[] = {
      {.heads = 2, .seq = 64, .dim = 32},
      {.heads = 2, .seq = 65, .dim = 17, .causal = true},
      {.batch = 2, .heads = 4, .kv_heads = 2, .seq = 48, .kv_seq = 129, .dim = 16, .causal = true},
      {.heads = 6, .kv_heads = 2, .seq = 100, .kv_seq = 40, .dim = 24, .causal = true},
      {.heads = 2, .seq = 80, .dim = 32, .mask_density = 0.5},
      {.heads = 2, .seq = 80, .kv_seq = 96, .dim = 32, .causal = true, .mask_density = 0.3},
      {.heads = 2, .seq = 1, .kv_seq = 300, .dim = 64},
      {.heads = 2, .seq = 40, .dim = 16, .scale = -0.7},
      {.heads = 1, .seq = 520, .dim = 8},
  };
  for (const DType t : kFormats) {
    if (t == DType::kE2M1 || t == DType::kI8) continue;
    for (const AttentionProblem& p : shapes) ExpectPasses(p, t);
  }
  for (const DType t : {DType::kF16, DType::kBF16}) ExpectPasses(shapes[1], t, DType::kF32);
  EXPECT_GT(passed_["key-groups"], 50);
  EXPECT_GT(passed_["far-below-0"], 50);
  EXPECT_GT(passed_["far-above-0"], 50);
  EXPECT_GT(passed_["small-weights"], 20);
  EXPECT_GT(passed_["exact-significand-v"], 40);
  EXPECT_GT(passed_["last-row"], 20);
  EXPECT_GT(passed_["first-row"], 10);
  EXPECT_THAT(skipped_, ::testing::IsEmpty());
}

TEST_F(ProbesTest, AnAttentionThatHasNoExactDataSaysWhy) {
  AttentionProblem narrow{.heads = 1, .seq = 200, .dim = 1};
  AttentionProblem flat{.heads = 1, .seq = 32, .dim = 16, .scale = 1e-30};
  for (const auto& [problem, why] :
       {std::pair{narrow, "dim 1 has 2"}, {flat, "no fp16 codes drive exp to 0"}}) {
    for (const Case& c : ForProviders(problem, DType::kF16)) {
      const CaseOutcome outcome = Run(c);
      ASSERT_EQ(outcome.probes.size(), 4u);
      EXPECT_EQ(outcome.probes[0].name, "far-below-0");
      EXPECT_EQ(outcome.probes[0].verdict, problem.dim == 1 ? Verdict::kPassed : Verdict::kSkipped);
      EXPECT_EQ(outcome.probes[1].name, "far-above-0");
      EXPECT_EQ(outcome.probes[2].name, "key-groups");
      EXPECT_THAT(outcome.probes[2].message, ::testing::HasSubstr(why));
      EXPECT_EQ(outcome.probes[3].name, "exact-significand-v");
      for (const ProbeOutcome& probe : std::span(outcome.probes).subspan(2)) {
        EXPECT_EQ(probe.verdict, Verdict::kSkipped);
        EXPECT_FALSE(probe.message.empty());
        EXPECT_FALSE(probe.refused);
      }
      // Scores of one size give equal weights, and so may a kernel that does not look at them.
      EXPECT_EQ(outcome.verdict, problem.dim == 1 ? Verdict::kPassed : Verdict::kInconclusive)
          << Describe(outcome);
    }
  }
}

TEST_F(ProbesTest, RightSoftmaxesPass) {
  for (const DType t : kFormats) {
    if (t == DType::kE2M1 || t == DType::kI8) continue;
    for (const SoftmaxProblem& p :
         {SoftmaxProblem{.rows = 1, .cols = 1}, SoftmaxProblem{.rows = 17, .cols = 333},
          SoftmaxProblem{.rows = 3, .cols = 5000}}) {
      ExpectPasses(p, t);
    }
  }
  EXPECT_GT(passed_["range"], 10);
  EXPECT_GT(passed_["row-sums"], 10);
  EXPECT_GT(passed_["shift"], 10);
  EXPECT_GT(passed_["rows-apart"], 10);
  EXPECT_GT(passed_["falling"], 10);
  EXPECT_GT(passed_["each-column"], 10);
  EXPECT_GT(passed_["last-column"], 5);  // of the one with many columns
}

// Rows of one column, more rows than a probe has, eps that formats cannot show.
TEST_F(ProbesTest, RightLayerNormsPass) {
  for (const DType t : kFormats) {
    if (t == DType::kE2M1 || t == DType::kI8) continue;
    for (const double eps : {1e-5, 0.0, 1e-30, 1e-12, 0.3, 1e5}) {
      for (const bool rms : {false, true}) {
        for (LayerNormProblem p :
             {LayerNormProblem{.rows = 1, .cols = 1}, LayerNormProblem{.rows = 40, .cols = 2},
              LayerNormProblem{.rows = 1, .cols = 5}, LayerNormProblem{.rows = 17, .cols = 333},
              LayerNormProblem{.rows = 2, .cols = 6000}}) {
          p.eps = eps;
          p.rms = rms;
          p.affine = p.cols % 2 == 0;
          // A constant row has no right result without eps.
          if (eps == 0 && p.cols < 3) continue;
          ExpectPasses(p, t);
        }
      }
    }
  }
  EXPECT_GT(passed_["large-mean"], 40);
  EXPECT_GT(passed_["small-variance"], 100);
  EXPECT_THAT(skipped_,
              ::testing::IsSupersetOf({"large-mean: eps is 0", "small-variance: eps is 0",
                                       "large-mean: rows of one column have no variance",
                                       "large-mean: eps is too large for fp16's range",
                                       "small-variance: eps is too small for fp16's range"}));
}

// Default data hide both: the variance is near 1, and the mean near 0.
TEST_F(ProbesTest, LayerNormsOfPlainDataAreCaught) {
  for (const LayerNormProblem& p :
       {LayerNormProblem{.rows = 16, .cols = 1024}, LayerNormProblem{.rows = 1, .cols = 64},
        LayerNormProblem{.rows = 3, .cols = 8192, .affine = true},
        LayerNormProblem{.rows = 16, .cols = 500, .eps = 1e-12}}) {
    for (const DType t : {DType::kF32, DType::kF16, DType::kBF16}) {
      for (const auto& [defect, probe] :
           {std::pair{"one-pass-variance", "large-mean"}, {"missing-eps", "small-variance"}}) {
        Case c;
        c.problem = p;
        c.dtype = t;
        c.provider = Cat(kPlantedPrefix, defect);
        c.seed = 1;
        const CaseOutcome outcome = Run(c);
        const bool mean = probe == std::string_view("large-mean");
        // It is planted in fp32 alone; and fp16 holds no 1e-6.
        if ((mean && t != DType::kF32) || (!mean && t == DType::kF16 && p.eps < 1e-10)) continue;
        const std::string text = Cat(DefaultName(c), " ", defect, ": ", Describe(outcome));
        EXPECT_EQ(outcome.verdict, Verdict::kFailed) << text;
        for (const ProbeOutcome& seen : outcome.probes) {
          // Constant rows are 0/0 without eps.
          if (mean || seen.name == probe) {
            EXPECT_EQ(seen.verdict == Verdict::kFailed, seen.name == probe) << text;
          }
        }
        EXPECT_THAT(outcome.reads_as,
                    ::testing::HasSubstr(mean ? "E[x²] - E[x]²" : "eps is left out"));
      }
    }
  }
}

TEST_F(ProbesTest, RightDequantSoftmaxesPass) {
  for (const DType t : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const DequantSoftmaxProblem& p :
         {DequantSoftmaxProblem{.m = 1, .n = 1, .k = 1},
          DequantSoftmaxProblem{.m = 17, .n = 333, .k = 40, .transpose_w = true},
          DequantSoftmaxProblem{.m = 3, .n = 5000, .k = 2049}}) {
      ExpectPasses(p, t);
    }
  }
  EXPECT_EQ(passed_["range"], 9);
  EXPECT_EQ(passed_["row-sums"], 9);
  EXPECT_EQ(passed_["argmax"], 9);
}

TEST_F(ProbesTest, RightElementOperatorsPass) {
  for (const DType t : kFormats) {
    if (t == DType::kE2M1 || t == DType::kI8) continue;
    for (const char* kind : {"add", "silu_mul", "gelu", "gelu_tanh"}) {
      ExpectPasses(ElementwiseProblem{.rows = 1, .cols = 1, .kind = kind}, t);
      ExpectPasses(ElementwiseProblem{.rows = 9, .cols = 333, .kind = kind}, t);
    }
    ExpectPasses(RopeProblem{.seq = 5, .heads = 3, .dim = 24}, t);
    ExpectPasses(RopeProblem{.batch = 2, .seq = 1, .dim = 2, .interleaved = true, .start = 99}, t);
    for (const char* kind : {"sum", "max", "argmax"}) {
      ExpectPasses(ReduceProblem{.extents = {7, 90}, .kind = kind}, t);
      ExpectPasses(ReduceProblem{.extents = {3, 50, 4}, .axis = 1, .kind = kind}, t);
    }
  }
  EXPECT_GT(passed_["small"], 10);
  EXPECT_GT(passed_["position-zero"], 10);
  EXPECT_GT(passed_["exact-significand"], 5);
  EXPECT_THAT(skipped_, ::testing::IsEmpty());
}

// Row sums where nothing is tame: rows of infinities are left out, the others hold.
TEST_F(ProbesTest, SoftmaxIdentitiesHoldOnHardData) {
  for (const char* pattern : {"zeros", "constant:1000", "one-large:1000", "large-small:1000",
                              "normal:10", "extremes:80", "all-inf", "all-neg-inf"}) {
    for (const DType t : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16}) {
      for (Case c : ForProviders(SoftmaxProblem{.rows = 8, .cols = 2048}, t)) {
        c.pattern = pattern;
        const CaseOutcome outcome = Run(c);
        if (outcome.verdict == Verdict::kUnsupported) continue;
        for (const ProbeOutcome& p : outcome.probes) {
          EXPECT_NE(p.verdict, Verdict::kFailed) << pattern << " " << Describe(outcome);
        }
      }
    }
  }
}

// ---- wrong kernels

struct Wrong {
  std::string_view op, defect, probe;
};

TEST_F(ProbesTest, TheProbeAloneCatchesWrongKernels) {
  const Wrong kWrong[] = {
      {"gemm", "wrong-tile", "exact-sparse"},
      {"gemm", "dropped-k", "exact-sparse"},
      {"gemm", "transposed-b", "exact-sparse"},
      {"gemm", "zero-output", "exact-sparse"},
      {"gemm", "fp16-accumulate", "exact-integers"},
      {"gemm", "truncating-output", "exact-integers"},
      {"conv", "dropped-tap", "exact-sparse"},
      {"attention", "mask-off-by-one", "key-groups"},
      {"attention", "no-max", "key-groups"},
      {"attention", "missing-rescale", "key-groups"},
      {"softmax", "no-max", "shift"},
      {"softmax", "max-of-all-rows", "rows-apart"},
      {"softmax", "short-max", "each-column"},
      {"layer_norm", "dropped-last-16384", "last-column"},
      {"softmax", "sum-in-16-bits", "row-sums"},
      {"dequant_softmax", "no-max", "argmax"},
      {"dequant_softmax", "wrong-scale", "argmax"},
      {"dequant_softmax", "dropped-scale", "argmax"},
      {"dequant_softmax", "stale-row", "argmax"},
      {"dequant_softmax", "unsigned-weights", "argmax"},
      {"dequant_softmax", "transposed-weights", "argmax"},
      {"dequant_softmax", "row-sum-in-bf16", "row-sums"},
  };
  for (const Wrong& w : kWrong) {
    int seen = 0;
    for (const PlantedDefect& d : PlantedDefects()) {
      if (d.op != w.op || d.name != w.defect) continue;
      for (const DType t : d.dtypes) {
        const CaseOutcome outcome = Run(PlantedCase(d, t));
        const std::string text = Cat(w.op, " ", w.defect, " ", Name(t), ": ", Describe(outcome));
        const auto probe =
            std::find_if(outcome.probes.begin(), outcome.probes.end(), [&](const ProbeOutcome& p) {
              return p.name == (Info(t).is_integer ? "exact-integers" : w.probe);
            });
        ASSERT_TRUE(probe != outcome.probes.end()) << text;
        EXPECT_EQ(probe->verdict, Verdict::kFailed) << text;
        EXPECT_GT(probe->mismatches, 0) << text;
        ++seen;
      }
    }
    EXPECT_GT(seen, 0) << w.op << " " << w.defect;
  }
}

// A gemm that is right but for one bit of one element, where the site is drawn.
class OneBit : public Kernel {
 public:
  OneBit(std::unique_ptr<Kernel> right, std::int64_t element, int bit)
      : right_(std::move(right)), element_(element), bit_(bit) {}
  absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) override {
    absl::Status status = right_->Launch(inputs, output);
    const std::int64_t at = element_ % output.count();
    StoreBits(output.dtype, output.data, at,
              LoadBits(output.dtype, output.data, at) ^ (std::uint64_t{1} << bit_));
    return status;
  }

 private:
  std::unique_ptr<Kernel> right_;
  std::int64_t element_;
  int bit_;
};

int flipped_bit = 0;  // the factory is a plain function

absl::StatusOr<std::unique_ptr<Kernel>> MakeOneBit(const Case& c, const Plan& plan,
                                                   Device& device) {
  Registry registry;
  RegisterAll(registry);
  auto right = registry.Find(OpName(c.problem), "builtin", "cpu")->make(c, plan, device);
  if (!right.ok()) return right.status();
  return std::make_unique<OneBit>(*std::move(right), 1234567, flipped_bit);
}

TEST_F(ProbesTest, OneFlippedBitOfOneElementIsCaughtThoughTheDataPass) {
  registry_.Add({.op = "gemm",
                 .provider = "one-bit",
                 .backend = "cpu",
                 .dtypes = {DType::kF32, DType::kF16, DType::kBF16},
                 .make = &MakeOneBit,
                 .version = {},
                 .unavailable_reason = {}});
  int hidden = 0;
  for (const DType t : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const int bit : {0, 1, 5}) {
      flipped_bit = bit;
      Case c;
      c.problem = GemmProblem{.m = 64, .n = 48, .k = 1024};
      c.dtype = t;
      c.provider = "one-bit";
      c.seed = 3;
      const CaseOutcome outcome = Run(c);
      EXPECT_EQ(outcome.verdict, Verdict::kFailed) << Name(t) << " " << bit;
      for (const ProbeOutcome& p : outcome.probes) {
        if (p.name == "nan") continue;  // which has no number
        EXPECT_EQ(p.verdict, Verdict::kFailed) << Describe(outcome);
        EXPECT_EQ(p.mismatches, 1) << Describe(outcome);
        ASSERT_TRUE(p.first.has_value());
        EXPECT_EQ(p.first->index, 1234567 % (64 * 48));
      }
      c.probes = false;
      const CaseOutcome alone = Run(c);
      EXPECT_TRUE(alone.probes.empty());
      if (alone.verdict == Verdict::kPassed) {
        ++hidden;
        EXPECT_EQ(ReasonWord(outcome.findings[0].reason), "exact") << Describe(outcome);
        EXPECT_FALSE(outcome.findings[0].subject.empty());
        EXPECT_FALSE(outcome.next_step.empty());
      }
    }
  }
  EXPECT_GT(hidden, 2) << "the data alone should have missed some of them";
}

// ---- what a kernel refuses

// Right, and not to be had for a probe's data.
class Refusing final {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Make(const Case& c, const Plan& plan,
                                                      Device& device) {
    if (c.exact) return absl::UnimplementedError("takes no exact data");
    static const Registry all = [] {
      Registry registry;
      RegisterAll(registry);
      return registry;
    }();
    return all.Find("gemm", "builtin", "cpu")->make(c, plan, device);
  }
};

TEST_F(ProbesTest, ARefusedProbeIsSkippedAndSaid) {
  registry_.Add({.op = "gemm",
                 .provider = "refusing",
                 .backend = "cpu",
                 .dtypes = {DType::kF32},
                 .make = Refusing::Make,
                 .version = {},
                 .unavailable_reason = {}});
  Case c;
  c.problem = GemmProblem{.m = 20, .n = 30, .k = 40};
  c.dtype = DType::kF32;
  c.provider = "refusing";
  c.seed = 1;
  const CaseOutcome outcome = Run(c);
  // Random data within its bound still prove something.
  EXPECT_EQ(outcome.verdict, Verdict::kPassed) << Describe(outcome);
  ASSERT_EQ(outcome.probes.size(), 5u);
  for (const ProbeOutcome& p : outcome.probes) {
    if (p.name == "nan") continue;
    EXPECT_EQ(p.verdict, Verdict::kSkipped);
    EXPECT_TRUE(p.refused);
    EXPECT_THAT(p.message, ::testing::HasSubstr("takes no exact data"));
  }
  c.provider = "builtin";
  for (const ProbeOutcome& p : Run(c).probes) EXPECT_FALSE(p.refused) << p.name;
}

// An operator whose identities end as the test says.
class WithIdentities final : public Op {
 public:
  explicit WithIdentities(absl::Status status) : status_(std::move(status)) {}
  std::string_view name() const override { return gemm_.name(); }
  absl::StatusOr<Plan> MakePlan(const Case& c) const override { return gemm_.MakePlan(c); }
  absl::Status ReferenceHere(const Case& c, const Plan& plan, std::span<const TensorView> inputs,
                             ReferenceBuffers& out) const override {
    return gemm_.ReferenceHere(c, plan, inputs, out);
  }
  void ReferenceAt(const Case& c, const Plan& plan, const HostInputs& inputs,
                   std::span<const std::int64_t> indices, double* value,
                   double* allowance) const override {
    gemm_.ReferenceAt(c, plan, inputs, indices, value, allowance);
  }
  absl::StatusOr<std::vector<Identity>> CheckIdentitiesHere(
      const Case&, const Plan&, std::span<const TensorView>, const TensorView&,
      const ReferenceBuffers&) const override {
    return status_;
  }

 private:
  const Op& gemm_ = *FindOp("gemm");
  const absl::Status status_;
};

TEST_F(ProbesTest, IdentitiesThatCouldNotBeLookedForAreAnError) {
  Case c;
  c.problem = GemmProblem{.m = 8, .n = 8, .k = 8};
  c.dtype = DType::kF32;
  c.seed = 1;
  PhaseObserver observer;
  const auto report = [&](absl::Status status) {
    PhaseClock clock(*device_, observer);
    Plan plan = *FindOp("gemm")->MakePlan(c);
    const KernelEntry& entry = *registry_.Find("gemm", "builtin", "cpu");
    Launcher launcher(c, *device_, clock);
    EXPECT_FALSE(launcher.Prepare(entry, plan).has_value());
    EXPECT_FALSE(launcher.Fill().has_value());
    EXPECT_TRUE(launcher.Launch(Poison::kFirst).ok());
    const WithIdentities op(std::move(status));
    return CheckProbes(ProbeSubject{c, op, plan, entry, launcher}, *device_, observer);
  };
  const ProbeReport broken = report(absl::InternalError("device gone"));
  EXPECT_EQ(broken.verdict, Verdict::kError);
  ASSERT_FALSE(broken.findings.empty());
  EXPECT_EQ(ReasonWord(broken.findings[0].reason), "fault");
  EXPECT_EQ(broken.findings[0].message, "identities: device gone");
  EXPECT_EQ(report(absl::ResourceExhaustedError("full")).verdict, Verdict::kError);

  const ProbeReport none = report(absl::UnimplementedError("not on this backend"));
  EXPECT_EQ(none.verdict, Verdict::kUnspecified);
  EXPECT_TRUE(none.findings.empty());
}

// ---- digests

TEST_F(ProbesTest, AGoldenDigestIsHeldAgainst) {
  Case c;
  c.problem = GemmProblem{.m = 20, .n = 30, .k = 40};
  c.dtype = DType::kBF16;
  c.provider = "builtin";
  c.seed = 1;
  const CaseOutcome first = Run(c);
  ASSERT_EQ(first.probes.size(), 5u);
  for (const ProbeOutcome& p : first.probes) {
    EXPECT_FALSE(p.golden.has_value());
    if (p.name == "nan") continue;  // the bound judges it
    EXPECT_EQ(p.digest.size(), 32u);
    c.golden[p.name] = p.digest;
  }
  c.seed = 2;  // a probe's data are its own
  const CaseOutcome second = Run(c);
  for (const ProbeOutcome& p : second.probes) {
    EXPECT_EQ(p.golden.value_or(false), p.name != "nan") << p.name;
  }
  EXPECT_EQ(second.verdict, Verdict::kPassed) << Describe(second);

  c.golden["exact-integers"][5] ^= 1;
  const CaseOutcome other = Run(c);
  EXPECT_EQ(other.verdict, Verdict::kFailed) << Describe(other);
  ASSERT_FALSE(other.findings.empty());
  EXPECT_EQ(ReasonWord(other.findings[0].reason), "digest");
  EXPECT_EQ(other.probes[1].golden, false);
  EXPECT_EQ(other.probes[1].mismatches, 0);
}

}  // namespace
}  // namespace assay
