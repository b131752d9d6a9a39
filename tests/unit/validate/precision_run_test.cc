// Kernels that stay below the bound of every element, through the whole run of a case: right ones
// in several orders pass with all their bits, and each defect is found and named. Probes are off,
// so that only the errors of all elements together can tell.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/numerics/convert.h"
#include "kernels/providers/provider.h"
#include "kernels/text/cat.h"
#include "kernels/validate/runner.h"
#include "tests/outcome_text.h"
#include "tests/unit/judge/distorted.h"

namespace assay {
namespace {

using ::testing::HasSubstr;

// An element of an fp32 product from `k` values of a row and a column, both dense; `index` is the
// element's.
using Element =
    std::function<float(const float* a, const float* b, std::int64_t k, std::int64_t index)>;

class ElementKernel : public Kernel {
 public:
  ElementKernel(const Case& c, Element element)
      : problem_(std::get<GemmProblem>(c.problem)), element_(std::move(element)) {}

  absl::Status Launch(std::span<const TensorView> inputs, const TensorView& output) override {
    const auto& [m, n, k] = std::tuple(problem_.m, problem_.n, problem_.k);
    const float* const a = inputs[0].as<float>();
    const float* const b = inputs[1].as<float>();
    std::vector<float> column(static_cast<std::size_t>(k));
    for (std::int64_t j = 0; j < n; ++j) {
      for (std::int64_t i = 0; i < k; ++i) column[static_cast<std::size_t>(i)] = b[i * n + j];
      for (std::int64_t i = 0; i < m; ++i) {
        output.as<float>()[i * n + j] = element_(a + i * k, column.data(), k, i * n + j);
      }
    }
    return absl::OkStatus();
  }
  std::string implementation() const override { return ""; }

 private:
  const GemmProblem problem_;
  const Element element_;
};

Element* element_under_test = nullptr;

CaseOutcome Judged(std::int64_t k, const std::string& pattern, Element element,
                   const std::string& activation = "none") {
  element_under_test = &element;
  Registry registry;
  registry.Add(KernelEntry{
      .op = "gemm",
      .provider = "own",
      .backend = "cpu",
      .dtypes = {DType::kF32},
      .make = [](const Case& c, const Plan&, Device&) -> absl::StatusOr<std::unique_ptr<Kernel>> {
        return std::make_unique<ElementKernel>(c, *element_under_test);
      },
      .version = {},
      .unavailable_reason = {}});
  const std::unique_ptr<Device> device =
      MakeCpuDevice(0, ArenaOptions{.max_bytes = std::int64_t{128} << 20});
  Case c;
  c.problem = GemmProblem{.m = 40, .n = 48, .k = k, .activation = activation};
  c.dtype = DType::kF32;
  c.provider = "own";
  c.pattern = pattern;
  c.seed = 7;
  c.probes = false;
  PhaseObserver observer;
  return CaseRunner(*device, registry, nullptr).Run(c, observer);
}

float Sequential(const float* a, const float* b, std::int64_t k) {
  float sum = 0;
  for (std::int64_t i = 0; i < k; ++i) sum += a[i] * b[i];
  return sum;
}

float Pairwise(const float* a, const float* b, std::int64_t k) {
  if (k <= 2) return Sequential(a, b, k);
  return Pairwise(a, b, k / 2) + Pairwise(a + k / 2, b + k / 2, k - k / 2);
}

// x with so many bits of significand, the implicit one among them.
float Narrow(float x, int bits) {
  int exponent = 0;
  const double fraction = std::frexp(static_cast<double>(x), &exponent);
  return static_cast<float>(
      std::ldexp(std::nearbyint(std::ldexp(fraction, bits)), exponent - bits));
}

double Exact(const float* a, const float* b, std::int64_t k) {
  double sum = 0;
  for (std::int64_t i = 0; i < k; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

TEST(PrecisionRun, RightOrdersHaveAllTheirBits) {
  const std::pair<const char*, Element> orders[] = {
      {"sequential", [](auto* a, auto* b, auto k, auto) { return Sequential(a, b, k); }},
      {"pairwise", [](auto* a, auto* b, auto k, auto) { return Pairwise(a, b, k); }},
      {"fused",
       [](auto* a, auto* b, auto k, auto) {
         float sum = 0;
         for (std::int64_t i = 0; i < k; ++i) sum = std::fmaf(a[i], b[i], sum);
         return sum;
       }},
      {"split in 8",
       [](auto* a, auto* b, auto k, auto) {
         float sum = 0;
         for (int part = 0; part < 8; ++part) {
           sum += Sequential(a + part * k / 8, b + part * k / 8, (part + 1) * k / 8 - part * k / 8);
         }
         return sum;
       }},
      {"fp64", [](auto* a, auto* b, auto k, auto) { return static_cast<float>(Exact(a, b, k)); }},
  };
  for (const char* pattern :
       {"normal", "uniform", "uniform:-1:1", "normal:1:0.5", "all-positive"}) {
    for (const std::int64_t k : {1, 17, 256, 4096, 16384}) {
      for (const auto& [name, order] : orders) {
        const CaseOutcome outcome = Judged(k, pattern, order);
        SCOPED_TRACE(Cat(name, " ", pattern, " ", k));
        EXPECT_EQ(outcome.verdict, Verdict::kPassed) << Describe(outcome);
        ASSERT_TRUE(outcome.precision);
        EXPECT_EQ(outcome.precision->bits, 24) << Describe(outcome);
        EXPECT_EQ(outcome.precision->looks_like, "");
      }
    }
  }
}

// GELU is linear where its argument is large: there the errors of sums show.
TEST(PrecisionRun, SumsBehindGeluAreToldWhereItIsLinear) {
  const auto gelu = [](float x) { return 0.5f * x * (1 + std::erf(x * 0.70710678f)); };
  for (const std::int64_t k : {2, 64, 4096}) {
    const CaseOutcome right = Judged(
        k, "normal", [&](auto* a, auto* b, auto n, auto) { return gelu(Sequential(a, b, n)); },
        "gelu");
    EXPECT_EQ(right.verdict, Verdict::kPassed) << Describe(right);
    EXPECT_EQ(right.precision.has_value(), k > 2);  // few are so large
    if (right.precision) {
      EXPECT_EQ(right.precision->bits, 24) << Describe(right);
    }
  }
  const CaseOutcome narrow = Judged(
      16384, "normal",
      [&](auto* a, auto* b, auto n, auto) {
        double sum = 0;
        for (std::int64_t i = 0; i < n; ++i) {
          sum += static_cast<double>(Narrow(a[i], 11)) * static_cast<double>(Narrow(b[i], 11));
        }
        return gelu(static_cast<float>(sum));
      },
      "gelu");
  EXPECT_EQ(narrow.verdict, Verdict::kFailed) << Describe(narrow);
  ASSERT_TRUE(narrow.precision);
  EXPECT_THAT(narrow.precision->looks_like, HasSubstr("TF32"));
}

// Data of which the model does not hold get their figures, and no verdict.
TEST(PrecisionRun, ConstantDataAreNotJudged) {
  const CaseOutcome outcome = Judged(
      4096, "constant:1.1", [](auto* a, auto* b, auto k, auto) { return Sequential(a, b, k); });
  EXPECT_EQ(outcome.verdict, Verdict::kPassed) << Describe(outcome);
  ASSERT_TRUE(outcome.precision);
  EXPECT_GT(outcome.precision->rms, 2);
}

struct Defect {
  const char* name;
  Reason reason;
  const char* words;
  bool positive;  // found on uniform(0,1), too
  bool named;     // and called the same there
  Element element;
};

// Within the bound of every element from k = 4,096 or 8,192 on, and found by what all show
// together.
// Outputs of few values, or of a spread below a unit in the last place: their roundings repeat, and
// the reference that is rounded itself looks biased or too large.
TEST(PrecisionRun, RoundingsThatRepeatAccuseNobody) {
  Registry registry;
  RegisterAll(registry);
  const std::unique_ptr<Device> device =
      MakeCpuDevice(0, ArenaOptions{.max_bytes = std::int64_t{128} << 20});
  const auto run = [&](DType in, DType out, const GemmProblem& p, const char* pattern) {
    Case c;
    c.problem = p;
    c.dtype = in;
    c.out_dtype = out;
    c.provider = "builtin";
    c.pattern = pattern;
    c.seed = 1;
    c.probes = false;
    PhaseObserver observer;
    const CaseOutcome outcome = CaseRunner(*device, registry, nullptr).Run(c, observer);
    EXPECT_EQ(outcome.verdict, Verdict::kPassed) << DefaultName(c) << " " << Describe(outcome);
  };
  run(DType::kE2M1, DType::kBF16, {.m = 256, .n = 256, .k = 256, .scale_a = 0.1}, "");
  run(DType::kE2M1, DType::kBF16, {.m = 256, .n = 256, .k = 1, .alpha = 0.7}, "");
  run(DType::kBF16, DType::kBF16, {.m = 512, .n = 512, .k = 1, .alpha = 0.3}, "");
  run(DType::kBF16, DType::kBF16, {.m = 256, .n = 64, .k = 64, .bias = true}, "normal:0.001");
  run(DType::kF16, DType::kF16, {.m = 256, .n = 64, .k = 64, .bias = true}, "normal:0.001");
  run(DType::kE5M2, DType::kE5M2, {.m = 64, .n = 64, .k = 1000}, "all-positive");
  run(DType::kE4M3FN, DType::kE4M3FN, {.m = 64, .n = 64, .k = 1700}, "uniform:0:1");
}

TEST(PrecisionRun, DefectsBelowTheBoundAreFound) {
  const auto narrow_both = [](int bits) {
    return [bits](auto* a, auto* b, auto k, auto) {
      float sum = 0;
      for (std::int64_t i = 0; i < k; ++i) sum += Narrow(a[i], bits) * Narrow(b[i], bits);
      return sum;
    };
  };
  const auto gain = [](double factor) {
    return [factor](auto* a, auto* b, auto k, auto) {
      return static_cast<float>(factor * Exact(a, b, k));
    };
  };
  const Defect defects[] = {
      {"TF32 inputs", Reason::kPrecision, "TF32", true, true, narrow_both(11)},
      {"TF32 input A", Reason::kPrecision, "TF32", true, true,
       [](auto* a, auto* b, auto k, auto) {
         float sum = 0;
         for (std::int64_t i = 0; i < k; ++i) sum += Narrow(a[i], 11) * b[i];
         return sum;
       }},
      {"output through fp16", Reason::kPrecision, "output through", true, true,
       [](auto* a, auto* b, auto k, auto) { return Narrow(Sequential(a, b, k), 11); }},
      {"gain 3e-5", Reason::kStructure, "by a factor of 1 + 3e-05", true, true, gain(1 + 3e-5)},
      {"gain -2e-6", Reason::kStructure, "by a factor of 1 - 2e-06", false, false, gain(1 - 2e-6)},
      {"every addition truncates", Reason::kPrecision, "residuals are", true, false,
       [](auto* a, auto* b, auto k, auto) {
         float sum = 0;
         for (std::int64_t i = 0; i < k; ++i) {
           const double exact =
               static_cast<double>(sum) + static_cast<double>(a[i]) * static_cast<double>(b[i]);
           sum = static_cast<float>(exact);
           if (std::abs(static_cast<double>(sum)) > std::abs(exact)) {
             sum = std::nextafterf(sum, 0.0f);
           }
         }
         return sum;
       }},
      {"one row in TF32", Reason::kStructure, "the row at [11,0]", false, false,
       [=](auto* a, auto* b, auto k, auto index) {
         return index / 48 == 11 ? narrow_both(11)(a, b, k, index) : Pairwise(a, b, k);
       }},
      {"one column in TF32", Reason::kStructure, "column 5", false, false,
       [=](auto* a, auto* b, auto k, auto index) {
         return index % 48 == 5 ? narrow_both(11)(a, b, k, index) : Pairwise(a, b, k);
       }},
  };
  for (const std::int64_t k : {8192, 16384}) {
    for (const Defect& d : defects) {
      for (const char* pattern : {"normal", "uniform"}) {
        if (!d.positive && std::string(pattern) == "uniform") continue;
        const CaseOutcome outcome = Judged(k, pattern, d.element);
        SCOPED_TRACE(Cat(d.name, " ", pattern, " ", k));
        EXPECT_EQ(outcome.verdict, Verdict::kFailed) << Describe(outcome);
        ASSERT_FALSE(outcome.findings.empty());
        EXPECT_NE(outcome.next_step, "");
        // On positive data some of them are beyond the bound of elements as well.
        if (outcome.findings[0].reason == Reason::kBound) continue;
        if (std::string(pattern) == "normal" || d.named) {
          EXPECT_THAT(Describe(outcome), HasSubstr(d.words));
          EXPECT_EQ(outcome.findings[0].reason, d.reason) << Describe(outcome);
        }
      }
    }
  }
}

// That a transform may have been used excuses elements beyond the bound, and nothing else.
TEST(PrecisionRun, WhereNoElementIsBeyondItsBoundATransformExplainsNothing) {
  Case c;
  c.problem = ConvProblem{.channels = 16,
                          .filters = 16,
                          .input = {14, 14},
                          .kernel = {3, 3},
                          .stride = {},
                          .padding = {1},
                          .dilation = {}};
  c.dtype = DType::kF32;
  for (const double gain : {0.0, 1e-5}) {
    const CaseOutcome outcome =
        testing::RunDistorted(c, [gain](std::vector<double>& values, const Plan&) {
          for (double& v : values) v *= 1 + gain;
        });
    ASSERT_TRUE(outcome.compare.has_value());
    EXPECT_EQ(outcome.compare->beyond_proven, 0);
    EXPECT_EQ(outcome.verdict, gain > 0 ? Verdict::kFailed : Verdict::kPassed);
    if (gain == 0) continue;
    EXPECT_EQ(outcome.findings.at(0).reason, Reason::kStructure) << Describe(outcome);
  }
}

}  // namespace
}  // namespace assay
