// The text form of patterns: what it accepts, what it says otherwise.
#include "kernels/numerics/pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace assay {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(std::string_view text) {
  std::string error;
  EXPECT_FALSE(ParsePattern(text, &error).has_value()) << text;
  return error;
}

TEST(PatternText, EveryKindParsesByNameAndPrintsBack) {
  for (const PatternInfo& info : Patterns()) {
    if (info.for_probes) continue;
    std::string error;
    const auto pattern = ParsePattern(info.name, &error);
    ASSERT_TRUE(pattern.has_value()) << error;
    EXPECT_EQ(*pattern, (Pattern{info.kind, info.default_a, info.default_b}));
    EXPECT_EQ(ToString(*pattern), info.name);
    EXPECT_EQ(&Info(info.kind), &info);
  }
}

TEST(PatternText, WhatProbesAreMadeOfCannotBeAskedFor) {
  for (const PatternInfo& info : Patterns()) {
    if (!info.for_probes) continue;
    EXPECT_THAT(ErrorOf(info.name), HasSubstr("unknown pattern"));
  }
  EXPECT_THAT(ErrorOf("exact-ints:2"), HasSubstr("density = 2 must lie in [0, 1]"));
  EXPECT_THAT(ErrorOf("exact-ints:1:8"), HasSubstr("bits = 8 must be a whole number from 1 to 7"));
}

TEST(PatternText, ParametersRoundTrip) {
  for (const char* text :
       {"normal:0.5", "normal:1:5", "uniform:-1:1", "integers:-8:8", "extremes:1000",
        "near-constant:100:0.001", "exact-sparse:0.05", "exact-ints:0.25", "exact-ints:1:5",
        "constant:1e+30", "constant:-0.1", "constant:inf", "one-hot:-inf:2", "one-hot:0:-0"}) {
    std::string error;
    const auto pattern = ParsePattern(text, &error);
    ASSERT_TRUE(pattern.has_value()) << text << ": " << error;
    EXPECT_EQ(ParsePattern(ToString(*pattern), &error), pattern) << text;
  }
  EXPECT_EQ(ToString(*ParsePattern("normal:1:5", nullptr)), "normal:1:5");
  EXPECT_EQ(ToString(*ParsePattern("normal:+1:0", nullptr)), "normal");
}

TEST(PatternText, ErrorsNameTheValueAndWhatWouldBeRight) {
  EXPECT_THAT(ErrorOf("norml"), HasSubstr("did you mean \"normal\"?"));
  EXPECT_THAT(ErrorOf("onehot"), HasSubstr("one-hot"));
  EXPECT_THAT(ErrorOf("gaussian-ish"), HasSubstr("it is one of normal, uniform"));
  EXPECT_THAT(ErrorOf("normal:1:2:3"), HasSubstr("takes at most 2"));
  EXPECT_THAT(ErrorOf("zeros:1"), HasSubstr("takes at most 0"));
  EXPECT_THAT(ErrorOf("normal:x"), HasSubstr("\"x\" is no finite number"));
  EXPECT_THAT(ErrorOf("normal:"), HasSubstr("is no finite number"));
  EXPECT_THAT(ErrorOf("normal:nan"), HasSubstr("is no finite number"));
  EXPECT_THAT(ErrorOf("normal:-1"), HasSubstr("sigma = -1"));
  for (const char* const period : {"0", "0.5", "-3", "1e30", "16777217"}) {
    EXPECT_THAT(ErrorOf(std::string("sequential:1:") + period), HasSubstr("period = ")) << period;
  }
  EXPECT_THAT(ErrorOf("sequential:1:0"),
              HasSubstr("period = 0 must be a whole number from 1 to 16777216"));
  EXPECT_TRUE(ParsePattern("sequential:1:1", nullptr).has_value());
  EXPECT_THAT(ErrorOf("uniform:1:1"), HasSubstr("must be below hi"));
  EXPECT_THAT(ErrorOf("uniform:-3e38:3e38"), HasSubstr("beyond float's range"));
  EXPECT_THAT(ErrorOf("integers:0.5:2"), HasSubstr("whole numbers"));
  EXPECT_THAT(ErrorOf("integers:3:2"), HasSubstr("must not exceed"));
  EXPECT_THAT(ErrorOf("bernoulli:1.5"), HasSubstr("p = 1.5 must lie in [0, 1]"));
  EXPECT_THAT(ErrorOf("normal:1e39"), HasSubstr("beyond float's range"));
  EXPECT_THAT(ErrorOf(""), HasSubstr("unknown pattern"));
}

// The names published tests of attention kernels use.
TEST(PatternText, SecondNamesAreTheSamePatterns) {
  EXPECT_EQ(ParsePattern("random:0.5", nullptr), ParsePattern("normal:0.5", nullptr));
  EXPECT_EQ(ParsePattern("column-vary", nullptr), ParsePattern("col-vary", nullptr));
  EXPECT_EQ(ToString(*ParsePattern("random", nullptr)), "normal");
}

TEST(PatternText, AFormatThatCannotHoldAPatternIsNamed) {
  const auto fault = [](const char* text, DType t) {
    return FormatFault(*ParsePattern(text, nullptr), t);
  };
  EXPECT_THAT(fault("all-inf", DType::kI8), HasSubstr("all-inf: int8 has neither"));
  EXPECT_THAT(fault("all-neg-inf", DType::kE2M1), HasSubstr("e2m1 has neither"));
  EXPECT_THAT(fault("one-hot:nan:1", DType::kI8), HasSubstr("one-hot:nan:1: int8 has neither"));
  EXPECT_EQ(fault("constant:nan", DType::kE4M3FNUZ), "");
  EXPECT_EQ(fault("all-inf", DType::kE4M3FN), "") << "NaN stands for Inf";
  EXPECT_EQ(fault("all-inf", DType::kE5M2), "");
  EXPECT_THAT(fault("denormal", DType::kI32), HasSubstr("no subnormal numbers"));
  EXPECT_EQ(fault("denormal", DType::kE2M1), "");
  EXPECT_EQ(fault("constant:1000", DType::kI8), "") << "saturates";
}

TEST(PatternText, InfinitiesAreThePatternsOrOverflow) {
  const auto infinite = [](const char* text, DType t) {
    return MayBeInfinite(*ParsePattern(text, nullptr), t);
  };
  EXPECT_TRUE(infinite("all-inf", DType::kE5M2));
  EXPECT_FALSE(infinite("all-inf", DType::kE4M3FN)) << "NaN instead";
  EXPECT_TRUE(infinite("constant:1e6", DType::kF16));
  EXPECT_FALSE(infinite("constant:1e6", DType::kBF16));
  EXPECT_FALSE(infinite("constant:1e6", DType::kE5M2)) << "saturates";
  EXPECT_FALSE(infinite("normal", DType::kF16));
  EXPECT_TRUE(infinite("one-hot:1:-1e6", DType::kF16));
}

TEST(PatternText, ZeroMeanDependsOnTheParameters) {
  const auto zero_mean = [](const char* text) {
    return IsZeroMeanRandom(*ParsePattern(text, nullptr));
  };
  EXPECT_TRUE(zero_mean("normal"));
  EXPECT_FALSE(zero_mean("normal:1:5"));
  EXPECT_FALSE(zero_mean("uniform"));
  EXPECT_TRUE(zero_mean("uniform:-10:10"));
  EXPECT_TRUE(zero_mean("integers"));
  EXPECT_FALSE(zero_mean("integers:0:5"));
  EXPECT_TRUE(zero_mean("exact-sparse"));
  EXPECT_FALSE(zero_mean("ones"));
}

}  // namespace
}  // namespace assay
