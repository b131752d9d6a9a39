// Small comparisons that share a launch under the emulator, against the plain loops: every
// count, index, sample, digest and largest value to the bit, sums to rounding, for every
// format, gate and kind of data, whatever else is in the launch.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "kernels/runtime/cpu/compare_cpu.h"
#include "kernels/runtime/gpu/compare_gpu.h"
#include "kernels/simt/engine.h"
#include "simt/compare_simt.h"

namespace assay {
namespace {

// The packed results of one launch, each put together as a device does it. What the launch
// does not write of the scratch memory stays as it was.
std::vector<std::vector<unsigned char>> Launched(std::span<const CompareRequest> requests) {
  std::vector<std::uint64_t> scratch(gpu::kSmallBytes / 8, 0xA5A5A5A5A5A5A5A5);
  EXPECT_EQ(gpu::LaunchSmallCompares(requests, scratch.data(), nullptr), gpu::kOk);
  for (const simt::Fault& fault : simt::TakeFaults()) ADD_FAILURE() << fault.message;
  const auto* bytes = reinterpret_cast<const unsigned char*>(scratch.data());
  std::vector<std::vector<unsigned char>> all;
  for (int i = 0; i < static_cast<int>(requests.size()); ++i) {
    const unsigned char* head = bytes + gpu::SmallHeadAt(i);
    const unsigned char* result = bytes + gpu::SmallResultAt(i);
    std::vector<unsigned char> packed(head, head + gpu::kSmallHeadBytes);
    packed.insert(packed.end(), result + gpu::kSmallHeadBytes, result + gpu::kSmallResultBytes);
    all.push_back(std::move(packed));
  }
  return all;
}

void ExpectPlain(std::span<const CompareRequest> requests) {
  const std::vector<std::vector<unsigned char>> packed = Launched(requests);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    SCOPED_TRACE(testing::Message() << "request " << i);
    ExpectTheSame(gpu::UnpackCompared(packed[i].data(), requests[i]),
                  ComparePlain(requests[i]).value());
  }
}

CompareResult ExpectPlain(const CompareRequest& request) {
  ExpectPlain({&request, 1});
  return gpu::UnpackCompared(Launched({&request, 1})[0].data(), request);
}

// Requests with their memory.
struct Requests {
  void Add(DType format, const Extents& shape, Kind kind, Gate gate, std::uint64_t seed) {
    auto& one = *data.emplace_back(std::make_unique<Data>(format, shape));
    Fill(kind, seed, &one);
    one.request.gate = gate;
    one.request.flushes_subnormals = seed % 2 == 0;
    tight.push_back(std::make_unique<Tight>(one));
    requests.push_back(tight.back()->request);
  }
  std::vector<std::unique_ptr<Data>> data;
  std::vector<std::unique_ptr<Tight>> tight;
  std::vector<CompareRequest> requests;
};

class SimtCompareSmall : public testing::TestWithParam<int> {
 protected:
  SimtCompareSmall() {
    simt::CurrentConfig() = simt::Config{};
    simt::CurrentConfig().wave_width = GetParam();
    simt::TakeFaults();
  }
  ~SimtCompareSmall() override { simt::CurrentConfig() = simt::Config{}; }
};

INSTANTIATE_TEST_SUITE_P(Waves, SimtCompareSmall, testing::Values(32, 64));

// Every format meets every kind, shape and gate, in launches whose requests have nothing in
// common.
TEST_P(SimtCompareSmall, EqualsPlainForEveryFormatGateKindSizeAndStride) {
  const Extents shapes[] = {Extents::Dense(1, 1, 1),           Extents::Dense(1, 1, 31),
                            Extents::Dense(1, 1, 65),          Extents::Dense(1, 0, 5),
                            Extents::Dense(1, 5, 205),         Extents{1, 300, 3, 4, 1200},
                            Extents{3, 7, 41, 47, 7 * 47 + 13}};
  Requests all;
  std::uint64_t seed = 1;
  for (std::size_t k = 0; k < std::size(kKinds); ++k) {
    for (std::size_t s = 0; s < std::size(shapes); ++s) {
      for (std::size_t f = 0; f < std::size(kFormatsUnderTest); ++f) {
        const DType format = kFormatsUnderTest[f];
        const Extents& shape = shapes[(s + f) % std::size(shapes)];
        const Kind kind = kKinds[(k + f) % std::size(kKinds)];
        const Gate gate = kGates[(k + s + f / 2) % std::size(kGates)];
        all.Add(format, shape, kind, gate, ++seed);
      }
    }
  }
  for (std::span<const CompareRequest> left = all.requests; !left.empty();) {
    const std::size_t n = std::min<std::size_t>(left.size(), gpu::kComparesOfALaunch);
    ExpectPlain(left.first(n));
    if (HasFailure()) return;
    left = left.subspan(n);
  }
}

TEST_P(SimtCompareSmall, TheLargestThatIsSmall) {
  Requests all;
  constexpr auto kCount = gpu::kSmallCompare;
  all.Add(DType::kF16, Extents::Dense(1, 1, kCount), Kind::kWrong, Gate::kBoundProbable, 3);
  all.Add(DType::kE2M1, Extents::Dense(1, 1, kCount - 1), Kind::kSparse, Gate::kBitwise, 4);
  all.Add(DType::kF32, Extents{1, 127, 129, 131, 0}, Kind::kSpecial, Gate::kUlp, 5);
  ExpectPlain(all.requests);
}

// The first of equals, and the first five of many, wherever lanes, waves and rounds share
// them out.
TEST_P(SimtCompareSmall, TiesGoToTheSmallestIndex) {
  constexpr std::int64_t kCount = 1700;
  Data data(DType::kBF16, Extents::Dense(1, 1, kCount));
  for (const std::vector<std::int64_t>& wrong :
       {std::vector<std::int64_t>{1699, 1698, 1500, 1100, 900, 600, 520},
        std::vector<std::int64_t>{64, 63, 33, 32, 31, 2, 1}, std::vector<std::int64_t>{513, 1024},
        std::vector<std::int64_t>{512, 511}, std::vector<std::int64_t>{0, 1699}}) {
    for (std::int64_t i = 0; i < kCount; ++i) {
      data.R(i) = 1.0;
      data.E(i) = 0.0;
      data.Set(i, 1.0);
    }
    for (const std::int64_t i : wrong) data.Set(i, 2.0);
    std::vector<std::int64_t> sorted = wrong;
    std::sort(sorted.begin(), sorted.end());
    const CompareResult c = ExpectPlain(data.request);
    EXPECT_EQ(c.worst.index, sorted[0]);
    ASSERT_EQ(c.samples.size(), std::min<std::size_t>(kMismatchSamples, wrong.size()));
    for (std::size_t k = 0; k < c.samples.size(); ++k) EXPECT_EQ(c.samples[k].index, sorted[k]);
  }
  // No error at all: the first pair; behind NaNs that were expected.
  for (std::int64_t i = 0; i < kCount; ++i) data.Set(i, 1.0);
  EXPECT_EQ(ExpectPlain(data.request).worst.index, 0);
  for (std::int64_t i = 0; i < 100; ++i) {
    data.R(i) = kNaN;
    data.Set(i, kNaN);
  }
  EXPECT_EQ(ExpectPlain(data.request).worst.index, 100);
  // A wrong class is worse than any ratio, the first of them the worst.
  data.Set(300, 2.0);
  EXPECT_EQ(ExpectPlain(data.request).worst.index, 300);
  data.Set(1600, kInf);
  data.SetBits(1400, PoisonBits(DType::kBF16, Poison::kFirst));
  const CompareResult c = ExpectPlain(data.request);
  EXPECT_EQ(c.worst.index, 1400);
  EXPECT_EQ(c.unwritten, 1);
}

TEST_P(SimtCompareSmall, AddressesThatAreNoMultiplesOfSixteenServe) {
  for (const DType t : {DType::kF32, DType::kF16, DType::kE4M3FN, DType::kE2M1}) {
    Data data(t, Extents::Dense(1, 1, 700));
    Fill(Kind::kSpecial, 5, &data);
    const Tight tight(data, static_cast<std::size_t>(StorageBytes(t, 1)));
    ExpectPlain(tight.request);
  }
}

// Wherever it stands, with whatever else, in whatever order waves run: the same bits.
TEST_P(SimtCompareSmall, AResultDoesNotDependOnTheLaunch) {
  Requests all;
  const Kind kinds[] = {Kind::kSpecial, Kind::kWrong, Kind::kClean};
  for (int i = 0; i < gpu::kComparesOfALaunch; ++i) {
    const DType t = kFormatsUnderTest[i];
    all.Add(t, Extents{1, 3 + i, 101, 110, 0}, kinds[i % 3], kGates[i % 5],
            static_cast<std::uint64_t>(i));
  }
  const auto together = Launched(all.requests);
  for (std::size_t i = 0; i < together.size(); ++i) {
    simt::CurrentConfig().seed = i + 2;
    EXPECT_EQ(Launched({&all.requests[i], 1})[0], together[i]) << i;
  }
  std::vector<CompareRequest> reversed(all.requests.rbegin(), all.requests.rend());
  std::vector<std::vector<unsigned char>> other = Launched(reversed);
  std::reverse(other.begin(), other.end());
  EXPECT_EQ(other, together);
}

// What a clean result needs is in its head, and digests are there where they were asked for.
TEST_P(SimtCompareSmall, ACleanResultFitsItsHead) {
  Requests all;
  all.Add(DType::kF16, Extents::Dense(1, 20, 100), Kind::kClean, Gate::kBoundProbable, 1);
  all.Add(DType::kI8, Extents::Dense(1, 20, 100), Kind::kExact, Gate::kBoundProbable, 2);
  all.requests[1].digests = false;
  const auto packed = Launched(all.requests);
  EXPECT_LE(gpu::ComparedBytes(packed[0].data()), gpu::kSmallHeadBytes);
  EXPECT_LE(gpu::ComparedBytes(packed[1].data()), gpu::kSmallHeadBytes);
  EXPECT_NE(gpu::UnpackCompared(packed[0].data(), all.requests[0]).digest_raw[0], 0u);
  EXPECT_EQ(gpu::UnpackCompared(packed[1].data(), all.requests[1]).digest_raw[0], 0u);
}

}  // namespace
}  // namespace assay
