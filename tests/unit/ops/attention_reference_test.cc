// attention: the plain reference against arithmetic by hand and identities, the
// fast one against it.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/ops/attention/attention_reference.h"
#include "kernels/ops/attention/attention_reference_cpu.h"
#include "kernels/ops/common/planning.h"
#include "tests/unit/ops/tensors.h"

namespace assay {
namespace {

struct FastResult {
  std::vector<double> value, allowance;
  double max_abs_score;
};

FastResult Fast(const Case& c, const Plan& plan, const Tensors& tensors) {
  const std::size_t count = static_cast<std::size_t>(plan.output.extents.count());
  FastResult fast{std::vector<double>(count, -1), std::vector<double>(count, -1), 0};
  fast.max_abs_score =
      AttentionReferenceCpu(c, plan, tensors.views(), fast.value.data(), fast.allowance.data());
  return fast;
}

void ExpectFastIsPlain(const Case& c, const std::function<double(int, std::int64_t)>& values = {}) {
  SCOPED_TRACE(DefaultName(c));
  const Plan plan = PlanOf(c);
  const Tensors tensors(plan, values ? values : RandomValues(plan));
  const PlainResult plain = PlainReference(AttentionOp(), c, plan, tensors);
  const FastResult fast = Fast(c, plan, tensors);
  for (std::size_t i = 0; i < fast.value.size(); ++i) {
    const std::int64_t index = static_cast<std::int64_t>(i);
    ExpectClose(fast.value[i], plain.value[i],
                1e-12 * plain.allowance[i] / (8 * plan.accumulator_roundoff), index);
    ExpectClose(fast.allowance[i], plain.allowance[i], 1e-9 * plain.allowance[i], index);
  }
}

AttentionProblem Small() {
  AttentionProblem p;
  p.batch = 2;
  p.heads = 3;
  p.seq = 21;
  p.dim = 10;
  return p;
}

TEST(AttentionReference, TwoKeysByHand) {
  AttentionProblem p;
  p.heads = 1;
  p.seq = 1;
  p.kv_seq = 2;
  p.dim = 1;
  p.scale = 2;
  const Case c = MakeCase(p, DType::kBF16);
  const Plan plan = PlanOf(c);
  const double q = 0.5, k[] = {1, -1}, v[] = {3, 5};
  const Tensors tensors(plan, [&](int operand, std::int64_t i) {
    return operand == 0 ? q : (operand == 1 ? k : v)[i];
  });
  const PlainResult plain = PlainReference(AttentionOp(), c, plan, tensors);
  // Scores 1 and -1: weights 1/(1 + e^-2) and its complement.
  const double p0 = 1 / (1 + std::exp(-2.0)), p1 = 1 - p0;
  const double r = p0 * 3 + p1 * 5;
  EXPECT_NEAR(plain.value[0], r, 1e-14);
  const double u = 0x1p-24, up = 0x1p-8;
  const double c_d = 8 * u, c_n = 10 * u;  // 8·√1 < γ_9, but γ_10 < 8·√2
  const double delta = c_d * 0.5 * 2 + u;  // |q||k|·scale = 1, |s| = 1, for both keys
  const double e0 = up + c_n + 8 * u + 2 * delta, e1 = e0 + 2 * u * 2;
  const double expected = p0 * e0 * 3 + p1 * e1 * 5 + r * (p0 * (e0 - up) + p1 * (e1 - up)) +
                          0x1p-126 * 8 / (1 + std::exp(-2.0));
  EXPECT_NEAR(plain.allowance[0], expected, 1e-6 * expected);
  const FastResult fast = Fast(c, plan, tensors);
  EXPECT_EQ(fast.max_abs_score, 1.0);
}

TEST(AttentionReference, FirstCausalRowIsTheFirstValue) {
  AttentionProblem p = Small();
  p.causal = true;
  const Case c = MakeCase(p, DType::kF32);
  const Plan plan = PlanOf(c);
  const Tensors tensors(plan, RandomValues(plan));
  const PlainResult plain = PlainReference(AttentionOp(), c, plan, tensors);
  const FastResult fast = Fast(c, plan, tensors);
  const float* v = tensors.views()[2].as<float>();
  for (std::int64_t head = 0; head < 6; ++head) {
    for (std::int64_t d = 0; d < p.dim; ++d) {
      const std::size_t at = static_cast<std::size_t>(head * p.seq * p.dim + d);
      EXPECT_EQ(plain.value[at], static_cast<double>(v[at]));
      EXPECT_EQ(fast.value[at], static_cast<double>(v[at]));
    }
  }
}

TEST(AttentionReference, LastCausalRowIsTheLastRowWithoutCausality) {
  AttentionProblem p = Small();
  const Case full = MakeCase(p, DType::kF16);
  p.causal = true;
  const Case causal = MakeCase(p, DType::kF16);
  const Plan plan = PlanOf(full);
  const Tensors tensors(plan, RandomValues(plan));
  const PlainResult a = PlainReference(AttentionOp(), full, plan, tensors);
  const PlainResult b = PlainReference(AttentionOp(), causal, plan, tensors);
  for (std::int64_t d = 0; d < p.dim; ++d) {
    const std::size_t at = static_cast<std::size_t>((p.seq - 1) * p.dim + d);
    EXPECT_EQ(a.value[at], b.value[at]);
    EXPECT_EQ(a.allowance[at], b.allowance[at]);
  }
}

TEST(AttentionReference, ConstantValuesComeBack) {
  AttentionProblem p = Small();
  p.mask_density = 0.5;
  const Case c = MakeCase(p, DType::kF32);
  const Plan plan = PlanOf(c);
  auto random = RandomValues(plan);
  const Tensors tensors(
      plan, [&](int operand, std::int64_t i) { return operand == 2 ? 7.0 : random(operand, i); });
  for (double v : Fast(c, plan, tensors).value) EXPECT_NEAR(v, 7.0, 1e-13);
}

// One query with `keys` keys of equal scores, V ±1 or all 1: E by hand, from the factors
// of both sums.
double EqualKeysAllowance(const AttentionProblem& p, DType t, double r, double c_n, double c_d) {
  const Arithmetic a = ArithmeticOf(t);
  const double absolute = p.Scale(t) * static_cast<double>(p.dim);  // |q|·|k|·scale
  const double epsilon = c_n + 8 * a.u + 2 * (c_d * absolute + a.u * absolute);
  const double half_step = 0.5 * Info(t).min_subnormal;
  const double divided = Info(t).storage_bits == 16 ? half_step : 0.0;
  const double flush =
      std::max({half_step, a.min_normal, divided * static_cast<double>(p.KvSeq())});
  return a.times * (Info(t).unit_roundoff + epsilon + r * epsilon + flush);
}

// The proven factor covers the proven allowance of every element and is no more than
// twice what that takes: rounding P to 8 bits is not multiplied.
TEST(AttentionReference, ProvenFactorIsProvenAndTight) {
  for (const DType t : kFloatFormats) {
    for (const std::int64_t keys : {2, 64, 16384}) {
      for (const double scale : {1e-3, 0.05}) {
        for (const bool cancels : {false, true}) {
          const AttentionProblem p{
              .heads = 1, .seq = 1, .kv_seq = keys, .dim = 128, .scale = scale};
          const Case c = MakeCase(p, t);
          SCOPED_TRACE(testing::Message() << DefaultName(c) << (cancels ? " cancels" : ""));
          const Plan plan = PlanOf(c);
          const Tensors tensors(plan, [&](int operand, std::int64_t i) {
            return operand == 2 && cancels && i / p.dim % 2 != 0 ? -1.0 : 1.0;
          });
          const PlainResult plain = PlainReference(AttentionOp(), c, plan, tensors);
          const double u = plan.accumulator_roundoff;
          const double r = cancels ? 0 : 1;
          const double probable =
              EqualKeysAllowance(p, t, r, ProbableFactor(keys, u), ProbableFactor(p.dim, u));
          ASSERT_NEAR(plain.allowance[0], probable, 1e-9 * probable);
          const double proven =
              EqualKeysAllowance(p, t, r, ProvenFactor(keys, u), ProvenFactor(p.dim, u));
          EXPECT_GE(plan.proven_factor * probable, proven * (1 - 1e-12));
          // What many weights in fp16 lose to underflow is multiplied, too.
          const bool small = t == DType::kF16 && keys > 8192;
          EXPECT_LE(plan.proven_factor * probable, (small ? 2.2 : 2.0) * proven);
        }
      }
    }
  }
}

// If no score is large enough to decide a weight, a kernel that reads neither Q nor K passes.
TEST(AttentionReference, ScoresNearOneAnotherProveLittle) {
  AttentionProblem p{.heads = 2, .seq = 8, .dim = 64};
  p.scale_q = p.scale_k = 0.01;
  const auto why = [&](DType dtype, const std::string& pattern = "", bool probed = true) {
    Case c = MakeCase(p, dtype);
    c.pattern = pattern;
    c.probes = probed;
    return AttentionOp().ProvesLittle(c, PlanOf(c));
  };
  EXPECT_NE(why(DType::kE4M3FN), "");
  EXPECT_NE(why(DType::kE4M3FNUZ), "");
  EXPECT_EQ(why(DType::kE4M3FN, "normal:64"), "");
  EXPECT_EQ(why(DType::kBF16), "") << "exact cases have large scores";
  EXPECT_EQ(why(DType::kBF16, "normal:0.01"), "") << "exact cases have large scores";
  EXPECT_NE(why(DType::kBF16, "normal:0.01", false), "") << "none runs";
  p.kv_seq = 1;
  EXPECT_EQ(why(DType::kE4M3FN), "") << "one key";
  p.kv_seq = 0;
  p.scale_q = p.scale_k = 1;
  EXPECT_EQ(why(DType::kE4M3FN), "");
  EXPECT_EQ(why(DType::kE4M3FN, "normal:0.01"), "") << "exact cases have large scores";
}

// Keys of small whole numbers with equal sums, times queries that are constant in a row: equal
// scores, which fp64 rounds apart, in each order of the sum another way. Whichever is the largest
// then, the device's allowance is no more than the host's.
TEST(AttentionReference, EqualScoresThatAreRoundedApartDoNotForgive) {
  const Case c = MakeCase(AttentionProblem{.heads = 2, .seq = 28, .dim = 15}, DType::kF64);
  const Plan plan = PlanOf(c);
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    std::mt19937_64 engine(seed);
    std::vector<double> rows(56);
    for (double& row : rows) row = std::normal_distribution<double>()(engine);
    std::uniform_int_distribution<int> small(-3, 3);
    const Tensors tensors(plan, [&](int operand, std::int64_t i) -> double {
      return operand == 0 ? rows[static_cast<std::size_t>(i / 15)] : small(engine);
    });
    const PlainResult plain = PlainReference(AttentionOp(), c, plan, tensors);
    const FastResult fast = Fast(c, plan, tensors);
    for (std::size_t i = 0; i < fast.value.size(); ++i) {
      ASSERT_LE(fast.allowance[i], 1.01 * plain.allowance[i]) << "seed " << seed << " at " << i;
      ASSERT_LE(std::abs(fast.value[i] - plain.value[i]), plain.allowance[i]);
    }
  }
}

TEST(AttentionReference, FastIsPlainInEveryFormat) {
  for (DType t : kFloatFormats) {
    ExpectFastIsPlain(MakeCase(Small(), t));
    AttentionProblem p = Small();
    p.causal = true;
    p.scale_q = 0.5;
    p.scale_k = -3;
    p.scale_v = 0.7;
    ExpectFastIsPlain(MakeCase(p, t));
  }
}

// The scales multiply the stored values: the same as storing the products.
TEST(AttentionReference, ScalesAreThoseOfTheOperands) {
  AttentionProblem p = Small();
  const Case plain = MakeCase(p, DType::kF32);
  p.scale_q = 2;
  p.scale_k = 0.25;
  p.scale_v = -8;
  const Case scaled = MakeCase(p, DType::kF32);
  const Plan plan = PlanOf(plain);
  const auto value = [](int operand, std::int64_t i) {
    return std::sin(static_cast<double>(i * 7 + operand)) * 4;
  };
  const Tensors stored(plan, [&](int operand, std::int64_t i) {
    const float factors[] = {2.0f, 0.25f, -8.0f};
    return static_cast<double>(static_cast<float>(value(operand, i)) * factors[operand]);
  });
  const PlainResult want = PlainReference(AttentionOp(), plain, plan, stored);
  const PlainResult got = PlainReference(AttentionOp(), scaled, plan, Tensors(plan, value));
  for (std::size_t i = 0; i < want.value.size(); ++i) {
    EXPECT_NEAR(got.value[i], want.value[i], 1e-12 * std::abs(want.value[i]));
    // Three more roundings, none of them free, none of them dear.
    EXPECT_GT(got.allowance[i], want.allowance[i]);
    EXPECT_LT(got.allowance[i], 2 * want.allowance[i]);
  }
}

TEST(AttentionReference, FastIsPlainOnAwkwardProblems) {
  AttentionProblem p = Small();
  p.causal = true;
  ExpectFastIsPlain(MakeCase(p, DType::kBF16));
  p.kv_seq = 33;  // later keys: all queries see the first twelve
  ExpectFastIsPlain(MakeCase(p, DType::kF16));
  p.heads = 6;
  p.kv_heads = 2;
  p.mask_density = 0.5;
  ExpectFastIsPlain(MakeCase(p, DType::kF32));
  p.causal = false;
  p.scale = -0.37;
  ExpectFastIsPlain(MakeCase(p, DType::kF32));
  p = AttentionProblem{};
  p.heads = 1;
  p.seq = 230;  // three blocks of queries, two of keys
  p.dim = 33;
  p.causal = true;
  ExpectFastIsPlain(MakeCase(p, DType::kF32));
  p.seq = p.dim = 1;
  ExpectFastIsPlain(MakeCase(p, DType::kF32));
  p.seq = 2;
  p.kv_seq = 4500;  // the smaller blocks
  ExpectFastIsPlain(MakeCase(p, DType::kF32));
}

// The same number for an index each time it is asked.
double Wave(int operand, std::int64_t i) {
  return 1.5 * std::sin(static_cast<double>(i * 37 % 1009 + operand));
}

// Queries that begin again, as those of probes do, are computed once.
TEST(AttentionReference, RepeatedQueriesHaveTheirOwnResults) {
  AttentionProblem p = Small();
  p.kv_seq = 33;
  const Case c = MakeCase(p, DType::kF32);
  for (const std::int64_t period : {1, 4, 7, 20}) {
    // In one head the period ends early: a query differs.
    const auto repeated = [&](int operand, std::int64_t i) {
      if (operand != 0) return Wave(operand, i);
      const std::int64_t head = i / (p.seq * p.dim), query = i / p.dim % p.seq;
      if (head == 2 && i == ((head + 1) * p.seq - 1) * p.dim) return 2.5;
      return Wave(0, (head * p.seq + query % period) * p.dim + i % p.dim);
    };
    ExpectFastIsPlain(c, repeated);
    AttentionProblem causal = p;
    causal.causal = true;
    ExpectFastIsPlain(MakeCase(causal, DType::kF32), repeated);
    AttentionProblem masked = p;
    masked.mask_density = 0.5;
    ExpectFastIsPlain(MakeCase(masked, DType::kF32), [&](int operand, std::int64_t i) {
      return operand == 3 ? static_cast<double>(i % 3 != 0) : repeated(operand, i);
    });
  }
}

// Scores that are single products, beside queries of 0, of two elements, and keys that 0 times is
// NaN.
TEST(AttentionReference, QueriesOfOneElementHaveTheirOwnResults) {
  const double inf = std::numeric_limits<double>::infinity();
  AttentionProblem p;
  p.heads = 1;
  p.seq = 230;
  p.dim = 33;
  for (const bool causal : {false, true}) {
    p.causal = causal;
    const Case c = MakeCase(p, DType::kF32);
    const auto units = [&](int operand, std::int64_t i) {
      const std::int64_t query = i / p.dim, at = i % p.dim;
      if (operand != 0) return Wave(operand, i);
      return query % 11 != 0 && at == query * 7 % p.dim ? Wave(0, i) : 0.0;
    };
    ExpectFastIsPlain(c, units);
    ExpectFastIsPlain(c, [&](int operand, std::int64_t i) {
      return operand == 0 && i == 100 * p.dim + 3 ? 1.0 : units(operand, i);
    });
    for (const double odd : {inf, std::nan("")}) {
      ExpectFastIsPlain(c, [&](int operand, std::int64_t i) {
        return operand == 1 && i == 50 * p.dim + 3 ? odd : units(operand, i);
      });
    }
  }
}

TEST(AttentionReference, QueriesWithoutAKeyFollowThePolicy) {
  AttentionProblem p = Small();
  p.causal = true;
  p.kv_seq = 9;  // the first twelve queries see nothing
  for (const char* policy : {"zero", "nan"}) {
    p.masked_rows = policy;
    const Case c = MakeCase(p, DType::kF32);
    ExpectFastIsPlain(c);
    const Plan plan = PlanOf(c);
    const FastResult fast = Fast(c, plan, Tensors(plan, RandomValues(plan)));
    for (std::int64_t i = 0; i < 12 * p.dim; ++i) {
      const double v = fast.value[static_cast<std::size_t>(i)];
      EXPECT_TRUE(p.masked_rows == "zero" ? v == 0.0 : std::isnan(v));
      EXPECT_EQ(fast.allowance[static_cast<std::size_t>(i)], 0.0);
    }
  }
}

TEST(AttentionReference, NonFiniteScoresAndValuesFollowIeee) {
  const double inf = std::numeric_limits<double>::infinity();
  AttentionProblem p = Small();
  p.causal = true;
  const Case c = MakeCase(p, DType::kF32);
  const Plan plan = PlanOf(c);
  // A NaN and an Inf in V spread to the queries that see them and to no other.
  auto random = RandomValues(plan);
  const auto in_v = [&](int operand, std::int64_t i) {
    if (operand == 2 && i == 5 * p.dim + 3) return inf;
    if (operand == 2 && i == 8 * p.dim + 4) return std::nan("");
    return random(operand, i);
  };
  {
    const Tensors tensors(plan, in_v);
    const FastResult fast = Fast(c, plan, tensors);
    const PlainResult plain = PlainReference(AttentionOp(), c, plan, tensors);
    for (std::size_t i = 0; i < fast.value.size(); ++i) {
      ExpectClose(fast.value[i], plain.value[i], 1e-9, static_cast<std::int64_t>(i));
    }
    EXPECT_TRUE(std::isfinite(fast.value[static_cast<std::size_t>(4 * p.dim + 3)]));
    EXPECT_EQ(fast.value[static_cast<std::size_t>(5 * p.dim + 3)], inf);
    EXPECT_TRUE(std::isnan(fast.value[static_cast<std::size_t>(8 * p.dim + 4)]));
  }
  // An infinite key makes NaN of every query that sees it, or weighs nothing.
  const auto in_k = [&](int operand, std::int64_t i) {
    if (operand == 1 && i == 5 * p.dim) return inf;
    return operand == 0 ? (i % p.dim == 0 && i / p.dim % 2 == 0 ? -1.0 : 1.0) : 0.5;
  };
  const Tensors tensors(plan, in_k);
  const FastResult fast = Fast(c, plan, tensors);
  EXPECT_NEAR(fast.value[static_cast<std::size_t>(6 * p.dim)], 0.5, 1e-13);  // score -inf
  EXPECT_TRUE(std::isnan(fast.value[static_cast<std::size_t>(7 * p.dim)]));  // score +inf
  EXPECT_EQ(fast.max_abs_score, inf);
  ExpectFastIsPlain(c, in_k);
}

TEST(AttentionReference, LargeScoresUnderflowToNothing) {
  AttentionProblem p = Small();
  p.scale = 300;
  ExpectFastIsPlain(MakeCase(p, DType::kF16));
}

// r and D of a case whose P is rounded to a format of this roundoff, and whose output is rounded to
// another.
struct Directed {
  std::vector<double> value;
  std::vector<float> direction;
};

Directed DirectionOf(const AttentionProblem& p, double p_roundoff, DType output = DType::kF32) {
  const Case c = MakeCase(p, DType::kF32);
  const Plan plan = PlanOf(c);
  const Tensors tensors(plan, RandomValues(plan));
  const std::size_t count = static_cast<std::size_t>(plan.output.extents.count());
  Directed out{std::vector<double>(count), std::vector<float>(count, -1)};
  std::vector<double> allowance(count);
  std::vector<float> deviation(count);
  AttentionSpread spread;
  spread.model.p_roundoff = p_roundoff;
  spread.model.steps = OutputStepsOf(output);
  spread.deviation = deviation.data();
  spread.direction = out.direction.data();
  AttentionReferenceCpu(c, plan, tensors.views(), out.value.data(), allowance.data(), spread);
  return out;
}

// Each element's D is its change with the scale, of every query of a problem that is small.
TEST(AttentionReference, TheDirectionIsTheChangeWithTheScale) {
  AttentionProblem p = Small();
  p.scale = 0.5;
  const Directed at = DirectionOf(p, 0);
  constexpr double kStep = 0x1p-12;  // exact in fp32, as the scale is
  p.scale = 0.5 * (1 + kStep);
  const Directed above = DirectionOf(p, 0);
  p.scale = 0.5 * (1 - kStep);
  const Directed below = DirectionOf(p, 0);
  for (std::size_t i = 0; i < at.value.size(); ++i) {
    const double change = (above.value[i] - below.value[i]) / (2 * kStep);
    EXPECT_NEAR(static_cast<double>(at.direction[i]), change, 1e-6) << i;
  }
}

// A long problem has the direction of a dozen queries of each block.
TEST(AttentionReference, LargeProblemsHaveTheDirectionOfSomeQueries) {
  AttentionProblem p;
  p.heads = 1;
  p.seq = 1056;
  p.kv_seq = 40;
  p.dim = 32;
  const auto directed = [&] {
    std::int64_t n = 0;
    for (const float d : DirectionOf(p, 0).direction) n += d != 0 ? 1 : 0;
    return n / p.dim;
  };
  EXPECT_EQ(directed(), 12 * p.seq / 96);
  p.seq = 1024;
  EXPECT_EQ(directed(), p.seq);
}

// Weights of 1 and more than 64 steps of P's format beside it tell the scale, others do not.
TEST(AttentionReference, NearlyEqualWeightsHaveNoDirection) {
  AttentionProblem p = Small();
  p.scale = 0x1p-6;
  const auto largest = [&](double p_roundoff) {
    float most = 0;
    for (const float d : DirectionOf(p, p_roundoff).direction) most = std::max(most, std::abs(d));
    return most;
  };
  EXPECT_GT(largest(0), 0);
  EXPECT_GT(largest(0x1p-13), 0);
  EXPECT_EQ(largest(0x1p-8), 0);
}

// Outputs that follow the scores within a few steps of their format tell no scale.
TEST(AttentionReference, OutputsWithinAFewStepsHaveNoDirection) {
  AttentionProblem p = Small();
  const auto directed = [&](double scale, DType output) {
    p.scale = scale;
    const std::vector<float> direction = DirectionOf(p, 0, output).direction;
    return std::any_of(direction.begin(), direction.end(), [](float d) { return d != 0; });
  };
  EXPECT_TRUE(directed(0x1p-3, DType::kBF16));
  EXPECT_FALSE(directed(0x1p-10, DType::kBF16));
  EXPECT_TRUE(directed(0x1p-10, DType::kF32));
}

// In 8 bits vectors must be long enough that scores differ, and elements of a row share a gain.
TEST(AttentionResiduals, In8Bits) {
  AttentionProblem p;
  p.heads = 4;
  p.seq = 64;
  const auto model = [&](std::int64_t dim, DType input, DType output) {
    p.dim = dim;
    Case c = MakeCase(p, input);
    c.out_dtype = output;
    return AttentionOp().Residuals(c, PlanOf(c));
  };
  EXPECT_FALSE(model(15, DType::kE4M3FN, DType::kF32).known);
  EXPECT_TRUE(model(15, DType::kF16, DType::kF32).known);
  const ResidualModel narrow = model(16, DType::kE4M3FN, DType::kBF16);
  EXPECT_TRUE(narrow.known && narrow.gates);
  EXPECT_DOUBLE_EQ(narrow.gain_floor, 3 * 0x1p-8 + 8 * narrow.roundoff);
  EXPECT_DOUBLE_EQ(narrow.gain_of_row, 1.25 * 0x1p-4);
  // e4m3 holds a few values of such data only.
  Case few = MakeCase(p, DType::kE4M3FN);
  few.out_dtype = DType::kBF16;
  for (const auto& [pattern, gates] : {std::pair("normal:0.03", false), {"normal:0.04", true}}) {
    few.pattern = pattern;
    EXPECT_EQ(AttentionOp().Residuals(few, PlanOf(few)).gates, gates) << pattern;
  }
  const ResidualModel wide = model(16, DType::kF16, DType::kF32);
  EXPECT_NEAR(wide.gain_floor, 0x1p-11 + 8 * wide.roundoff, 1e-8);
  EXPECT_DOUBLE_EQ(wide.gain_of_row, 2 * wide.roundoff * 8);  // of 64 keys
}

// A query whose weights are lost where P is e4m3 without a factor has no deviation in 8 bits.
TEST(AttentionResiduals, In8BitsQueriesThatLoseWeightsDoNotCount) {
  AttentionProblem p = Small();
  p.heads = 1;
  p.seq = 2;
  p.kv_seq = 160;
  p.dim = 16;
  p.scale = 1;
  const Case c = MakeCase(p, DType::kE4M3FN);
  const Plan plan = PlanOf(c);
  // The scores of query 0 are 8 for 16 keys and then 0, those of query 1 are 4 and 0.
  const Tensors tensors(plan, [](int operand, std::int64_t i) {
    if (operand == 0) return i == 0 ? 8.0 : i == 16 ? 4.0 : 0.0;
    if (operand == 1) return i % 16 == 0 && i < 256 ? 1.0 : 0.0;
    return i % 2 == 0 ? 1.0 : -0.5;
  });
  const auto count = static_cast<std::size_t>(plan.output.extents.count());
  std::vector<double> value(count), allowance(count);
  std::vector<float> deviation(count), direction(count);
  const AttentionSpread spread{MakeAttentionDeviation(c, plan), deviation.data(), direction.data()};
  AttentionReferenceCpu(c, plan, tensors.views(), value.data(), allowance.data(), spread);
  for (std::size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(deviation[i], 0) << i;
    EXPECT_GT(deviation[16 + i], 0) << i;
  }
}

}  // namespace
}  // namespace assay
