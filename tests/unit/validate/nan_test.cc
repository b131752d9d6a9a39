// A NaN of the inputs must reach all results that depend on it, and no other: right kernels pass
// the exact case `nan`, and kernels that lose NaN or spread it fail.
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
#include "kernels/runtime/kernel_failure.h"
#include "kernels/text/cat.h"
#include "kernels/validate/runner.h"
#include "tests/outcome_text.h"

namespace assay {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// What is wrong with a kernel.
enum class Wrong { kNothing, kResultIs0, kInputIs0, kSpreads, kRefuses, kRaises, kReturnsError };
Wrong wrong = Wrong::kNothing;  // the factory is a plain function
double declared = 0;

// Calls change(value) for each element, in place. Returns whether an element is NaN.
template <class Change>
bool ForEach(const TensorView& x, Change change) {
  const Extents& e = x.extents;
  bool any = false;
  for (std::int64_t i = 0; i < x.count(); ++i) {
    const std::int64_t row = i / e.cols;
    const std::int64_t at = row / e.rows * e.batch_stride + row % e.rows * e.ld + i % e.cols;
    const double was = ToDouble(x.dtype, LoadBits(x.dtype, x.data, at));
    any = any || std::isnan(was);
    const double is = change(was);
    if (is == was || (std::isnan(is) && std::isnan(was))) continue;
    StoreBits(x.dtype, x.data, at, RoundToFormat(is, x.dtype));
  }
  return any;
}

double Same(double v) { return v; }
double NanIs0(double v) { return std::isnan(v) ? 0 : v; }

// The built-in kernel, with a mistake.
class Mistaken : public Kernel {
 public:
  explicit Mistaken(std::unique_ptr<Kernel> right) : right_(std::move(right)) {}

  absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) override {
    std::vector<TensorView> views(inputs.begin(), inputs.end());
    const bool nan = ForEach(views[0], Same);
    if (nan && wrong == Wrong::kRefuses) {
      return FailedKernel({.error = KernelError::kUnsupported}, "takes no NaN");
    }
    if (nan && wrong == Wrong::kRaises) {
      return FailedKernel({.error = KernelError::kRaised}, "raised ValueError: takes no NaN");
    }
    if (nan && wrong == Wrong::kReturnsError) return FailedKernel({}, "launch returned 2");
    std::vector<char> copy;
    if (wrong == Wrong::kInputIs0) {
      const char* data = static_cast<const char*>(views[0].data);
      copy.assign(data, data + views[0].bytes());
      views[0].data = copy.data();
      ForEach(views[0], NanIs0);
    }
    absl::Status status = right_->Launch(views, output);
    if (!status.ok()) return status;
    if (wrong == Wrong::kResultIs0) ForEach(output, NanIs0);
    if (nan && wrong == Wrong::kSpreads) ForEach(output, [](double) { return kNan; });
    return status;
  }

  double operand_roundoff() const override { return declared; }

 private:
  std::unique_ptr<Kernel> right_;
};

const Registry& All() {
  static const Registry& all = []() -> Registry& {
    static Registry registry;
    RegisterAll(registry);
    return registry;
  }();
  return all;
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeMistaken(const Case& c, const Plan& plan,
                                                     Device& device) {
  auto right = All().Find(OpName(c.problem), "builtin", "cpu")->make(c, plan, device);
  if (!right.ok()) return right.status();
  return std::make_unique<Mistaken>(*std::move(right));
}

std::string NameOf(const Problem& problem, DType dtype) {
  Case c;
  c.problem = problem;
  c.dtype = dtype;
  return DefaultName(c);
}

CaseOutcome RunCase(const Registry& registry, const Problem& problem, DType dtype,
                    std::string_view provider) {
  static const std::unique_ptr<Device> device =
      MakeCpuDevice(0, ArenaOptions{.max_bytes = std::int64_t{128} << 20});
  Case c;
  c.problem = problem;
  c.dtype = dtype;
  c.provider = std::string(provider);
  c.seed = 1;
  PhaseObserver observer;
  return CaseRunner(*device, registry, nullptr).Run(c, observer);
}

CaseOutcome RunMistaken(const Problem& problem, DType dtype, Wrong mistake) {
  wrong = mistake;
  Registry registry;
  registry.Add({OpName(problem), "mistaken", "cpu", {dtype}, MakeMistaken, {}, {}});
  return RunCase(registry, problem, dtype, "mistaken");
}

// kUnspecified: the case has no such probe.
Verdict OfNan(const CaseOutcome& outcome) {
  for (const ProbeOutcome& p : outcome.probes) {
    if (p.name == "nan") return p.verdict;
  }
  return Verdict::kUnspecified;
}

ConvProblem Images(std::vector<std::int64_t> input, std::int64_t kernel, std::int64_t padding) {
  ConvProblem p;
  p.channels = 6;
  p.filters = 24;
  p.kernel.assign(input.size(), kernel);
  p.input = std::move(input);
  p.padding = {padding};
  return p;
}

std::vector<Problem> Convolutions() {
  ConvProblem spread = Images({40}, 5, 0), groups = Images({9, 8}, 3, 1), last = groups;
  spread.dilation = {2};
  groups.groups = 3;
  groups.stride = {2};
  last.layout = "nhwc";
  return {Images({9, 8}, 3, 1),
          Images({5, 6, 7}, 3, 1),
          Images({8, 8}, 1, 0),
          Images({3}, 5, 2),
          spread,
          groups,
          last};
}

std::vector<Problem> Problems() {
  std::vector<Problem> problems = {
      GemmProblem{.m = 1, .n = 1, .k = 1},
      GemmProblem{.m = 70, .n = 20, .k = 33, .batch = 3},
      GemmProblem{.m = 70, .n = 20, .k = 33, .trans_a = true},
      GemmProblem{.m = 9, .n = 20, .k = 3000, .trans_a = true, .trans_b = true},
      GemmProblem{.m = 7, .n = 20, .k = 33, .alpha = 0.3, .beta = 1.7, .activation = "gelu"},
      GemmProblem{.m = 7, .n = 20, .k = 33, .bias = true, .activation = "gelu_tanh"},
      LayerNormProblem{.rows = 5, .cols = 70, .affine = true},
      LayerNormProblem{.rows = 5, .cols = 2000},
      LayerNormProblem{.rows = 5, .cols = 1},
      LayerNormProblem{.rows = 5, .cols = 70, .rms = true},
      ReduceProblem{.extents = {40, 700}, .kind = "sum"},
      ReduceProblem{.extents = {40, 70, 3}, .axis = 1, .kind = "sum"},
      ReduceProblem{.extents = {7, 300}, .axis = 0, .kind = "sum"},
      ElementwiseProblem{.rows = 40, .cols = 70, .kind = "add"},
      ElementwiseProblem{.rows = 40, .cols = 70, .kind = "silu_mul", .broadcast = true},
      ElementwiseProblem{.rows = 40, .cols = 70, .kind = "gelu"},
      ElementwiseProblem{.rows = 1, .cols = 70, .kind = "gelu_tanh"},
      RopeProblem{.seq = 9, .heads = 2, .dim = 32},
      RopeProblem{.batch = 2, .seq = 3, .dim = 6, .interleaved = true, .start = 500}};
  for (Problem& p : Convolutions()) problems.push_back(std::move(p));
  return problems;
}

constexpr DType kFormats[] = {DType::kF64, DType::kF32, DType::kTF32, DType::kBF16, DType::kF16};

TEST(Nan, EveryProviderKeepsIt) {
  for (const Problem& problem : Problems()) {
    for (const KernelEntry& entry : All().entries()) {
      if (entry.op != OpName(problem) || entry.provider.starts_with(kPlantedPrefix)) continue;
      for (const DType t : kFormats) {
        if (std::find(entry.dtypes.begin(), entry.dtypes.end(), t) == entry.dtypes.end()) continue;
        const CaseOutcome outcome = RunCase(All(), problem, t, entry.provider);
        if (outcome.verdict == Verdict::kUnsupported) continue;
        // It pads sums with zeros, and refuses infinities and NaN.
        const bool refuses = entry.provider == "onednn" && t == DType::kBF16 &&
                             (entry.op == "gemm" || entry.op == "conv");
        EXPECT_EQ(OfNan(outcome), refuses ? Verdict::kSkipped : Verdict::kPassed)
            << NameOf(problem, t) << " " << entry.provider << ": " << Describe(outcome);
      }
    }
  }
}

TEST(Nan, AKernelThatLosesItFails) {
  for (const Problem& problem : Problems()) {
    for (const DType t : {DType::kF32, DType::kBF16}) {
      const std::string what = Cat(NameOf(problem, t), ": ");
      const CaseOutcome right = RunMistaken(problem, t, Wrong::kNothing);
      EXPECT_EQ(OfNan(right), Verdict::kPassed) << what << Describe(right);
      for (const Wrong mistake : {Wrong::kResultIs0, Wrong::kInputIs0}) {
        const CaseOutcome outcome = RunMistaken(problem, t, mistake);
        EXPECT_EQ(outcome.verdict, Verdict::kFailed) << what << Describe(outcome);
        EXPECT_EQ(OfNan(outcome), Verdict::kFailed) << what << Describe(outcome);
        EXPECT_TRUE(outcome.reads_as.starts_with("a NaN of the inputs")) << outcome.reads_as;
        for (const ProbeOutcome& p : outcome.probes) {
          EXPECT_EQ(p.verdict == Verdict::kFailed, p.name == "nan") << what << Describe(outcome);
        }
      }
    }
  }
}

TEST(Nan, AKernelThatSpreadsItFails) {
  for (const Problem& problem :
       {Problem(ReduceProblem{.extents = {7, 300}, .axis = 0, .kind = "sum"}),
        Problem(ElementwiseProblem{.rows = 40, .cols = 70, .kind = "add"}),
        Problem(ElementwiseProblem{.rows = 40, .cols = 70, .kind = "gelu"}),
        Problem(RopeProblem{.seq = 9, .heads = 2, .dim = 32})}) {
    const CaseOutcome outcome = RunMistaken(problem, DType::kF32, Wrong::kSpreads);
    EXPECT_EQ(OfNan(outcome), Verdict::kFailed) << Describe(outcome);
  }
}

// A right kernel may lose NaN there.
TEST(Nan, OtherCasesHaveNone) {
  ConvProblem padding_alone = Images({9}, 3, 3);
  const std::vector<Problem> problems = {
      GemmProblem{.m = 7, .n = 20, .k = 33, .activation = "relu"},
      GemmProblem{.m = 7, .n = 20, .k = 33, .alpha = 0, .beta = 1},
      padding_alone,
      AttentionProblem{.heads = 2, .seq = 33, .kv_seq = 40, .dim = 16},
      SoftmaxProblem{.rows = 5, .cols = 70},
      DequantSoftmaxProblem{.m = 5, .n = 70, .k = 64},
      ReduceProblem{.extents = {40, 70}, .kind = "max"},
      ReduceProblem{.extents = {40, 70}, .kind = "argmax"}};
  for (const Problem& problem : problems) {
    const CaseOutcome outcome = RunMistaken(problem, DType::kF32, Wrong::kResultIs0);
    EXPECT_EQ(OfNan(outcome), Verdict::kUnspecified) << Describe(outcome);
  }
  for (const DType t : {DType::kE4M3FN, DType::kE5M2, DType::kE4M3FNUZ, DType::kI8}) {
    for (const Problem& problem : {Problem(GemmProblem{.m = 7, .n = 20, .k = 33}),
                                   Problem(ReduceProblem{.extents = {40, 70}, .kind = "sum"})}) {
      const CaseOutcome outcome = RunMistaken(problem, t, Wrong::kResultIs0);
      EXPECT_EQ(outcome.verdict, Verdict::kPassed) << Name(t) << Describe(outcome);
      EXPECT_EQ(OfNan(outcome), Verdict::kUnspecified) << Name(t);
    }
  }
}

TEST(Nan, ADeclaredTransformHasNone) {
  for (const Problem& problem :
       {Problem(GemmProblem{.m = 7, .n = 20, .k = 33}), Problem(Images({9, 8}, 3, 1))}) {
    declared = 0x1p-22;
    const CaseOutcome outcome = RunMistaken(problem, DType::kF32, Wrong::kResultIs0);
    declared = 0;
    EXPECT_EQ(OfNan(outcome), Verdict::kUnspecified) << Describe(outcome);
    EXPECT_EQ(outcome.verdict, Verdict::kPassed) << Describe(outcome);
  }
}

TEST(Nan, AKernelMayRefuseIt) {
  for (const Wrong mistake : {Wrong::kRefuses, Wrong::kRaises, Wrong::kReturnsError}) {
    const CaseOutcome outcome =
        RunMistaken(GemmProblem{.m = 7, .n = 20, .k = 33}, DType::kF32, mistake);
    EXPECT_EQ(outcome.verdict, Verdict::kPassed) << Describe(outcome);
    EXPECT_EQ(OfNan(outcome), Verdict::kSkipped) << Describe(outcome);
    for (const ProbeOutcome& p : outcome.probes) EXPECT_FALSE(p.refused) << p.name;
  }
}

}  // namespace
}  // namespace assay
