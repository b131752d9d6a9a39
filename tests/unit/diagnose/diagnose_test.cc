// What results read as: planted kernels and spoiled outputs, a fault each. The
// reading must name the fault, and the right kernel must have none.
#include "kernels/diagnose/diagnose.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/providers/planted/planted.h"
#include "tests/unit/judge/distorted.h"

namespace assay {
namespace {

using testing::AttentionCase;
using testing::GemmCase;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::RunDistorted;

struct Expectation {
  std::string_view op;
  std::string_view defect;
  std::string_view reads_as;  // a part of it
  std::string_view next_step;
};

// The seven symptoms of precision guides first.
constexpr Expectation kPlanted[] = {
    {"softmax", "no-max", "exp overflows", "subtract the row's maximum"},
    {"attention", "no-max", "exp overflows", "subtract the row's maximum"},
    {"gemm", "nondeterministic", "1 of 3 launches differ from the others", "without atomic adds"},
    {"softmax", "underflow-tail", "small values come out as 0", "FP32"},
    {"softmax", "sum-in-bf16", "the sum of a row's exponentials is kept in bf16", "FP32"},
    {"softmax", "sum-in-16-bits", "the sum of a row's exponentials is kept in fp16", "FP32"},
    {"gemm", "fp16-accumulate", "the accumulator is not FP32", "accumulate in FP32"},
    {"layer_norm", "negative-variance", "the variance came out as 0 or less", "add eps"},
    {"layer_norm", "one-pass-variance", "in one pass", "second pass"},
    // And the usual faults of indexing.
    {"gemm", "wrong-tile", "hold values that belong 16 columns", "index of the tile"},
    {"gemm", "dropped-k", "the last term of each sum is left out", "loop over k"},
    {"gemm", "transposed-b", "B is read in the other order", "trans_b"},
    {"gemm", "zero-output", "every element is 0", "store"},
    {"gemm", "truncating-output", "cut towards 0, not rounded", "round to nearest"},
    {"gemm", "unwritten-tail", "the tail is never written: the last 8 columns", "remainder"},
    {"gemm", "past-the-end", "the kernel writes before, behind", "bounds of its stores"},
    {"gemm", "writes-padding", "leading dimension of 72", "bounds of its stores"},
    {"gemm", "reads-padding", "padding between rows reads as NaN", "leading dimension"},
    {"gemm", "changes-input", "operand that it may only read", "aliases"},
    {"conv", "dropped-tap", "the last tap of the filters is left out", "taps"},
    {"attention", "mask-off-by-one", "one key too many", "causal mask's comparison"},
    {"attention", "missing-rescale", "output is not rescaled", "exp(old maximum"},
    {"attention", "wrong-axis", "rescaled along the wrong axis", "by the row"},
    {"copy", "stale", "part of the output is never written", "grid"},
    {"dequant_softmax", "no-max", "exp overflows", "subtract the row's maximum"},
    {"dequant_softmax", "wrong-scale", "the scale of the column behind it", "scale[j]"},
    {"dequant_softmax", "dropped-scale", "scales of the columns are left out", "scale[j]"},
    {"dequant_softmax", "unsigned-weights", "read as unsigned bytes", "signed 8-bit"},
    {"dequant_softmax", "transposed-weights", "W is read in the other order", "row length"},
    {"dequant_softmax", "short-sum", "the last term of each sum is left out", "loop over k"},
    {"reduce", "dropped-tail", "the last 6 of 70 elements of each slice are left out", "remainder"},
    {"reduce", "last-tie", "of equal elements the last index is given", "lower index"},
    {"elementwise", "dropped-multiply", "silu(a) is not multiplied by b", "by b"},
    {"elementwise", "dropped-silu", "silu is left out", "silu of a"},
    {"elementwise", "swapped-operands", "silu is taken of b", "first operand"},
    {"elementwise", "wrong-column", "one column to the right", "b[j]"},
    {"elementwise", "dropped-residual", "b is not added", "add b"},
    {"elementwise", "other-gelu", "by tanh, not by erf", "asks for"},
    {"elementwise", "sigmoid-gelu", "sigmoid(1.702", "asks for"},
    {"elementwise", "exp-overflow", "infinite exp", "one exp"},
    {"rope", "wrong-sign", "the sine has the wrong sign", "x1·cos - x2·sin"},
    {"rope", "swapped-halves", "the two elements of each pair are exchanged", "first element"},
    {"rope", "other-pairs", "pairs are taken to be dim/2 apart", "rope.interleaved"},
    {"rope", "next-position", "positions are one too high", "rope.start"},
    {"rope", "ignored-start", "positions begin at 0", "rope.start"},
    {"rope", "unturned", "nothing is turned", "turn every pair"},
};

// Tolerances below what rounding costs are the asker's, and no fault of the kernel.
TEST(Diagnose, ZeroTolerancesAccuseNoRightKernel) {
  Case c = GemmCase(DType::kBF16, 32, 32, 64);
  c.criterion = Criterion::kAllClose;
  c.atol = c.rtol = 0.0;
  const CaseOutcome outcome = RunDistorted(c, [](std::vector<double>&, const Plan&) {});
  EXPECT_EQ(outcome.verdict, Verdict::kFailed);
  EXPECT_THAT(outcome.reads_as, HasSubstr("within the error bound of its own arithmetic"));
  EXPECT_THAT(outcome.next_step, HasSubstr("--criterion bound"));
}

// An overflow is no division by 0, and on such inputs no fault either.
TEST(Diagnose, AnOverflowThatARightKernelMayHaveIsCalledOne) {
  Case c = GemmCase(DType::kF32, 8, 8, 65);
  c.pattern = "constant:1e37/checkerboard";
  const CaseOutcome outcome = RunDistorted(c, [](std::vector<double>& values, const Plan&) {
    values[5] = std::numeric_limits<double>::infinity();
  });
  EXPECT_EQ(outcome.verdict, Verdict::kInconclusive);
  EXPECT_THAT(outcome.reads_as, HasSubstr("overflow: with inputs this large"));
  EXPECT_THAT(outcome.reads_as, HasSubstr("fp32 ends at 3.4e+38"));
  EXPECT_THAT(outcome.next_step, HasSubstr("smaller inputs"));
}

TEST(Diagnose, WhatALaterLaunchDoesNotWriteIsNotTakenForAResult) {
  const Case c = GemmCase(DType::kBF16, 32, 32, 64);
  for (const Poison poison : {Poison::kHigh, Poison::kLow}) {
    const double held = ToDouble(DType::kBF16, PoisonBits(DType::kBF16, poison));
    const CaseOutcome outcome = RunDistorted(
        c, [held](std::vector<double>& values, const Plan&) { values[5] = values[900] = held; });
    EXPECT_EQ(outcome.verdict, Verdict::kFailed);
    EXPECT_THAT(outcome.reads_as, HasSubstr("what the output held before the launch"));
  }
}

TEST(Diagnose, NamesTheFaultOfEachPlantedKernel) {
  Registry registry;
  RegisterAll(registry);
  const std::unique_ptr<Device> device =
      MakeCpuDevice(0, ArenaOptions{.max_bytes = std::int64_t{256} << 20});
  CaseRunner runner(*device, registry, nullptr);
  PhaseObserver observer;
  for (const Expectation& e : kPlanted) {
    bool found = false;
    for (const PlantedDefect& d : PlantedDefects()) {
      if (d.op != e.op || d.name != e.defect) continue;
      found = true;
      for (const DType t : d.dtypes) {
        // Of 8-bit formats a value tells too little, and padding is no NaN in integers.
        if (Info(t).storage_bits < 16) continue;
        const CaseOutcome outcome = runner.Run(PlantedCase(d, t), observer);
        SCOPED_TRACE(std::string(d.op) + "/" + std::string(d.name) + " " + std::string(Name(t)));
        EXPECT_EQ(outcome.verdict, Verdict::kFailed);
        EXPECT_THAT(outcome.reads_as, HasSubstr(std::string(e.reads_as)));
        EXPECT_THAT(outcome.next_step, HasSubstr(std::string(e.next_step)));
        EXPECT_THAT(outcome.inputs, Not(IsEmpty()));
      }
    }
    EXPECT_TRUE(found) << e.op << "/" << e.defect << " is no longer planted";
  }
}

std::string Reading(const Case& c, testing::Distort distort) {
  const CaseOutcome outcome = RunDistorted(c, std::move(distort));
  EXPECT_EQ(outcome.verdict, Verdict::kFailed);
  EXPECT_EQ(outcome.reads_as.empty(), outcome.next_step.empty()) << outcome.reads_as;
  return outcome.reads_as;
}

void Scale(std::vector<double>& y, double factor) {
  for (double& v : y) v *= factor;
}

TEST(Diagnose, EstimatesAWrongScale) {
  Case c = GemmCase(DType::kF16, 32, 32, 64);
  EXPECT_THAT(Reading(c, [](auto& y, const Plan&) { Scale(y, 0.99); }),
              HasSubstr("every value is 0.99 times what it should be"));
  EXPECT_THAT(Reading(c, [](auto& y, const Plan&) { Scale(y, -1); }),
              HasSubstr("every value is -1 times what it should be (-1)"));
  const Case finer = GemmCase(DType::kF32, 32, 32, 64);
  EXPECT_THAT(Reading(finer, [](auto& y, const Plan&) { Scale(y, 1.0001); }),
              HasSubstr("every value is 1 + 0.0001 times what it should be"));
  EXPECT_THAT(Reading(finer, [](auto& y, const Plan&) { Scale(y, 0.995); }),
              HasSubstr("every value is 1 - 0.005 times what it should be"));
  std::get<GemmProblem>(c.problem).alpha = 0.75;
  EXPECT_THAT(Reading(c, [](auto& y, const Plan&) { Scale(y, 0.75); }),
              HasSubstr("0.75 times what it should be (alpha)"));
  // A factor left out is tried, and found, as what it is.
  EXPECT_THAT(Reading(c, [](auto& y, const Plan&) { Scale(y, 1 / 0.75); }),
              HasSubstr("alpha is taken for 1"));
}

TEST(Diagnose, SeesFactorsAndOffsetsOfColumnsAndRows) {
  const Case c = GemmCase(DType::kF32, 32, 24, 64);
  EXPECT_THAT(Reading(c,
                      [](auto& y, const Plan&) {
                        for (std::size_t i = 0; i < y.size(); ++i) {
                          y[i] *= 1 + 0.01 * static_cast<double>(i % 24 + 1);
                        }
                      }),
              HasSubstr("each column is its own factor"));
  EXPECT_THAT(Reading(c,
                      [](auto& y, const Plan&) {
                        for (std::size_t i = 0; i < y.size(); ++i) {
                          y[i] += 0.1 * static_cast<double>(i % 24 + 1);
                        }
                      }),
              ::testing::StrEq("each column is off by its own constant (0.1 to 2.4)"));
  // Only where there is a bias is it blamed.
  Case biased = c;
  std::get<GemmProblem>(biased.problem).bias = true;
  EXPECT_THAT(Reading(biased,
                      [](auto& y, const Plan&) {
                        for (std::size_t i = 0; i < y.size(); ++i) {
                          y[i] += 0.1 * static_cast<double>(i % 24 + 1);
                        }
                      }),
              HasSubstr("the bias is left out, added twice, or taken from a wrong place"));
  EXPECT_THAT(Reading(AttentionCase(DType::kF32, 2, 32, 16, false),
                      [](auto& y, const Plan&) {
                        for (std::size_t i = 0; i < y.size(); ++i) {
                          y[i] *= 1 + 0.01 * static_cast<double>(i / 16 % 7 + 1);
                        }
                      }),
              HasSubstr("the sum of the exponentials (l) is wrong"));
}

// Zeros are no scale: a line that is all 0 is told as such, or by its place.
TEST(Diagnose, TellsLinesThatAreAllZeroFromAScale) {
  const Case c = GemmCase(DType::kF32, 32, 24, 64);
  const auto zero = [&](auto chosen) {
    return Reading(c, [chosen](auto& y, const Plan&) {
      for (std::size_t i = 0; i < y.size(); ++i) {
        if (chosen(i / 24, i % 24)) y[i] = 0;
      }
    });
  };
  EXPECT_EQ(zero([](auto, auto col) { return col == 3 || col == 4 || col == 11 || col == 18; }),
            "each wrong column is all 0: its result is never added up, or never stored");
  EXPECT_EQ(zero([](auto row, auto) { return row == 2 || row == 3 || row == 13 || row == 24; }),
            "each wrong row is all 0: its result is never added up, or never stored");
  EXPECT_THAT(zero([](auto, auto col) { return col >= 19; }),
              HasSubstr("only the last 5 columns of 24 are wrong: the tail"));
  // Zero is one factor among others.
  EXPECT_THAT(Reading(c,
                      [](auto& y, const Plan&) {
                        for (std::size_t i = 0; i < y.size(); ++i) {
                          y[i] *= 0.1 * static_cast<double>(i % 24);
                        }
                      }),
              HasSubstr("each column is its own factor too large or too small (0 to 2.3)"));
}

TEST(Diagnose, PointsAtTileEdges) {
  const CaseOutcome outcome = RunDistorted(AttentionCase(DType::kF32, 2, 128, 16, true),
                                           [](std::vector<double>& y, const Plan&) {
                                             for (std::size_t i = 0; i < y.size(); ++i) {
                                               if (i / 16 % 32 == 31)
                                                 y[i] += 0.25 * std::sin(static_cast<double>(i));
                                             }
                                           });
  EXPECT_EQ(outcome.pattern_of_errors, "all in rows 31, 63, 95 … (period 32)");
  EXPECT_EQ(outcome.reads_as, "the last row of each tile of 32 rows is wrong");
  EXPECT_EQ(outcome.next_step, "look at the causal mask's comparison at tile edges");
}

TEST(Diagnose, PointsAtTails) {
  EXPECT_THAT(Reading(GemmCase(DType::kF32, 64, 61, 32),
                      [](auto& y, const Plan&) {
                        for (std::size_t i = 0; i < y.size(); ++i) {
                          if (i % 61 >= 56) y[i] += std::sin(static_cast<double>(i));
                        }
                      }),
              HasSubstr("only the last 5 columns of 61 are wrong: the tail"));
}

TEST(Diagnose, TellsAFlippedBit) {
  EXPECT_THAT(Reading(GemmCase(DType::kF32, 32, 32, 32),
                      [](auto& y, const Plan&) {
                        const std::uint64_t bits = RoundToFormat(y[77], DType::kF32);
                        y[77] = ToDouble(DType::kF32, bits ^ (1U << 21));
                      }),
              HasSubstr("one bit of it (bit 21)"));
}

// Nothing speaks for a race, and a bit of 8 is soon another.
TEST(Diagnose, AnElementThatIsOnlyJustBeyondItsBoundIsNoStrayWrite) {
  const CaseOutcome outcome =
      RunDistorted(AttentionCase(DType::kBF16, 2, 32, 16, false), [](auto& y, const Plan&) {
        const auto most = std::max_element(y.begin(), y.end());
        *most += 0.75 * 0x1p-6 * *most;
      });
  ASSERT_EQ(outcome.compare->mismatches, 1);
  EXPECT_THAT(outcome.reads_as, HasSubstr("and only just"));
  EXPECT_THAT(outcome.next_step, HasSubstr("--intermediate-dtype bf16"));
}

TEST(Diagnose, FindsValuesThatBelongElsewhere) {
  // Each matrix of the batch holds the one before it: a stale buffer.
  Case c = GemmCase(DType::kF32, 16, 16, 32);
  std::get<GemmProblem>(c.problem).batch = 4;
  EXPECT_THAT(Reading(c,
                      [](auto& y, const Plan&) {
                        for (std::size_t i = y.size(); i-- > 256;) y[i] = y[i - 256];
                      }),
              HasSubstr("hold values that belong 1 batch before"));
  EXPECT_THAT(Reading(GemmCase(DType::kF32, 24, 24, 32),
                      [](auto& y, const Plan&) {
                        const std::vector<double> right = y;
                        for (std::size_t i = 0; i < y.size(); ++i) {
                          y[i] = right[i % 24 * 24 + i / 24];
                        }
                      }),
              HasSubstr("stored transposed"));
}

TEST(Diagnose, TellsAConstantOutput) {
  EXPECT_THAT(Reading(GemmCase(DType::kF32, 16, 16, 16),
                      [](auto& y, const Plan&) { std::fill(y.begin(), y.end(), 1.5); }),
              HasSubstr("every element is 1.5: one value"));
}

// Random wrong values have no cause that the figures show.
TEST(Diagnose, NamesNoCauseWithoutEvidence) {
  const CaseOutcome outcome =
      RunDistorted(GemmCase(DType::kF32, 64, 64, 32), [](std::vector<double>& y, const Plan&) {
        for (std::size_t i = 0; i < y.size(); ++i) {
          if (i * 2654435761U % 7 == 0) y[i] += 5 * std::sin(static_cast<double>(i * i));
        }
      });
  EXPECT_EQ(outcome.verdict, Verdict::kFailed);
  EXPECT_EQ(outcome.reads_as, "");
  EXPECT_THAT(outcome.next_step, HasSubstr("compute the worst element, ["));
}

CaseOutcome RunPlanted(Problem problem, DType dtype, std::string defect, Criterion criterion) {
  Registry registry;
  RegisterAll(registry);
  const std::unique_ptr<Device> device =
      MakeCpuDevice(0, ArenaOptions{.max_bytes = std::int64_t{256} << 20});
  PhaseObserver observer;
  Case c;
  c.problem = std::move(problem);
  c.dtype = dtype;
  c.provider = "planted/" + defect;
  c.seed = 1;
  c.probes = false;
  c.criterion = criterion;
  if (criterion == Criterion::kAllClose) c.atol = 1e9, c.rtol = 0.0;
  return CaseRunner(*device, registry, nullptr).Run(c, observer);
}

// Bit for bit most elements are wrong; those that are unwritten or NaN are where they are.
TEST(Diagnose, PlacesUnwrittenElementsAndNaNWhateverTheCriterion) {
  const GemmProblem p{.m = 64, .n = 64, .k = 64};
  for (const Criterion criterion : {Criterion::kBound, Criterion::kBitwise}) {
    const CaseOutcome tail = RunPlanted(p, DType::kF32, "unwritten-tail", criterion);
    EXPECT_EQ(tail.verdict, Verdict::kFailed);
    EXPECT_EQ(tail.pattern_of_errors, "all in the last 8 columns");
    EXPECT_THAT(tail.reads_as, HasSubstr("the tail is never written: the last 8 columns"));
    const CaseOutcome nan = RunPlanted(p, DType::kF32, "nan", criterion);
    EXPECT_EQ(nan.verdict, Verdict::kFailed);
    EXPECT_THAT(nan.pattern_of_errors, HasSubstr("a single element"));
  }
}

// One element of a matrix is no column.
TEST(Diagnose, PlacesOneUnwrittenElement) {
  const Case c = GemmCase(DType::kF32, 64, 64, 64);
  const Plan plan = OpOf(c).MakePlan(c).value();
  CaseOutcome outcome;
  outcome.verdict = Verdict::kFailed;
  outcome.unwritten = 1;
  outcome.compare.emplace().count = 64 * 64;
  Anatomy anatomy;
  anatomy.axes.resize(2);
  for (AxisErrors& axis : anatomy.axes) {
    axis.name = "column";
    axis.extent = 64;
    axis.first = 63;
    axis.kind = AxisErrors::Kind::kSingle;
  }
  anatomy.words = "a single element, [63,63]";
  const Symptoms symptoms = {.c = c, .plan = plan, .outcome = outcome, .anatomy = &anatomy};
  EXPECT_EQ(Diagnose(symptoms).reads_as,
            "part of the output is never written: a single element, [63,63]");
  outcome.unwritten = 64;
  EXPECT_THAT(Diagnose(symptoms).reads_as, HasSubstr("the tail is never written"));
}

TEST(Diagnose, DoesNotBlameTheDataForTolerancesThatPassZeros) {
  const CaseOutcome zeros = RunPlanted(GemmProblem{.m = 64, .n = 64, .k = 64}, DType::kF32,
                                       "zero-output", Criterion::kAllClose);
  EXPECT_NE(zeros.verdict, Verdict::kPassed);
  EXPECT_THAT(zeros.reads_as, HasSubstr("4,096 of 4,096 elements are 0, and only 0 of the right"));
  EXPECT_THAT(zeros.next_step, HasSubstr("--criterion bound"));
}

TEST(Diagnose, NamesWholeGroupsOfFilters) {
  ConvProblem p;
  p.channels = p.filters = 8;
  p.groups = 2;
  p.input = {8, 8};
  p.kernel = {3, 3};
  const CaseOutcome outcome = RunPlanted(p, DType::kF32, "wrong-group", Criterion::kBound);
  EXPECT_EQ(outcome.verdict, Verdict::kFailed);
  EXPECT_THAT(outcome.reads_as, HasSubstr("filters, 4 to 7, are group 2 of 2, whole and alone"));
}

// A sum that is another row's is as far off as a coarse one by chance.
TEST(Diagnose, TakesNoStaleSumForANarrowOne) {
  for (const std::int64_t rows : {3, 16}) {
    const CaseOutcome outcome = RunPlanted(SoftmaxProblem{.rows = rows, .cols = 1025}, DType::kF32,
                                           "stale-sum", Criterion::kBound);
    EXPECT_EQ(outcome.verdict, Verdict::kFailed);
    EXPECT_THAT(outcome.reads_as, Not(HasSubstr("kept in")));
    EXPECT_THAT(outcome.reads_as, HasSubstr("the sum of the exponentials is wrong"));
  }
}

// Results that only a truncation gives, of sums in which nothing is lost.
TEST(Diagnose, TellsATruncationFromANarrowAccumulator) {
  for (const DType t : {DType::kF16, DType::kBF16}) {
    Case c = GemmCase(t, 64, 64, 64);
    c.pattern = "integers:-100:100";
    const int bits = Info(t).mantissa_bits;
    const std::string reading = Reading(c, [bits](std::vector<double>& y, const Plan&) {
      for (double& v : y) {
        if (v == 0) continue;
        const double unit = std::exp2(std::ilogb(v) - bits);
        v = std::trunc(v / unit) * unit;
      }
    });
    EXPECT_THAT(reading, HasSubstr("cut towards 0"));
  }
}

// Sums of 16-bit roundings everywhere: bf16 worse than it must be.
TEST(Diagnose, SeesIntermediatesInBf16) {
  const std::string reading = Reading(
      AttentionCase(DType::kBF16, 2, 64, 32, false), [](std::vector<double>& y, const Plan&) {
        for (std::size_t i = 0; i < y.size(); ++i) {
          y[i] *= 1 + 0x1p-8 * 6 * std::sin(static_cast<double>(i * 7 + 1));
        }
      });
  EXPECT_THAT(reading, HasSubstr("bf16 roundings everywhere"));
  EXPECT_THAT(reading, HasSubstr("8 times fp16's"));
}

// The slow kernel: a passed result is called slow by its share of the roof alone.
TEST(Diagnose, CallsAKernelSlow) {
  Case c = GemmCase(DType::kF32, 256, 256, 256);
  const Op& op = *FindOp("gemm");
  const Plan plan = *op.MakePlan(c);
  CaseOutcome outcome;
  outcome.verdict = Verdict::kPassed;
  outcome.plan = plan;
  outcome.compare.emplace();
  outcome.compare->count = outcome.compare->finite_pairs = 65536;
  BenchStats bench;
  bench.samples = 20;
  bench.median_seconds = 2e-3;
  bench.efficiency = 0.12;
  bench.roof = "memory";
  outcome.bench = bench;
  EXPECT_THAT(Diagnose({c, plan, outcome, nullptr, nullptr}).reads_as,
              HasSubstr("slow: 12 % of the memory roof"));
  outcome.bench->roof = "compute";
  EXPECT_THAT(Diagnose({c, plan, outcome, nullptr, nullptr}).reads_as,
              HasSubstr("12 % of the compute roof"));
  outcome.bench->efficiency = 0.5;
  EXPECT_EQ(Diagnose({c, plan, outcome, nullptr, nullptr}).reads_as, "");
  // A softmax that the memory bounds does well with less.
  Case softmax = c;
  softmax.problem = SoftmaxProblem{.rows = 64, .cols = 4096};
  for (const double share : {0.29, 0.3, 0.37}) {
    outcome.bench->efficiency = share;
    outcome.bench->roof = "memory";
    EXPECT_EQ(Diagnose({softmax, plan, outcome, nullptr, nullptr}).reads_as.empty(), share >= 0.3);
    EXPECT_NE(Diagnose({c, plan, outcome, nullptr, nullptr}).reads_as, "");
    outcome.bench->roof = "compute";
    EXPECT_NE(Diagnose({softmax, plan, outcome, nullptr, nullptr}).reads_as, "");
  }
  outcome.bench->roof = "compute";
  // A launch that is mostly launching has no share worth the name.
  outcome.bench->efficiency = 0.12;
  outcome.bench->median_seconds = 5e-6;
  EXPECT_EQ(Diagnose({c, plan, outcome, nullptr, nullptr}).reads_as, "");
}

// Other errors of the same size are not taken for bf16: single terms, which bf16 keeps, are wrong.
TEST(Diagnose, TakesNoOtherErrorForIntermediatesInBf16) {
  const auto noisy = [](std::vector<double>& y, const Plan&) {
    for (std::size_t i = 0; i < y.size(); ++i) {
      y[i] *= 1 + 0x1p-8 * 6 * std::sin(static_cast<double>(i * 7 + 1));
    }
  };
  CaseOutcome outcome = RunDistorted(AttentionCase(DType::kBF16, 2, 64, 32, false), noisy);
  ASSERT_THAT(outcome.reads_as, HasSubstr("bf16 roundings everywhere"));
  const Case c = AttentionCase(DType::kBF16, 2, 64, 32, false);
  Anatomy anatomy;
  anatomy.wrong = anatomy.seen = 4096;
  anatomy.rms_expected = 1;
  anatomy.rms_error = 0x1p-6;
  outcome.probes.clear();
  for (const std::string_view name : {"exact-sparse", "exact-significand-v", "shift"}) {
    ProbeOutcome probe;
    probe.name = name;
    probe.verdict = Verdict::kFailed;
    outcome.probes = {probe};
    const std::string reading = Diagnose({c, *outcome.plan, outcome, &anatomy, nullptr}).reads_as;
    EXPECT_EQ(reading.find("bf16 roundings") != std::string::npos, name == "shift") << reading;
  }
}

// A factor near 1 shifts all results to one side by half a unit, and is no cut.
TEST(Diagnose, TakesNoFactorForATruncation) {
  for (const DType t : {DType::kF16, DType::kBF16}) {
    const double u = Info(t).unit_roundoff;
    for (const double units : {-0.9, -0.75, -0.5, 0.5, 0.9}) {
      const CaseOutcome outcome =
          RunDistorted(GemmCase(t, 64, 64, 64), [u, units](std::vector<double>& y, const Plan&) {
            for (double& v : y) v *= 1 + u * units;
          });
      EXPECT_THAT(outcome.reads_as, Not(HasSubstr("cut towards 0"))) << units;
      EXPECT_THAT(outcome.reads_as, Not(HasSubstr("rounded away"))) << units;
    }
  }
}

// Zeros where the result is NaN were stored. What replaces NaN is at fault.
TEST(Diagnose, TellsALostNanFromAResultThatIsNeverStored) {
  Case c;
  c.problem = SoftmaxProblem{.rows = 3, .cols = 65};
  c.dtype = DType::kBF16;
  c.pattern = "all-inf";
  const CaseOutcome outcome = RunDistorted(c, [](std::vector<double>& y, const Plan&) {
    for (double& v : y) v = 0;
  });
  EXPECT_EQ(outcome.verdict, Verdict::kFailed);
  EXPECT_THAT(outcome.reads_as, HasSubstr("195 NaN of the right result come out as numbers"));
  EXPECT_THAT(outcome.next_step, HasSubstr("function that replaces NaN"));
}

// Errors of the size that narrow sums have prove no narrow sum if exact cases say otherwise.
TEST(Diagnose, BelievesExactSumsMoreThanTheSizeOfErrors) {
  CaseOutcome outcome;
  outcome.verdict = Verdict::kFailed;
  outcome.compare.emplace();
  Conviction narrow{"the accumulator is not FP32", "by size", "", /*circumstantial=*/true};
  const auto reads = [&](std::int64_t k, Verdict sparse, Verdict integers) {
    const Case c = GemmCase(DType::kBF16, 64, 64, k);
    outcome.plan = *FindOp("gemm")->MakePlan(c);
    outcome.probes.assign(2, ProbeOutcome());
    outcome.probes[0].name = "exact-sparse";
    outcome.probes[0].verdict = sparse;
    outcome.probes[1].name = "exact-integers";
    outcome.probes[1].verdict = integers;
    return Diagnose({c, *outcome.plan, outcome, nullptr, &narrow}).reads_as;
  };
  constexpr Verdict kPassed = Verdict::kPassed, kFailed = Verdict::kFailed;
  EXPECT_THAT(reads(512, kPassed, kFailed), HasSubstr("not FP32 (by size)"));
  EXPECT_THAT(reads(512, Verdict::kSkipped, Verdict::kSkipped), HasSubstr("not FP32 (by size)"));
  EXPECT_THAT(reads(512, kPassed, kPassed), Not(HasSubstr("not FP32")));
  EXPECT_THAT(reads(256, kFailed, kFailed), Not(HasSubstr("not FP32")));
  // fp16 holds the integers of short sums, and bf16 does not hold sparse sums of many terms.
  EXPECT_THAT(reads(256, kPassed, kPassed), HasSubstr("not FP32 (by size)"));
  EXPECT_THAT(reads(512, kFailed, kFailed), HasSubstr("not FP32 (by size)"));
  narrow.circumstantial = false;
  EXPECT_THAT(reads(512, kFailed, kPassed), HasSubstr("not FP32 (by size)"));
}

// What only exact data show, and what they say of the accumulator.
TEST(Diagnose, ReadsTheExactProbes) {
  Case c = GemmCase(DType::kF32, 64, 64, 64);
  const Plan plan = *FindOp("gemm")->MakePlan(c);
  CaseOutcome outcome;
  outcome.verdict = Verdict::kFailed;
  outcome.plan = plan;
  outcome.compare.emplace();
  ProbeOutcome sparse, integers;
  sparse.name = "exact-sparse";
  sparse.verdict = Verdict::kPassed;
  integers.name = "exact-integers";
  integers.verdict = Verdict::kFailed;
  outcome.probes = {sparse, integers};
  EXPECT_THAT(Diagnose({c, plan, outcome, nullptr, nullptr}).reads_as,
              HasSubstr("the accumulator is not FP32"));
  // One rounding of the right sum is off as far as that: 515 of 514.
  const std::string_view passing = "or the results pass through a narrower format";
  outcome.probes[1].first.emplace();
  outcome.probes[1].first->expected = 514;
  outcome.probes[1].first->actual = 515;
  EXPECT_THAT(Diagnose({c, plan, outcome, nullptr, nullptr}).reads_as, HasSubstr(passing));
  outcome.probes[1].first->actual = 504;
  EXPECT_THAT(Diagnose({c, plan, outcome, nullptr, nullptr}).reads_as, Not(HasSubstr(passing)));
  outcome.probes[0].verdict = Verdict::kFailed;
  EXPECT_THAT(Diagnose({c, plan, outcome, nullptr, nullptr}).reads_as,
              HasSubstr("exact data do not (exact-sparse, exact-integers)"));
  outcome.probes[1].name = "nan";
  EXPECT_THAT(Diagnose({c, plan, outcome, nullptr, nullptr}).reads_as,
              HasSubstr("exact data do not (exact-sparse, nan)"));
  outcome.probes[0].verdict = Verdict::kPassed;
  EXPECT_THAT(Diagnose({c, plan, outcome, nullptr, nullptr}).reads_as,
              HasSubstr("a NaN of the inputs does not come out as it must"));
}

// On small scores a maximum that is not subtracted shows in the probe alone.
TEST(Diagnose, ReadsAProbeThatIsNotFiniteAsAnOverflowOfExp) {
  Registry registry;
  RegisterAll(registry);
  const std::unique_ptr<Device> device =
      MakeCpuDevice(0, ArenaOptions{.max_bytes = std::int64_t{256} << 20});
  PhaseObserver observer;
  for (const Problem& problem :
       {Problem(SoftmaxProblem{.rows = 4, .cols = 65}),
        Problem(AttentionProblem{.batch = 1, .heads = 1, .seq = 64, .dim = 32}),
        Problem(DequantSoftmaxProblem{.m = 4, .n = 65, .k = 64})}) {
    Case c;
    c.problem = problem;
    c.dtype = DType::kF32;
    c.provider = "planted/no-max";
    c.seed = 1;
    const CaseOutcome outcome = CaseRunner(*device, registry, nullptr).Run(c, observer);
    SCOPED_TRACE(OpName(problem));
    EXPECT_EQ(outcome.verdict, Verdict::kFailed);
    EXPECT_THAT(outcome.reads_as, HasSubstr("exp overflows, for the row's maximum is not"));
    EXPECT_THAT(outcome.next_step, HasSubstr("subtract the row's maximum"));
  }
}

}  // namespace
}  // namespace assay
