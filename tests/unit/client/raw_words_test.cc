// Raw bytes as words: every bit as it came, in every type.
#include "client/report/raw_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace assay::client {
namespace {

using ::testing::HasSubstr;

std::string Table(const std::vector<std::uint8_t>& bytes, const std::vector<std::string>& names,
                  std::int64_t begin = 0) {
  const auto types = ParseWordTypes(names);
  EXPECT_TRUE(types.ok()) << types.status();
  return RawWordTable(bytes, begin, *types);
}

TEST(RawWords, OneLineForEachWordOfTheWidestType) {
  EXPECT_EQ(Table({1, 0, 0, 0, 0x80, 0x3f, 0x00, 0x40}, {"u32", "f32", "bf16"}, 64),
            "byte        bits         u32             f32         bf16\n"
            "  64  0x00000001           1  1.40129846e-45  9.184e-41 0\n"
            "  68  0x40003f80  1073758080      2.00387573          1 2\n");
}

// A NaN keeps its payload, which a float on the way would lose.
TEST(RawWords, TheBitsOfANaNAreShown) {
  const std::string text = Table({0x01, 0x00, 0xa0, 0x7f}, {"f32", "u32"});
  EXPECT_THAT(text, HasSubstr("0x7fa00001  NaN  2141192193"));
}

TEST(RawWords, EveryType) {
  const std::vector<std::uint8_t> ones(8, 0xff);
  EXPECT_THAT(Table(ones, {"u64", "i64"}),
              HasSubstr("0xffffffffffffffff  18446744073709551615   -1"));
  EXPECT_THAT(Table({0xfe, 0xff}, {"i16", "u16", "i8", "u8"}),
              HasSubstr("-2  65534  -2 -1  254 255"));
  EXPECT_THAT(Table({0, 0, 0, 0, 0, 0, 0xf0, 0xbf}, {"f64"}), HasSubstr("0xbff0000000000000   -1"));
  // fp16: 1.5, the smallest subnormal, -Inf, NaN.
  EXPECT_THAT(Table({0x00, 0x3e}, {"f16"}), HasSubstr("0x3e00  1.5"));
  EXPECT_THAT(Table({0x01, 0x00}, {"f16"}), HasSubstr("0x0001  5.9605e-08"));
  EXPECT_THAT(Table({0x00, 0xfc}, {"f16"}), HasSubstr("0xfc00  -inf"));
  EXPECT_THAT(Table({0x01, 0x7c}, {"f16"}), HasSubstr("0x7c01  NaN"));
}

TEST(RawWords, BytesThatAreNoWholeWordAreShownAsBits) {
  EXPECT_EQ(Table({1, 2, 3, 4, 5}, {"u32"}),
            "byte        bits       u32\n"
            "   0  0x04030201  67305985\n"
            "   4        0x05          \n");
}

TEST(RawWords, AnUnknownTypeIsNamed) {
  const auto types = ParseWordTypes({"u32", "fp8"});
  EXPECT_THAT(std::string(types.status().message()),
              HasSubstr("no type of words \"fp8\"; known: u8"));
}

}  // namespace
}  // namespace assay::client
