// Significand probes: a kernel that keeps every bit of its operands passes them at every length of
// a sum, one that narrows an operand or the output fails, and a declared loss is allowed, no more.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "kernels/numerics/convert.h"
#include "kernels/providers/planted/planted.h"
#include "kernels/text/cat.h"
#include "kernels/validate/runner.h"
#include "tests/outcome_text.h"

namespace assay {
namespace {

using ::testing::HasSubstr;

const ProbeOutcome* FindProbe(const CaseOutcome& outcome, std::string_view name) {
  const auto probe = std::find_if(outcome.probes.begin(), outcome.probes.end(),
                                  [&](const ProbeOutcome& p) { return p.name == name; });
  return probe == outcome.probes.end() ? nullptr : &*probe;
}

// Multiplies every element of a right output by 1 + error, adds `leak` to it, and clips it at
// `most`. Takes elements of an operand below `least` in magnitude for 0, and clips them, too.
struct Loss {
  double error = 0;
  double leak = 0;
  double declared = 0;
  bool callers = false;  // a kernel of the caller's, who may declare
  double most = std::numeric_limits<double>::infinity();
  int operand = -1;  // one that is read wrongly
  double least = 0;
  double most_read = std::numeric_limits<double>::infinity();
};
Loss loss;  // a factory is a plain function

class Lossy : public Kernel {
 public:
  explicit Lossy(std::unique_ptr<Kernel> right) : right_(std::move(right)) {}
  absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) override {
    std::vector<TensorView> read(inputs.begin(), inputs.end());
    std::vector<std::uint64_t> copy;
    if (loss.operand >= 0) {
      TensorView& x = read[static_cast<std::size_t>(loss.operand)];
      copy.resize(static_cast<std::size_t>(x.bytes()) / 8 + 1);
      std::memcpy(copy.data(), x.data, static_cast<std::size_t>(x.bytes()));
      x.data = copy.data();
      Change(x, [](double v) {
        return std::abs(v) < loss.least ? 0 : std::clamp(v, -loss.most_read, loss.most_read);
      });
    }
    absl::Status status = right_->Launch(read, output);
    Change(output, [](double v) {
      return std::clamp(v * (1 + loss.error) + loss.leak, -loss.most, loss.most);
    });
    return status;
  }
  double operand_roundoff() const override { return loss.declared; }
  bool trusted() const override { return !loss.callers; }
  std::string implementation() const override { return "split in three"; }

  static absl::StatusOr<std::unique_ptr<Kernel>> Make(const Case& c, const Plan& plan,
                                                      Device& device) {
    static const Registry all = [] {
      Registry registry;
      RegisterAll(registry);
      return registry;
    }();
    auto right = all.Find(OpName(c.problem), "builtin", "cpu")->make(c, plan, device);
    if (!right.ok()) return right.status();
    return std::make_unique<Lossy>(*std::move(right));
  }

 private:
  // Of a dense tensor.
  static void Change(const TensorView& t, double (*to)(double)) {
    for (std::int64_t i = 0; i < t.count(); ++i) {
      const double v = ToDouble(t.dtype, LoadBits(t.dtype, t.data, i));
      StoreBits(t.dtype, t.data, i, RoundToFormat(to(v), t.dtype));
    }
  }

  std::unique_ptr<Kernel> right_;
};

class SignificandTest : public ::testing::Test {
 protected:
  SignificandTest() {
    RegisterAll(registry_);
    for (const std::string_view op : {"gemm", "conv", "attention"}) {
      registry_.Add({.op = op,
                     .provider = "lossy",
                     .backend = "cpu",
                     .dtypes = {DType::kF64, DType::kF32, DType::kF16, DType::kBF16},
                     .make = &Lossy::Make,
                     .version = {},
                     .unavailable_reason = {}});
    }
  }

  CaseOutcome Run(const Case& c) {
    for (const FieldError& e : Check(c)) ADD_FAILURE() << e.field << ": " << e.message;
    PhaseObserver observer;
    return CaseRunner(*device_, registry_, nullptr).Run(c, observer);
  }

  CaseOutcome RunLossy(const Problem& problem, const Loss& how, DType t = DType::kF32) {
    loss = how;
    Case c;
    c.problem = problem;
    c.dtype = t;
    c.provider = "lossy";
    c.seed = 1;
    return Run(c);
  }

  Registry registry_;
  const std::unique_ptr<Device> device_ =
      MakeCpuDevice(0, ArenaOptions{.max_bytes = std::int64_t{512} << 20});
};

ConvProblem SmallConv() {
  ConvProblem p;
  p.channels = 8;
  p.filters = 16;
  p.input = {14, 14};
  p.kernel = {3, 3};
  p.padding = {1};
  return p;
}

TEST_F(SignificandTest, TheMessageSaysWhichOperandKeepsHowManyBits) {
  struct Wrong {
    std::string_view op, defect, probe, message;
  };
  const Wrong wrong[] = {
      {"gemm", "tf32-a", "exact-significand-a", "2^-11: 11 bits of a's significand come through"},
      {"gemm", "tf32-b", "exact-significand-b", "2^-11: 11 bits of b's significand come through"},
      {"gemm", "two-bf16", "exact-significand-a", "17 bits of a's significand come through"},
      {"gemm", "two-bf16", "exact-significand-b", "17 bits of b's significand come through"},
      {"gemm", "output-through-fp16", "exact-significand-a", "11 bits of a's"},
      {"gemm", "output-through-bf16", "exact-significand-b", "8 bits of b's"},
      {"gemm", "gain", "exact-significand-b", "2^-19: all are too large by a factor of 1 + "},
      {"conv", "tf32-input", "exact-significand-x", "11 bits of x's"},
      {"conv", "tf32-weights", "exact-significand-w", "11 bits of w's"},
      {"conv", "output-through-fp16", "exact-significand-w", "11 bits of w's"},
      {"attention", "tf32-values", "exact-significand-v", "11 bits of v's"},
      {"attention", "output-through-bf16", "exact-significand-v", "8 bits of v's"},
  };
  for (const Wrong& w : wrong) {
    const PlantedDefect* d = FindPlanted(w.op, Cat("planted/", w.defect));
    ASSERT_NE(d, nullptr) << w.defect;
    const CaseOutcome outcome = Run(PlantedCase(*d, DType::kF32));
    const std::string text = Cat(w.op, " ", w.defect, ": ", Describe(outcome));
    EXPECT_EQ(outcome.verdict, Verdict::kFailed) << text;
    const ProbeOutcome* probe = FindProbe(outcome, w.probe);
    ASSERT_NE(probe, nullptr) << text;
    EXPECT_EQ(probe->verdict, Verdict::kFailed) << text;
    EXPECT_THAT(probe->message, HasSubstr(w.message)) << text;
    EXPECT_GT(probe->mismatches, 0) << text;
  }
}

TEST_F(SignificandTest, TheMessageNamesWhatACallerMayDeclare) {
  const auto names = [&](const Problem& p, const Loss& how, std::string_view probe) {
    const CaseOutcome outcome = RunLossy(p, how);
    EXPECT_EQ(FindProbe(outcome, probe)->verdict, Verdict::kFailed) << Describe(outcome);
    return absl::StrContains(FindProbe(outcome, probe)->message, "operand_roundoff, at most");
  };
  const Problem product = GemmProblem{.m = 32, .n = 32, .k = 72}, conv = SmallConv();
  for (const char* probe : {"exact-sparse", "exact-integers", "exact-significand-x"}) {
    // Results of the last are 2^34 and more.
    const double unit = probe == std::string_view("exact-significand-x") ? 0x1p17 : 1;
    const double little = unit * 0x1p-13;
    EXPECT_TRUE(names(conv, {.leak = little, .callers = true}, probe)) << probe;
    EXPECT_FALSE(names(conv, {.leak = little}, probe)) << "a kernel of Assay's declares it itself";
    EXPECT_FALSE(names(conv, {.leak = unit * 64, .callers = true}, probe)) << probe;
  }
  EXPECT_TRUE(names(product, {.leak = 0x1p-32, .callers = true}, "exact-significand-a"));
  EXPECT_FALSE(names(product, {.leak = 0x1p-24, .callers = true}, "exact-significand-a"));
  EXPECT_FALSE(names(product, {.leak = 0x1p-18, .callers = true}, "exact-sparse"));
}

TEST_F(SignificandTest, AnOperandThatKeepsItsBitsIsNotBlamed) {
  const CaseOutcome a = Run(PlantedCase(*FindPlanted("gemm", "planted/tf32-a"), DType::kF32));
  EXPECT_EQ(FindProbe(a, "exact-significand-b")->verdict, Verdict::kPassed);
  const CaseOutcome x = Run(PlantedCase(*FindPlanted("conv", "planted/tf32-input"), DType::kF32));
  EXPECT_EQ(FindProbe(x, "exact-significand-w")->verdict, Verdict::kPassed);
}

// Orders, blocks and splits of a sum, in the formats of every provider.
TEST_F(SignificandTest, RightKernelsPassAtEveryLength) {
  for (const std::int64_t k : {256, 4096, 65536}) {
    for (const DType t : {DType::kF64, DType::kF32, DType::kTF32, DType::kF16, DType::kBF16}) {
      for (const KernelEntry& entry : registry_.entries()) {
        if (entry.op != "gemm" || entry.provider.starts_with(kPlantedPrefix) ||
            entry.provider == "lossy") {
          continue;
        }
        Case c;
        c.problem = GemmProblem{.m = 32, .n = 32, .k = k};
        c.dtype = t;
        c.provider = std::string(entry.provider);
        c.seed = 1;
        const CaseOutcome outcome = Run(c);
        if (outcome.verdict == Verdict::kUnsupported) continue;
        const std::string text = Cat(DefaultName(c), ": ", Describe(outcome));
        EXPECT_NE(outcome.verdict, Verdict::kFailed) << text;
        for (const char* name : {"exact-significand-a", "exact-significand-b"}) {
          const ProbeOutcome* probe = FindProbe(outcome, name);
          ASSERT_NE(probe, nullptr) << text;
          EXPECT_EQ(probe->verdict, Verdict::kPassed) << text;
        }
      }
    }
  }
}

struct Product {
  Problem problem;
  std::string_view of_first, of_second;  // its significand probes
};

std::vector<Product> SmallProducts() {
  return {{GemmProblem{.m = 32, .n = 32, .k = 256}, "exact-significand-a", "exact-significand-b"},
          {SmallConv(), "exact-significand-x", "exact-significand-w"}};
}

// As a staging in fp16 does that flushes, or a test against an epsilon.
TEST_F(SignificandTest, SmallNumbersOfEitherOperandAreRead) {
  for (const auto& [problem, of_first, of_second] : SmallProducts()) {
    for (const DType t : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16}) {
      const CaseOutcome right = RunLossy(problem, {}, t);
      EXPECT_NE(right.verdict, Verdict::kFailed) << Describe(right);
      for (const int operand : {0, 1}) {
        for (const double least : {1e-4, 2e-9}) {
          const CaseOutcome wrong = RunLossy(problem, {.operand = operand, .least = least}, t);
          const std::string text = Cat(Name(t), " ", operand, " ", least, ": ", Describe(wrong));
          // All normal numbers of fp16 are larger than the second one.
          const bool shown = least == 1e-4 || t != DType::kF16;
          EXPECT_EQ(FindProbe(wrong, of_first)->verdict == Verdict::kFailed, shown && operand == 0)
              << text;
          EXPECT_EQ(FindProbe(wrong, of_second)->verdict == Verdict::kFailed, shown && operand == 1)
              << text;
        }
      }
    }
  }
}

// As a conversion to fp16 that saturates does.
TEST_F(SignificandTest, NumbersBeyondFp16AreReadAndWritten) {
  for (const auto& [problem, of_first, of_second] : SmallProducts()) {
    for (const DType t : {DType::kF64, DType::kF32, DType::kBF16}) {
      const auto fails = [this, t, &problem = problem](const Loss& how, std::string_view probe) {
        return FindProbe(RunLossy(problem, how, t), probe)->verdict == Verdict::kFailed;
      };
      EXPECT_TRUE(fails({.operand = 0, .most_read = 65504}, of_second)) << Name(t);
      EXPECT_TRUE(fails({.operand = 1, .most_read = 65504}, of_first)) << Name(t);
      EXPECT_TRUE(fails({.most = 65504}, of_first) || fails({.most = 65504}, of_second)) << Name(t);
    }
  }
}

TEST_F(SignificandTest, ADeclaredSplitIsAllowedAndShownAndNoMore) {
  const GemmProblem p{.m = 32, .n = 32, .k = 4096};
  const CaseOutcome silent = RunLossy(p, {.error = 0x1p-22});
  EXPECT_EQ(silent.verdict, Verdict::kFailed) << Describe(silent);
  EXPECT_THAT(FindProbe(silent, "exact-significand-a")->message,
              HasSubstr("all are too large by a factor of 1 + 2.4"));

  const auto verdict = [&](const Loss& how, std::string_view probe = "exact-significand-b") {
    return FindProbe(RunLossy(p, how), probe)->verdict;
  };
  for (const char* name : {"exact-significand-a", "exact-significand-b"}) {
    EXPECT_EQ(verdict({.error = 0x1p-22, .declared = 0x1p-22}, name), Verdict::kPassed);
    EXPECT_EQ(verdict({.error = 0x1p-20, .declared = 0x1p-22}, name), Verdict::kFailed);
    // A declaration counts up to 2^-16 only.
    EXPECT_EQ(verdict({.error = 0x1p-13, .declared = 0x1p-12}, name), Verdict::kFailed);
    // B's numbers come out at 2^34 times their size.
    const double leak = name == std::string_view("exact-significand-a") ? 0x1p-33 : 0x1p15;
    EXPECT_EQ(verdict({.leak = leak, .declared = 0x1p-22}, name), Verdict::kFailed);
  }
  // Whole numbers stay exact.
  EXPECT_EQ(verdict({.error = 0x1p-22, .declared = 0x1p-22}, "exact-integers"), Verdict::kFailed);
  EXPECT_THAT(RunLossy(p, {.declared = 0x1p-22}).implementation,
              HasSubstr("split in three, takes operands to a relative 2^-22"));
  EXPECT_EQ(RunLossy(p, {}).implementation, "split in three");
  EXPECT_EQ(RunLossy(p, {.declared = 0x1p-22}).verdict, Verdict::kPassed);
}

// What a user's kernel may be made for stays: factors that are no powers of two, and GELU.
TEST_F(SignificandTest, AProductOfTheCasesOwnFieldsIsJudgedByItsBound) {
  GemmProblem scaled{.m = 24, .n = 40, .k = 600, .alpha = 0.3, .beta = -1.7, .bias = true};
  GemmProblem curved{.m = 24, .n = 40, .k = 600, .trans_a = true, .bias = true};
  curved.activation = "gelu_tanh";
  for (const GemmProblem& p : {scaled, curved}) {
    for (const DType t : {DType::kF32, DType::kF64}) {
      const double u = Info(t).unit_roundoff;
      for (const char* name : {"significand-a", "significand-b"}) {
        const auto probe = [&](const Loss& how) { return *FindProbe(RunLossy(p, how, t), name); };
        EXPECT_EQ(probe({}).verdict, Verdict::kPassed);
        EXPECT_EQ(probe({.error = 2 * u}).verdict, Verdict::kPassed);
        const ProbeOutcome wrong = probe({.error = 256 * u});
        EXPECT_EQ(wrong.verdict, Verdict::kFailed) << name;
        EXPECT_THAT(wrong.message, HasSubstr("elements are beyond their bound; first"));
        EXPECT_THAT(wrong.digest, ::testing::IsEmpty());
        // A declared split widens the bound of each product by twice as much.
        if (t != DType::kF32 || p.activation != "none") continue;
        EXPECT_EQ(probe({.error = 0x1p-20}).verdict, Verdict::kFailed);
        EXPECT_EQ(probe({.error = 0x1p-20, .declared = 0x1p-22}).verdict, Verdict::kPassed);
      }
      EXPECT_EQ(FindProbe(RunLossy(p, {}, t), "exact-significand-a")->verdict, Verdict::kPassed);
    }
  }
}

TEST_F(SignificandTest, ATransformOfAConvolutionMayLoseMore) {
  const auto verdict = [&](const Loss& how) {
    return FindProbe(RunLossy(SmallConv(), how), "exact-significand-w")->verdict;
  };
  EXPECT_EQ(verdict({.error = 0x1p-17}), Verdict::kFailed);
  EXPECT_EQ(verdict({.error = 0x1p-17, .declared = 0x1p-17}), Verdict::kPassed);
  EXPECT_EQ(verdict({.error = 0x1p-12, .declared = 0x1p-12}), Verdict::kFailed);
  // Between the 1s the right result is 0, and what leaks there comes from the neighbours.
  EXPECT_EQ(verdict({.leak = 0x1p-31, .declared = 0x1p-17}), Verdict::kPassed);
  EXPECT_EQ(verdict({.leak = 0x1p-28, .declared = 0x1p-17}), Verdict::kFailed);
}

// Strassen's adds and subtracts, so that whole numbers stay exact.
TEST_F(SignificandTest, ATransformOfAProductMayLoseSignificandsAlone) {
  constexpr double kUnit = 0x1p-14;  // of the results of exact-significand-a
  const GemmProblem p{.m = 32, .n = 32, .k = 256};
  for (const double declared : {0x1p-16, 0x1p-18}) {
    const CaseOutcome right = RunLossy(p, {.leak = kUnit * declared / 2, .declared = declared});
    EXPECT_EQ(FindProbe(right, "exact-significand-a")->verdict, Verdict::kPassed);
    EXPECT_EQ(FindProbe(right, "exact-significand-b")->verdict, Verdict::kPassed);
    EXPECT_EQ(FindProbe(right, "exact-sparse")->verdict, Verdict::kFailed);
    const CaseOutcome wrong = RunLossy(p, {.leak = 8 * kUnit * declared, .declared = declared});
    EXPECT_EQ(FindProbe(wrong, "exact-significand-a")->verdict, Verdict::kFailed);
  }
}

// As an FFT leaves it where 0 is right, computed in double. Other results round it off.
TEST_F(SignificandTest, AConvolutionInDoubleMayLeaveNextToNothingOfAZero) {
  const std::string_view exact[] = {"exact-sparse", "exact-significand-x"};
  const CaseOutcome right = RunLossy(SmallConv(), {.leak = 0x1p-45});
  EXPECT_EQ(right.verdict, Verdict::kPassed) << Describe(right);
  // The results of exact-significand-x are near 2^35.
  const CaseOutcome wrong = RunLossy(SmallConv(), {.leak = 0x1p-3});
  const CaseOutcome wide = RunLossy(SmallConv(), {.leak = 0x1p-45}, DType::kF64);
  const CaseOutcome product = RunLossy(GemmProblem{.m = 32, .n = 32, .k = 72}, {.leak = 0x1p-45});
  for (const std::string_view name : exact) {
    EXPECT_EQ(FindProbe(right, name)->verdict, Verdict::kPassed);
    EXPECT_EQ(FindProbe(right, name)->digest, "") << "no digest that others could be held against";
    EXPECT_EQ(FindProbe(wrong, name)->verdict, Verdict::kFailed);
    EXPECT_EQ(FindProbe(wide, name)->verdict, Verdict::kFailed);
  }
  EXPECT_EQ(FindProbe(product, "exact-sparse")->verdict, Verdict::kFailed);
}

TEST_F(SignificandTest, TheLastBitsOfFp64AreSeen) {
  for (const Problem& problem :
       {Problem(GemmProblem{.m = 32, .n = 32, .k = 512}), Problem(SmallConv()),
        Problem(AttentionProblem{.heads = 2, .seq = 40, .dim = 16})}) {
    // An attention may use an approximate reciprocal.
    const bool divides = std::holds_alternative<AttentionProblem>(problem);
    const CaseOutcome outcome =
        RunLossy(problem, {.error = divides ? 0x1p-49 : 0x1p-51}, DType::kF64);
    EXPECT_EQ(outcome.verdict, Verdict::kFailed) << Describe(outcome);
    ASSERT_FALSE(outcome.probes.empty());
    const bool found =
        std::any_of(outcome.probes.begin(), outcome.probes.end(), [](const ProbeOutcome& p) {
          return p.name.starts_with("exact-significand") && p.verdict == Verdict::kFailed;
        });
    EXPECT_TRUE(found) << Describe(outcome);
    EXPECT_NE(RunLossy(problem, {}, DType::kF64).verdict, Verdict::kFailed);
  }
}

}  // namespace
}  // namespace assay
