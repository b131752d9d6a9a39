// Philox, uniforms, normals and digests against published and independent values.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kernels/numerics/digest.h"
#include "kernels/numerics/normal.h"
#include "kernels/numerics/philox.h"

namespace assay {
namespace {

std::uint32_t Hex32(const nlohmann::json& v) {
  return static_cast<std::uint32_t>(std::stoul(v.get<std::string>(), nullptr, 16));
}
std::uint64_t Hex64(const nlohmann::json& v) {
  return std::stoull(v.get<std::string>(), nullptr, 16);
}

const nlohmann::json& Golden() {
  static const auto table = [] {
    std::ifstream in(std::string(ASSAY_GOLDEN_DIR) + "/rng_digest_kat.json");
    return nlohmann::json::parse(in);
  }();
  return table;
}

TEST(PhiloxTest, KnownAnswers) {
  int vectors = 0;
  for (const auto& v : Golden()["philox4x32_10"]["vectors"]) {
    const PhiloxBlock out =
        Philox({Hex32(v["ctr"][0]), Hex32(v["ctr"][1]), Hex32(v["ctr"][2]), Hex32(v["ctr"][3])},
               Hex32(v["key"][0]), Hex32(v["key"][1]));
    for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(out[i], Hex32(v["out"][i])) << v;
    ++vectors;
  }
  EXPECT_EQ(vectors, 12);
}

TEST(PhiloxTest, AddressesElementsBySeedTensorEpochAndIndex) {
  constexpr std::uint64_t kSeed = 0xfeedface0badf00d;
  const std::int64_t i = 4 * 0x100000002LL + 3;  // block beyond 32 bits
  EXPECT_EQ(PhiloxWord(kSeed, 7, 9, i), Philox({2, 1, 7, 9}, 0x0badf00d, 0xfeedface)[3]);
}

TEST(NormalTest, UniformKnownAnswers) {
  for (const auto& v : Golden()["uniform24"]["kat"]) {
    EXPECT_EQ(std::bit_cast<std::uint32_t>(UniformFromWord(Hex32(v[0]))), Hex32(v[1])) << v;
  }
}

TEST(NormalTest, CoefficientsAndKnownAnswers) {
  const auto& golden = Golden()["normal_icdf"];
  for (std::size_t lz = 0; lz < 32; ++lz) {
    for (std::size_t k = 0; k < 7; ++k) {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(kNormalCoefficients[lz][k]),
                Hex32(golden["coef_f32_bits"][lz][k]));
    }
  }
  for (const auto& v : golden["kat_word_to_f32bits"]) {
    EXPECT_EQ(std::bit_cast<std::uint32_t>(NormalFromWord(Hex32(v[0]))), Hex32(v[1])) << v;
  }
}

// The whole chain from counter to normal over 2^24 elements.
TEST(NormalTest, StreamDigest) {
  const auto& golden = Golden()["normal_icdf"]["stream_digest"];
  std::uint64_t sum = 0;
  for (std::uint32_t i = 0; i < (1u << 22); ++i) {
    const PhiloxBlock block = Philox({i, 0, 7, 0}, 99, 1);
    for (std::uint64_t j = 0; j < 4; ++j) {
      const std::uint64_t e = 4ull * i + j;
      sum +=
          DigestFinalise(std::bit_cast<std::uint32_t>(NormalFromWord(block[j])) + e * kDigestStep);
    }
  }
  EXPECT_EQ(sum, Hex64(golden["hash"]));
}

TEST(DigestTest, KnownAnswers) {
  const auto& golden = Golden()["digest64"]["kat"];
  const auto digest = [](const std::vector<std::uint32_t>& v) {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < v.size() / 2; ++i) {
      std::uint64_t word;
      std::memcpy(&word, &v[2 * i], 8);
      sum += DigestTerm(word, i, 0);
    }
    return sum;
  };
  std::vector<std::uint32_t> v(16);
  EXPECT_EQ(digest(v), Hex64(golden["u32 zeros(16)"]));
  for (std::uint32_t i = 0; i < 16; ++i) v[i] = i;
  EXPECT_EQ(digest(v), Hex64(golden["u32 arange(16)"]));
  std::swap(v[3], v[12]);  // a plain sum or xor would not notice
  EXPECT_NE(digest(v), Hex64(golden["u32 arange(16)"]));
}

TEST(DigestTest, CanonicalFormJoinsNaNsAndZeros) {
  EXPECT_EQ(CanonicalBits(DType::kF32, 0x80000000), 0u);
  EXPECT_EQ(CanonicalBits(DType::kF32, 0xffa00001), 0x7fc00000u);
  EXPECT_EQ(CanonicalBits(DType::kF16, 0xfe01), 0x7e00u);
  EXPECT_EQ(CanonicalBits(DType::kE4M3FN, 0xff), 0x7fu);
  EXPECT_EQ(CanonicalBits(DType::kE4M3FNUZ, 0x80), 0x80u);  // its NaN, not a zero
  EXPECT_EQ(CanonicalBits(DType::kE2M1, 0x8), 0u);
  EXPECT_EQ(CanonicalBits(DType::kI8, 0x80), 0x80u);
  EXPECT_EQ(CanonicalWord(DType::kBF16, 0x80007fc180000001), 0x00007fc000000001u);
  EXPECT_EQ(CanonicalWord(DType::kE2M1, 0x0880), 0u);
}

}  // namespace
}  // namespace assay
