// Each criterion accepts what it says and nothing else: on a kernel whose error is
// known exactly, a copy that changes one element.
#include "kernels/judge/gating.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "kernels/numerics/convert.h"
#include "kernels/providers/provider.h"
#include "kernels/runtime/device.h"
#include "kernels/validate/runner.h"

namespace assay {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

// What the kernel under test writes at its first element; a registry holds plain
// function pointers, so the test says it here.
double g_first = 0;

class CopyWithOneChanged : public Kernel {
 public:
  absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) override {
    for (std::int64_t i = 0; i < output.count(); ++i) {
      const double value = i == 0 ? g_first : LoadDouble(output.dtype, inputs[0].data, i);
      StoreBits(output.dtype, output.data, i, RoundToFormat(value, output.dtype));
    }
    return absl::OkStatus();
  }
};

class Criteria : public ::testing::Test {
 protected:
  Criteria() : device_(MakeCpuDevice(0, {.max_bytes = std::int64_t{64} << 20})) {
    registry_.Add(
        {.op = "copy",
         .provider = "test",
         .backend = "cpu",
         .dtypes = {DType::kF32, DType::kI32},
         .make = [](const Case&, const Plan&, Device&) -> absl::StatusOr<std::unique_ptr<Kernel>> {
           return std::make_unique<CopyWithOneChanged>();
         },
         .version = {},
         .unavailable_reason = {}});
    case_.problem = CopyProblem{.count = 16};
    case_.dtype = DType::kF32;
    case_.provider = "test";
    case_.pattern = "constant:2";
    case_.seed = 1;
  }

  // The outcome where the first element is `first`.
  CaseOutcome Run(double first) {
    g_first = first;
    EXPECT_TRUE(Check(case_).empty()) << Check(case_)[0].message;
    PhaseObserver observer;
    return CaseRunner(*device_, registry_, nullptr).Run(case_, observer);
  }

  // Where the criterion reads tolerances.
  void Tolerate(double tolerance) {
    case_.atol = case_.rtol = std::nullopt;
    if (case_.criterion != Criterion::kAllClose && case_.criterion != Criterion::kLegacy) return;
    case_.atol = case_.rtol = tolerance;
  }

  bool Passes(double first) {
    const CaseOutcome outcome = Run(first);
    EXPECT_TRUE(outcome.verdict == Verdict::kPassed || outcome.verdict == Verdict::kFailed)
        << (outcome.findings.empty() ? "" : outcome.findings[0].message);
    return outcome.verdict == Verdict::kPassed;
  }

  Registry registry_;
  std::unique_ptr<Device> device_;
  Case case_;
};

TEST_F(Criteria, AllCloseIsAtolPlusRtolTimesExpected) {
  case_.criterion = Criterion::kAllClose;
  case_.atol = 0.25;
  case_.rtol = 0.125;  // 0.25 + 0.125·2 = 0.5
  EXPECT_TRUE(Passes(2.5));
  EXPECT_TRUE(Passes(1.5));
  EXPECT_FALSE(Passes(std::nextafter(2.5F, 3.0F)));
  EXPECT_FALSE(Passes(std::nextafter(1.5F, 0.0F)));
}

TEST_F(Criteria, AToleranceThatIsNotSaidBesideOneThatIsIsNone) {
  case_.criterion = Criterion::kAllClose;
  case_.rtol = 0.25;
  EXPECT_TRUE(Passes(2.5));
  EXPECT_FALSE(Passes(std::nextafter(2.5F, 3.0F)));
  EXPECT_EQ(Run(2.0).atol, 0.0);
}

TEST_F(Criteria, AZeroToleranceIsExact) {
  const double next = std::nextafter(2.0F, 3.0F);
  case_.atol = 0.0;
  case_.rtol = 0.0;
  for (const Criterion c : {Criterion::kAllClose, Criterion::kLegacy}) {
    case_.criterion = c;
    EXPECT_TRUE(Passes(2.0));
    EXPECT_FALSE(Passes(next));
    EXPECT_EQ(Run(next).atol, 0.0);
    EXPECT_EQ(Run(next).rtol, 0.0);
  }
  case_.atol.reset();
  case_.rtol.reset();
  case_.criterion = Criterion::kUlp;
  case_.max_ulp = 0.0;
  EXPECT_TRUE(Passes(2.0));
  EXPECT_FALSE(Passes(next));
  case_.max_ulp.reset();
  case_.criterion = Criterion::kBound;
  case_.max_abs_error = 0.0;
  EXPECT_FALSE(Passes(next));
}

TEST_F(Criteria, UlpCountsInTheOutputsFormat) {
  case_.criterion = Criterion::kUlp;
  case_.max_ulp = 3.0;
  EXPECT_TRUE(Passes(2.0 + 3 * 0x1p-22));
  EXPECT_FALSE(Passes(2.0 + 4 * 0x1p-22));
}

TEST_F(Criteria, BitwiseTellsTheZerosApart) {
  case_.criterion = Criterion::kBitwise;
  EXPECT_TRUE(Passes(2.0));
  EXPECT_FALSE(Passes(std::nextafter(2.0F, 3.0F)));
  case_.pattern = "diagonal";  // 1 first, 0 elsewhere: not all 0
  case_.problem = CopyProblem{.count = 2};
  EXPECT_TRUE(Passes(1.0));
}

TEST_F(Criteria, LegacyAsksForBothMaxima) {
  case_.criterion = Criterion::kLegacy;
  case_.atol = 0.5;
  case_.rtol = 0.125;
  EXPECT_TRUE(Passes(2.25));
  EXPECT_FALSE(Passes(2.5));  // 0.5 absolute, but 0.25 relative
  case_.atol = 0.125;
  case_.rtol = 0.5;
  EXPECT_FALSE(Passes(2.25));  // the other way round
}

// Judged beside the criterion that gates, legacy takes its limits, too, and no more.
TEST_F(Criteria, LegacyBesideOthersTakesItsLimits) {
  case_.all_criteria = true;
  case_.atol = 0.25;
  case_.rtol = 0.125;
  case_.criterion = Criterion::kAllClose;
  const auto passed = [&](double first) { return Run(first).criteria.at(5).passed; };
  EXPECT_TRUE(passed(2.25)) << "0.25 absolute, 0.125 relative";
  EXPECT_FALSE(passed(std::nextafter(2.25F, 3.0F)));
  case_.atol = 1;
  EXPECT_FALSE(passed(2.5)) << "relative alone";
  case_.atol = 0.25;
  case_.rtol = 1;
  EXPECT_FALSE(passed(2.5)) << "absolute alone";
}

// A NaN is no number that could be near enough, and an infinity is no large error.
TEST_F(Criteria, NoneAcceptsNaNOrInfWhereNoneWasExpected) {
  case_.max_ulp = 1e300;
  for (const Criterion c : {Criterion::kBound, Criterion::kDerived, Criterion::kAllClose,
                            Criterion::kUlp, Criterion::kBitwise, Criterion::kLegacy}) {
    case_.criterion = c;
    Tolerate(1e30);
    for (const double wrong : {kNaN, kInf, -kInf}) {
      const CaseOutcome outcome = Run(wrong);
      EXPECT_EQ(outcome.verdict, Verdict::kFailed) << static_cast<int>(c) << " " << wrong;
      ASSERT_FALSE(outcome.findings.empty());
      EXPECT_EQ(ReasonWord(outcome.findings[0].reason), "class");
    }
  }
}

TEST_F(Criteria, EachAcceptsTheInfinitiesThatWereExpected) {
  case_.pattern = "all-inf";
  case_.max_ulp = 0;
  for (const Criterion c : {Criterion::kBound, Criterion::kDerived, Criterion::kAllClose,
                            Criterion::kUlp, Criterion::kBitwise, Criterion::kLegacy}) {
    case_.criterion = c;
    Tolerate(0);
    EXPECT_TRUE(Passes(kInf)) << static_cast<int>(c);
    EXPECT_FALSE(Passes(-kInf)) << static_cast<int>(c);
    EXPECT_FALSE(Passes(std::numeric_limits<float>::max())) << static_cast<int>(c);
  }
}

TEST_F(Criteria, IntegersAreExactOrWithinTheirTolerance) {
  case_.dtype = DType::kI32;
  for (const Criterion c : {Criterion::kBound, Criterion::kBitwise}) {
    case_.criterion = c;
    EXPECT_TRUE(Passes(2)) << static_cast<int>(c);
    EXPECT_FALSE(Passes(3)) << static_cast<int>(c);
  }
  case_.criterion = Criterion::kAllClose;
  case_.atol = 1;
  EXPECT_TRUE(Passes(3));
  EXPECT_FALSE(Passes(4));
}

// Whichever gates, the others' figures are there.
TEST_F(Criteria, EveryStatisticIsThereWhicheverGates) {
  Registry all;
  RegisterAll(all);
  Case c;
  c.problem = GemmProblem{.m = 64, .n = 64, .k = 64};
  c.dtype = DType::kBF16;
  c.provider = "builtin";
  c.seed = 1;
  c.max_ulp = 1e9;
  c.atol = c.rtol = 1e9;
  PhaseObserver observer;
  CaseRunner runner(*device_, all, nullptr);
  const CaseOutcome bound = runner.Run(c, observer);
  ASSERT_EQ(bound.verdict, Verdict::kPassed);
  ASSERT_TRUE(bound.bias_z.has_value());
  for (const Criterion other : {Criterion::kDerived, Criterion::kAllClose, Criterion::kUlp,
                                Criterion::kBitwise, Criterion::kLegacy}) {
    c.criterion = other;
    const CaseOutcome outcome = runner.Run(c, observer);
    ASSERT_TRUE(outcome.compare.has_value());
    EXPECT_EQ(outcome.compare->rho, bound.compare->rho);
    EXPECT_EQ(outcome.compare->rho_proven, bound.compare->rho_proven);
    EXPECT_GT(outcome.compare->rho, 0.0);
    EXPECT_EQ(outcome.compare->max_abs_error, bound.compare->max_abs_error);
    EXPECT_EQ(outcome.compare->max_rel_error, bound.compare->max_rel_error);
    EXPECT_EQ(outcome.compare->max_ulp, bound.compare->max_ulp);
    EXPECT_EQ(outcome.compare->sum_abs_error, bound.compare->sum_abs_error);
    EXPECT_EQ(outcome.compare->dot, bound.compare->dot);
    EXPECT_EQ(outcome.bias_z, bound.bias_z);
  }
}

TEST(DerivedTolerance, IsTheCoarsestRoundingOfTheCase) {
  DerivedTerms t{.compute = DType::kF16,
                 .output = DType::kF16,
                 .accumulator_roundoff = 0x1p-24,
                 .accumulations = 64};
  EXPECT_EQ(DerivedTolerance(t, 30.0).rtol, 0x1p-11);
  EXPECT_EQ(DerivedTolerance(t, 30.0).atol, 0x1p-11 * 16 + 0x1p-25);
  t.output = DType::kF32;
  EXPECT_EQ(DerivedTolerance(t, 30.0).rtol, 0x1p-11) << "the inputs' roundoff";
  t.compute = DType::kF32;
  EXPECT_EQ(DerivedTolerance(t, 30.0).rtol, 0x1p-18) << "64 roundings of the accumulator";
  t.output = DType::kE4M3FN;
  EXPECT_EQ(DerivedTolerance(t, 30.0).rtol, 0x1p-4) << "the output's roundoff";
  t.accumulations = 1 << 21;
  EXPECT_EQ(DerivedTolerance(t, 30.0).rtol, 0x1p-3);
}

TEST(DerivedTolerance, ScalesWithResultsBelowOne) {
  const DerivedTerms t{.compute = DType::kF32, .output = DType::kF32, .accumulations = 1};
  EXPECT_EQ(DerivedTolerance(t, 0.75).atol, 0x1p-25 + 0x1p-150);
  EXPECT_EQ(DerivedTolerance(t, 1).atol, 0x1p-24 + 0x1p-150);
  EXPECT_EQ(DerivedTolerance(t, 0).atol, 0x1p-150);
}

TEST(DerivedTolerance, KnowsPartialSums) {
  DerivedTerms t{.compute = DType::kBF16,
                 .output = DType::kF32,
                 .accumulator_roundoff = 0x1p-24,
                 .accumulations = (1 << 18) + 1,
                 .split_k = 4};
  // ⌈n/4⌉ = 2^16 + 1 products, 4 partial sums.
  EXPECT_EQ(DerivedTolerance(t, 0).rtol, ((1 << 16) + 1 + 4) * 0x1p-24);
  t.output = DType::kBF16;  // partial sums rounded to 8 bits each
  EXPECT_EQ(DerivedTolerance(t, 0).rtol, ((1 << 16) + 1) * 0x1p-24 + 4 * 0x1p-8);
  t.split_k = 1;
  EXPECT_EQ(DerivedTolerance(t, 0).rtol, ((1 << 18) + 1) * 0x1p-24);
}

TEST(DerivedTolerance, HasNoAllowanceForIntegers) {
  const Tolerance t =
      DerivedTolerance({.compute = DType::kI8, .output = DType::kI32, .accumulations = 4096}, 1e6);
  EXPECT_EQ(t.rtol, 0.0);
  EXPECT_EQ(t.atol, 0.0);
}

// Only non-finite elements expected: there is no magnitude to scale by.
TEST(DerivedTolerance, IsFiniteWhateverTheMagnitude) {
  const DerivedTerms t{.compute = DType::kF32, .output = DType::kF32, .accumulations = 1};
  for (const double magnitude : {0.0, kInf, kNaN, 0x1p-149}) {
    EXPECT_TRUE(std::isfinite(DerivedTolerance(t, magnitude).atol)) << magnitude;
  }
}

// A case's own figures come before the operator's.
TEST(MakeGating, TakesAccumulationsAndSplitKFromTheCase) {
  Case c;
  c.problem = GemmProblem{.m = 8, .n = 8, .k = 1 << 16};
  c.dtype = DType::kF32;
  c.criterion = Criterion::kDerived;
  Plan plan;
  plan.output.dtype = DType::kF32;
  plan.accumulations = 1 << 16;
  plan.accumulator_roundoff = 0x1p-24;
  EXPECT_EQ(MakeGating(c, plan, 0).rtol, 0x1p-8);
  c.split_k = 16;
  EXPECT_EQ(MakeGating(c, plan, 0).rtol, ((1 << 12) + 16) * 0x1p-24);
  c.split_k = 0;
  c.accumulations = 1 << 10;
  EXPECT_EQ(MakeGating(c, plan, 0).rtol, 0x1p-14);
  c.accumulations = 1;
  EXPECT_EQ(MakeGating(c, plan, 0).rtol, 0x1p-24);
}

TEST(MakeGating, CustomaryTolerancesStandInWhereNoneIsSaid) {
  Case c;
  c.problem = GemmProblem{.m = 8, .n = 8, .k = 8};
  c.dtype = DType::kF16;
  c.criterion = Criterion::kLegacy;
  EXPECT_EQ(MakeGating(c, {}, 0).atol, 1e-2);
  EXPECT_EQ(MakeGating(c, {}, 0).rtol, 1e-3);
  c.atol = 0.0;
  EXPECT_EQ(MakeGating(c, {}, 0).atol, 0.0);
  EXPECT_EQ(MakeGating(c, {}, 0).rtol, 1e-3);
}

TEST(MakeGating, HasACustomaryToleranceForEachFormat) {
  struct Row {
    DType dtype;
    double atol, rtol;
  };
  for (const Row& row : {Row{DType::kF64, 1e-7, 1e-5}, Row{DType::kF32, 1e-4, 1e-4},
                         Row{DType::kF16, 1e-2, 1e-3}, Row{DType::kBF16, 1e-1, 1e-2},
                         Row{DType::kE4M3FN, 1e-2, 1e-2}, Row{DType::kI8, 1e-2, 1e-2}}) {
    Case c;
    c.dtype = row.dtype;
    for (const Criterion criterion : {Criterion::kAllClose, Criterion::kLegacy}) {
      c.criterion = criterion;
      const Gating g = MakeGating(c, {}, 0);
      EXPECT_EQ(g.atol, row.atol) << Name(row.dtype);
      EXPECT_EQ(g.rtol, row.rtol) << Name(row.dtype);
    }
  }
}

// Legacy takes each customary tolerance by itself; allclose takes both or none.
TEST(MakeGating, AToleranceThatIsSaidReplacesTheCustomaryOne) {
  Case c;
  c.dtype = DType::kF16;
  c.rtol = 0.5;
  c.criterion = Criterion::kLegacy;
  EXPECT_EQ(MakeGating(c, {}, 0).atol, 1e-2);
  EXPECT_EQ(MakeGating(c, {}, 0).rtol, 0.5);
  c.criterion = Criterion::kAllClose;
  EXPECT_EQ(MakeGating(c, {}, 0).atol, 0);
  EXPECT_EQ(MakeGating(c, {}, 0).rtol, 0.5);
  c.rtol.reset();
  c.atol = 0.25;
  EXPECT_EQ(MakeGating(c, {}, 0).atol, 0.25);
  EXPECT_EQ(MakeGating(c, {}, 0).rtol, 0);
}

TEST(MakeGating, EachCriterionHasItsGate) {
  struct Row {
    Criterion criterion;
    bool random;
    Gate gate;
    bool uses_tolerances;
  };
  for (const Row& row : {Row{Criterion::kUnspecified, true, Gate::kBoundProbable, false},
                         Row{Criterion::kUnspecified, false, Gate::kBound, false},
                         Row{Criterion::kBound, true, Gate::kBoundProbable, false},
                         Row{Criterion::kBound, false, Gate::kBound, false},
                         Row{Criterion::kDerived, true, Gate::kAllClose, true},
                         Row{Criterion::kAllClose, true, Gate::kAllClose, true},
                         Row{Criterion::kLegacy, true, Gate::kAllClose, true},
                         Row{Criterion::kUlp, true, Gate::kUlp, false},
                         Row{Criterion::kBitwise, true, Gate::kBitwise, false}}) {
    Case c;
    c.dtype = DType::kF32;
    c.criterion = row.criterion;
    Plan plan;
    plan.output.dtype = DType::kF32;
    plan.zero_mean_random = row.random;
    const Gating g = MakeGating(c, plan, 1);
    EXPECT_EQ(g.gate, row.gate) << static_cast<int>(row.criterion);
    EXPECT_EQ(g.uses_tolerances, row.uses_tolerances) << static_cast<int>(row.criterion);
  }
}

TEST(MakeGating, AnUlpIsAllowedWhereNoNumberIsSaid) {
  Case c;
  c.dtype = DType::kF32;
  c.criterion = Criterion::kUlp;
  EXPECT_EQ(MakeGating(c, {}, 0).max_ulp, 1);
  c.max_ulp = 2.5;
  EXPECT_EQ(MakeGating(c, {}, 0).max_ulp, 2.5);
}

TEST(MakeGating, ExactResultsHaveNoDerivedTolerance) {
  Case c;
  c.dtype = DType::kF32;
  c.criterion = Criterion::kDerived;
  Plan plan;
  plan.output.dtype = DType::kF32;
  plan.accumulations = 64;
  plan.accumulator_roundoff = 0x1p-24;
  EXPECT_EQ(MakeGating(c, plan, 1).rtol, 0x1p-18);
  plan.exact = true;
  EXPECT_EQ(MakeGating(c, plan, 1).rtol, 0);
  EXPECT_EQ(MakeGating(c, plan, 1).atol, 0);
  EXPECT_TRUE(MakeGating(c, plan, 1).uses_tolerances) << "the result says that they are 0";
}

// Integers on either side round nothing.
TEST(DerivedTolerance, HasNoAllowanceWhereOneSideIsAnInteger) {
  for (const DerivedTerms& t :
       {DerivedTerms{.compute = DType::kI8, .output = DType::kF32, .accumulator_roundoff = 0x1p-24},
        DerivedTerms{
            .compute = DType::kF32, .output = DType::kI32, .accumulator_roundoff = 0x1p-24}}) {
    EXPECT_EQ(DerivedTolerance(t, 1).rtol, 0);
    EXPECT_EQ(DerivedTolerance(t, 1).atol, 0);
  }
}

// A case that says nothing of its sums has one product and one part of the sum. The roundoff is
// far above the formats', so that the sum alone decides.
TEST(DerivedTolerance, CountsAtLeastOneProductAndOnePart) {
  DerivedTerms t{.compute = DType::kF32,
                 .output = DType::kF32,
                 .accumulator_roundoff = 0x1p-10,
                 .accumulations = 0,
                 .split_k = 0};
  EXPECT_EQ(DerivedTolerance(t, 0).rtol, 0x1p-10);
  t.accumulations = 1;
  EXPECT_EQ(DerivedTolerance(t, 0).rtol, 0x1p-10);
  t.accumulations = 2;
  EXPECT_EQ(DerivedTolerance(t, 0).rtol, 0x1p-9);
  t.split_k = 2;  // one product in each of two parts
  EXPECT_EQ(DerivedTolerance(t, 0).rtol, 0x1p-10 + 2 * 0x1p-24);
}

}  // namespace
}  // namespace assay
