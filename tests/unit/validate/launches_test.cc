// What comes of launches that are not alike, and of what a kernel declares: nothing found
// is taken back, and no kernel buys more tolerance than its formats' own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>

#include "kernels/judge/phase_clock.h"
#include "kernels/validate/launcher.h"
#include "tests/unit/judge/distorted.h"

namespace assay {
namespace {

using testing::GemmCase;
using ::testing::HasSubstr;
using testing::RunDistorted;

// A tolerance so wide that zeros hold it, which is found of the first launch alone.
TEST(Launches, ALaterCleanOneTakesNothingBack) {
  Case c = GemmCase(DType::kF32, 16, 16, 16);
  c.criterion = Criterion::kAllClose;
  c.atol = 1e6;
  int launches = 0;
  const CaseOutcome outcome = RunDistorted(c, [&](std::vector<double>& values, const Plan&) {
    if (launches++ == 0) std::fill(values.begin(), values.end(), 0.0);
  });
  EXPECT_GT(launches, 1);
  EXPECT_EQ(outcome.verdict, Verdict::kInconclusive);
  ASSERT_FALSE(outcome.findings.empty());
  EXPECT_EQ(ReasonWord(outcome.findings.front().reason), "zeros");

  const CaseOutcome clean = RunDistorted(c, [](std::vector<double>&, const Plan&) {});
  EXPECT_EQ(clean.verdict, Verdict::kPassed);
}

// And one that goes wrong later is wrong.
TEST(Launches, ALaterWrongOneIsFound) {
  int launches = 0;
  const CaseOutcome outcome = RunDistorted(GemmCase(DType::kF32, 16, 16, 16),
                                           [&](std::vector<double>& values, const Plan&) {
                                             if (launches++ > 0) values[3] += 1;
                                           });
  EXPECT_EQ(outcome.verdict, Verdict::kFailed);
  EXPECT_EQ(outcome.deterministic, false);
}

// Ten launches, of which the sixth is `distort` of the right one.
CaseOutcome RunOddSixth(Case c, const testing::Distort& distort) {
  c.repeats = 10;
  int launches = 0;
  return RunDistorted(c, [&](std::vector<double>& values, const Plan& plan) {
    if (++launches == 6) distort(values, plan);
  });
}

TEST(Launches, AnOddOneAmongManyIsLocated) {
  const auto four = [](std::vector<double>& values, const Plan&) {
    // Rows 2 and 3, columns 8 and 9 of 16.
    for (const int i : {40, 41, 56, 57}) values[static_cast<std::size_t>(i)] += 1;
  };
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kE2M1}) {
    Case c = GemmCase(dtype, 16, 16, 16);
    c.out_dtype = dtype;
    const CaseOutcome outcome = RunOddSixth(c, four);
    EXPECT_EQ(outcome.verdict, Verdict::kFailed) << Name(dtype);
    EXPECT_EQ(outcome.odd_launches, 1);
    ASSERT_FALSE(outcome.findings.empty());
    EXPECT_EQ(ReasonWord(outcome.findings.front().reason), "nondeterministic");
    EXPECT_THAT(outcome.findings.front().message,
                HasSubstr("2 different outputs in 10 launches on the same data: launch 6 differs "
                          "from the first in 4 elements, all in [2:4,8:10], the first [2,8]: "));
  }
}

TEST(Launches, OneBitOfOneElementIsLocatedAndShown) {
  Case c = GemmCase(DType::kF32, 8, 8, 8);
  GemmProblem& problem = std::get<GemmProblem>(c.problem);
  problem.batch = 2;
  c.pattern = "one-hot";
  const CaseOutcome outcome = RunOddSixth(c, [](std::vector<double>& values, const Plan&) {
    values[64 + 11] = 0x1p-20;  // which is within every tolerance, and no other launch's
  });
  ASSERT_FALSE(outcome.findings.empty());
  EXPECT_THAT(outcome.findings.front().message,
              HasSubstr("launch 6 differs from the first in 1 element, [1,1,3]: 9.53674e-07 "
                        "(0x35800000) instead of "));
}

// Integers have no poison of their own and are launched twice: no launch of these is lost.
TEST(Launches, TheSecondPoisonsLaunchMustAgreeToo) {
  Case c = GemmCase(DType::kI8, 16, 16, 16);
  c.repeats = 10;
  int launches = 0;
  const CaseOutcome eleventh = RunDistorted(c, [&](std::vector<double>& values, const Plan&) {
    if (++launches == 11) values[3] += 1;
  });
  EXPECT_EQ(eleventh.verdict, Verdict::kFailed);
  ASSERT_FALSE(eleventh.findings.empty());
  EXPECT_EQ(ReasonWord(eleventh.findings.front().reason), "nondeterministic");
  EXPECT_EQ(eleventh.unwritten, 0);

  c.repeats = 1;
  launches = 0;
  const CaseOutcome first = RunDistorted(c, [&](std::vector<double>& values, const Plan&) {
    if (++launches == 1) values[3] += 1;
  });
  EXPECT_EQ(first.verdict, Verdict::kFailed) << "the first is the one that is judged";

  launches = 0;
  const CaseOutcome second = RunDistorted(c, [&](std::vector<double>& values, const Plan&) {
    if (++launches == 2) values[3] += 1;
  });
  EXPECT_EQ(second.verdict, Verdict::kFailed) << "and so is the one on the other poison";
  EXPECT_EQ(second.deterministic, false);
  EXPECT_EQ(first.deterministic, false);
  EXPECT_EQ(RunDistorted(c, [](std::vector<double>&, const Plan&) {}).verdict, Verdict::kPassed);
}

// Where no buffer of the output's size is to be had, what differs is counted all the same.
TEST(Launches, WithoutABufferADeviationHasNoPlace) {
  Case c = GemmCase(DType::kF32, 64, 64, 64);
  c.verify = Verification::kChecksum;
  const CaseOutcome outcome =
      RunOddSixth(c, [](std::vector<double>& values, const Plan&) { values[0] += 0x1p-18; });
  EXPECT_EQ(outcome.verdict, Verdict::kFailed);
  ASSERT_FALSE(outcome.findings.empty());
  EXPECT_EQ(outcome.findings.front().message,
            "2 different outputs in 10 launches on the same data");
}

int g_launches = 0;

// A copy whose twentieth launch writes one byte too far.
class Overreaching : public Kernel {
 public:
  absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) override {
    std::memcpy(output.data, inputs[0].data, static_cast<std::size_t>(output.bytes()));
    if (++g_launches == 20) output.as<unsigned char>()[output.bytes()] = 1;
    return absl::OkStatus();
  }
};

// Bands are looked at once for all timed launches, and what one of them did is there still.
TEST(Launches, OneThatWritesTooFarAmongTimedOnesIsFound) {
  g_launches = 0;
  Registry registry;
  registry.Add(
      {.op = "copy",
       .provider = "overreaching",
       .backend = "cpu",
       .dtypes = {DType::kF32},
       .make = [](const Case&, const Plan&, Device&) -> absl::StatusOr<std::unique_ptr<Kernel>> {
         return std::make_unique<Overreaching>();
       },
       .version = {},
       .unavailable_reason = {}});
  Case c;
  c.problem = CopyProblem{.count = 1000};
  c.dtype = DType::kF32;
  c.provider = "overreaching";
  c.probes = false;
  c.mode = Mode::kBenchmark;
  const auto device = MakeCpuDevice(0, ArenaOptions{.max_bytes = 16 << 20});
  PhaseObserver observer;
  const CaseOutcome outcome = CaseRunner(*device, registry, nullptr).Run(c, observer);
  EXPECT_GT(g_launches, 30);
  EXPECT_EQ(outcome.verdict, Verdict::kFailed);
  EXPECT_EQ(outcome.guard_hits, 1);
}

// A maximum along rows of `length` that begins with what the output holds, that looks at one
// element too many, or that leaves an output alone in which there is no poison.
struct Maximum {
  bool from_output = false;
  bool beyond = false;
  std::int64_t rows = 0;  // that it is made for; 0: any
  bool skips = false;     // a column
  bool only_over_poison = false;
};
Maximum g_maximum;

class MaximumKernel : public Kernel {
 public:
  absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) override {
    if (g_maximum.only_over_poison && std::abs(*output.as<float>()) < 1e30F) {
      return absl::OkStatus();
    }
    const std::int64_t length = inputs[0].count() / output.count();
    const std::int64_t rows = g_maximum.rows > 0 ? g_maximum.rows : output.count();
    for (std::int64_t row = 0; row < std::min(rows, output.count()); ++row) {
      const float* const x = inputs[0].as<float>() + row * length;
      float& y = output.as<float>()[row];
      if (!g_maximum.from_output) y = x[0];
      for (std::int64_t i = 0; i < length; ++i) {
        if (!g_maximum.skips || i != 7) y = y > x[i] ? y : x[i];
      }
      if (g_maximum.beyond && row + 1 == output.count()) y = x[length] > y ? x[length] : y;
    }
    return absl::OkStatus();
  }
  bool trusted() const override {
    return g_maximum.rows == 0 && !g_maximum.skips && !g_maximum.only_over_poison;
  }
};

Verdict RunMaximum(Maximum maximum, bool probes, Mode mode, KeptDraws* draws = nullptr) {
  g_maximum = maximum;
  Registry registry;
  registry.Add(
      {.op = "reduce",
       .provider = "maximum",
       .backend = "cpu",
       .dtypes = {DType::kF32},
       .make = [](const Case&, const Plan&, Device&) -> absl::StatusOr<std::unique_ptr<Kernel>> {
         return std::make_unique<MaximumKernel>();
       },
       .version = {},
       .unavailable_reason = {}});
  Case c;
  ReduceProblem problem;
  problem.extents = {40, 30};
  problem.kind = "max";
  c.problem = problem;
  c.dtype = DType::kF32;
  c.provider = "maximum";
  c.probes = probes;
  c.mode = mode;
  const auto device = MakeCpuDevice(0, ArenaOptions{.max_bytes = 64 << 20});
  PhaseObserver observer;
  return CaseRunner(*device, registry, nullptr, nullptr, draws).Run(c, observer).verdict;
}

// Secret data would be no secret if another case's kernel, which runs in this process, found them.
TEST(Launches, OnlyOfATrustedKernelDrawsAreKept) {
  KeptDraws draws;
  EXPECT_EQ(RunMaximum({.rows = 40}, /*probes=*/true, Mode::kValidate, &draws), Verdict::kPassed);
  EXPECT_EQ(draws.bytes(), 0);
  EXPECT_EQ(RunMaximum({}, /*probes=*/true, Mode::kValidate, &draws), Verdict::kPassed);
  EXPECT_GT(draws.bytes(), 0);
  const std::int64_t bytes = draws.bytes();
  EXPECT_EQ(RunMaximum({}, /*probes=*/true, Mode::kValidate, &draws), Verdict::kPassed);
  EXPECT_EQ(draws.bytes(), bytes);
}

// A comparison with NaN, the first poison, leaves no trace of what was compared.
TEST(Launches, WhatLiesInTheOutputAndAroundItShows) {
  EXPECT_EQ(RunMaximum({}, /*probes=*/true, Mode::kValidate), Verdict::kPassed);
  EXPECT_EQ(RunMaximum({.from_output = true}, /*probes=*/false, Mode::kValidate), Verdict::kFailed)
      << "in a launch beside the judged one";
  EXPECT_EQ(RunMaximum({.from_output = true}, /*probes=*/true, Mode::kBoth), Verdict::kFailed)
      << "in a probe";
  EXPECT_EQ(RunMaximum({.beyond = true}, /*probes=*/true, Mode::kValidate), Verdict::kFailed);
}

// In one launch of a user's kernel the output holds the result of other data.
TEST(Launches, AKernelThatComputesOnlyOverPoisonFails) {
  EXPECT_EQ(RunMaximum({.only_over_poison = true}, /*probes=*/false, Mode::kValidate),
            Verdict::kFailed);
  // Whichever data the last timed launch had: one time in three they are the case's own.
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(RunMaximum({.only_over_poison = true}, /*probes=*/false, Mode::kBoth),
              Verdict::kFailed);
    EXPECT_EQ(RunMaximum({}, /*probes=*/false, Mode::kBoth), Verdict::kPassed);
  }
}

// A user's kernel is asked for more rows, so that each column is the largest of one. It may be made
// for those of the case.
TEST(Launches, AKernelThatIsMadeForItsExtentsIsNotAccused) {
  EXPECT_EQ(RunMaximum({.rows = 40}, /*probes=*/true, Mode::kValidate), Verdict::kPassed);
  EXPECT_EQ(RunMaximum({.skips = true}, /*probes=*/true, Mode::kValidate), Verdict::kFailed);
}

double g_declared = 0;

class Declaring : public Kernel {
 public:
  absl::Status Launch(std::span<const TensorView>, const TensorView&) override {
    return absl::OkStatus();
  }
  double intermediate_roundoff() const override { return g_declared; }
};

// What the plan is held to, of a kernel that declares a roundoff, or a case that declares a format.
Plan Held(DType in, DType out, double declared, DType format) {
  g_declared = declared;
  const KernelEntry entry{
      .op = "gemm",
      .provider = "declaring",
      .backend = "cpu",
      .dtypes = {in},
      .make = [](const Case&, const Plan&, Device&) -> absl::StatusOr<std::unique_ptr<Kernel>> {
        return std::make_unique<Declaring>();
      },
      .version = {},
      .unavailable_reason = {}};
  Case c = GemmCase(in, 4, 4, 4);
  c.out_dtype = out;
  c.intermediate_dtype = format;
  const auto device = MakeCpuDevice(0, ArenaOptions{.max_bytes = 16 << 20});
  PhaseObserver observer;
  PhaseClock clock(*device, observer);
  Plan plan = *FindOp("gemm")->MakePlan(c);
  Launcher launcher(c, *device, clock);
  EXPECT_FALSE(launcher.Prepare(entry, plan).has_value());
  return plan;
}

double Granted(DType in, DType out, double declared) {
  return Held(in, out, declared, DType::kUnspecified).intermediate_roundoff;
}

TEST(Declarations, BuyNoMoreThanTheCoarserFormatsRoundoff) {
  EXPECT_EQ(Granted(DType::kF32, DType::kF32, 0), 0.0);
  EXPECT_EQ(Granted(DType::kBF16, DType::kBF16, 0x1p-11), 0x1p-11);
  EXPECT_EQ(Granted(DType::kBF16, DType::kBF16, 1), Info(DType::kBF16).unit_roundoff);
  EXPECT_EQ(Granted(DType::kBF16, DType::kF32, 1), Info(DType::kBF16).unit_roundoff);
  EXPECT_EQ(Granted(DType::kF16, DType::kF32, 0x1p-3), Info(DType::kF16).unit_roundoff);
  EXPECT_EQ(Granted(DType::kF32, DType::kF32, 0x1p-3), Info(DType::kF32).unit_roundoff);
}

TEST(Declarations, AFormatBringsItsSmallestNumber) {
  EXPECT_EQ(Held(DType::kBF16, DType::kBF16, 0, DType::kF16).intermediate_step, 0x1p-24);
  EXPECT_EQ(Held(DType::kBF16, DType::kBF16, 0x1p-11, DType::kUnspecified).intermediate_step, 0);
}

}  // namespace
}  // namespace assay
