#include "kernels/suites/suite.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace assay {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kHead[] = "name = \"t\"\ntitle = \"a test\"\nversion = \"1\"\n";

std::string ErrorOf(const std::string& body) {
  const absl::StatusOr<Suite> suite = ParseSuite(kHead + body, "t.toml", "cpu");
  EXPECT_FALSE(suite.ok()) << body;
  return suite.ok() ? "" : std::string(suite.status().message());
}

TEST(Suite, ExpandsSweepsWithShapesSlowestAndProvidersFastest) {
  const absl::StatusOr<Suite> suite = ParseSuite(std::string(kHead) + R"(
[[case]]
op = "gemm"
dtype = ["fp32", "bf16"]
provider = ["onednn", "builtin"]
shape = [{ m = 1, n = 2, k = 3 }, { m = 4, n = 5, k = 6, trans_b = true }]
)",
                                                 "t.toml", "cpu");
  ASSERT_TRUE(suite.ok()) << suite.status();
  std::vector<std::string> names;
  for (const Case& c : suite->cases) names.push_back(DefaultName(c));
  EXPECT_THAT(names, ElementsAre("gemm 1x2x3 fp32 onednn", "gemm 1x2x3 fp32 builtin",
                                 "gemm 1x2x3 bf16 onednn", "gemm 1x2x3 bf16 builtin",
                                 "gemm 4x5x6 nt fp32 onednn", "gemm 4x5x6 nt fp32 builtin",
                                 "gemm 4x5x6 nt bf16 onednn", "gemm 4x5x6 nt bf16 builtin"));
}

TEST(Suite, ChoosesCasesAndRequirementsByBackend) {
  const std::string text = std::string(kHead) + R"(
[[require]]
backend = "cuda"
op = "copy"
provider = "builtin"
dtype = "fp32"
[[case]]
op = "copy"
backend = ["cuda", "hip"]
dtype = "fp32"
count = [10, 20]
)";
  EXPECT_EQ(ParseSuite(text, "t.toml", "cpu")->cases.size(), 0u);
  EXPECT_EQ(ParseSuite(text, "t.toml", "cpu")->requirements.size(), 0u);
  EXPECT_EQ(ParseSuite(text, "t.toml", "cuda")->cases.size(), 2u);
  EXPECT_EQ(ParseSuite(text, "t.toml", "cuda")->requirements.size(), 1u);
}

TEST(Suite, ListFieldsAreValuesAndListsOfListsAreSweeps) {
  const absl::StatusOr<Suite> suite = ParseSuite(std::string(kHead) + R"(
[[case]]
op = "conv"
dtype = "fp32"
channels = 4
filters = 4
input = [8, 8]
kernel = [[1, 1], [3, 3]]
)",
                                                 "t.toml", "cpu");
  ASSERT_TRUE(suite.ok()) << suite.status();
  EXPECT_EQ(suite->cases.size(), 2u);
}

TEST(Suite, MistakesAreAnsweredWithLineColumnAndTheNearestName) {
  EXPECT_EQ(ErrorOf("[[case]]\nop = \"gemm\"\ndtyp = \"fp32\"\n"),
            "t.toml:6:1: unknown key \"dtyp\"; did you mean \"dtype\"?");
  EXPECT_THAT(ErrorOf("[[case]]\nop = \"gemm\"\ndtype = \"fp23\"\n"),
              HasSubstr("t.toml:6:9: unknown type \"fp23\""));
  EXPECT_THAT(ErrorOf("[[case]]\nop = \"gem\"\n"), HasSubstr("t.toml:5:6: unknown op \"gem\""));
  EXPECT_THAT(ErrorOf("[[case]]\nop = \"gemm\"\ndtype = \"fp32\"\nshape = { m = 1, q = 2 }\n"),
              HasSubstr("t.toml:7:18: unknown key \"q\""));
  EXPECT_THAT(ErrorOf("[[case]]\nop = \"gemm\"\ndtype = \"fp32\"\nm = \"one\"\n"),
              HasSubstr("t.toml:7:5: m: must be an integer"));
  EXPECT_THAT(ErrorOf("[[case]]\nop = \"gemm\"\ndtype = \"fp32\"\nm = 0\nn = 1\nk = 1\n"),
              HasSubstr("gemm.m: must be at least 1, got 0"));
  EXPECT_THAT(ErrorOf("[[case]\n"), HasSubstr("t.toml:4:"));
  EXPECT_THAT(ErrorOf("[[case]]\nop = \"copy\"\ndtype = \"fp32\"\ncount = 4\nmode = \"bench\"\n"),
              HasSubstr("unknown mode \"bench\""));
}

// toml++ would end the program at these.
TEST(Suite, ATableWithoutANameIsAMistake) {
  for (const char* text : {"[%", "[[%", "[a.%", "[a.", "[", "[["}) {
    const auto suite = ParseSuite(text, "s.toml", "cpu");
    EXPECT_TRUE(absl::IsInvalidArgument(suite.status())) << text << ": " << suite.status();
  }
}

TEST(Suite, EveryTablesMistakesAreSaid) {
  EXPECT_EQ(ErrorOf("[[case]]\nop = \"gemm\"\ndtype = \"fp32\"\nm = 0\nn = -2\nk = 3\n"
                    "[[case]]\nop = \"copy\"\ndtype = \"fp32\"\ncount = 4\n"
                    "[[case]]\nop = \"gem\"\n"),
            "t.toml:4:1: gemm.m: must be at least 1, got 0\n"
            "t.toml:4:1: gemm.n: must be at least 1, got -2\n"
            "t.toml:15:6: unknown op \"gem\"");
}

TEST(Suite, ReadsWhatAPublishedTableSaysOfACase) {
  const absl::StatusOr<Suite> suite = ParseSuite(std::string(kHead) + R"(
[[case]]
op = "copy"
dtype = "fp32"
count = 4
criterion = "derived"
accumulations = 64
split_k = 4
probes = false
published = { name = "a row", max_abs_error = 2.32, limit = 0.5, passed = false, source = "here" }
[[case]]
op = "gemm"
dtype = "tf32"
shape = { m = 1, n = 2, k = 3 }
verify = "checksum"
operand_roundoff = 1e-7
flushes_subnormals = true
cuts_off_sums = true
provider = "user/0123456789ab"
published = { name = "another", passed = true }
)",
                                                 "t.toml", "cpu");
  ASSERT_TRUE(suite.ok()) << suite.status();
  const Case& first = suite->cases[0];
  ASSERT_TRUE(first.published.has_value());
  EXPECT_EQ(first.published->name, "a row");
  EXPECT_EQ(first.published->max_abs_error, 2.32);
  EXPECT_EQ(first.published->limit, 0.5);
  EXPECT_FALSE(first.published->passed);
  EXPECT_EQ(first.published->source, "here");
  EXPECT_EQ(first.accumulations, 64);
  EXPECT_EQ(first.split_k, 4);
  EXPECT_FALSE(first.probes);
  const Case& second = suite->cases[1];
  EXPECT_EQ(second.verify, Verification::kChecksum);
  EXPECT_EQ(second.operand_roundoff, 1e-7);
  EXPECT_TRUE(second.flushes_subnormals);
  EXPECT_TRUE(second.cuts_off_sums);
  EXPECT_FALSE(second.published->max_abs_error.has_value());
  EXPECT_FALSE(second.published->limit.has_value());
  EXPECT_TRUE(second.published->passed);
  const std::string copy = "[[case]]\nop = \"copy\"\ndtype = \"fp32\"\ncount = 4\n";
  EXPECT_THAT(ErrorOf(copy + "published = 3\n"), HasSubstr("t.toml:8:13: published: must be"));
  EXPECT_EQ(ErrorOf(copy + "published = { nam = \"x\" }\n"),
            "t.toml:8:15: unknown key \"nam\"; did you mean \"name\"?");
  EXPECT_THAT(ErrorOf(copy + "published = { limit = \"x\" }\n"), HasSubstr("must be a number"));
  EXPECT_THAT(ErrorOf(copy + "split_k = -1\n"), HasSubstr("split_k: must be from 0 to"));
  EXPECT_THAT(ErrorOf(copy + "verify = \"sum\"\n"), HasSubstr("unknown verify \"sum\""));
}

// Four short lists make 10^8 cases: counted, not expanded.
TEST(Suite, RefusesMoreCasesThanItsLimit) {
  const auto list = [](const char* key, int n) {
    std::string text = std::string(key) + " = [1";
    for (int i = 2; i <= n; ++i) text += ", " + std::to_string(i);
    return text + "]\n";
  };
  const std::string head = "[[case]]\nop = \"gemm\"\ndtype = \"fp32\"\n";
  EXPECT_EQ(ErrorOf(head + list("m", 100) + list("n", 100) + list("k", 100) + list("batch", 100)),
            "t.toml:4:1: makes 100000000 cases; a suite has at most 100000");
  // The limit is the suite's, not a table's.
  EXPECT_EQ(ErrorOf("[[case]]\nop = \"copy\"\ndtype = \"fp32\"\n" + list("count", 10) + head +
                    list("m", 100) + list("n", 100) + list("k", 10)),
            "t.toml:8:1: makes 100000 cases beside the 10 before it; a suite has at most 100000");
}

// A part of a key is a table within the one before: the library would take them by recursion.
TEST(Suite, RefusesKeysOfThousandsOfParts) {
  std::string parts = "a";
  for (int i = 0; i < 300'000; ++i) parts += ".a";
  for (const std::string& line : {parts + " = 1", "[" + parts + "]", "a = {" + parts + " = 1}"}) {
    EXPECT_EQ(ErrorOf("# a comment\n" + line + "\n"),
              "t.toml:5:1: has more than 100 dots; break the line");
  }
  std::string reals = "alpha = [0.5";
  for (int i = 1; i < 500; ++i) reals += ",\n0.5";
  EXPECT_THAT(ErrorOf("[[case]]\nop = \"gemm\"\ndtype = \"fp32\"\n" + reals + "]\n"),
              Not(HasSubstr("dots")));
}

// A sweep over nothing would drop its cases without a word.
TEST(Suite, RefusesEmptyLists) {
  EXPECT_THAT(ErrorOf("[[case]]\nop = \"gemm\"\nm = 1\nn = 1\nk = 1\ndtype = []\n"),
              HasSubstr("t.toml:9:9: dtype: must not be an empty list"));
  EXPECT_THAT(ErrorOf("[[case]]\nop = \"copy\"\ncount = 1\ndtype = \"fp32\"\nbackend = []\n"),
              HasSubstr("t.toml:8:11: backend: must not be an empty list"));
  EXPECT_THAT(ErrorOf("[[case]]\nop = \"conv\"\ndtype = \"fp32\"\nstride = []\n"),
              HasSubstr("t.toml:7:10: stride: must not be an empty list"));
  EXPECT_THAT(ErrorOf("[[require]]\nop = \"copy\"\nprovider = []\ndtype = \"fp32\"\n"),
              HasSubstr("t.toml:6:12: provider: must not be an empty list"));
}

TEST(Suite, NamesWhatIsMissing) {
  const absl::StatusOr<Suite> suite =
      ParseSuite("title = \"x\"\nversion = \"1\"\n", "t.toml", "cpu");
  ASSERT_FALSE(suite.ok());
  EXPECT_THAT(std::string(suite.status().message()), HasSubstr("\"name\" is missing"));
}

// Every suite that ships is read for every backend.
TEST(Suite, ShippedSuitesParse) {
  const std::vector<std::string> names = ListSuiteNames(ASSAY_SUITES_DIR);
  EXPECT_THAT(names, ::testing::IsSupersetOf({"fp8-attention", "kernel-lab", "precision",
                                              "precision-softmax", "smoke"}));
  for (const std::string& name : names) {
    const absl::StatusOr<std::string> text = ReadSuiteText(ASSAY_SUITES_DIR, name);
    ASSERT_TRUE(text.ok()) << text.status();
    for (const char* backend : {"cpu", "cuda", "hip"}) {
      const absl::StatusOr<Suite> suite = ParseSuite(*text, name + ".toml", backend);
      ASSERT_TRUE(suite.ok()) << suite.status();
      EXPECT_EQ(suite->name, name);
      EXPECT_GT(suite->cases.size(), 0u) << name << " on " << backend;
    }
  }
}

TEST(Suite, UnknownNamesAreAnsweredWithTheNearest) {
  const absl::StatusOr<std::string> text = ReadSuiteText(ASSAY_SUITES_DIR, "kernel-lap");
  ASSERT_FALSE(text.ok());
  EXPECT_EQ(text.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(text.status().message()), HasSubstr("did you mean \"kernel-lab\"?"));
}

}  // namespace
}  // namespace assay
