// How errors lie, in words: each test spoils a right result in one way.
#include "kernels/diagnose/anatomy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/diagnose/anatomy_words.h"
#include "tests/unit/judge/distorted.h"

namespace assay {
namespace {

using testing::AttentionCase;
using testing::GemmCase;
using ::testing::HasSubstr;
using testing::RunDistorted;

// Adds 3 to the elements (row, column) of a gemm's output that `wrong` picks.
std::string Pattern(std::int64_t m, std::int64_t n,
                    const std::function<bool(std::int64_t, std::int64_t)>& wrong,
                    DType dtype = DType::kF32) {
  const CaseOutcome outcome =
      RunDistorted(GemmCase(dtype, m, n, 32), [&](std::vector<double>& y, const Plan&) {
        for (std::size_t i = 0; i < y.size(); ++i) {
          const auto at = static_cast<std::int64_t>(i);
          if (wrong(at / n, at % n)) y[i] += 3;
        }
      });
  EXPECT_EQ(outcome.verdict, Verdict::kFailed);
  return outcome.pattern_of_errors;
}

TEST(Anatomy, NamesPlacesAlongTheAxes) {
  EXPECT_EQ(Pattern(64, 48, [](auto, auto) { return true; }), "every element");
  EXPECT_EQ(Pattern(64, 48, [](auto r, auto c) { return r == 3 && c == 17; }),
            "a single element, [3,17]");
  EXPECT_EQ(Pattern(64, 48, [](auto r, auto) { return r == 9; }), "all in row 9");
  EXPECT_EQ(Pattern(64, 48, [](auto r, auto) { return r == 63; }), "all in the last row (63)");
  EXPECT_EQ(Pattern(64, 48, [](auto, auto c) { return c >= 40; }), "all in the last 8 columns");
  EXPECT_EQ(Pattern(64, 48, [](auto, auto c) { return c < 16; }), "all in the first 16 columns");
  EXPECT_EQ(Pattern(64, 48, [](auto r, auto) { return r >= 16 && r < 32; }),
            "all in rows 16 to 31");
  EXPECT_EQ(Pattern(64, 48, [](auto r, auto c) { return r >= 16 && r < 32 && c >= 32; }),
            "all in one 16x16 block at [16,32]");
  EXPECT_EQ(Pattern(64, 48, [](auto r, auto) { return r != 5; }), "all in every row but 5");
}

TEST(Anatomy, FindsPeriods) {
  EXPECT_EQ(Pattern(256, 16, [](auto r, auto) { return r % 64 == 63; }),
            "all in rows 63, 127, 191 … (period 64)");
  EXPECT_EQ(Pattern(128, 16, [](auto r, auto) { return r % 64 == 63; }),
            "all in rows 63, 127 (period 64)");
  EXPECT_EQ(Pattern(16, 128, [](auto, auto c) { return c % 32 >= 24; }),
            "all in columns 24-31, 56-63, 88-95 … (period 32)");
  EXPECT_EQ(Pattern(16, 96, [](auto, auto c) { return c % 3 == 1; }),
            "all in columns 1, 4, 7 … (period 3)");
}

// Two rows anywhere are two rows, no period.
TEST(Anatomy, SeesNoPeriodInChance) {
  EXPECT_EQ(Pattern(64, 16, [](auto r, auto) { return r == 3 || r == 40; }),
            "scattered over 2 of 64 rows, 3.1 % of all elements");
  EXPECT_EQ(Pattern(64, 16, [](auto r, auto) { return r == 3 || r == 12 || r == 40; }),
            "scattered over 3 of 64 rows, 4.7 % of all elements");
}

TEST(Anatomy, FindsTriangles) {
  EXPECT_EQ(Pattern(32, 32, [](auto r, auto c) { return c > r; }),
            "all right of the diagonal, 52 % of the elements there");
  EXPECT_EQ(Pattern(32, 32, [](auto r, auto c) { return c <= r; }),
            "all on and left of the diagonal, 52 % of the elements there");
  EXPECT_EQ(Pattern(32, 32, [](auto r, auto c) { return c == r; }),
            "all on the diagonal, 3.1 % of the elements there");
  EXPECT_EQ(Pattern(32, 32, [](auto r, auto c) { return c == r + 2; }),
            "all on the diagonal 2 right of the main one, 3.3 % of the elements there");
}

TEST(Anatomy, CountsWhatIsScattered) {
  EXPECT_EQ(Pattern(64, 64, [](auto r, auto c) { return (r * 37 + c * 11) % 5 == 0; }),
            "scattered over the whole output, 20 % of all elements");
}

TEST(Anatomy, NamesHeadsAndBatches) {
  const CaseOutcome outcome = RunDistorted(AttentionCase(DType::kF32, 8, 16, 16, false),
                                           [](std::vector<double>& y, const Plan&) {
                                             for (std::size_t i = y.size() / 2; i < y.size(); ++i)
                                               y[i] += 1;
                                           });
  EXPECT_EQ(outcome.pattern_of_errors, "all in the last 4 heads");
}

// Axes of an operator of one's own have numbers.
TEST(Anatomy, SaysIndicesOfNumberedAxes) {
  AxisErrors axis;
  axis.name = "axis 1";
  axis.extent = 100;
  axis.hit = 1;
  axis.first = axis.last = 7;
  axis.kind = AxisErrors::Kind::kSingle;
  EXPECT_EQ(DescribeAxis(axis), "index 7 of axis 1");
  axis.first = axis.last = 99;
  EXPECT_EQ(DescribeAxis(axis), "the last index (99) of axis 1");
  axis.kind = AxisErrors::Kind::kRange;
  axis.first = 90;
  EXPECT_EQ(DescribeAxis(axis), "the last 10 indices of axis 1");
  axis.kind = AxisErrors::Kind::kAllBut;
  axis.missing = {13, 38};
  EXPECT_EQ(DescribeAxis(axis), "every index of axis 1 but 13, 38");
  Anatomy a;
  a.count = a.seen = 5000;
  a.wrong = 48;
  a.fill = 1;
  AxisErrors last = axis;
  last.kind = AxisErrors::Kind::kSingle;
  last.first = last.last = 99;
  axis.name = "axis 0";
  axis.extent = 50;
  a.axes = {axis, last};
  EXPECT_EQ(DescribeErrors(a),
            "all at the last index (99) of axis 1, and at every index of axis 0 but 13, 38");
}

TEST(Anatomy, ABlockReadsAsATile) {
  const CaseOutcome outcome =
      RunDistorted(GemmCase(DType::kF32, 64, 48, 32), [](std::vector<double>& y, const Plan&) {
        for (std::size_t i = 0; i < y.size(); ++i) {
          const bool inside = i / 48 >= 16 && i / 48 < 32 && i % 48 >= 20 && i % 48 < 36;
          if (inside) y[i] += 3 + 5 * std::sin(static_cast<double>(7 * i + 1));
        }
      });
  EXPECT_EQ(outcome.pattern_of_errors, "all in one 16x16 block at [16,20]");
  EXPECT_THAT(outcome.reads_as, HasSubstr("one block of the output is wrong"));
}

TEST(Anatomy, APassHasNone) {
  const CaseOutcome outcome =
      RunDistorted(GemmCase(DType::kF32, 16, 16, 16), [](std::vector<double>&, const Plan&) {});
  EXPECT_EQ(outcome.verdict, Verdict::kPassed);
  EXPECT_EQ(outcome.pattern_of_errors, "");
  EXPECT_EQ(outcome.reads_as, "");
  EXPECT_EQ(outcome.next_step, "");
  EXPECT_TRUE(outcome.inputs.empty());
}

// A wrong class is an error of its place, too.
TEST(Anatomy, CountsWrongClasses) {
  const CaseOutcome outcome =
      RunDistorted(GemmCase(DType::kF16, 32, 32, 16), [](std::vector<double>& y, const Plan&) {
        for (std::size_t i = 0; i < 32; ++i) y[31 * 32 + i] = std::nan("");
      });
  EXPECT_EQ(outcome.pattern_of_errors, "all in the last row (31)");
}

}  // namespace
}  // namespace assay
