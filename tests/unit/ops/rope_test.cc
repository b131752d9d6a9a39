// rope: what a problem may say, the plain reference against arithmetic by hand, the fast one
// against it, and the bound against the usual forms of the kernels.
#include <cmath>
#include <limits>
#include <numbers>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/numerics/bound.h"
#include "kernels/numerics/unit_places.h"
#include "kernels/ops/rope/rope_reference.h"
#include "kernels/runtime/device.h"
#include "tests/unit/ops/tensors.h"

namespace assay {
namespace {

using ::testing::ElementsAre;

PlainResult Plain(const RopeProblem& p, DType t,
                  const std::function<double(int, std::int64_t)>& values) {
  const Case c = MakeCase(p, t);
  const Plan plan = PlanOf(c);
  return PlainReference(RopeOp(), c, plan, Tensors(plan, values));
}

TEST(RopeProblem, SaysWhatIsWrong) {
  const auto wrong = [](const RopeProblem& p) {
    std::vector<std::string> fields;
    for (const FieldError& e : p.Check()) fields.push_back(e.field + ": " + e.message);
    return fields;
  };
  EXPECT_THAT(wrong({.seq = 4, .dim = 6}), ElementsAre());
  EXPECT_THAT(wrong({.seq = 4, .dim = 5}), ElementsAre("dim: must be even, got 5"));
  EXPECT_THAT(wrong({.seq = 4, .dim = 0}), ElementsAre("dim: must be at least 2, got 0"));
  EXPECT_THAT(wrong({.seq = 4, .dim = 4, .start = -1}),
              ElementsAre("start: must be at least 0, got -1"));
  EXPECT_THAT(wrong({.seq = 4, .dim = 4, .theta = 0.5}),
              ElementsAre("theta: must be from 1 to 1.26765e+30, got 0.5"));
}

TEST(RopeProblem, PositionsBeyondFp32AreRefused) {
  Case c = MakeCase(RopeProblem{.seq = 4, .dim = 4, .start = (1 << 24) - 2}, DType::kBF16);
  ASSERT_EQ(Check(c).size(), 1u);
  EXPECT_EQ(Check(c)[0].field, "rope.start");
  c.dtype = DType::kF64;
  EXPECT_TRUE(Check(c).empty());
}

// Small numbers of bf16 that a kernel holds in fp16, whose steps near 0 are larger.
TEST(RopeReference, ADeclaredFormatHasItsOwnSteps) {
  const Case c = MakeCase(RopeProblem{.seq = 2, .dim = 4}, DType::kBF16);
  Plan plan = PlanOf(c);
  const Tensors tensors(plan, [](int, std::int64_t) { return 1e-6; });
  const double before = PlainReference(RopeOp(), c, plan, tensors).allowance[0];
  plan.intermediate_step = Info(DType::kF16).min_subnormal;
  const double after = PlainReference(RopeOp(), c, plan, tensors).allowance[0];
  EXPECT_NEAR(after - before, 1.5 * plan.intermediate_step, 1e-3 * plan.intermediate_step);
}

TEST(RopeReference, ByHand) {
  // dim 4: frequencies 1 and θ^(-1/2) = 1/10. Rows are [batch 1, seq 2, heads 1], start 3.
  const auto x = [](int, std::int64_t i) { return static_cast<double>(i + 1); };
  const double c3 = std::cos(3.0), s3 = std::sin(3.0), c = std::cos(0.3), s = std::sin(0.3);
  const RopeProblem half = {.seq = 2, .dim = 4, .start = 3, .theta = 100};
  const PlainResult split = Plain(half, DType::kF32, x);
  EXPECT_NEAR(split.value[0], 1 * c3 - 3 * s3, 1e-14);
  EXPECT_NEAR(split.value[2], 3 * c3 + 1 * s3, 1e-14);
  EXPECT_NEAR(split.value[1], 2 * c - 4 * s, 1e-14);
  EXPECT_NEAR(split.value[3], 4 * c + 2 * s, 1e-14);
  EXPECT_NEAR(split.value[4], 5 * std::cos(4.0) - 7 * std::sin(4.0), 1e-14);
  RopeProblem neighbours = half;
  neighbours.interleaved = true;
  const PlainResult pairs = Plain(neighbours, DType::kF32, x);
  EXPECT_NEAR(pairs.value[0], 1 * c3 - 2 * s3, 1e-14);
  EXPECT_NEAR(pairs.value[1], 2 * c3 + 1 * s3, 1e-14);
  EXPECT_NEAR(pairs.value[3], 4 * c + 3 * s, 1e-14);
  const double u = 0x1p-24;
  EXPECT_NEAR(split.allowance[0], (1 + 3) * (3 * u * 4 + 12 * u), 1e-6 * u);
  const double turned = 0.3 * u * (24 + 8 * 0.5 * std::log(100.0) + 2);
  EXPECT_NEAR(split.allowance[1], (2 + 4) * (turned + 12 * u), 1e-6 * u);
}

TEST(RopeReference, HeadsShareAPositionAndSequencesBeginAnew) {
  const RopeProblem p = {.batch = 2, .seq = 3, .heads = 2, .dim = 2, .start = 5};
  const PlainResult r =
      Plain(p, DType::kF64, [](int, std::int64_t i) { return i % 2 == 0 ? 1.0 : 0.0; });
  for (std::int64_t row = 0; row < p.rows(); ++row) {
    const auto position = static_cast<double>(5 + row / 2 % 3);
    EXPECT_DOUBLE_EQ(r.value[static_cast<std::size_t>(2 * row)], std::cos(position));
    EXPECT_DOUBLE_EQ(r.value[static_cast<std::size_t>(2 * row + 1)], std::sin(position));
  }
}

TEST(RopeReference, NonFinitePairsHaveNoAllowanceAndSpoilNoOthers) {
  const RopeProblem p = {.seq = 2, .dim = 4};
  const PlainResult r = Plain(p, DType::kF32, [](int, std::int64_t i) {
    return i == 4 ? std::nan("") : i == 5 ? std::numeric_limits<double>::infinity() : 1.0;
  });
  EXPECT_TRUE(std::isnan(r.value[4]) && std::isnan(r.value[6]));
  EXPECT_EQ(r.allowance[4], 0);
  EXPECT_TRUE(std::isinf(r.value[5]) && std::isinf(r.value[7]));
  EXPECT_TRUE(std::isfinite(r.value[0]) && std::isfinite(r.value[3]));
  OperandStats infinite;
  infinite.inf_count = 1;
  EXPECT_NE(RopeOp().Undecided(MakeCase(p, DType::kF32), {&infinite, 1}), "");
  OperandStats nan;
  nan.nan_count = 1;
  EXPECT_EQ(RopeOp().Undecided(MakeCase(p, DType::kF32), {&nan, 1}), "");
}

TEST(RopeReference, FastIsPlainInEveryFormat) {
  const auto device = MakeCpuDevice(0, ArenaOptions{.max_bytes = 1 << 20});
  for (const DType t : kFloatFormats) {
    for (const bool interleaved : {false, true}) {
      for (const std::int64_t dim : {2, 6, 64, 130}) {
        const Case c = MakeCase(RopeProblem{.batch = 2,
                                            .seq = 7,
                                            .heads = 3,
                                            .dim = dim,
                                            .interleaved = interleaved,
                                            .start = 1000},
                                t);
        SCOPED_TRACE(DefaultName(c));
        const Plan plan = PlanOf(c);
        const Tensors tensors(plan, RandomValues(plan));
        const PlainResult plain = PlainReference(RopeOp(), c, plan, tensors);
        PlainResult fast{std::vector<double>(plain.value.size()),
                         std::vector<double>(plain.value.size())};
        ReferenceBuffers out{fast.value.data(), fast.allowance.data()};
        ASSERT_TRUE(RopeOp().Reference(c, plan, *device, tensors.views(), out).ok());
        EXPECT_EQ(fast.value, plain.value);
        EXPECT_EQ(fast.allowance, plain.allowance);
      }
    }
  }
}

// ---- the bound ----

// Angles as kernels compute them, in fp32.
using AngleForm = float (*)(float position, float pair, float dim, float theta);
constexpr AngleForm kAngles[] = {
    [](float p, float i, float dim, float theta) { return p * std::pow(theta, -2 * i / dim); },
    [](float p, float i, float dim, float theta) { return p * (1 / std::pow(theta, 2 * i / dim)); },
    [](float p, float i, float dim, float theta) { return p / std::pow(theta, 2 * i / dim); },
    [](float p, float i, float dim, float theta) {
      return p * std::exp2(-(2 * i / dim) * std::log2(theta));
    },
    [](float p, float i, float dim, float theta) {
      return p * std::exp(-2 * i * (std::log(theta) / dim));
    },
    // A fast exp: 2^(x·log2 e).
    [](float p, float i, float dim, float theta) {
      return p * std::exp2(-2 * i * (std::log(theta) / dim) * 1.4426950408889634F);
    },
};

// Cosine and sine in fp32: the library's, and after a reduction by one fp32 multiple of 2π.
struct Turn {
  float cosine, sine;
};
using TurnForm = Turn (*)(float angle);
constexpr TurnForm kTurns[] = {
    [](float a) {
      return Turn{std::cos(a), std::sin(a)};
    },
    [](float a) {
      const float whole = std::nearbyint(a * 0.15915494F);
      const float rest = std::fma(-whole, 6.2831853F, a);
      return Turn{std::cos(rest), std::sin(rest)};
    },
};

TEST(RopeBound, HoldsForEveryFormOfAKernelInEveryFormat) {
  std::mt19937_64 engine(8);
  std::normal_distribution<double> normal;
  for (const DType t : {DType::kF32, DType::kF16, DType::kBF16, DType::kE4M3FN}) {
    for (const double theta : {1.0, 1e4, 5e5, 1e7}) {
      for (const std::int64_t dim : {2, 64, 128}) {
        const RopeProblem p = {.seq = 1, .dim = dim, .theta = theta};
        const Case c = MakeCase(p, t);
        const Plan plan = PlanOf(c);
        const RopeTerms terms = MakeRopeTerms(p, t, plan);
        const DType out = plan.output.dtype;
        const OutputRounding rounding = OutputRoundingOf(out);
        for (const std::int64_t position : {0, 1, 7, 100, 4095, 32767, 131071, 1 << 20}) {
          for (std::int64_t i = 0; i < dim / 2; ++i) {
            const double angle = static_cast<double>(position) * RopeFrequency(terms, i);
            const double x1 = Quantise(normal(engine), t), x2 = Quantise(normal(engine), t);
            const RopePair right = MakeRopePair(terms, RopeError(terms, i, angle), std::cos(angle),
                                                std::sin(angle), x1, x2);
            const auto f1 = static_cast<float>(x1), f2 = static_cast<float>(x2);
            for (const AngleForm angle_of : kAngles) {
              for (const TurnForm turn : kTurns) {
                const Turn by = turn(angle_of(static_cast<float>(position), static_cast<float>(i),
                                              static_cast<float>(dim), static_cast<float>(theta)));
                const double got1 = Quantise(f1 * by.cosine - f2 * by.sine, out);
                const double got2 = Quantise(std::fma(f2, by.cosine, f1 * by.sine), out);
                ASSERT_LE(std::abs(got1 - right.first),
                          TBound(rounding, right.first, right.allowance))
                    << Name(t) << " θ " << theta << " dim " << dim << " position " << position
                    << " pair " << i;
                ASSERT_LE(std::abs(got2 - right.second),
                          TBound(rounding, right.second, right.allowance));
              }
            }
          }
        }
      }
    }
  }
}

// As ggml does it: each frequency is the one before times θ^(−2/dim), all in fp32.
TEST(RopeBound, HoldsForAChainOfFrequencies) {
  for (const auto& [dim, theta] :
       {std::pair(512, 1e4), std::pair(4096, 1e4), std::pair(1024, 1.5)}) {
    const RopeProblem p = {.seq = 1, .dim = dim, .theta = theta};
    const RopeTerms terms = MakeRopeTerms(p, DType::kF32, PlanOf(MakeCase(p, DType::kF32)));
    const float scale = std::pow(static_cast<float>(theta), -2.0F / static_cast<float>(dim));
    for (const float position : {1.0F, 4000.0F, 8000.0F}) {
      float chained = position;
      for (std::int64_t i = 0; i < dim / 2; ++i, chained *= scale) {
        const double angle = position * RopeFrequency(terms, i);
        ASSERT_LE(std::abs(chained - angle), RopeError(terms, i, angle)) << dim << ", pair " << i;
      }
    }
  }
}

// A case whose bound leaves an angle open says so, and one that does not is judged.
TEST(RopePlan, PositionsThatTheFormatCannotResolveProveLittle) {
  const auto vacuous = [](std::int64_t start, DType t) {
    return PlanOf(MakeCase(RopeProblem{.seq = 4, .dim = 128, .start = start}, t)).vacuous;
  };
  EXPECT_FALSE(vacuous(131072, DType::kBF16));
  EXPECT_TRUE(vacuous(1 << 20, DType::kF32));
  EXPECT_FALSE(vacuous(1 << 30, DType::kF64));
}

// A daemon plans what callers send: to look at each pair of the largest would take hours.
TEST(RopePlan, OfTheLargestHeadTakesNoLonger) {
  const Case c = MakeCase(RopeProblem{.seq = 1, .dim = kMaxExtent}, DType::kF32);
  EXPECT_FALSE(PlanOf(c).vacuous);  // position 0 turns by nothing
}

// In fp64 by another way than the reference's.
TEST(RopeBound, HoldsInFp64) {
  const RopeProblem p = {.seq = 1, .dim = 128};
  const RopeTerms terms = MakeRopeTerms(p, DType::kF64, PlanOf(MakeCase(p, DType::kF64)));
  for (const std::int64_t position : {1, 100, 4095, 1 << 20, 1 << 30}) {
    for (std::int64_t i = 0; i < 64; ++i) {
      const double angle = static_cast<double>(position) * RopeFrequency(terms, i);
      const double other =
          static_cast<double>(position) / std::pow(10000.0, 2 * static_cast<double>(i) / 128.0);
      const RopePair right = MakeRopePair(terms, RopeError(terms, i, angle), std::cos(angle),
                                          std::sin(angle), 0.7, -1.3);
      const double got = 0.7 * std::cos(other) + 1.3 * std::sin(other);
      ASSERT_LE(std::abs(got - right.first),
                TBound(OutputRoundingOf(DType::kF64), right.first, right.allowance));
    }
  }
}

// There each product loses up to half of the smallest number, and the reference does, too.
TEST(RopeBound, HoldsForSubnormalNumbersOfFp64) {
  const RopeProblem p = {.seq = 1, .dim = 128};
  const RopeTerms terms = MakeRopeTerms(p, DType::kF64, PlanOf(MakeCase(p, DType::kF64)));
  int different = 0;
  for (std::int64_t i = 0; i < 64; ++i) {
    const double angle = RopeFrequency(terms, i), cosine = std::cos(angle), sine = std::sin(angle);
    const double x1 = 0x1.23456789p-1040 * static_cast<double>(i + 1), x2 = -0x1.fedcbap-1041;
    const RopePair right = MakeRopePair(terms, RopeError(terms, i, angle), cosine, sine, x1, x2);
    const double whole = std::ldexp(x1, 100) * cosine - std::ldexp(x2, 100) * sine;
    const volatile double first = x1 * cosine, second = x2 * sine;
    const double once = std::ldexp(whole, -100), twice = first - second;  // so often rounded
    different += once == twice ? 0 : 1;
    const double bound = TBound(OutputRoundingOf(DType::kF64), right.first, right.allowance);
    ASSERT_LE(std::abs(once - right.first), bound) << i;
    ASSERT_LE(std::abs(twice - right.first), bound) << i;
  }
  EXPECT_GT(different, 0);
}

// A wrong position, base, sign or pairing is far beyond the bound, also at large positions.
TEST(RopeBound, TellsWrongAnglesApart) {
  const RopeProblem p = {.seq = 1, .dim = 128};
  const RopeTerms terms = MakeRopeTerms(p, DType::kBF16, PlanOf(MakeCase(p, DType::kBF16)));
  for (const std::int64_t position : {3, 4096, 131072}) {
    int next = 0, base = 0, sign = 0;
    for (std::int64_t i = 0; i < 64; ++i) {
      const double angle = static_cast<double>(position) * RopeFrequency(terms, i);
      const RopePair right = MakeRopePair(terms, RopeError(terms, i, angle), std::cos(angle),
                                          std::sin(angle), 0.75, -1.25);
      const double bound = TBound(OutputRoundingOf(DType::kBF16), right.first, right.allowance);
      const auto wrong = [&](double a) {
        const double got = Quantise(0.75 * std::cos(a) + 1.25 * std::sin(a), DType::kBF16);
        return std::abs(got - right.first) > bound ? 1 : 0;
      };
      next += wrong(angle + RopeFrequency(terms, i));
      base += wrong(static_cast<double>(position) * std::exp(-RopeShare(terms, i) * std::log(5e5)));
      sign += wrong(-angle);
    }
    EXPECT_GE(next, 10) << position;
    EXPECT_GE(base, 20) << position;
    EXPECT_GE(sign, 20) << position;
  }
}

// What passes through fp16 is infinite or 0 there, and what takes numbers near 0 for 0 shows.
TEST(RopeProbe, HasNumbersThatFp16DoesNotHold) {
  for (const DType t : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16}) {
    Case c = MakeCase(RopeProblem{.seq = 5, .dim = 8}, t);
    const std::vector<KernelProbe> probes = RopeOp().Probes(c, PlanOf(c));
    const Pattern zero = PlanOf(probes[0].data).inputs[0].pattern;
    const Pattern one = PlanOf(probes.back().data).inputs[0].pattern;
    if (t == DType::kF16) {
      EXPECT_GE(zero.a, Info(t).min_normal);
      EXPECT_LE(zero.b, 1e-4);
      EXPECT_EQ(one.a, 32768) << "a kernel that clips shows";
      continue;
    }
    EXPECT_GT(zero.b, 1e9);
    EXPECT_LT(one.a, 0x1p-25);
    c.intermediate_dtype = DType::kF16;
    EXPECT_EQ(RopeOp().Probes(c, PlanOf(MakeCase(c.problem, t)))[0].data.pattern, "integers:-8:8");
  }
}

// A kernel that reads some number of the format wrongly shows.
TEST(RopeProbe, HasEveryNumberOf8Bits) {
  for (const DType t : {DType::kE4M3FN, DType::kE5M2, DType::kE4M3FNUZ}) {
    const Case c = MakeCase(RopeProblem{.seq = 5, .dim = 8}, t);
    const KernelProbe probe = RopeOp().Probes(c, PlanOf(c))[0];
    const Plan plan = PlanOf(probe.data);
    EXPECT_TRUE(plan.exact);
    EXPECT_EQ(plan.inputs[0].pattern, kEveryFiniteNumber);
  }
}

TEST(RopeProbe, LooksAtPositionZeroAndAtEveryPair) {
  const RopeProblem p = {.batch = 3, .seq = 50, .heads = 4, .dim = 64, .start = 9000};
  const Case c = MakeCase(p, DType::kF16);
  const std::vector<KernelProbe> probes = RopeOp().Probes(c, PlanOf(c));
  ASSERT_EQ(probes.size(), 3u);
  const Plan still = *RopeOp().MakePlan(probes[0].data);
  EXPECT_TRUE(still.exact);
  const Tensors tensors(still, [](int, std::int64_t i) { return static_cast<double>(i % 17) - 8; });
  std::vector<double> value(static_cast<std::size_t>(still.output.extents.count()));
  RopeOp().ReferenceAt(probes[0].data, still, ViewInputs(tensors.views()),
                       AllIndices(still.output.extents.count()), value.data(), nullptr);
  for (std::size_t i = 0; i < value.size(); ++i) {
    EXPECT_EQ(value[i], static_cast<double>(i % 17) - 8) << "the angle is 0: the input itself";
  }
  const auto& few = std::get<RopeProblem>(probes.back().data.problem);
  EXPECT_EQ(few.start, 64) << "a small one, but not 0";
  EXPECT_EQ(few.rows(), 2 * 64) << "a 1 in every column twice";
  const PlainResult one_hot = Plain(
      few, DType::kF16, [&](int, std::int64_t i) { return i % 64 == i / 64 % 64 ? 1.0 : 0.0; });
  std::size_t zeros = 0;
  for (std::size_t i = 0; i < one_hot.value.size(); ++i) {
    zeros += one_hot.value[i] == 0.0 && one_hot.allowance[i] == 0.0;
  }
  // All but a cosine and a sine of each row, which is 0 at position 0.
  EXPECT_GE(zeros, one_hot.value.size() - 2 * 128);
}

}  // namespace
}  // namespace assay
