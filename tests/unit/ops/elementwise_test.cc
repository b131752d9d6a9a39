// elementwise: what a problem may say, the plan, the plain reference against arithmetic by hand,
// the fast one against it, and the bound against the usual forms of the kernels.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/numerics/bound.h"
#include "kernels/numerics/unit_places.h"
#include "kernels/ops/elementwise/elementwise_reference.h"
#include "kernels/runtime/device.h"
#include "tests/unit/ops/tensors.h"

namespace assay {
namespace {

using ::testing::ElementsAre;

constexpr double kInf = std::numeric_limits<double>::infinity();

ElementwiseProblem Of(std::string kind, std::int64_t rows, std::int64_t cols,
                      bool broadcast = false) {
  return {.rows = rows, .cols = cols, .kind = std::move(kind), .broadcast = broadcast};
}

constexpr const char* kKinds[] = {"add", "silu_mul", "gelu", "gelu_tanh"};

PlainResult Plain(const ElementwiseProblem& p, DType t,
                  const std::function<double(int, std::int64_t)>& values) {
  const Case c = MakeCase(p, t);
  const Plan plan = PlanOf(c);
  return PlainReference(ElementwiseOp(), c, plan, Tensors(plan, values));
}

TEST(ElementwiseProblem, SaysWhatIsWrong) {
  const auto wrong = [](const ElementwiseProblem& p) {
    std::vector<std::string> fields;
    for (const FieldError& e : p.Check()) fields.push_back(e.field + ": " + e.message);
    return fields;
  };
  EXPECT_THAT(wrong(Of("add", 2, 3, true)), ElementsAre());
  EXPECT_THAT(wrong(Of("gelu", 2, 0)), ElementsAre("cols: must be at least 1, got 0"));
  EXPECT_THAT(wrong(Of("relu", 2, 3)),
              ElementsAre("kind: must be add, silu_mul, gelu or gelu_tanh, got \"relu\""));
  EXPECT_THAT(wrong(Of("gelu", 2, 3, true)),
              ElementsAre("broadcast: must not be set: gelu has no second operand"));
}

TEST(ElementwisePlan, TheSecondOperandIsAMatrixARowOrNone) {
  const auto dims = [](const ElementwiseProblem& p) {
    const Plan plan = PlanOf(MakeCase(p, DType::kF16));
    return plan.inputs.size() > 1 ? plan.inputs[1].dims : std::vector<std::int64_t>();
  };
  EXPECT_THAT(dims(Of("add", 2, 3)), ElementsAre(2, 3));
  EXPECT_THAT(dims(Of("silu_mul", 2, 3, true)), ElementsAre(3));
  EXPECT_THAT(dims(Of("gelu", 2, 3)), ElementsAre());
}

TEST(ElementwiseReference, ByHand) {
  const auto values = [](int operand, std::int64_t i) -> double {
    constexpr double kA[] = {0, 1, -1, 2, -2, 0.5}, kB[] = {10, 20, 30, 40, 50, 60};
    return operand == 0 ? kA[i] : kB[i];
  };
  EXPECT_THAT(Plain(Of("add", 2, 3), DType::kF32, values).value,
              ElementsAre(10, 21, 29, 42, 48, 60.5));
  EXPECT_THAT(Plain(Of("add", 2, 3, true), DType::kF32, values).value,
              ElementsAre(10, 21, 29, 12, 18, 30.5));
  const auto silu = [](double a) { return a / (1 + std::exp(-a)); };
  const PlainResult gate = Plain(Of("silu_mul", 2, 3, true), DType::kF32, values);
  EXPECT_NEAR(gate.value[1], silu(1) * 20, 1e-14);
  EXPECT_NEAR(gate.value[4], silu(-2) * 20, 1e-14);
  const PlainResult gelu = Plain(Of("gelu", 2, 3), DType::kF32, values);
  EXPECT_NEAR(gelu.value[1], 0.8413447460685429, 1e-15);
  EXPECT_NEAR(gelu.value[4], -2 * 0.022750131948179195, 1e-15);
  const PlainResult tanh = Plain(Of("gelu_tanh", 2, 3), DType::kF32, values);
  EXPECT_NEAR(tanh.value[1], 0.5 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * 1.044715)),
              1e-15);
}

TEST(ElementwiseReference, AllowanceIsTheFormulasOne) {
  const double u = 0x1p-24;
  const auto one = [](int operand, std::int64_t) { return operand == 0 ? -2.0 : 3.0; };
  EXPECT_EQ(Plain(Of("add", 1, 1), DType::kF32, one).allowance[0], 0);
  const PlainResult gate = Plain(Of("silu_mul", 1, 1), DType::kF32, one);
  const double share = 1 / (1 + std::exp(-2.0));  // of an error of the exponential
  EXPECT_NEAR(gate.allowance[0], u * ((4 * 2 * share + 12) * std::abs(gate.value[0]) + 8 * 6),
              1e-6 * u);
  const PlainResult gelu = Plain(Of("gelu", 1, 1), DType::kF64, one);
  EXPECT_NEAR(gelu.allowance[0], 2 * 0x1p-53 * (16 * 2 + 4 * std::abs(gelu.value[0])), 1e-24);
}

// Any number is within an infinite allowance, and the judge says so. A NaN would blame the device.
TEST(ElementwiseReference, AllowanceBesideTheLargestNumbersIsNoNaN) {
  const auto at = [](const char* kind, double a, double b) {
    return Plain(Of(kind, 1, 1), DType::kF64,
                 [=](int operand, std::int64_t) { return operand == 0 ? a : b; });
  };
  constexpr double kLargest = std::numeric_limits<double>::max();
  const PlainResult beyond = at("silu_mul", -1e300, 1e300);
  EXPECT_EQ(beyond.value[0], 0);
  EXPECT_EQ(beyond.allowance[0], kInf);
  const PlainResult within = at("silu_mul", -kLargest, 0.5);
  EXPECT_EQ(within.value[0], 0);
  EXPECT_LT(within.allowance[0], 1e-14 * kLargest);
  for (const char* kind : {"gelu", "gelu_tanh"}) {
    for (const double a : {-kLargest, kLargest}) {
      EXPECT_LT(at(kind, a, 0).allowance[0], 1e-14 * kLargest) << kind << " " << a;
    }
  }
}

TEST(ElementwiseReference, WhatAKernelDeclaresWidensTheAllowance) {
  const Case c = MakeCase(Of("silu_mul", 1, 1), DType::kF32);
  Plan plan = PlanOf(c);
  const Tensors tensors(plan, [](int, std::int64_t) { return 1.0; });
  const PlainResult own = PlainReference(ElementwiseOp(), c, plan, tensors);
  plan.intermediate_roundoff = 0x1p-11;
  const double half = PlainReference(ElementwiseOp(), c, plan, tensors).allowance[0];
  EXPECT_NEAR(half - own.allowance[0], 0x1p-11, 1e-12);
  plan.intermediate_roundoff = 0;
  const Tensors tiny(plan, [](int, std::int64_t) { return 0x1p-110; });
  const double kept = PlainReference(ElementwiseOp(), c, plan, tiny).allowance[0];
  plan.flushes_subnormals = true;
  EXPECT_GT(PlainReference(ElementwiseOp(), c, plan, tiny).allowance[0], kept + 0x1p-127);
}

// Small numbers of bf16 that a kernel holds in fp16, whose steps near 0 are larger.
TEST(ElementwiseReference, ADeclaredFormatHasItsOwnSteps) {
  const double half_step = Info(DType::kF16).min_subnormal / 2;
  for (const char* kind : {"silu_mul", "gelu", "gelu_tanh"}) {
    const Case c = MakeCase(Of(kind, 1, 1), DType::kBF16);
    Plan plan = PlanOf(c);
    const Tensors tensors(plan, [](int operand, std::int64_t) { return operand == 0 ? 1e-6 : 1; });
    const double before = PlainReference(ElementwiseOp(), c, plan, tensors).allowance[0];
    plan.intermediate_step = 2 * half_step;
    const double after = PlainReference(ElementwiseOp(), c, plan, tensors).allowance[0];
    EXPECT_NEAR(after - before, 2 * half_step, 1e-3 * half_step) << kind;
  }
}

TEST(ElementwiseReference, NonFiniteElements) {
  const auto at = [](const char* kind, double a, double b) {
    return Plain(Of(kind, 1, 1), DType::kF32,
                 [=](int operand, std::int64_t) { return operand == 0 ? a : b; });
  };
  EXPECT_TRUE(std::isnan(at("add", kInf, -kInf).value[0]));
  EXPECT_EQ(at("silu_mul", kInf, 2).value[0], kInf);
  EXPECT_EQ(at("gelu", kInf, 0).value[0], kInf);
  EXPECT_EQ(at("gelu_tanh", kInf, 0).allowance[0], 0);
  for (const char* kind : {"silu_mul", "gelu", "gelu_tanh"}) {
    EXPECT_TRUE(std::isnan(at(kind, -kInf, 2).value[0])) << kind;
    EXPECT_TRUE(std::isnan(at(kind, std::nan(""), 2).value[0])) << kind;
    const Case c = MakeCase(Of(kind, 1, 1), DType::kF32);
    const OperandStats finite;
    OperandStats infinite;
    infinite.inf_count = 1;
    EXPECT_NE(ElementwiseOp().Undecided(c, {&infinite, 1}), "") << kind;
    EXPECT_EQ(ElementwiseOp().Undecided(c, {&finite, 1}), "") << kind;
    OperandStats nan;
    nan.nan_count = 1;
    EXPECT_EQ(ElementwiseOp().Undecided(c, {&nan, 1}), "") << kind << ": a NaN gives a NaN";
  }
}

TEST(ElementwiseReference, FastIsPlainInEveryFormat) {
  const auto device = MakeCpuDevice(0, ArenaOptions{.max_bytes = 1 << 20});
  for (const DType t : kFloatFormats) {
    for (const char* kind : kKinds) {
      for (const auto& [rows, cols] : {std::pair{1, 1}, {3, 7}, {2, 1500}}) {
        for (const bool broadcast : {false, true}) {
          const ElementwiseProblem p = Of(kind, rows, cols, broadcast);
          if (broadcast && !p.has_b()) continue;
          const Case c = MakeCase(p, t);
          SCOPED_TRACE(DefaultName(c));
          const Plan plan = PlanOf(c);
          const Tensors tensors(plan, RandomValues(plan));
          const PlainResult plain = PlainReference(ElementwiseOp(), c, plan, tensors);
          PlainResult fast{std::vector<double>(plain.value.size(), kInf),
                           std::vector<double>(plain.value.size(), kInf)};
          ReferenceBuffers out{fast.value.data(), fast.allowance.data()};
          ASSERT_TRUE(ElementwiseOp().Reference(c, plan, *device, tensors.views(), out).ok());
          EXPECT_EQ(fast.value, plain.value);
          EXPECT_EQ(fast.allowance, plain.allowance);
        }
      }
    }
  }
}

// ---- the bound ----

// exp as fast hardware has it: 2^(x·log2 e), with two roundings of the argument.
float FastExp(float x) { return std::exp2(x * 1.4426950408889634F); }
// Abramowitz and Stegun 7.1.26.
float RationalErf(float z) {
  const float t = 1 / (1 + 0.3275911F * std::abs(z));
  const float p = ((((1.061405429F * t - 1.453152027F) * t + 1.421413741F) * t - 0.284496736F) * t +
                   0.254829592F) *
                  t;
  return std::copysign(1 - p * FastExp(-z * z), z);
}
float Cubic(float x) { return 0.7978845608F * (x + 0.044715F * x * x * x); }
float TanhByExp(float t) { return 1 - 2 / (FastExp(2 * t) + 1); }

using Form = float (*)(float a, float b);

std::vector<Form> FormsOf(const std::string& kind) {
  if (kind == "add") return {[](float a, float b) { return a + b; }};
  if (kind == "silu_mul") {
    return {[](float a, float b) { return a / (1 + std::exp(-a)) * b; },
            [](float a, float b) { return a / (1 + FastExp(-a)) * b; },
            [](float a, float b) { return b * a * (1 / (1 + FastExp(-a))); },
            [](float a, float b) { return a * b / (1 + std::exp(-a)); },
            [](float a, float b) { return 0.5F * (1 + std::tanh(0.5F * a)) * a * b; },
            [](float a, float b) { return 0.5F * (1 + TanhByExp(0.5F * a)) * a * b; },
            // A quotient that is 0 where the divisor is above 2^126.
            [](float a, float b) {
              const float d = 1 + std::exp(-a);
              return d > 0x1p126F ? 0.0F : a / d * b;
            }};
  }
  if (kind == "gelu") {
    return {[](float a, float) { return 0.5F * a * (1 + std::erf(a * 0.70710678F)); },
            [](float a, float) { return a * (0.5F + 0.5F * std::erf(a / 1.41421356F)); },
            [](float a, float) { return 0.5F * a * (1 + RationalErf(a * 0.70710678F)); },
            [](float a, float) { return 0.5F * a * std::erfc(-a * 0.70710678F); }};
  }
  return {[](float a, float) { return 0.5F * a * (1 + std::tanh(Cubic(a))); },
          [](float a, float) { return 0.5F * a * (1 + TanhByExp(Cubic(a))); },
          [](float a, float) { return a / (1 + FastExp(-2 * Cubic(a))); },
          [](float a, float) {
            return 0.5F * a * (1 + std::tanh(0.7978845608F * a * (1 + 0.044715F * a * a)));
          }};
}

// The usual forms of a kernel, with fast approximations, on numbers of every size.
TEST(ElementwiseBound, HoldsForEveryFormOfAKernel) {
  std::mt19937_64 engine(5);
  std::normal_distribution<double> normal;
  std::vector<double> a, b;
  for (const double sigma : {1e-30, 1e-3, 0.3, 1.0, 3.0, 10.0, 60.0, 1000.0}) {
    for (int i = 0; i < 3000; ++i) {
      a.push_back(sigma * normal(engine));
      b.push_back(normal(engine) * std::exp2(i % 21 - 10));
    }
  }
  for (int i = 0; i < 4000; ++i) {  // around the overflow of exp
    a.push_back(-84 - i * 0.002);
    b.push_back(normal(engine));
  }
  for (const DType t : {DType::kF32, DType::kF16, DType::kBF16, DType::kE4M3FN}) {
    for (const char* kind : kKinds) {
      for (const DType out : {DType::kF32, DType::kF16, DType::kBF16}) {
        Case c = MakeCase(Of(kind, 1, static_cast<std::int64_t>(a.size())), t);
        c.out_dtype = out;
        if (!Check(c).empty()) continue;
        const Plan plan = PlanOf(c);
        const ElementwiseTerms terms =
            MakeElementwiseTerms(std::get<ElementwiseProblem>(c.problem), t, plan);
        const OutputRounding rounding = OutputRoundingOf(out);
        const std::vector<Form> forms = FormsOf(kind);
        for (std::size_t f = 0; f < forms.size(); ++f) {
          double worst = 0;
          for (std::size_t i = 0; i < a.size(); ++i) {
            const double x = Quantise(a[i], t), y = Quantise(b[i], t);
            const ElementwiseElement right = MakeElementwiseElement(terms, x, y);
            const double rounded = Quantise(right.value, out);
            if (!std::isfinite(rounded) || !std::isfinite(x) || !std::isfinite(y)) continue;
            const double got =
                Quantise(forms[f](static_cast<float>(x), static_cast<float>(y)), out);
            const double bound = TBound(rounding, right.value, right.allowance);
            const bool near_overflow = std::abs(right.value) + bound > Info(out).max_finite;
            if (near_overflow) continue;
            worst = std::max(worst, std::abs(got - right.value) / bound);
            ASSERT_LE(std::abs(got - right.value), bound)
                << kind << " form " << f << " " << Name(t) << "->" << Name(out) << " of " << x
                << ", " << y << ": " << got << ", right " << right.value;
          }
          // Not loose: the output's own rounding is a part of it that is used.
          if (out != DType::kF32) {
            EXPECT_GT(worst, 0.5) << kind << " form " << f;
          }
        }
      }
    }
  }
}

// The same in fp64, whose reference errs as much as a kernel does.
TEST(ElementwiseBound, HoldsInFp64) {
  std::mt19937_64 engine(6);
  std::normal_distribution<double> normal;
  const auto cubic = [](double x) { return 0.79788456080286536 * (x + 0.044715 * x * x * x); };
  for (const char* kind : kKinds) {
    const Case c = MakeCase(Of(kind, 1, 1), DType::kF64);
    const ElementwiseTerms terms =
        MakeElementwiseTerms(std::get<ElementwiseProblem>(c.problem), DType::kF64, PlanOf(c));
    for (int i = 0; i < 20000; ++i) {
      const double a = normal(engine) * std::exp2(i % 13 - 4), b = normal(engine);
      double got = a + b;
      if (terms.kind == ElementwiseKind::kSiluMul) {
        got = 0.5 * (1 + std::tanh(0.5 * a)) * a * b;
      } else if (terms.kind == ElementwiseKind::kGelu) {
        got = 0.5 * a * (1 + std::erf(a * 0.70710678118654752));
      } else if (terms.kind == ElementwiseKind::kGeluTanh) {
        got = 0.5 * a * (1 + std::tanh(cubic(a)));
      }
      const ElementwiseElement right = MakeElementwiseElement(terms, a, b);
      ASSERT_LE(std::abs(got - right.value),
                TBound(OutputRoundingOf(DType::kF64), right.value, right.allowance))
          << kind << " of " << a << ", " << b;
    }
  }
}

// silu(a) is a where exp(-a) is nothing.
TEST(ElementwiseBound, OfSiluHasNoRoomForAnExponentialThatIsNothing) {
  const Case c = MakeCase(Of("silu_mul", 1, 1), DType::kF32);
  const ElementwiseTerms terms =
      MakeElementwiseTerms(std::get<ElementwiseProblem>(c.problem), DType::kF32, PlanOf(c));
  for (const double a : {100.0, 1000.0, 1e30}) {
    EXPECT_LT(MakeElementwiseElement(terms, a, 1).allowance, 32 * 0x1p-24 * a) << a;
  }
}

// What the bound must tell apart even where the output has 16 bits.
TEST(ElementwiseBound, TellsWrongFormsApart) {
  const auto beyond = [](const char* kind, DType t, Form wrong) {
    const Case c = MakeCase(Of(kind, 1, 1), t);
    const Plan plan = PlanOf(c);
    const ElementwiseTerms terms =
        MakeElementwiseTerms(std::get<ElementwiseProblem>(c.problem), t, plan);
    int found = 0;
    for (int i = -40; i <= 40; ++i) {
      const double a = Quantise(i / 10.0, t), b = Quantise(1.25, t);
      const ElementwiseElement right = MakeElementwiseElement(terms, a, b);
      const double got = Quantise(wrong(static_cast<float>(a), static_cast<float>(b)), t);
      found +=
          std::abs(got - right.value) > TBound(OutputRoundingOf(t), right.value, right.allowance);
    }
    return found;
  };
  EXPECT_GT(beyond("gelu", DType::kF32, FormsOf("gelu_tanh")[0]), 60);
  EXPECT_GT(beyond("gelu", DType::kF16, FormsOf("gelu_tanh")[0]), 10);
  EXPECT_GT(beyond("gelu_tanh", DType::kBF16,
                   [](float a, float) { return a / (1 + std::exp(-1.702F * a)); }),
            20);
  EXPECT_GT(beyond("silu_mul", DType::kBF16, [](float a, float) { return a / (1 + std::exp(-a)); }),
            60);
}

// The exact cases: every form gives the same bits, and they are the reference's.
TEST(ElementwiseProbe, HasOneResultWhateverTheForm) {
  for (const DType t : kFloatFormats) {
    for (const char* kind : kKinds) {
      const Case c = MakeCase(Of(kind, 1, 1), t);
      const std::vector<KernelProbe> probes = ElementwiseOp().Probes(c, PlanOf(c));
      const bool add = std::string(kind) == "add";
      const std::size_t large = add && Info(t).storage_bits > 8 ? 1 : 0;
      const std::size_t nan = Info(t).storage_bits > 8 ? 1 : 0;
      ASSERT_EQ(probes.size(), (add ? 1 : 3) + large + nan + 1);
      EXPECT_EQ(probes.front().name, Info(t).storage_bits > 8 ? "small" : "every-number");
      EXPECT_EQ(probes.back().name, add ? "exact-integers" : "saturated");
      EXPECT_TRUE(Check(probes.back().data).empty());
      const Plan plan = *ElementwiseOp().MakePlan(probes.back().data);
      EXPECT_TRUE(plan.exact);
      const ElementwiseTerms terms =
          MakeElementwiseTerms(std::get<ElementwiseProblem>(c.problem), t, plan);
      const Pattern of_a = plan.inputs[0].pattern, of_b = plan.inputs.back().pattern;
      const double step = std::max(1.0, std::floor((of_a.b - of_a.a) / 32));
      const double step_b = of_b.b > 1 ? std::max(3.0, step) : (of_b.b - of_b.a) / 7;
      for (double a = of_a.a; a <= of_a.b; a += step) {
        for (double b = of_b.a; b <= of_b.b; b += step_b) {
          const double x = Quantise(a, t), y = Quantise(b, t);
          const double right =
              Quantise(MakeElementwiseElement(terms, x, y).value, plan.output.dtype);
          if (t == DType::kF64) continue;  // the forms are in fp32
          for (const Form form : FormsOf(kind)) {
            EXPECT_EQ(
                Quantise(form(static_cast<float>(x), static_cast<float>(y)), plan.output.dtype),
                right)
                << kind << " " << Name(t) << " of " << x << ", " << y;
          }
        }
      }
    }
  }
}

// A kernel that rounds the middle of two numbers away from 0 shows.
TEST(ElementwiseProbe, OfAnAdditionHasSumsInTheMiddleOfTwoNumbers) {
  for (const DType t : {DType::kF16, DType::kBF16}) {
    const Case c = MakeCase(Of("add", 1, 1), t);
    const Plan plan = PlanOf(ElementwiseOp().Probes(c, PlanOf(c)).back().data);
    const double most = plan.inputs[0].pattern.b;
    EXPECT_EQ(plan.inputs[0].pattern, (Pattern{PatternKind::kIntegers, -most, most}));
    EXPECT_EQ(Quantise(most - 1, t), most - 1);
    EXPECT_EQ(Quantise(2 * most - 1, t), 2 * most);
    EXPECT_EQ(Quantise(2 * most - 3, t), 2 * most - 4);
  }
  const Case c = MakeCase(Of("add", 1, 1), DType::kF32);
  EXPECT_EQ(ElementwiseOp().Probes(c, PlanOf(c)).back().data.pattern, "integers:-8:8");
}

// A kernel that reads some number of the format wrongly shows.
TEST(ElementwiseProbe, HasEveryNumberOf8Bits) {
  for (const char* kind : kKinds) {
    for (const DType t : {DType::kE4M3FN, DType::kE5M2, DType::kE4M3FNUZ}) {
      const Case c = MakeCase(Of(kind, 1, 1), t);
      const KernelProbe probe = ElementwiseOp().Probes(c, PlanOf(c)).front();
      ASSERT_EQ(probe.name, "every-number");
      const Plan plan = PlanOf(probe.data);
      EXPECT_FALSE(plan.exact);
      for (const Operand& x : plan.inputs) EXPECT_EQ(x.pattern, kEveryFiniteNumber);
    }
  }
}

// What passes through fp16 becomes infinite or 0 there, and what takes numbers near 0 for 0 shows:
// of a in one probe, of b in another.
TEST(ElementwiseProbe, HasNumbersThatFp16DoesNotHold) {
  for (const char* kind : kKinds) {
    for (const DType t : {DType::kF64, DType::kF32, DType::kTF32, DType::kBF16, DType::kF16}) {
      const Case c = MakeCase(Of(kind, 1, 1), t);
      const std::vector<KernelProbe> probes = ElementwiseOp().Probes(c, PlanOf(c));
      ASSERT_EQ(probes.front().name, "small") << kind << " " << Name(t);
      const Plan small = PlanOf(probes.front().data);
      const Pattern near_0 = small.inputs[0].pattern;
      EXPECT_LE(LargestMagnitude(near_0), t == DType::kF16 ? 1e-4 : 0x1p-25);
      if (std::string(kind) == "silu_mul") {
        EXPECT_EQ(PlanOf(probes.back().data).inputs[1].pattern, near_0);
      } else if (std::string(kind) == "add") {
        EXPECT_EQ(small.inputs[1].pattern, near_0);
      }
      if (t == DType::kF16) {
        // Whoever flushes fp16's own subnormal numbers does so by design.
        EXPECT_GE(near_0.a, Info(t).min_normal);
        continue;
      }
      double largest = 0;
      for (const KernelProbe& probe : probes) {
        if (probe.name == "nan") continue;
        largest = std::max(largest, LargestMagnitude(PlanOf(probe.data).inputs[0].pattern));
      }
      EXPECT_GT(largest, 1e9) << kind << " " << Name(t);
    }
  }
}

// silu(a)·b of bf16 numbers is rounded once more if a kernel holds it in bf16, too.
TEST(ElementwiseProbe, SaturatedAllowsTheRoundingsThatAKernelDeclares) {
  Case c = MakeCase(Of("silu_mul", 1, 1), DType::kBF16);
  c.out_dtype = DType::kF32;
  Plan plan = PlanOf(c);
  EXPECT_LT(ElementwiseOp().Probes(c, plan).back().deviation, 0x1p-20);
  plan.intermediate_roundoff = 0x1p-9;
  EXPECT_NEAR(ElementwiseOp().Probes(c, plan).back().deviation, 0x1p-9, 0x1p-20);
}

TEST(ElementwiseProbe, OfAKernelThatDeclaresFp16HasNoNumbersBeyondIt) {
  for (const char* kind : {"silu_mul", "gelu", "gelu_tanh"}) {
    Case c = MakeCase(Of(kind, 1, 1), DType::kBF16);
    const Plan plan = PlanOf(c);
    c.intermediate_dtype = DType::kF16;
    for (const KernelProbe& probe : ElementwiseOp().Probes(c, plan)) {
      EXPECT_NE(probe.name, "small");
      if (probe.name == "nan") continue;
      const Plan probed = *ElementwiseOp().MakePlan(probe.data);
      EXPECT_LT(LargestMagnitude(probed.inputs[0].pattern), 128) << probe.name;
    }
  }
}

}  // namespace
}  // namespace assay
