// Digests of a GPU under the emulator: the definition's and the CPU device's, for every
// format and stride.
#include "kernels/numerics/digest.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "kernels/runtime/device.h"
#include "kernels/runtime/gpu/primitives.h"
#include "simt/strided.h"

namespace assay::inline kernels::gpu {
namespace {

class SimtDigest : public SimtTest {
 protected:
  static TensorDigest DigestOf(const TensorView& view) {
    unsigned long long out[4] = {0, 0, 0, 0};
    EXPECT_EQ(LaunchDigest(view, out, nullptr), kOk);
    return {{out[0], out[1]}, {out[2], out[3]}};
  }
  // By the definition: the logical elements packed, then word by word.
  static TensorDigest Define(const Strided& tensor, DType t, std::int64_t count) {
    std::vector<std::uint64_t> words(static_cast<std::size_t>(StorageBytes(t, count) + 7) / 8, 0);
    for (std::int64_t i = 0; i < count; ++i) StoreBits(t, words.data(), i, tensor.Load(i));
    TensorDigest digest;
    for (std::size_t w = 0; w < words.size(); ++w) {
      for (int s = 0; s < 2; ++s) {
        digest.raw[s] += DigestTerm(words[w], w, kDigestSeeds[s]);
        digest.canonical[s] += DigestTerm(CanonicalWord(t, words[w]), w, kDigestSeeds[s]);
      }
    }
    return digest;
  }
};
INSTANTIATE_TEST_SUITE_P(Waves, SimtDigest, kWaves);

TEST_P(SimtDigest, EveryFormatAndShapeHasTheDefinedValue) {
  const std::unique_ptr<Device> cpu = MakeCpuDevice(0, ArenaOptions{});
  std::vector<Extents> all = AwkwardExtents();
  for (std::int64_t n = 2; n < 20; ++n) all.push_back(Extents::Dense(1, 1, n));
  all.push_back(Extents::Dense(1, 1, 5000));
  all.push_back(Extents{2, 7, 3, 5, 40});  // rows shorter than a word
  for (const DType t : kAllFormats) {
    for (const Extents& e : all) {
      for (const std::int64_t shift : {std::int64_t{0}, StorageBytes(t, 1)}) {
        Strided tensor(t, e, shift);
        tensor.Scramble(static_cast<std::uint64_t>(e.cols));
        const TensorDigest got = DigestOf(tensor.view());
        ASSERT_EQ(got, Define(tensor, t, e.count())) << Describe(t, e) << " shift " << shift;
        const absl::StatusOr<TensorDigest> of_cpu = cpu->Digest(tensor.view());
        ASSERT_TRUE(of_cpu.ok());
        ASSERT_EQ(got, *of_cpu) << Describe(t, e);
      }
    }
  }
}

// Every code of the small formats, NaNs and -0 among them, alone in a word.
TEST_P(SimtDigest, CanonicalOfEveryCode) {
  for (const DType t : kAllFormats) {
    const int bits = StorageBits(t);
    if (bits > 16) continue;
    const std::int64_t codes = std::int64_t{1} << bits;
    Strided tensor(t, Extents::Dense(1, 1, codes));
    for (std::int64_t c = 0; c < codes; ++c) tensor.Store(c, static_cast<std::uint64_t>(c));
    ASSERT_EQ(DigestOf(tensor.view()), Define(tensor, t, codes)) << Name(t);
  }
}

TEST_P(SimtDigest, CanonicalOfWideFormats) {
  const std::vector<std::pair<DType, std::vector<std::uint64_t>>> of = {
      {DType::kF32, {0x80000000, 0x7f800000, 0xff800000, 0x7f800001, 0xffc00000, 0x7fa5a5a5, 1}},
      {DType::kTF32, {0x80000000, 0x7f800000, 0xff800000, 0x7f800001, 0xffc00000, 0x7fa5a5a5, 1}},
      {DType::kF64,
       {0x8000000000000000, 0x7ff0000000000000, 0xfff0000000000000, 0x7ff0000000000001,
        0xfff8000000000000, 0x7ff5a5a5a5a5a5a5, 1}},
      {DType::kI32, {0x80000000, 0x7fffffff, 0xffffffff, 0}},
  };
  for (const auto& [t, codes] : of) {
    const auto n = static_cast<std::int64_t>(codes.size());
    Strided tensor(t, Extents::Dense(1, 1, n));
    for (std::int64_t i = 0; i < n; ++i) tensor.Store(i, codes[static_cast<std::size_t>(i)]);
    const TensorDigest got = DigestOf(tensor.view());
    EXPECT_EQ(got, Define(tensor, t, n)) << Name(t);
    EXPECT_EQ(got.raw[0] == got.canonical[0], t == DType::kI32) << Name(t);
  }
}

TEST_P(SimtDigest, OneChangedElementAndASwapShow) {
  for (const DType t : kAllFormats) {
    Strided tensor(t, Extents{2, 3, 33, 37, 120});
    tensor.Scramble(3);
    const TensorDigest before = DigestOf(tensor.view());
    const std::int64_t last = tensor.view().count() - 1;
    const std::uint64_t first_code = tensor.Load(0);
    const std::uint64_t last_code = tensor.Load(last) ^ 1;
    tensor.Store(last, last_code);
    const TensorDigest changed = DigestOf(tensor.view());
    EXPECT_NE(changed.raw[0], before.raw[0]) << Name(t);
    EXPECT_NE(changed.raw[1], before.raw[1]) << Name(t);
    if (first_code == last_code) continue;
    tensor.Store(0, last_code);
    tensor.Store(last, first_code);
    EXPECT_NE(DigestOf(tensor.view()).raw[0], changed.raw[0]) << Name(t);
  }
}

// The result is added to, and more blocks than one do so.
TEST_P(SimtDigest, SumsOfManyBlocks) {
  Strided tensor(DType::kF32, Extents::Dense(1, 300, 77));
  tensor.Scramble(9);
  unsigned long long out[4] = {1, 2, 3, 4};
  ASSERT_EQ(LaunchDigest(tensor.view(), out, nullptr), kOk);
  const TensorDigest want = Define(tensor, DType::kF32, 300 * 77);
  EXPECT_EQ(out[0], want.raw[0] + 1);
  EXPECT_EQ(out[1], want.raw[1] + 2);
  EXPECT_EQ(out[2], want.canonical[0] + 3);
  EXPECT_EQ(out[3], want.canonical[1] + 4);
}

}  // namespace
}  // namespace assay::kernels::gpu
