// The GPU's compare pass under the emulator against the plain loops: every count, index,
// sample, digest and largest value to the bit, sums to rounding, for every format, gate
// and kind of data at awkward sizes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/runtime/cpu/compare_cpu.h"
#include "kernels/runtime/gpu/compare_gpu.h"
#include "kernels/runtime/gpu/primitives.h"
#include "kernels/simt/engine.h"
#include "simt/compare_simt.h"

namespace assay {
namespace {

// The packed result; what it does not write of the scratch memory stays as it was.
std::vector<unsigned char> Launched(const CompareRequest& request) {
  static std::vector<std::uint64_t> scratch(gpu::kScratchBytes / 8);
  // No launch counts on what it finds there.
  std::fill_n(scratch.begin(), request.output.count() < 10000 ? 2000 : scratch.size(),
              0xA5A5A5A5A5A5A5A5);
  EXPECT_EQ(gpu::LaunchCompare(request, scratch.data(), nullptr), gpu::kOk);
  for (const simt::Fault& fault : simt::TakeFaults()) ADD_FAILURE() << fault.message;
  std::vector<unsigned char> packed(static_cast<std::size_t>(gpu::ComparedBytes()));
  std::memcpy(packed.data(), scratch.data(), packed.size());
  return packed;
}

CompareResult Gpu(const CompareRequest& request) {
  return gpu::UnpackCompared(Launched(request).data(), request);
}

CompareResult ExpectPlain(const CompareRequest& request) {
  const CompareResult gpu = Gpu(request);
  ExpectTheSame(gpu, ComparePlain(request).value());
  return gpu;
}

class SimtCompare : public testing::TestWithParam<std::tuple<DType, int>> {
 protected:
  SimtCompare() {
    simt::CurrentConfig() = simt::Config{};
    simt::CurrentConfig().wave_width = Wave();
    simt::TakeFaults();
  }
  ~SimtCompare() override { simt::CurrentConfig() = simt::Config{}; }

  DType Format() const { return std::get<0>(GetParam()); }
  int Wave() const { return std::get<1>(GetParam()); }
};

class SimtCompareNan : public SimtCompare {};       // formats with a NaN
class SimtCompareOverflow : public SimtCompare {};  // and below fp64, which holds every reference
class SimtCompareNegativeZero : public SimtCompare {};  // formats with a -0

TEST_P(SimtCompare, EqualsPlainForEveryGateKindSizeAndStride) {
  const Extents shapes[] = {Extents::Dense(1, 1, 1),     Extents::Dense(1, 1, 31),
                            Extents::Dense(1, 1, 33),    Extents::Dense(1, 1, 63),
                            Extents::Dense(1, 1, 65),    Extents::Dense(1, 1, 1000),
                            Extents::Dense(1, 5, 205),   Extents::Dense(1, 3, 2048),
                            Extents{1, 700, 3, 4, 2800}, Extents{3, 7, 95, 101, 7 * 101 + 13}};
  std::uint64_t seed = 1;
  for (const Extents& shape : shapes) {
    for (Kind kind : kKinds) {
      Data data(Format(), shape);
      Fill(kind, ++seed, &data);
      const Tight tight(data);
      data.request.output.data = tight.request.output.data;
      data.request.flushes_subnormals = seed % 2 == 0;
      // Every gate meets every kind, in some shape.
      for (const std::uint64_t gate : {seed % 5, (seed + seed / 5 + 2) % 5}) {
        SCOPED_TRACE(testing::Message() << "gate " << gate << " kind " << static_cast<int>(kind)
                                        << " count " << shape.count() << " ld " << shape.ld);
        data.request.gate = kGates[gate];
        ExpectPlain(data.request);
        if (HasFailure()) return;
      }
    }
  }
}

TEST_P(SimtCompare, OneWrongElementIsFoundWhereverItIs) {
  constexpr std::int64_t kCount = 1025;
  Data data(Format(), Extents::Dense(1, 1, kCount));
  for (std::int64_t i = 0; i < kCount; ++i) {
    data.R(i) = 1.0;
    data.E(i) = 0.0;
    data.Set(i, 1.0);
  }
  for (const std::int64_t i : {std::int64_t{0}, std::int64_t{1}, std::int64_t{62}, std::int64_t{64},
                               std::int64_t{511}, std::int64_t{1022}, kCount - 2, kCount - 1}) {
    data.Set(i, 2.0);
    const CompareResult c = ExpectPlain(data.request);
    EXPECT_EQ(c.mismatches, 1) << i;
    EXPECT_EQ(c.worst.index, i);
    ASSERT_EQ(c.samples.size(), 1u);
    EXPECT_EQ(c.samples[0].index, i);
    EXPECT_EQ(c.samples[0].actual, 2.0);
    data.Set(i, 1.0);
  }
}

// The first of equals, and the first five of many, wherever threads, waves and blocks
// share them out, and whichever of a block's waves comes first.
TEST_P(SimtCompare, TiesGoToTheSmallestIndex) {
  constexpr simt::WaveOrder kOrders[] = {simt::WaveOrder::kRandom, simt::WaveOrder::kAscending,
                                         simt::WaveOrder::kDescending};
  constexpr std::int64_t kCount = 5000;
  Data data(Format(), Extents::Dense(1, 1, kCount));
  for (const std::vector<std::int64_t>& wrong :
       {std::vector<std::int64_t>{4999, 4998, 3000, 2999, 2500, 1023, 900},
        std::vector<std::int64_t>{64, 63, 33, 32, 31, 2, 1}, std::vector<std::int64_t>{130, 4100},
        std::vector<std::int64_t>{1000, 700, 300, 10}, std::vector<std::int64_t>{0, 4999}}) {
    for (std::int64_t i = 0; i < kCount; ++i) {
      data.R(i) = 1.0;
      data.E(i) = 0.0;
      data.Set(i, 1.0);
    }
    for (const std::int64_t i : wrong) data.Set(i, 2.0);
    std::vector<std::int64_t> sorted = wrong;
    std::sort(sorted.begin(), sorted.end());
    for (std::size_t gate = 0; gate < std::size(kGates); ++gate) {
      data.request.gate = kGates[gate];
      simt::CurrentConfig().order = kOrders[gate % std::size(kOrders)];
      const CompareResult c = ExpectPlain(data.request);
      EXPECT_EQ(c.worst.index, sorted[0]);
      ASSERT_EQ(c.samples.size(), std::min<std::size_t>(kMismatchSamples, wrong.size()));
      for (std::size_t k = 0; k < c.samples.size(); ++k) {
        EXPECT_EQ(c.samples[k].index, sorted[k]);
      }
    }
  }
  // No error at all: the first element.
  for (std::int64_t i = 0; i < kCount; ++i) data.Set(i, 1.0);
  EXPECT_EQ(ExpectPlain(data.request).worst.index, 0);
}

// A wrong class is worse than any ratio, and the first of them the worst; a NaN that
// was expected is no pair, so that a later element is the worst of none wrong.
TEST_P(SimtCompareNan, ClassesAndUnwrittenElements) {
  const DType t = Format();
  const FormatInfo& f = Info(t);
  constexpr std::int64_t kCount = 3000;
  Data data(t, Extents::Dense(1, 1, kCount));
  for (std::int64_t i = 0; i < kCount; ++i) {
    data.R(i) = 1.0;
    data.E(i) = 0.0;
    data.Set(i, 1.0);
  }
  for (std::int64_t i = 0; i < 300; ++i) {
    data.R(i) = kNaN;
    data.Set(i, kNaN);
  }
  EXPECT_EQ(ExpectPlain(data.request).worst.index, 300);
  data.Set(2900, 2.0);
  EXPECT_EQ(ExpectPlain(data.request).worst.index, 2900);
  data.Set(kCount - 1, kNaN);
  data.Set(1500, kInf);
  data.SetBits(1400, PoisonBits(t, Poison::kFirst));
  data.SetBits(1401, PoisonBits(t, Poison::kFirst));
  for (const bool poisoned : {true, false}) {
    data.request.poisoned = poisoned;
    const CompareResult c = ExpectPlain(data.request);
    EXPECT_EQ(c.unwritten, poisoned && HasPoisonPayload(t) ? 2 : 0);
    if (HasPoisonPayload(t)) {
      EXPECT_EQ(c.worst.index, 1400);
      EXPECT_EQ(c.first_unexpected_nan, poisoned ? (f.has_inf ? kCount - 1 : 1500) : 1400);
    }
  }
}

TEST_P(SimtCompareOverflow, OverflowThatTheBoundStraddles) {
  const DType t = Format();
  const FormatInfo& f = Info(t);
  Data data(t, Extents::Dense(1, 1, 200));
  for (std::int64_t i = 0; i < 200; ++i) {
    const double sign = i % 3 == 0 ? -1.0 : 1.0;
    data.R(i) =
        sign * f.max_finite * (1.0 + f.machine_epsilon * static_cast<double>(i - 100) / 100);
    data.E(i) = i % 2 == 0 ? 0.0 : f.max_finite * f.machine_epsilon / 4;
    data.Set(i, i % 5 < 3 ? sign * kInf : sign * f.max_finite);
  }
  for (Gate gate : kGates) {
    data.request.gate = gate;
    const CompareResult c = ExpectPlain(data.request);
    EXPECT_GT(c.class_mismatches, 0);
    EXPECT_GT(c.finite_pairs, 0);
  }
}

// -0 is another code, but the canonical digest's 0.
TEST_P(SimtCompareNegativeZero, NegativeZerosAreCanonicallyZero) {
  for (const std::int64_t count : {7, 700}) {
    Data data(Format(), Extents::Dense(1, 1, count));
    for (std::int64_t i = 0; i < count; ++i) {
      data.R(i) = i % 4 == 0 ? 0.0 : -0.0;
      data.E(i) = 0.0;
      data.Set(i, i % 3 == 0 ? -0.0 : 0.0);
    }
    for (Gate gate : kGates) {
      data.request.gate = gate;
      const CompareResult c = ExpectPlain(data.request);
      EXPECT_NE(c.digest_raw[0], c.digest_canonical[0]);
      EXPECT_EQ(c.mismatches > 0, gate == Gate::kBitwise);
    }
  }
}

TEST_P(SimtCompare, AddressesThatAreNoMultiplesOfSixteenServe) {
  Data data(Format(), Extents::Dense(1, 1, 1100));
  Fill(Kind::kSpecial, 5, &data);
  const std::size_t width = static_cast<std::size_t>(StorageBytes(Format(), 1));
  Tight tight(data, width);
  ExpectPlain(tight.request);
  std::vector<double> reference(data.reference.size() + 1), allowance(reference.size());
  std::copy(data.reference.begin(), data.reference.end(), reference.begin() + 1);
  std::copy(data.allowance.begin(), data.allowance.end(), allowance.begin() + 1);
  CompareRequest request = data.request;
  request.reference = reference.data() + 1;
  ExpectPlain(request);
  request.reference = data.request.reference;
  request.allowance = allowance.data() + 1;
  ExpectPlain(request);
}

TEST_P(SimtCompare, NothingToCompareIsAnEmptyResult) {
  Data data(Format(), Extents::Dense(1, 0, 5));
  const CompareResult c = ExpectPlain(data.request);
  EXPECT_EQ(c.count, 0);
  EXPECT_EQ(c.worst.index, -1);
  EXPECT_TRUE(c.samples.empty());
}

TEST_P(SimtCompare, TheSameLaunchGivesTheSameBits) {
  for (const Extents& shape : {Extents::Dense(1, 1, 4100), Extents{2, 30, 41, 47, 1500}}) {
    Data data(Format(), shape);
    Fill(Kind::kSpecial, 7, &data);
    std::vector<unsigned char> first;
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
      simt::CurrentConfig().seed = seed;
      const std::vector<unsigned char> packed = Launched(data.request);
      if (seed == 1) first = packed;
      EXPECT_EQ(packed, first);
    }
    data.request.digests = false;
    EXPECT_EQ(Gpu(data.request).digest_raw[0], 0u);
  }
}

// The formats of which `has` is true, each with both wave widths.
auto Forms(bool (*has)(DType)) {
  std::vector<DType> formats;
  std::copy_if(std::begin(kFormatsUnderTest), std::end(kFormatsUnderTest),
               std::back_inserter(formats), has);
  return testing::Combine(testing::ValuesIn(formats), testing::Values(32, 64));
}

std::string FormName(const testing::TestParamInfo<std::tuple<DType, int>>& form) {
  return std::string(Name(std::get<0>(form.param))) + "_" + std::to_string(std::get<1>(form.param));
}

bool Any(DType) { return true; }
bool HasNan(DType t) { return Info(t).has_nan; }
bool Overflows(DType t) { return HasNan(t) && t != DType::kF64; }
bool HasNegativeZero(DType t) { return !Info(t).is_integer && !internal::LayoutOf(t).fnuz; }

INSTANTIATE_TEST_SUITE_P(Formats, SimtCompare, Forms(Any), FormName);
INSTANTIATE_TEST_SUITE_P(Formats, SimtCompareNan, Forms(HasNan), FormName);
INSTANTIATE_TEST_SUITE_P(Formats, SimtCompareOverflow, Forms(Overflows), FormName);
INSTANTIATE_TEST_SUITE_P(Formats, SimtCompareNegativeZero, Forms(HasNegativeZero), FormName);

// More than all blocks take at once, so that waves come back for more.
class SimtCompareLarge : public testing::TestWithParam<std::tuple<DType, Kind>> {};

TEST_P(SimtCompareLarge, WavesTakeSeveralChunks) {
  simt::CurrentConfig() = simt::Config{};
  const auto [format, kind] = GetParam();
  const std::int64_t count = format == DType::kE5M2 ? 1200001 : 600001;
  Data data(format, Extents::Dense(1, 1, count));
  Fill(kind, 3, &data);
  ExpectPlain(data.request);
  // Two more that are worse than all, the second as bad as the first.
  for (const std::int64_t i : {count - 3, std::int64_t{560000}}) {
    data.R(i) = 1.0;
    data.E(i) = 0.0;
    data.Set(i, 4096.0);
    EXPECT_EQ(ExpectPlain(data.request).worst.index, i);
  }
}

// The first mismatches of a wave, some from its first chunk and some from its second.
TEST(SimtCompareLargest, SamplesComeFromSeveralChunksOfAWave) {
  simt::CurrentConfig() = simt::Config{};
  constexpr std::int64_t kRound = std::int64_t{528} * 1024;  // what all blocks take at once
  Data data(DType::kI8, Extents::Dense(1, 1, kRound + 1000));
  const std::int64_t wrong[] = {3, 66, 100, kRound, kRound + 70, kRound + 71};
  for (const std::int64_t i : wrong) data.Set(i, 1.0);
  const CompareResult c = ExpectPlain(data.request);
  EXPECT_EQ(c.mismatches, 6);
  ASSERT_EQ(c.samples.size(), 5u);
  for (std::size_t k = 0; k < 5; ++k) EXPECT_EQ(c.samples[k].index, wrong[k]);
}

INSTANTIATE_TEST_SUITE_P(Kinds, SimtCompareLarge,
                         testing::Values(std::tuple{DType::kF32, Kind::kWrong},
                                         std::tuple{DType::kE5M2, Kind::kSparse}));

}  // namespace
}  // namespace assay
