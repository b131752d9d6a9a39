// The comparison pass: the plain loops against results worked out by hand, and
// the SIMD pass against the plain loops over formats, gates, sizes, strides and
// special values.
#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "hwy/targets.h"
#include "kernels/numerics/convert.h"
#include "kernels/numerics/digest.h"
#include "kernels/numerics/poison.h"
#include "kernels/runtime/cpu/compare_cpu.h"
#include "tests/unit/runtime/compare_testing.h"
#include "tests/unit/runtime/targets.h"

namespace assay {
namespace {

CompareResult Fast(const Data& data) { return CompareCpu(data.request).value(); }
CompareResult Plain(const Data& data) { return ComparePlain(data.request).value(); }

class CompareFormat : public testing::TestWithParam<DType> {};

TEST_P(CompareFormat, SimdEqualsPlainForEveryGateKindSizeAndStride) {
  const Extents shapes[] = {Extents::Dense(1, 1, 1),        Extents::Dense(1, 1, 7),
                            Extents::Dense(1, 3, 171),      Extents::Dense(1, 1, 512),
                            Extents::Dense(2, 5, 333),      Extents{3, 7, 95, 101, 7 * 101 + 13},
                            Extents{1, 700, 3, 4, 2800},    Extents::Dense(1, 41, 1000),
                            Extents{2, 1, 2049, 2049, 2051}};
  std::uint64_t seed = 1;
  for (const Extents& shape : shapes) {
    for (Kind kind : {Kind::kClean, Kind::kWrong, Kind::kSparse, Kind::kSpecial, Kind::kExact,
                      Kind::kNoAllowance}) {
      Data data(GetParam(), shape);
      Fill(kind, ++seed, &data);
      for (Gate gate : kGates) {
        SCOPED_TRACE(testing::Message()
                     << Name(GetParam()) << " gate " << static_cast<int>(gate) << " kind "
                     << static_cast<int>(kind) << " count " << shape.count() << " ld " << shape.ld);
        data.request.gate = gate;
        data.request.flushes_subnormals = seed % 2 == 0;
        ExpectSame(Fast(data), Plain(data));
        if (HasFatalFailure() || HasNonfatalFailure()) return;
      }
    }
  }
}

TEST_P(CompareFormat, OneWrongElementIsFoundAtEveryLane) {
  const std::int64_t n = 1100;
  Data data(GetParam(), Extents::Dense(1, 1, n));
  for (std::int64_t i = 0; i < n; ++i) {
    data.R(i) = 1.0;
    data.E(i) = 0.0;
    data.Set(i, 1.0);
  }
  const std::uint64_t right = RoundToFormat(1.0, GetParam());
  const std::uint64_t wrong = RoundToFormat(2.0, GetParam());
  for (std::int64_t i = 0; i < n; ++i) {
    data.SetBits(i, wrong);
    const CompareResult c = Fast(data);
    ASSERT_EQ(c.mismatches, 1) << i;
    ASSERT_EQ(c.worst.index, i);
    ASSERT_EQ(c.samples.size(), 1u);
    ASSERT_EQ(c.samples[0].index, i);
    ASSERT_EQ(c.max_abs_error, 1.0);
    ASSERT_EQ(c.samples[0].actual_bits, wrong);
    ASSERT_EQ(c.samples[0].expected_bits, right);
    data.SetBits(i, right);
  }
  EXPECT_EQ(Fast(data).mismatches, 0);
}

// In the output, or, where the format has none, in the reference; nor an infinity.
TEST_P(CompareFormat, NaNAndInfinityAreNeverAcceptedAnywhere) {
  const FormatInfo& f = Info(GetParam());
  const std::int64_t n = 600;
  Data data(GetParam(), Extents::Dense(1, 1, n));
  for (std::int64_t i = 0; i < n; ++i) {
    data.R(i) = 1.0;
    data.E(i) = f.max_finite / 4;  // any number would do, but for the overflow rule
    data.Set(i, 1.0);
  }
  data.request.atol = data.request.rtol = data.request.max_ulp = 1e300;
  const auto expect_rejected = [&](std::int64_t first_nan, std::int64_t first_inf) {
    const auto check = [&](const CompareResult& c) {
      EXPECT_EQ(c.mismatches, 1);
      EXPECT_EQ(c.class_mismatches, 1);
      EXPECT_EQ(c.first_unexpected_nan, first_nan);
      EXPECT_EQ(c.first_unexpected_inf, first_inf);
    };
    check(Plain(data));
    ForEachTarget([&](const char* target) {
      SCOPED_TRACE(target);
      check(Fast(data));
    });
  };
  for (Gate gate : kGates) {
    data.request.gate = gate;
    for (std::int64_t i = 0; i < n; i += 37) {
      SCOPED_TRACE(testing::Message() << "gate " << static_cast<int>(gate) << " at " << i);
      f.has_nan ? data.Set(i, kNaN) : void(data.R(i) = kNaN);
      expect_rejected(f.has_nan ? i : -1, -1);
      data.R(i) = 1.0;
      if (f.has_inf) {
        data.Set(i, i % 2 == 0 ? kInf : -kInf);
        expect_rejected(-1, i);
      }
      data.Set(i, 1.0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, CompareFormat, testing::ValuesIn(kFormatsUnderTest),
                         [](const auto& format) { return std::string(Name(format.param)); });

TEST(Compare, NaNInTheReferenceOrTheAllowanceRejects) {
  Data data(DType::kF32, Extents::Dense(1, 1, 64));
  for (std::int64_t i = 0; i < 64; ++i) data.Set(i, 0.0);
  data.E(9) = kNaN;
  for (Gate gate : {Gate::kBound, Gate::kBoundProbable}) {
    data.request.gate = gate;
    for (const CompareResult& c : {Fast(data), Plain(data)}) {
      EXPECT_EQ(c.mismatches, 1);
      EXPECT_EQ(c.beyond_probable, 1);
      EXPECT_EQ(c.beyond_proven, 1);
      EXPECT_EQ(c.rho, kInf);
    }
  }
  data.E(9) = 0.0;
  data.R(9) = kNaN;
  EXPECT_EQ(Fast(data).class_mismatches, 1);
  // An integer 0 is what NaN would round to.
  Data integers(DType::kI32, Extents::Dense(1, 1, 64));
  integers.R(3) = kNaN;
  EXPECT_EQ(Fast(integers).mismatches, 1);
  EXPECT_EQ(Plain(integers).mismatches, 1);
}

// Where both are infinite or both are NaN, there is no error to hold against a bound, which
// may be NaN itself: of infinite operands.
TEST(Compare, TheSameClassIsNoMismatchWhateverTheBound) {
  for (const double value : {kInf, -kInf, kNaN}) {
    Data data(DType::kF32, Extents::Dense(1, 1, 64));
    for (std::int64_t i = 0; i < 64; ++i) {
      data.Set(i, value);
      data.R(i) = value;
      data.E(i) = i % 2 == 0 ? kNaN : kInf;
    }
    for (const Gate gate : kGates) {
      data.request.gate = gate;
      for (const CompareResult& c : {Fast(data), Plain(data)}) {
        EXPECT_EQ(c.mismatches, 0) << value << " gate " << static_cast<int>(gate);
        EXPECT_EQ(c.class_mismatches, 0);
      }
    }
  }
}

// The SIMD pass looks closer only where one of four thresholds is reached: each must
// be enough alone. One element in a block sets a new record of one statistic, and
// of no other.
TEST(Compare, EachStatisticsRecordIsSeenAlone) {
  constexpr std::int64_t kStride = 1024;
  constexpr std::int64_t kRecords = 40;
  constexpr double kUlp = 0x1p-23;
  for (const std::string statistic : {"rho", "rho_proven", "rel", "ulp"}) {
    Data data(DType::kF32, Extents::Dense(1, 1, kStride * (kRecords + 1)));
    for (std::int64_t i = 0; i < data.request.output.count(); ++i) {
      data.R(i) = 1.0;
      data.E(i) = 0.0;
      data.Set(i, 1.0);
    }
    const auto plant = [&](std::int64_t i, double r, double error, double e) {
      data.R(i) = r;
      data.E(i) = e;
      data.Set(i, r + error);
      if (error == 0.0) data.Set(i, 1.0);  // r is no fp32 number: o is what it rounds to
    };
    const double e0 = 4096 * kUlp;
    const double below2 = 2.0 - kUlp;
    // What the others must not exceed: much of rel and ulps, or of what is not to
    // follow, and of rho.
    if (statistic == "rho_proven") {
      plant(0, 1.0, e0, e0 / 0.99);
    } else {
      plant(0, statistic == "rel" ? below2 : 1.0, e0, 1.0);
      plant(1, 1.0 + 0.49 * kUlp, 0.0, 0.0);  // 0.98 of both bounds
    }
    for (std::int64_t k = 1; k <= kRecords; ++k) {
      const double step = static_cast<double>(k) / (kRecords + 1);
      const std::int64_t i = k * kStride + 37 * k % kStride;
      if (statistic == "rho") plant(i, 1.0, e0 / 2, e0 / 2 / (0.981 + 0.018 * step));
      if (statistic == "rho_proven") plant(i, 1.0 + (0.18 + 0.3 * step) * kUlp, 0.0, 0.0);
      if (statistic == "rel") plant(i, 1.0, std::round((0.5 + 0.5 * step) * 4096) * kUlp, 1.0);
      if (statistic == "ulp") plant(i, below2, -std::round((1 + 0.9 * step) * 4096) * kUlp, 1.0);
    }
    SCOPED_TRACE(statistic);
    ExpectSame(Fast(data), Plain(data));
  }
}

// A few ulps are looked for by |o − r|, which can be half of one less than the distance
// from r rounded, and across a power of two distances are odd halves.
TEST(Compare, RecordsOfFewUlpsAreSeenAcrossAPowerOfTwo) {
  constexpr std::int64_t kStride = 1024;
  constexpr std::int64_t kRecords = 29;
  for (DType t : {DType::kF32, DType::kF16, DType::kBF16}) {
    const FormatInfo& f = Info(t);
    const double ulp = std::ldexp(1.0, -f.mantissa_bits);
    for (bool round_up : {false, true}) {
      Data data(t, Extents::Dense(1, 1, kStride * (kRecords + 1)));
      for (std::int64_t i = 0; i < data.request.output.count(); ++i) {
        data.R(i) = 1.0;
        data.E(i) = 0.0;
        data.Set(i, 1.0);
      }
      // A large relative error and much of both bounds, but one ulp.
      data.R(0) = f.min_subnormal;
      data.Set(0, 2 * f.min_subnormal);
      data.E(0) = 0.52 * f.min_subnormal;
      data.request.proven_factor = 1.0;
      for (std::int64_t k = 1; k <= kRecords; ++k) {
        const std::int64_t i = k * kStride + 37 * k % kStride;
        const double above = static_cast<double>(k % 3);  // of r rounded, in ulps of 1
        const double below = 1.0 + static_cast<double>(k) / 2 - above;
        data.R(i) = 1.0 + (above + (round_up ? -0.49 : 0.49)) * ulp;
        if (above == 0.0 && round_up) data.R(i) = 1.0 - 0.24 * ulp;
        data.E(i) = 1.0;
        data.Set(i, 1.0 - below * ulp);
      }
      SCOPED_TRACE(testing::Message() << Name(t) << " rounded up " << round_up);
      const CompareResult plain = Plain(data);
      EXPECT_EQ(plain.max_ulp, 1.0 + kRecords / 2.0);
      ExpectSame(Fast(data), plain);
      for (double tolerance : {0.0, 1.2, 5.0, 7.5}) {
        data.request.gate = Gate::kUlp;
        data.request.max_ulp = tolerance;
        ExpectSame(Fast(data), Plain(data));
      }
    }
  }
}

// T = u|r| + η/2 + (1 + u)E, and what lies on either side of it.
TEST(Compare, BoundIsTheDocumentsFormula) {
  Data data(DType::kF16, Extents::Dense(1, 1, 1));
  data.R(0) = 1.0;
  data.E(0) = 0x1p-9;
  data.request.proven_factor = 2.0;
  data.Set(0, 1.0 + 0x1p-9);
  const double u = 0x1p-11;
  const double bound = u + 0x1p-25 + (1 + u) * 0x1p-9;
  const double proven = u + 0x1p-25 + (1 + u) * 0x1p-8;
  const CompareResult c = Plain(data);
  EXPECT_DOUBLE_EQ(c.worst.bound, bound);
  EXPECT_DOUBLE_EQ(c.rho, 0x1p-9 / bound);
  EXPECT_DOUBLE_EQ(c.rho_proven, 0x1p-9 / proven);
  data.Set(0, 1.0 + 3 * 0x1p-10);  // between the two
  EXPECT_EQ(Plain(data).beyond_probable, 1);
  EXPECT_EQ(Plain(data).beyond_proven, 0);
  data.request.gate = Gate::kBound;
  EXPECT_EQ(Plain(data).mismatches, 0);
  EXPECT_EQ(Plain(data).max_ulp, 3.0);
  data.request.flushes_subnormals = true;
  EXPECT_DOUBLE_EQ(Plain(data).worst.bound, u + 0x1p-14 + (1 + u) * 0x1p-8);
}

TEST(Compare, NoBoundAndNoErrorIsRhoZeroAndAnyErrorIsInfinite) {
  Data data(DType::kI32, Extents::Dense(1, 1, 3));
  for (std::int64_t i = 0; i < 3; ++i) {
    data.R(i) = static_cast<double>(i);
    data.Set(i, static_cast<double>(i));
  }
  EXPECT_EQ(Plain(data).rho, 0.0);
  EXPECT_EQ(Plain(data).mismatches, 0);
  data.Set(1, 2.0);
  EXPECT_EQ(Plain(data).rho, kInf);
  EXPECT_EQ(Plain(data).mismatches, 1);
}

// An exact sum past the format's integers must come out as round-to-nearest-even
// makes it, and no other way.
TEST(Compare, ExactModeExpectsTheRoundedReference) {
  Data data(DType::kF16, Extents::Dense(1, 1, 2));
  data.request.exact = true;
  data.R(0) = data.R(1) = 2049.0;
  data.Set(0, 2048.0);
  data.Set(1, 2050.0);  // the other neighbour: rounded away from the even one
  for (const CompareResult& c : {Plain(data), Fast(data)}) {
    EXPECT_EQ(c.mismatches, 1);
    EXPECT_EQ(c.worst.index, 1);
  }
}

// The class is that of the rounded reference; across the threshold both will do.
TEST(Compare, OverflowIsAcceptedOnBothSidesOnlyWhereTheBoundStraddlesIt) {
  Data data(DType::kF16, Extents::Dense(1, 1, 4));
  const double values[] = {65519.0, 65521.0, 65000.0, 70000.0};
  for (std::int64_t i = 0; i < 4; ++i) data.R(i) = values[i];
  data.Set(0, kInf);     // rounds to 65504, but Inf is an ulp away
  data.Set(1, 65504.0);  // rounds to Inf, but 65504 is an ulp away
  data.Set(2, kInf);
  data.Set(3, 65504.0);
  for (const CompareResult& c : {Plain(data), Fast(data)}) {
    EXPECT_EQ(c.class_mismatches, 2);
    EXPECT_EQ(c.mismatches, 2);
    EXPECT_EQ(c.worst.index, 2);
    EXPECT_EQ(c.reference_inf_count, 2);
    EXPECT_EQ(c.unexpected_inf, 2);
  }
  data.Set(0, -kInf);
  EXPECT_EQ(Plain(data).class_mismatches, 3) << "Inf of the wrong sign";
}

// No arithmetic without an error makes an overflow of the largest finite number, or of one below.
TEST(Compare, OverflowNeedsAnErrorThatReachesIt) {
  for (const DType t : {DType::kF16, DType::kE4M3FN, DType::kE5M2}) {
    const FormatInfo& f = Info(t);
    const double threshold =
        f.max_finite + std::ldexp(1.0, std::ilogb(f.max_finite) - f.mantissa_bits) / 2;
    Data data(t, Extents::Dense(1, 1, 3));
    const double overflow = f.has_inf ? kInf : kNaN;
    for (std::int64_t i = 0; i < 3; ++i) {
      data.R(i) = f.max_finite;
      data.E(i) = 0;
      data.Set(i, overflow);
    }
    EXPECT_EQ(Plain(data).class_mismatches, 3) << f.name;
    data.E(1) = threshold - f.max_finite;
    data.R(2) = std::nextafter(f.max_finite, kInf);  // a value that was beyond, saturated
    EXPECT_EQ(Plain(data).class_mismatches, 1) << f.name;
    EXPECT_EQ(Fast(data).class_mismatches, 1) << f.name;
    EXPECT_EQ(Fast(data).worst.index, 0);
    // Beside a user's own tensor, which is rounded already, a tolerance says how far.
    for (const Gate gate : {Gate::kAllClose, Gate::kUlp}) {
      CompareRequest received = data.request;
      received.gate = gate;
      received.rtol = f.unit_roundoff * 2;
      received.max_ulp = 1;
      EXPECT_EQ(ComparePlain(received)->class_mismatches, 0) << f.name;
    }
  }
}

TEST(Compare, UnwrittenElementsAreTheFirstPoisonAndNoKernelsNaN) {
  Data data(DType::kBF16, Extents::Dense(1, 1, 1000));
  for (std::int64_t i = 0; i < 1000; ++i) data.Set(i, 0.0);
  data.SetBits(700, PoisonBits(DType::kBF16, Poison::kFirst));
  data.SetBits(701, PoisonBits(DType::kBF16, Poison::kFirst));
  data.Set(800, kNaN);
  const CompareResult c = Fast(data);
  EXPECT_EQ(c.unwritten, 2);
  EXPECT_EQ(c.first_unwritten, 700);
  EXPECT_EQ(c.nan_count, 3);
  EXPECT_EQ(c.unexpected_nan, 1);
  EXPECT_EQ(c.first_unexpected_nan, 800);
  EXPECT_EQ(c.mismatches, 3);
}

// A truncating kernel passes every tolerance; its mean error in ulps does not.
TEST(Compare, BiasSumsShowTruncation) {
  const std::int64_t n = 20000;
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal;
  for (bool truncate : {false, true}) {
    Data data(DType::kF16, Extents::Dense(1, 1, n));
    for (std::int64_t i = 0; i < n; ++i) {
      data.R(i) = normal(random);
      double o = Quantise(data.R(i), DType::kF16);
      if (truncate && std::abs(o) > std::abs(data.R(i))) {
        o = ToDouble(DType::kF16, RoundToFormat(o, DType::kF16) - 1);
      }
      data.Set(i, o);
    }
    const CompareResult c = Fast(data);
    EXPECT_GT(c.bias_count, n * 9 / 10);
    EXPECT_NEAR(c.bias_sum / static_cast<double>(c.bias_count), truncate ? -0.5 : 0.0, 0.02);
  }
}

// The digest of the golden table: u32 arange(16), seed 0.
TEST(Compare, DigestIsThatOfTheLogicalWords) {
  Data dense(DType::kI32, Extents::Dense(1, 1, 16));
  Data padded(DType::kI32, Extents{1, 4, 4, 7, 28});
  for (std::int64_t i = 0; i < 16; ++i) {
    dense.SetBits(i, static_cast<std::uint64_t>(i));
    padded.SetBits(i, static_cast<std::uint64_t>(i));
  }
  for (Data* data : {&dense, &padded}) {
    EXPECT_EQ(Fast(*data).digest_raw[0], 0x3855237651ebaee5u);
    EXPECT_EQ(Plain(*data).digest_raw[0], 0x3855237651ebaee5u);
  }
  dense.request.digests = false;
  EXPECT_EQ(Fast(dense).digest_raw[0], 0u);
}

// Not only the best instructions of the machine the tests run on.
TEST(Compare, EverySimdTargetEqualsPlain) {
  const auto supported = hwy::SupportedTargets();
  const decltype(supported) without[] = {HWY_AVX3 | HWY_AVX3_DL, HWY_AVX3 | HWY_AVX3_DL | HWY_AVX2};
  std::uint64_t seed = 1000;
  for (const auto mask : without) {
    hwy::SetSupportedTargetsForTest(supported & ~mask);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    for (DType t : kFormatsUnderTest) {
      for (Kind kind : {Kind::kClean, Kind::kWrong, Kind::kSparse, Kind::kSpecial, Kind::kExact,
                        Kind::kNoAllowance}) {
        Data data(t, Extents{2, 3, 700, 705, 3 * 705});
        Fill(kind, ++seed, &data);
        for (Gate gate : kGates) {
          SCOPED_TRACE(testing::Message() << Name(t) << " gate " << static_cast<int>(gate)
                                          << " kind " << static_cast<int>(kind));
          data.request.gate = gate;
          ExpectSame(Fast(data), Plain(data));
        }
      }
    }
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

TEST(Compare, ResultsDoNotDependOnTheNumberOfThreads) {
  for (DType t : {DType::kF32, DType::kBF16}) {
    Data data(t, Extents::Dense(1, 300, 1001));
    Fill(Kind::kSpecial, 5, &data);
    const int threads = omp_get_max_threads();
    omp_set_num_threads(1);
    const CompareResult one = Fast(data);
    for (int n : {2, 3, 7}) {
      omp_set_num_threads(n);
      const CompareResult many = Fast(data);
      ExpectSame(many, one);
      EXPECT_EQ(many.sum_abs_error, one.sum_abs_error);
      EXPECT_EQ(many.dot, one.dot);
      EXPECT_EQ(many.bias_sum, one.bias_sum);
      EXPECT_EQ(many.rho, one.rho);
    }
    omp_set_num_threads(threads);
  }
}

TEST(Compare, NothingToCompareIsAnEmptyResult) {
  Data data(DType::kF32, Extents::Dense(1, 0, 5));
  const CompareResult c = Fast(data);
  EXPECT_EQ(c.count, 0);
  EXPECT_EQ(c.worst.index, -1);
}

TEST(Compare, RefusesARequestThatCannotBeMeant) {
  Data data(DType::kF32, Extents::Dense(1, 1, 4));
  CompareRequest no_reference = data.request;
  no_reference.reference = nullptr;
  EXPECT_EQ(CompareCpu(no_reference).status().code(), absl::StatusCode::kInvalidArgument);
  CompareRequest no_type = data.request;
  no_type.output.dtype = DType::kUnspecified;
  EXPECT_EQ(CompareCpu(no_type).status().code(), absl::StatusCode::kInvalidArgument);
  CompareRequest factor = data.request;
  factor.proven_factor = kNaN;
  EXPECT_EQ(CompareCpu(factor).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace assay
