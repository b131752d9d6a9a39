// The SIMD pass of the comparison looks closer only where an error reaches a threshold. Here errors
// lie at the thresholds: each sets the next record of one statistic by little, or misses it. The
// oracle is the rule of one element.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/numerics/convert.h"
#include "kernels/runtime/cpu/compare_cpu.h"
#include "kernels/runtime/cpu/compare_element.h"
#include "kernels/runtime/cpu/compare_simd.h"
#include "tests/unit/runtime/compare_testing.h"
#include "tests/unit/runtime/targets.h"

namespace assay {
namespace {

using internal::CompareRule;
using internal::kCompareBlock;

struct Element {
  double r, e, o;
  std::uint64_t bits = 0;
  bool is_bits = false;  // the output is `bits`, not `o`
};

// Draws elements near the records of a result.
class Prober {
 public:
  // `fine`: errors are as near to a bound as numbers can be.
  Prober(const CompareRule& rule, bool fine, std::uint64_t seed)
      : rule_(rule), fine_(fine), random_(seed) {}

  double Pick(std::initializer_list<double> from) { return from.begin()[Below(from.size())]; }
  std::int64_t Below(std::size_t n) { return static_cast<std::int64_t>(random_() % n); }

  Element Near(const CompareTotals& c) {
    Element x = {Reference(), 0, 0, 0, true};
    x.bits = Output(c, x.r);
    x.e = Allowance(c, x);
    return x;
  }

 private:
  double Uniform() { return std::ldexp(static_cast<double>(random_() >> 11), -53); }

  // In the middle between two numbers of the format, or beside it, or anywhere.
  double Reference() {
    const double off = Pick({0, 0, 0.5, -0.5, 0.5 - 0x1p-20, 0.499, 0.25, -0.25, Uniform() - 0.5});
    const double sign = Pick({1, -1});
    if (rule_.is_integer) return sign * (Pick({0, 1, 2, 7, 100}) + off);
    const double numbers = std::ldexp(1.0, rule_.mantissa_bits);
    const bool wide = rule_.dtype == DType::kF64;
    if (Below(5) == 0) {
      return sign * rule_.min_subnormal * (Pick({0, 1, 2, numbers - 1, numbers}) + off);
    }
    const double mantissa =
        numbers + std::max(0.0, Pick({0, 0, 1, 2, numbers - 1, numbers - 2, numbers - 3,
                                      std::floor(numbers * Uniform())}));
    const double power = Pick({1, 1, 1, 2, 0.5, 0.25, wide ? 0x1p-900 : 2 * rule_.min_normal});
    return sign * power * rule_.ulp_scale * (mantissa + off);
  }

  std::uint64_t Output(const CompareTotals& c, double r) {
    const double rounded = Quantise(r, rule_.dtype), ulp = UlpAt(rule_, rounded);
    const double most = c.max_ulp < 1000 ? c.max_ulp : 0.0;
    const double by_rel =
        std::isfinite(c.max_rel_error) ? std::floor(c.max_rel_error * std::abs(r) / ulp) : 0.0;
    double off = Pick({0, 0, 0.5, 1, 1, 2, 3, 15, 16, 17, most, most + 0.5, most + 1, rule_.max_ulp,
                       std::floor(rule_.max_ulp) + 1, by_rel, by_rel + 1, std::abs(rounded) / ulp});
    if (rule_.dtype == DType::kTF32 && Below(2) == 0) {  // its outputs may be any fp32 number
      off += Pick({0x1p-13, 0.125, 0.25, Uniform()});
      return RoundToFormat(rounded + Pick({1, -1}) * off * ulp, DType::kF32);
    }
    const double o = rounded + Pick({1, -1}) * off * ulp;
    return RoundToFormat(std::clamp(o, -rule_.max_finite, rule_.max_finite), rule_.dtype);
  }

  // So that an error is `ratio` times the bound, if there is such an allowance.
  double ForRatio(double error, double magnitude, double ratio, double factor) {
    const double nearly = fine_ ? Pick({1, 1 - 0x1p-50, 1 + 0x1p-51, 1 + 0x1p-50, 1 + 0x1p-49})
                                : Pick({1 - 0x1p-40, 1 + 0x1.6p-38});
    if (!(ratio > 0) || !std::isfinite(ratio)) ratio = Pick({0.1, 0.9, 3});
    return std::max(0.0,
                    (error / (ratio * nearly) - rule_.u * magnitude - rule_.eta_half) / factor);
  }

  double Allowance(const CompareTotals& c, const Element& x) {
    if (rule_.exact) return Pick({0, 1});
    const double magnitude = std::abs(x.r);
    const double error = std::abs(ToDouble(rule_.dtype, x.bits) - x.r);
    const double quarter = rule_.u * magnitude / 4;
    switch (magnitude == 0 ? 7 : Below(8)) {
      case 0:
        return quarter;
      case 1:
        return Pick({std::nextafter(quarter, 1e300), std::nextafter(quarter, 0), 1.3 * quarter});
      case 2:
        return ForRatio(error, magnitude, c.rho, rule_.e_factor);
      case 3:
        return ForRatio(error, magnitude, c.rho_proven, rule_.proven_factor);
      case 4:
        return ForRatio(error, magnitude, 1, Pick({rule_.e_factor, rule_.proven_factor}));
      case 5:
        return 0;
      default:
        return Pick({1, 4, 100}) * (magnitude + rule_.min_normal);
    }
  }

  const CompareRule& rule_;
  bool fine_;
  std::mt19937_64 random_;
};

// The sums in FP64 depend on the order; nothing else does where multiply-adds are fused.
void ExpectNearest(const CompareResult& fast, const CompareResult& plain, bool fused) {
  ExpectSame(fast, plain);
  ExpectClose(fast.dot, plain.dot,
              std::sqrt(plain.sum_squared_actual) * std::sqrt(plain.sum_squared_expected), "dot");
  if (!fused) return;
  EXPECT_EQ(fast.rho, plain.rho);
  EXPECT_EQ(fast.rho_proven, plain.rho_proven);
  EXPECT_EQ(fast.max_rel_error, plain.max_rel_error);
  EXPECT_EQ(fast.max_ulp, plain.max_ulp);
}

// Blocks of elements that are right, but for a few.
class Blocks {
 public:
  Blocks(DType dtype, const CompareRequest& how, std::int64_t count, double allowance)
      : data_(dtype, Extents::Dense(1, count, kCompareBlock)), allowance_(allowance) {
    const CompareRequest own = data_.request;
    data_.request = how;
    data_.request.output = own.output;
    data_.request.reference = own.reference;
    data_.request.allowance = own.allowance;
    data_.request.digests = false;
  }

  const CompareResult& plain() const { return plain_; }

  // Adds a block. Its elements lie apart.
  void Add(const std::vector<Element>& elements) {
    const CompareRule rule(data_.request);
    for (std::int64_t i = 0; i < kCompareBlock; ++i) {
      const auto k = static_cast<std::size_t>(i / 37);
      const bool planted = i % 37 == 5 && k < elements.size();
      const Element x = planted ? elements[k] : Element{1, allowance_, 1};
      const std::uint64_t bits =
          x.is_bits ? x.bits : RoundToFormat(x.o, data_.request.output.dtype);
      data_.R(at_) = x.r;
      data_.E(at_) = x.e;
      data_.SetBits(at_, bits);
      AddElement(rule, at_, bits, x.r, x.e, &plain_);
      ++at_;
    }
  }

  void ExpectSameOnEveryTarget(bool fused_only = false) {
    EXPECT_EQ(at_, data_.request.output.count());
    ForEachTarget([&](const std::string_view target) {
      const bool fused = target != hwy::TargetName(HWY_SSE4);
      if (fused_only && !fused) return;
      SCOPED_TRACE(target);
      ExpectNearest(*CompareCpu(data_.request), plain_, fused);
    });
  }

 private:
  Data data_;
  double allowance_;
  CompareResult plain_;
  std::int64_t at_ = 0;
};

class CompareNear : public testing::TestWithParam<DType> {
 protected:
  // Whether the seed's data are compared as the rule says.
  void Check(std::uint64_t seed) {
    CompareRequest how;
    how.output.dtype = GetParam();
    const CompareRule any(how);
    Prober settings(any, false, ~seed);
    const bool fine = settings.Below(2) == 0;
    const std::int64_t repeats = settings.Below(4) == 0 ? 18 : 0;
    how.gate = kGates[seed % std::size(kGates)];
    how.exact = settings.Below(8) == 0;
    how.flushes_subnormals = settings.Below(4) == 0;
    how.proven_factor = settings.Pick({1, 2, 3});
    how.max_ulp = settings.Pick({0, 0.5, 1, 1.2, 7.5, 16, 16.5, std::nextafter(17, 0), 20, 1e9});
    how.rtol = settings.Pick({0, any.ulp_scale, 0.125});
    how.atol = settings.Pick({0, 0.5 * any.ulp_scale, 2 * any.ulp_scale, 0.125});
    const CompareRule rule(how);
    Prober near(rule, fine, seed);
    Blocks blocks(GetParam(), how, 5 + repeats, settings.Pick({0, 1}));
    std::vector<Element> first;
    for (int k = 0; k < 4; ++k) first.push_back(near.Near(blocks.plain()));
    for (std::int64_t k = 0; k <= repeats; ++k) blocks.Add(first);
    for (int k = 0; k < 4; ++k) blocks.Add({near.Near(blocks.plain())});
    blocks.ExpectSameOnEveryTarget(fine);
  }
};

TEST_P(CompareNear, EveryThresholdIsReachedByLittle) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(seed);
    Check(seed);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, CompareNear, testing::ValuesIn(kFormatsUnderTest),
                         [](const auto& format) { return std::string(Name(format.param)); });

// This many blocks reach a threshold and set no record, so that the thresholds become tight.
constexpr int kRepeats = 17;

CompareRequest Request(Gate gate = Gate::kBound) {
  CompareRequest how;
  how.gate = gate;
  how.proven_factor = 3;
  return how;
}

// A large relative error of one ulp, far within every bound.
Element LargeRelativeError(DType t) {
  return {Info(t).min_subnormal, 1, 2 * Info(t).min_subnormal};
}

// By |o − r|: two ulps may look like no more than 1.5, which was the record, or the tolerance.
TEST(CompareNearby, AnUlpMoreIsSeenWhereTheErrorIsTheRecord) {
  for (const DType t : {DType::kF32, DType::kF16, DType::kBF16}) {
    SCOPED_TRACE(Name(t));
    const double ulp = std::ldexp(1.0, -Info(t).mantissa_bits);
    Blocks blocks(t, Request(), 2, 0);
    blocks.Add({LargeRelativeError(t), {1 + 0.49 * ulp, 0, 1}, {1, 1, 1 - 1.5 * ulp}});
    EXPECT_EQ(blocks.plain().max_ulp, 1.5);
    blocks.Add({{1 + 2.5 * ulp, 1, 1 + 4 * ulp}});
    EXPECT_EQ(blocks.plain().max_ulp, 2);
    blocks.ExpectSameOnEveryTarget();
  }
}

// Two binades below the reference, numbers lie a quarter of an ulp apart.
TEST(CompareNearby, AQuarterOfAnUlpMoreIsSeen) {
  const DType t = DType::kBF16;
  const double ulp = 0x1p-7;
  Blocks blocks(t, Request(), 2, 0);
  blocks.Add({LargeRelativeError(t), {1, 1, 1 - 70 * ulp}});
  EXPECT_EQ(blocks.plain().max_ulp, 70);
  blocks.Add({{1 + 1.5 * ulp, 1, 1 - 68.25 * ulp}});
  EXPECT_EQ(blocks.plain().max_ulp, 70.25);
  blocks.ExpectSameOnEveryTarget();
}

// An output in TF32 may be any FP32 number.
TEST(CompareNearby, APartOfAnUlpMoreIsSeen) {
  const DType t = DType::kTF32;
  const double ulp = 0x1p-10;
  const struct {
    Element record, next;
    double ulps;
  } rows[] = {{{1, 1, 1 + ulp}, {-1 - 0.4 * ulp, 1, -1 - 1.125 * ulp}, 1.125},
              {{1, 1, 1 + 10 * ulp}, {2 - 1.5 * ulp, 1, 2 + 8.125 * ulp}, 10.125}};
  for (const auto& row : rows) {
    Blocks blocks(t, Request(), 2, 0);
    blocks.Add({LargeRelativeError(t), {1 + 0.49 * ulp, 0, 1}, row.record});
    Element next = row.next;
    next.bits = RoundToFormat(next.o, DType::kF32);
    next.is_bits = true;
    blocks.Add({next});
    EXPECT_EQ(blocks.plain().max_ulp, row.ulps);
    blocks.ExpectSameOnEveryTarget();
  }
}

TEST(CompareNearby, ATightToleranceOfManyUlpsIsHeld) {
  const DType t = DType::kF32;
  const double ulp = 0x1p-23;
  CompareRequest how = Request(Gate::kUlp);
  how.max_ulp = std::nextafter(17, 0);
  Blocks blocks(t, how, 2 + kRepeats, 0);
  const Element twenty = {1, 1, 1 + 20 * ulp};
  blocks.Add({LargeRelativeError(t), twenty});
  for (int k = 0; k < kRepeats; ++k) blocks.Add({twenty});
  blocks.Add({{1 + 0.5 * ulp, 1, 1 + 17 * ulp}});  // 16.5 ulps from r
  EXPECT_EQ(blocks.plain().mismatches, 1 + kRepeats + 1);
  blocks.ExpectSameOnEveryTarget();
}

// The next number behind a record, of the ratio to the bound and of that to the proven one.
TEST(CompareNearby, TheLeastRecordIsSeenAlone) {
  const DType t = DType::kF32;
  const double eta = Info(t).min_subnormal, ulp = 0x1p-23;
  const Element probable = {0.9 * eta, eta, 2 * eta}, proven = {0.9 * eta, 0, eta};
  const Element half = {0.75 * eta, 0, eta}, loose = {1, 40 * ulp, 1 + 20 * ulp};
  for (const bool of_proven : {false, true}) {
    Blocks blocks(t, Request(), 2 + kRepeats, 0);
    const Element again = of_proven ? loose : probable;
    blocks.Add({LargeRelativeError(t), again, of_proven ? proven : half});
    for (int k = 0; k < kRepeats; ++k) blocks.Add({again});
    const CompareTotals before = blocks.plain();
    Element next = of_proven ? proven : probable;
    next.r -= 4 * (next.r - std::nextafter(next.r, 0));  // more than rounding, less than kDown
    blocks.Add({next});
    EXPECT_EQ(blocks.plain().rho > before.rho, !of_proven);
    EXPECT_EQ(blocks.plain().rho_proven > before.rho_proven, of_proven);
    blocks.ExpectSameOnEveryTarget(/*fused_only=*/true);
  }
}

// Either ratio of a number near 0, of which only the least number of the format bounds the error.
TEST(CompareNearby, TheProvenRecordIsSeenNearZero) {
  const DType t = DType::kF32;
  const double eta = Info(t).min_subnormal, ulp = 0x1p-23;
  const Element within = {1, 22 * ulp, 1 + 20 * ulp}, near_zero = {0.75 * eta, 0, eta};
  for (const int repeats : {0, kRepeats}) {
    Blocks blocks(t, Request(), 2 + repeats, 0);
    blocks.Add({LargeRelativeError(t), within});
    for (int k = 0; k < repeats; ++k) blocks.Add({within});
    EXPECT_LT(blocks.plain().rho_proven, 0.4);
    blocks.Add({near_zero});
    EXPECT_GT(blocks.plain().rho_proven, 0.49);
    EXPECT_GT(blocks.plain().rho, 0.8);
    blocks.ExpectSameOnEveryTarget();
  }
}

// A proven bound beyond all numbers hides nothing: the next that is finite has the larger ratio.
TEST(CompareNearby, AnInfiniteProvenBoundIsNoRecord) {
  CompareRequest how = Request();
  how.proven_factor = 0x1p1000;
  Blocks blocks(DType::kF32, how, 2, 0);
  blocks.Add({{0x1p-149, 0x1p30, 0x1p-148}, {1, 0x1p30, 1 + 20 * 0x1p-23}});
  EXPECT_EQ(blocks.plain().rho_proven, 0);
  blocks.Add({{1 + 0x1p-30, 0x1p20, 1}});
  EXPECT_GT(blocks.plain().rho_proven, 0);
  blocks.ExpectSameOnEveryTarget();
}

TEST(CompareNearby, AnErrorOfExactlyTheBoundHasRatioOne) {
  CompareRequest how = Request();
  how.flushes_subnormals = true;
  Blocks blocks(DType::kF32, how, 1, 0);
  blocks.Add({{0, 0, 0x1p-126}});
  EXPECT_EQ(blocks.plain().rho, 1);
  EXPECT_EQ(blocks.plain().mismatches, 0);
  blocks.ExpectSameOnEveryTarget();
}

// A product of subnormal numbers loses what tells a zero output by its relative error.
TEST(CompareNearby, AZeroForASubnormalReferenceIsCounted) {
  Data data(DType::kF64, Extents::Dense(1, 2, kCompareBlock));
  for (std::int64_t i = 0; i < data.request.output.count(); ++i) {
    data.R(i) = 1;
    data.E(i) = 1000;
    data.Set(i, 1);
  }
  data.Set(5, -1);
  data.R(kCompareBlock + 5) = 0x1p-1060;
  data.Set(kCompareBlock + 5, -0.0);
  const CompareResult plain = *ComparePlain(data.request);
  EXPECT_EQ(plain.zero_count, 1);
  ForEachTarget([&](const char* target) {
    SCOPED_TRACE(target);
    ExpectSame(*CompareCpu(data.request), plain);
  });
}

}  // namespace
}  // namespace assay
