// NaN, infinities and -0 in the input: a right kernel keeps them, and one that takes them for
// numbers fails the case made for it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/judge/phase_clock.h"
#include "kernels/numerics/convert.h"
#include "kernels/text/cat.h"
#include "kernels/validate/runner.h"
#include "tests/outcome_text.h"

namespace assay {
namespace {

using Change = double (*)(double);
Change change = nullptr;  // of each element of the output; the factory is a plain function

class Changed : public Kernel {
 public:
  explicit Changed(std::unique_ptr<Kernel> right) : right_(std::move(right)) {}
  absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) override {
    absl::Status status = right_->Launch(inputs, output);
    const Extents& e = output.extents;
    for (std::int64_t i = 0; status.ok() && i < output.count(); ++i) {
      const std::int64_t row = i / e.cols;
      const std::int64_t at = row / e.rows * e.batch_stride + row % e.rows * e.ld + i % e.cols;
      const double was = ToDouble(output.dtype, LoadBits(output.dtype, output.data, at));
      const double is = change(was);
      if (is == was || (std::isnan(is) && std::isnan(was))) continue;
      StoreBits(output.dtype, output.data, at, RoundToFormat(is, output.dtype));
    }
    return status;
  }

 private:
  std::unique_ptr<Kernel> right_;
};

absl::StatusOr<std::unique_ptr<Kernel>> MakeChanged(const Case& c, const Plan& plan,
                                                    Device& device) {
  Registry registry;
  RegisterAll(registry);
  auto right = registry.Find(OpName(c.problem), "builtin", "cpu")->make(c, plan, device);
  if (!right.ok()) return right.status();
  return std::make_unique<Changed>(*std::move(right));
}

CaseOutcome RunChanged(const Problem& problem, DType dtype, Change changes) {
  change = changes;
  Registry registry;
  registry.Add({OpName(problem), "changed", "cpu", {dtype}, MakeChanged, {}, {}});
  const std::unique_ptr<Device> device =
      MakeCpuDevice(0, ArenaOptions{.max_bytes = std::int64_t{128} << 20});
  Case c;
  c.problem = problem;
  c.dtype = dtype;
  c.provider = "changed";
  c.seed = 1;
  PhaseObserver observer;
  return CaseRunner(*device, registry, nullptr).Run(c, observer);
}

Verdict VerdictOf(const CaseOutcome& outcome, std::string_view probe) {
  for (const ProbeOutcome& p : outcome.probes) {
    if (p.name == probe) return p.verdict;
  }
  return Verdict::kUnspecified;
}

double Same(double v) { return v; }
double NanIsZero(double v) { return std::isnan(v) ? 0 : v; }
double Bounded(double v) {
  return std::isinf(v) ? std::copysign(std::numeric_limits<float>::max(), v) : v;
}

const std::vector<Problem>& Problems() {
  static const std::vector<Problem> problems = {
      GemmProblem{.m = 70, .n = 20, .k = 33, .batch = 3},
      GemmProblem{.m = 70, .n = 20, .k = 33, .trans_a = true},
      GemmProblem{.m = 7, .n = 20, .k = 33, .alpha = 0.3, .beta = 1.7, .activation = "gelu"},
      ConvProblem{.channels = 4,
                  .filters = 24,
                  .input = {9, 8},
                  .kernel = {3, 3},
                  .stride = {},
                  .padding = {1},
                  .dilation = {}},
      ConvProblem{.channels = 3,
                  .filters = 6,
                  .input = {40},
                  .kernel = {5},
                  .stride = {},
                  .padding = {},
                  .dilation = {2},
                  .groups = 3},
      AttentionProblem{
          .heads = 4, .kv_heads = 2, .seq = 33, .kv_seq = 40, .dim = 16, .causal = true},
      SoftmaxProblem{.rows = 5, .cols = 70},
      LayerNormProblem{.rows = 5, .cols = 70, .affine = true},
      LayerNormProblem{.rows = 5, .cols = 70, .rms = true},
      DequantSoftmaxProblem{.m = 5, .n = 70, .k = 64},
      ReduceProblem{.extents = {40, 70}, .kind = "sum"},
      ReduceProblem{.extents = {40, 70, 3}, .axis = 1, .kind = "max"},
      ElementwiseProblem{.rows = 40, .cols = 70, .kind = "add"},
      ElementwiseProblem{.rows = 40, .cols = 70, .kind = "silu_mul", .broadcast = true},
      ElementwiseProblem{.rows = 40, .cols = 70, .kind = "gelu_tanh"},
      RopeProblem{.seq = 9, .heads = 2, .dim = 32},
  };
  return problems;
}

TEST(SpecialValues, ANanOfTheInputIsKept) {
  for (const Problem& problem : Problems()) {
    for (const DType t : {DType::kF32, DType::kBF16, DType::kF16, DType::kE4M3FN}) {
      const CaseOutcome right = RunChanged(problem, t, Same);
      if (right.verdict == Verdict::kUnsupported) continue;
      const std::string what = Cat(OpName(problem), " ", Name(t), ": ");
      EXPECT_TRUE(right.verdict == Verdict::kPassed || right.verdict == Verdict::kInconclusive)
          << what << Describe(right);
      EXPECT_EQ(VerdictOf(right, "nan"), Verdict::kPassed) << what << Describe(right);
      const CaseOutcome wrong = RunChanged(problem, t, NanIsZero);
      EXPECT_EQ(wrong.verdict, Verdict::kFailed) << what << Describe(wrong);
      EXPECT_EQ(VerdictOf(wrong, "nan"), Verdict::kFailed) << what << Describe(wrong);
    }
  }
}

TEST(SpecialValues, AConvolutionThatSeesPaddingAloneHasNoSuchCase) {
  const ConvProblem p{.channels = 4,
                      .filters = 8,
                      .input = {9},
                      .kernel = {3},
                      .stride = {},
                      .padding = {3},
                      .dilation = {}};
  const CaseOutcome outcome = RunChanged(p, DType::kF32, Same);
  EXPECT_EQ(outcome.verdict, Verdict::kPassed) << Describe(outcome);
  EXPECT_EQ(VerdictOf(outcome, "nan"), Verdict::kUnspecified);
}

TEST(SpecialValues, ReluMayDropANan) {
  const GemmProblem p{.m = 7, .n = 20, .k = 33, .activation = "relu"};
  EXPECT_EQ(RunChanged(p, DType::kF32, NanIsZero).verdict, Verdict::kPassed);
}

TEST(SpecialValues, TheLargestOfNoNumberIsNone) {
  const ReduceProblem p{.extents = {40, 70}, .kind = "max"};
  EXPECT_EQ(VerdictOf(RunChanged(p, DType::kF32, Same), "all-neg-inf"), Verdict::kPassed);
  const CaseOutcome bounded = RunChanged(p, DType::kF32, Bounded);
  EXPECT_EQ(VerdictOf(bounded, "all-neg-inf"), Verdict::kFailed) << Describe(bounded);
}

TEST(SpecialValues, AnArgmaxHasThem) {
  const ReduceProblem p{.extents = {40, 70}, .kind = "argmax"};
  for (const DType t : {DType::kF64, DType::kF32, DType::kBF16, DType::kE5M2, DType::kE4M3FNUZ}) {
    const CaseOutcome outcome = RunChanged(p, t, Same);
    EXPECT_EQ(VerdictOf(outcome, "nan"), Verdict::kPassed) << Describe(outcome);
    EXPECT_EQ(VerdictOf(outcome, "zeros"), Verdict::kPassed) << Describe(outcome);
    const Verdict infinities = t == DType::kE4M3FNUZ ? Verdict::kUnspecified : Verdict::kPassed;
    EXPECT_EQ(VerdictOf(outcome, "all-neg-inf"), infinities) << Describe(outcome);
  }
}

}  // namespace
}  // namespace assay
