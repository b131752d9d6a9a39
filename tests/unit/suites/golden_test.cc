// Golden digests: their file, and that those of the shipped suites reach the cases.
#include "kernels/suites/golden.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace assay {
namespace {

using ::testing::HasSubstr;

constexpr char kDigest[] = "00112233445566778899aabbccddeeff";

TEST(Golden, ATextIsReadAsItWasWritten) {
  const Golden golden = {{"gemm 1x2x3 fp32", {{"exact-integers", kDigest}}}};
  const absl::StatusOr<Golden> read = ParseGolden(GoldenText(golden), "a.tsv");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, golden);
}

TEST(Golden, AWrongLineIsNamed) {
  for (const char* line : {"gemm", "gemm\texact", "gemm\texact\tshort",
                           "gemm\texact\t00112233445566778899aabbccddeefg"}) {
    const auto read = ParseGolden(std::string("# fine\n") + line + "\n", "a.tsv");
    ASSERT_FALSE(read.ok()) << line;
    EXPECT_THAT(std::string(read.status().message()), HasSubstr("a.tsv:2: must be case, probe"));
  }
}

// Of what is small enough for a digest to be made in a test.
bool IsSmall(const Case& c) {
  const auto* gemm = std::get_if<GemmProblem>(&c.problem);
  return gemm != nullptr && gemm->m * gemm->n * gemm->k <= std::int64_t{1024} * 1024 * 1024;
}

TEST(Golden, EveryLevelShipsThoseOfItsProducts) {
  for (const char* level : {"quick", "medium", "nightly", "extended"}) {
    const absl::StatusOr<std::string> text = ReadSuiteText(ASSAY_SUITES_DIR, level);
    ASSERT_TRUE(text.ok()) << text.status();
    absl::StatusOr<Suite> suite = ParseSuite(*text, level, "cpu");
    ASSERT_TRUE(suite.ok()) << suite.status();
    const absl::StatusOr<Golden> golden = ReadGolden(ASSAY_SUITES_DIR, level);
    ASSERT_TRUE(golden.ok()) << golden.status();
    ApplyGolden(*golden, *suite);
    for (const auto* cases : {&suite->cases, &suite->fill}) {
      int small = 0;
      for (const Case& c : *cases) {
        if (!IsSmall(c)) continue;
        ++small;
        EXPECT_TRUE(c.golden.contains("exact-integers")) << level << ": " << GoldenKey(c);
      }
      EXPECT_GT(small, 0) << level;
    }
  }
}

}  // namespace
}  // namespace assay
