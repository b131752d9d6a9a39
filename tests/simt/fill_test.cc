// Fills of a GPU under the emulator: the bits of the scalar specification and of the
// CPU device, for every pattern and format, and nothing else written.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/numerics/generate.h"
#include "kernels/numerics/key_groups.h"
#include "kernels/runtime/device.h"
#include "kernels/runtime/gpu/fill_codes.h"
#include "kernels/runtime/gpu/primitives.h"
#include "simt/strided.h"

namespace assay::inline kernels::gpu {
namespace {

using SimtFill = SimtTest;
INSTANTIATE_TEST_SUITE_P(Waves, SimtFill, kWaves);

constexpr std::uint64_t kSeed = 0x123456789abcdef1;

FillJob JobOf(const Pattern& pattern, std::uint32_t tensor_id, const TensorView& dst) {
  FillJob job;
  job.pattern = pattern;
  job.seed = kSeed;
  job.tensor_id = tensor_id;
  job.epoch = 5;
  job.dst = dst;
  return job;
}

void Specify(const FillJob& job, Strided& want) {
  const Extents& e = job.dst.extents;
  Generator generator(job.pattern, job.seed, job.tensor_id, job.epoch, e.rows, e.cols,
                      job.dst.dtype);
  for (std::int64_t i = 0; i < e.count(); ++i) want.Store(i, generator.Bits(i));
}

void ExpectSpecified(const Pattern& pattern, DType dtype, const Extents& e,
                     std::int64_t shift = 0) {
  Strided got(dtype, e, shift);
  Strided want(dtype, e, shift);
  const FillJob job = JobOf(pattern, 3, got.view());
  Specify(job, want);
  ASSERT_EQ(LaunchFills({&job, 1}, nullptr), kOk);
  ASSERT_TRUE(got.bytes() == want.bytes())
      << ToString(pattern) << " " << Describe(dtype, e) << " shift " << shift;
}

// All shapes of a pattern and format in one call.
void ExpectSpecifiedInEveryShape(const Pattern& pattern, DType dtype) {
  std::vector<Strided> got;
  std::vector<Strided> want;
  for (const Extents& e : AwkwardExtents()) {
    got.emplace_back(dtype, e);
    want.emplace_back(dtype, e);
  }
  std::vector<FillJob> jobs;
  for (std::size_t i = 0; i < got.size(); ++i) {
    jobs.push_back(JobOf(pattern, static_cast<std::uint32_t>(i), got[i].view()));
    Specify(jobs.back(), want[i]);
  }
  ASSERT_EQ(LaunchFills(jobs, nullptr), kOk);
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_TRUE(got[i].bytes() == want[i].bytes())
        << ToString(pattern) << " " << Describe(dtype, jobs[i].dst.extents);
  }
}

TEST_P(SimtFill, EveryPatternFormatAndShapeHasTheSpecifiedBits) {
  for (const PatternInfo& info : Patterns()) {
    if (IsKeyGroups(info.kind)) continue;  // below
    const Pattern pattern{info.kind, info.default_a, info.default_b};
    for (const DType t : kAllFormats) {
      if (!FormatFault(pattern, t).empty()) continue;
      ExpectSpecifiedInEveryShape(pattern, t);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(SimtFill, ParametersReachTheElements) {
  const Pattern patterns[] = {
      {PatternKind::kNormal, 0.01, -3},
      {PatternKind::kNormal, 1e30, 0},
      {PatternKind::kNormal, 3e38, 0},
      {PatternKind::kNormal, 1e300, -1e300},
      {PatternKind::kUniform, -3e38, 3e38},
      {PatternKind::kNormal, 1e-39, 0},
      {PatternKind::kNormal, 300, 0},
      {PatternKind::kUniform, -10, 10},
      {PatternKind::kUniform, 0, 1e-38},
      {PatternKind::kUniform, 1, 1.0000001},
      {PatternKind::kUniform, -70000, 70000},
      {PatternKind::kIntegers, -128, 127},
      {PatternKind::kSequential, 0.5, 37},
      {PatternKind::kConstant, -0.0, 0},
      {PatternKind::kConstant, 448.1, 0},
      {PatternKind::kNormal, 1, 1e300},
      {PatternKind::kUniform, 1, 1e300},
      {PatternKind::kNormal, 1, std::nan("")},
      {PatternKind::kNormal, 1e-14, -1e-29},
      {PatternKind::kNormal, 1e-37, -1e-37},
      {PatternKind::kNormal, 1e-20, 0},
      {PatternKind::kUniform, -1, 0},
      {PatternKind::kUniform, 1e-38, 3e-38},
      {PatternKind::kNormal, -2, -0.0},
      {PatternKind::kOneHot, std::nan(""), -0.0},
      {PatternKind::kConstant, std::nan(""), 0},
  };
  for (const Pattern& pattern : patterns) {
    for (const DType t : kAllFormats) {
      ExpectSpecified(pattern, t, Extents::Dense(2, 7, 73));
      ExpectSpecified(pattern, t, Extents{2, 7, 73, 80, 700});
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(SimtFill, DataThatMissesSixteenBytes) {
  for (const DType t : kAllFormats) {
    const std::int64_t width = StorageBytes(t, 1);
    for (const PatternKind kind : {PatternKind::kNormal, PatternKind::kUniform, PatternKind::kOnes,
                                   PatternKind::kDiagonal}) {
      ExpectSpecified({kind, 1, 2}, t, Extents::Dense(1, 3, 333), width);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(SimtFill, OperandsOfTheExactProbe) {
  for (const bool causal : {false, true}) {
    const Pattern patterns[] = {QueryCodes(4.0, 70, causal, 2), KeyCodes(3.0), KeyMask(causal),
                                QueryCodes(2.0, 70, causal, 2, true), KeyCodes(2.0, true)};
    for (const Pattern& pattern : patterns) {
      for (const DType t : {DType::kF32, DType::kBF16, DType::kE4M3FN, DType::kE2M1, DType::kI8}) {
        ExpectSpecified(pattern, t, Extents::Dense(4, 70, 33));
        ExpectSpecified(pattern, t, Extents{4, 61, 33, 41, 61 * 41 + 7});
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(SimtFill, OperandsOfTheSignificandProbes) {
  for (const DType t : {DType::kE4M3FN, DType::kE4M3FNUZ, DType::kE5M2, DType::kE5M2FNUZ}) {
    ExpectSpecified(kEveryFiniteNumber, t, Extents{2, 37, 90, 91, 40 * 91});
  }
  for (const Pattern& pattern :
       {UnitRows(), UnitColumns(), UnitRows(kFullSignificand), UnitColumns(3), UnitRows(-3, -5),
        UnitPixels({.width = 3, .channels = 5, .group_channels = 5, .step = {2, 1, 2}}),
        UnitPixels({.channels = 15, .group_channels = 3, .channels_last = true}),
        kFullSignificands}) {
    for (const DType t : kAllFormats) {
      ExpectSpecified(pattern, t, Extents::Dense(3, 70, 45));
      ExpectSpecified(pattern, t, Extents{2, 37, 90, 91, 40 * 91});
      if (HasFatalFailure()) return;
    }
  }
}

// A job's place in the launch must not reach its bits, and jobs of unequal size, format
// and kind do not reach one another's.
TEST_P(SimtFill, ManyJobsAtOnce) {
  const Pattern normal{PatternKind::kNormal, 1, 0};
  const Pattern uniform{PatternKind::kUniform, -1, 1};
  const Pattern sparse{PatternKind::kSparse, 0.2, 1};
  const Pattern ones{PatternKind::kOnes, 1, 0};
  std::vector<std::pair<Pattern, DType>> of;
  for (int i = 0; i < 11; ++i) of.emplace_back(normal, DType::kF16);
  for (int i = 0; i < 3; ++i) of.emplace_back(uniform, DType::kF16);
  of.emplace_back(uniform, DType::kE2M1);
  for (int i = 0; i < 3; ++i) of.emplace_back(sparse, i == 1 ? DType::kF64 : DType::kF32);
  of.emplace_back(ones, DType::kBF16);
  of.emplace_back(sparse, DType::kI8);
  std::vector<Strided> got;
  std::vector<Strided> want;
  for (std::size_t i = 0; i < of.size(); ++i) {
    const Extents e = Extents::Dense(1, i == 4 ? 0 : 1, static_cast<std::int64_t>(i * i * 17 + 3));
    got.emplace_back(of[i].second, e);
    want.emplace_back(of[i].second, e);
  }
  std::vector<FillJob> jobs;
  for (std::size_t i = 0; i < of.size(); ++i) {
    jobs.push_back(JobOf(of[i].first, static_cast<std::uint32_t>(i), got[i].view()));
    Specify(jobs.back(), want[i]);
  }
  ASSERT_EQ(LaunchFills(jobs, nullptr), kOk);
  for (std::size_t i = 0; i < of.size(); ++i) EXPECT_EQ(got[i].bytes(), want[i].bytes()) << i;
}

// Jobs with their memory and what is to come of them; no two have a stream of words in common.
struct Jobs {
  void Add(const Pattern& pattern, DType dtype, const Extents& e) {
    const auto n = static_cast<std::uint32_t>(jobs.size());
    got.push_back(std::make_unique<Strided>(dtype, e));
    want.push_back(std::make_unique<Strided>(dtype, e));
    FillJob job = JobOf(pattern, n % 3, got.back()->view());
    job.seed += n / 3 % 3;
    job.epoch += n / 9;
    Specify(job, *want.back());
    jobs.push_back(job);
  }
  void ExpectFilledWith(std::int64_t launches) {
    const std::int64_t before = simt::Launches();
    ASSERT_EQ(LaunchFills(jobs, nullptr), kOk);
    EXPECT_EQ(simt::Launches(), before + launches);
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      ASSERT_TRUE(got[i]->bytes() == want[i]->bytes())
          << i << " " << ToString(jobs[i].pattern) << " " << Name(jobs[i].dst.dtype);
    }
  }
  std::vector<std::unique_ptr<Strided>> got, want;
  std::vector<FillJob> jobs;
};

// Small tensors share a launch whatever they are filled with, as many as it takes.
TEST_P(SimtFill, SmallTensorsOfAnyKindTakeOneLaunch) {
  const Pattern patterns[] = {{PatternKind::kNormal, 1, 0},
                              {PatternKind::kUniform, -1, 1},
                              {PatternKind::kOnes, 1, 0},
                              {PatternKind::kSparse, 0.2, 1},
                              {PatternKind::kDiagonal, 1, 0}};
  for (const int count : {kFillsOfALaunch, 2 * kFillsOfALaunch + 1}) {
    Jobs all;
    for (int i = 0; i < count; ++i) {
      // Among them some whose batches meet in the middle of a byte.
      const bool meet = i % 7 == 3;
      const DType t = meet ? DType::kE2M1 : kAllFormats[i % 12];
      const Extents e = meet ? Extents{3, 2, 33, 36, 36 + 33} : Extents::Dense(2, 5, 21 + i);
      all.Add(patterns[i % 5], t, e);
    }
    all.ExpectFilledWith(count == kFillsOfALaunch ? 1 : 3);
  }
}

// Dense ones of one kind of data and one format, by the kernel that is for these alone.
TEST_P(SimtFill, DenseTensorsOfOneKindAndFormatTakeOneLaunch) {
  for (const DType t : kAllFormats) {
    if (t == DType::kF64 || internal::IsInteger(t)) continue;
    for (const PatternKind kind : {PatternKind::kNormal, PatternKind::kUniform}) {
      Jobs all;
      for (int i = 0; i < kFillsOfALaunch; ++i) {
        all.Add({kind, 0.5 - i, 1.0 + i}, t, Extents::Dense(1, 1, 1 + 37 * (i * 5 % 24)));
      }
      all.ExpectFilledWith(1);
      if (HasFailure()) return;
    }
  }
}

// Of large tensors each kind and format has its own.
TEST_P(SimtFill, LargeTensorsShareALaunchWithTheirLike) {
  const std::pair<PatternKind, DType> kinds[] = {{PatternKind::kNormal, DType::kF16},
                                                 {PatternKind::kNormal, DType::kBF16},
                                                 {PatternKind::kUniform, DType::kF16},
                                                 {PatternKind::kUniform, DType::kE2M1},
                                                 {PatternKind::kSparse, DType::kE4M3FN}};
  Jobs all;
  for (int i = 0; i < 10; ++i) {
    const auto& [kind, t] = kinds[i % 5];
    all.Add({kind, 0.25, 1.0 + i}, t, Extents::Dense(1, 2, (std::int64_t{1} << 14) + 1 + i));
  }
  all.ExpectFilledWith(5);
}

// Operands of the exact case go by themselves, whatever else is to be filled.
TEST_P(SimtFill, OperandsOfTheExactProbeAmongOthers) {
  const Extents e = Extents::Dense(2, 40, 33);
  const Pattern normal{PatternKind::kNormal, 1, 0};
  Jobs all;
  all.Add(normal, DType::kF16, e);
  all.Add(QueryCodes(4.0, 40, /*causal=*/false, 1), DType::kF16, e);
  all.Add(KeyCodes(3.0), DType::kF16, e);
  all.Add(KeyCodes(3.0), DType::kF16, Extents::Dense(4, 20, 33));
  all.Add(KeyMask(/*causal=*/true), DType::kF16, e);
  all.Add(normal, DType::kF32, e);
  all.ExpectFilledWith(5);
}

TEST_P(SimtFill, WhatIsFilledTwiceIsSoInOrder) {
  Strided large(DType::kF32, Extents::Dense(1, 10, 10000));
  Strided small(DType::kF16, Extents::Dense(1, 10, 100));
  const auto fill = [](double value, const TensorView& view) {
    return JobOf({PatternKind::kRowVary, value, 0}, 0, view);
  };
  TensorView part = large.view();
  part.extents.rows = 2;
  const std::vector<FillJob> jobs = {fill(1, small.view()), fill(2, large.view()), fill(3, part),
                                     fill(4, small.view())};
  const std::int64_t before = simt::Launches();
  ASSERT_EQ(LaunchFills(jobs, nullptr), kOk);
  // The first; the second with the last, which goes the same way; the third.
  EXPECT_EQ(simt::Launches(), before + 3);
  EXPECT_EQ(ToDouble(DType::kF32, large.Load(10000)), 3);
  EXPECT_EQ(ToDouble(DType::kF32, large.Load(20000)), 4);
  EXPECT_EQ(ToDouble(DType::kF16, small.Load(999)), 36);
}

// So are tensors of which one begins or ends in the other; that they touch is no matter.
TEST_P(SimtFill, WhatOverlapsIsFilledInOrder) {
  struct {
    std::int64_t begin, end;
    int launches;  // with the one of [200, 400)
  } const cases[] = {{100, 200, 1}, {400, 500, 1}, {100, 201, 2},
                     {399, 500, 2}, {250, 300, 2}, {100, 500, 2}};
  for (const auto& c : cases) {
    Strided all(DType::kF32, Extents::Dense(1, 1, 500));
    const auto fill = [&all](double value, std::int64_t begin, std::int64_t end) {
      TensorView view = all.view();
      view.data = view.as<float>() + begin;
      view.extents = Extents::Dense(1, 1, end - begin);
      return JobOf({PatternKind::kConstant, value, 0}, 0, view);
    };
    const std::vector<FillJob> jobs = {fill(1, 200, 400), fill(2, c.begin, c.end)};
    const std::int64_t before = simt::Launches();
    ASSERT_EQ(LaunchFills(jobs, nullptr), kOk);
    EXPECT_EQ(simt::Launches(), before + c.launches) << c.begin;
    for (std::int64_t i = std::min<std::int64_t>(c.begin, 200);
         i < std::max<std::int64_t>(c.end, 400); ++i) {
      ASSERT_EQ(ToDouble(DType::kF32, all.Load(i)), i >= c.begin && i < c.end ? 2 : 1) << i;
    }
  }
}

TEST_P(SimtFill, EqualsTheCpuDevice) {
  const std::unique_ptr<Device> cpu = MakeCpuDevice(0, ArenaOptions{});
  for (const PatternInfo& info : Patterns()) {
    if (IsKeyGroups(info.kind)) continue;
    const Pattern pattern{info.kind, info.default_a, info.default_b};
    for (const DType t : {DType::kF32, DType::kF16, DType::kE5M2, DType::kE2M1}) {
      if (!FormatFault(pattern, t).empty()) continue;
      const Extents e{2, 9, 64, 72, 9 * 72};
      Strided got(t, e);
      Strided want(t, e);
      const FillJob job = JobOf(pattern, 7, got.view());
      ASSERT_EQ(LaunchFills({&job, 1}, nullptr), kOk);
      ASSERT_TRUE(cpu->Fill({pattern, job.seed, job.tensor_id, job.epoch}, want.view()).ok());
      ASSERT_TRUE(got.bytes() == want.bytes()) << ToString(pattern) << " " << Name(t);
    }
  }
}

// More than one pass of the grid; one wave width says it.
TEST(SimtFillLong, LongerThanTheGrid) {
  simt::CurrentConfig() = simt::Config{};
  ExpectSpecified({PatternKind::kUniform, 0, 1}, DType::kF32,
                  Extents::Dense(1, 1, std::int64_t{8192} * 256 * 4 + 4099));
}

// Values of the kind that FillCode takes: around every one where the code changes its nature, and
// over the floats in coarse steps.
template <DType T>
std::vector<float> ValuesForCodes() {
  std::vector<std::uint32_t> words;
  for (std::uint64_t i = 0; i <= 0xffffffff; i += 9973) {
    words.push_back(static_cast<std::uint32_t>(i));
  }
  const FormatInfo& f = Info(T);
  const double turns[] = {f.min_normal,
                          f.min_normal - f.min_subnormal / 2,
                          f.min_subnormal,
                          f.max_finite,
                          f.max_finite * (1 + f.unit_roundoff),
                          0.0,
                          1.0,
                          HUGE_VAL};
  for (const double turn : turns) {
    const std::uint32_t at = std::bit_cast<std::uint32_t>(static_cast<float>(turn));
    for (std::uint32_t d = 0; d < 64; ++d) {
      for (const std::uint32_t sign : {0U, 0x80000000U}) {
        words.push_back((at + d - 32) ^ sign);
      }
    }
  }
  std::vector<float> values;
  for (const std::uint32_t word : words) {
    const float v = std::bit_cast<float>(word);
    if (word == 0 || std::isnormal(v)) values.push_back(v);
  }
  while (values.size() % 8 != 0) values.push_back(0);
  return values;
}

template <DType T>
void ExpectTheSameCodes() {
  constexpr unsigned kBits = StorageBits(T);
  const std::vector<float> values = ValuesForCodes<T>();
  for (std::size_t i = 0; i < values.size(); i += 32 / kBits) {
    std::uint64_t want = 0;
    for (unsigned e = 0; e < 32 / kBits; ++e) {
      const std::uint64_t code = RoundForFill(static_cast<double>(values[i + e]), T);
      ASSERT_EQ(FillCode<T>(values[i + e]), code) << Name(T) << " " << values[i + e];
      want |= code << (e * kBits);
    }
    ASSERT_EQ(FillWord<T>(&values[i]), want) << Name(T) << " " << i;
  }
}

TEST(FillCodes, AreTheSpecifiedOnes) {
  ExpectTheSameCodes<DType::kF32>();
  ExpectTheSameCodes<DType::kTF32>();
  ExpectTheSameCodes<DType::kF16>();
  ExpectTheSameCodes<DType::kBF16>();
  ExpectTheSameCodes<DType::kE4M3FN>();
  ExpectTheSameCodes<DType::kE4M3FNUZ>();
  ExpectTheSameCodes<DType::kE5M2>();
  ExpectTheSameCodes<DType::kE5M2FNUZ>();
  ExpectTheSameCodes<DType::kE2M1>();
}

// What NVIDIA's conversions do instead, step by step: cvt.rn.f16x2.f32 and an addition of +0 that
// takes subnormals for zeros of their sign; cvt.rn.bf16x2.f32; cvt.rn.satfinite.e4m3x2.f32 and
// .e5m2x2.f32, and the bits of WithoutSubnormals.
TEST(FillCodes, AreThoseOfConvertingInstructions) {
  for (const float v : ValuesForCodes<DType::kF16>()) {
    const auto rounded = static_cast<std::uint32_t>(RoundToFormat(v, DType::kF16));
    const bool subnormal = (rounded & 0x7c00U) == 0;
    const std::uint32_t operand = subnormal ? rounded & 0x8000U : rounded;
    const std::uint32_t sum = operand == 0x8000U ? 0 : operand;  // of operand and +0
    ASSERT_EQ(sum, FillCode<DType::kF16>(v)) << v;
  }
  for (const float v : ValuesForCodes<DType::kBF16>()) {
    ASSERT_EQ(RoundToFormat(v, DType::kBF16), FillCode<DType::kBF16>(v)) << v;
  }
  const auto bytes = []<DType T>() {
    const std::vector<float> values = ValuesForCodes<T>();
    for (std::size_t i = 0; i < values.size(); i += 4) {
      std::uint32_t rounded = 0;
      for (unsigned e = 0; e < 4; ++e) {
        const std::uint64_t code = RoundToFormat(values[i + e], T, Overflow::kSat);
        rounded |= static_cast<std::uint32_t>(code) << (8 * e);
      }
      ASSERT_EQ(WithoutSubnormals<T>(rounded), FillWord<T>(&values[i])) << Name(T) << " " << i;
    }
  };
  bytes.operator()<DType::kE4M3FN>();
  bytes.operator()<DType::kE5M2>();
}

// Every byte of the four by itself, beside every other.
TEST(FillCodes, SubnormalsGoWhateverStandsBesideThem) {
  for (std::uint32_t a = 0; a < 256; ++a) {
    for (std::uint32_t b = 0; b < 256; ++b) {
      const std::uint32_t kept_a = (a & 0x78U) == 0 ? 0 : a;
      const std::uint32_t kept_b = (b & 0x78U) == 0 ? 0 : b;
      ASSERT_EQ(WithoutSubnormals<DType::kE4M3FN>(a * 0x10001U + b * 0x1000100U),
                kept_a * 0x10001U + kept_b * 0x1000100U);
    }
  }
}

// What the launcher relies on: the deviates nearest to 0 are those of the last words, and so far
// from it that all are multiples of 2^-44.
TEST(FillCodes, DeviatesAreMultiplesOfWhatTheLauncherTakesThemFor) {
  float least = 1;
  for (std::uint32_t x = 0x7fffffff; x > 0x7fff0000; --x) {
    least = std::min(least, NormalFromWord(x));
  }
  EXPECT_GE(least, 0x1p-21F);
  EXPECT_EQ(least, NormalFromWord(0x7fffffff));
}

}  // namespace
}  // namespace assay::kernels::gpu
