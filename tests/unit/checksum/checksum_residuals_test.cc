// Which residuals are flagged, by which threshold, and in which order: of numbers worked out by
// hand.
#include "kernels/checksum/checksum_residuals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <vector>

namespace assay {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

std::vector<std::int64_t> Indices(const ChecksumSide& side) {
  std::vector<std::int64_t> indices;
  for (const ChecksumLine& line : side.lines) indices.push_back(line.index);
  return indices;
}

// One matrix, one probe, all thresholds 1, screening from `least_sigma` on.
ChecksumSide Judge(const std::vector<double>& residuals, double least_sigma) {
  const auto lines = static_cast<std::int64_t>(residuals.size());
  ChecksumResiduals r(1, lines, 1);
  for (std::int64_t i = 0; i < lines; ++i) {
    r.SetThreshold(0, i, 1.0, least_sigma);
    r.residual(0, 0, i) = residuals[static_cast<std::size_t>(i)];
  }
  return r.Judge();
}

// 6 · 1.4826 · the median of |d|/t, times t.
TEST(ChecksumResiduals, ScreensBySixDeviationsFromTheMedian) {
  // The median of |d|/t is 5e-3.
  const std::vector<double> residuals = {7e-3, -1e-3, 2e-3, 6e-3, -3e-3, 0.9, -5e-3};
  ChecksumResiduals r(1, 7, 1);
  for (std::int64_t i = 0; i < 7; ++i) {
    const double t = i == 5 ? 1.0 : static_cast<double>(i + 1);
    r.SetThreshold(0, i, t, 1e-9);
    r.residual(0, 0, i) = residuals[static_cast<std::size_t>(i)] * t;
  }
  const ChecksumSide side = r.Judge();
  ASSERT_EQ(Indices(side), (std::vector<std::int64_t>{5}));
  EXPECT_DOUBLE_EQ(side.lines[0].deviation, 0.9 / (6 * 1.4826 * 5e-3));
  EXPECT_EQ(side.lines[0].residual, 0.9);
  EXPECT_EQ(side.lines[0].threshold, 1.0);
  EXPECT_FALSE(side.lines[0].beyond);
  EXPECT_EQ(side.beyond, 0);
  EXPECT_DOUBLE_EQ(side.max_ratio, 0.9);
}

TEST(ChecksumResiduals, ScreensByTheLeastDeviationWhereTheNoiseIsSmaller) {
  // The median is 0.
  ChecksumSide side = Judge({0, 0, 0, 0.5, 0}, 1.0 / 64);
  ASSERT_EQ(Indices(side), (std::vector<std::int64_t>{3}));
  EXPECT_DOUBLE_EQ(side.lines[0].deviation, 0.5 * 64 / 6);
  // Up to six of them it is not suspicious.
  EXPECT_TRUE(Judge({0, 0, 0, 0.375, 0}, 1.0 / 16).lines.empty());
  EXPECT_FALSE(Judge({0, 0, 0, 0.376, 0}, 1.0 / 16).lines.empty());
  EXPECT_FALSE(Judge({0, 0, 0, 0.6, 0}, 1.0 / 16).lines.empty());
  EXPECT_TRUE(Judge({0, 0, 0, 0.25, 0}, 1.0 / 16).lines.empty());
}

TEST(ChecksumResiduals, IsBeyondTheThresholdAboveItOnly) {
  EXPECT_EQ(Judge({0, 0, 1, 0}, 1).beyond, 0);
  const ChecksumSide side = Judge({0, 0, 0, -1.5, 0.75}, 1);
  EXPECT_EQ(side.beyond, 1);
  EXPECT_EQ(Indices(side), (std::vector<std::int64_t>{3})) << "though no deviation is large";
  EXPECT_EQ(side.max_ratio, 1.5);
  EXPECT_EQ(side.lines[0].residual, -1.5);
  EXPECT_DOUBLE_EQ(side.lines[0].deviation, 0.25);
  EXPECT_EQ(Judge({3, 0, -2, 0}, 1).max_ratio, 3);
  EXPECT_EQ(Judge({0, 0, 0, 0}, 1).max_ratio, 0);
}

TEST(ChecksumResiduals, SetsWhatIsNotFiniteApart) {
  const ChecksumSide side = Judge({0, kInf, kNaN, 0, -0.25}, 1.0 / 128);
  EXPECT_EQ(side.beyond, 0);
  EXPECT_EQ(side.max_ratio, 0.25) << "of finite ones";
  EXPECT_EQ(Indices(side), (std::vector<std::int64_t>{2, 1, 4}));
}

TEST(ChecksumResiduals, PutsTheWorstFirst) {
  const double sigma = 1.0 / 128;  // suspicious from 6/128 on
  const ChecksumSide side =
      Judge({0.1, 0, 0.2, 3, 0, 0, kNaN, 0, 0.1, 5, 0, kNaN, 0.3, 0, 0, 0, 0, 0, 0, 0, 0}, sigma);
  EXPECT_EQ(Indices(side), (std::vector<std::int64_t>{9, 3, 6, 11, 12, 2, 0, 8}));
  EXPECT_EQ(side.beyond, 2);
}

// Of several probes the one that deviates most, of equal ones the first; whatever is beyond the
// threshold along one of them stays so.
TEST(ChecksumResiduals, TakesTheWorstProbeOfALine) {
  constexpr std::int64_t kLines = 9;
  ChecksumResiduals r(2, kLines, 3);
  for (std::int64_t b = 0; b < 2; ++b) {
    for (std::int64_t i = 0; i < kLines; ++i) r.SetThreshold(b, i, 1, 1.0 / 128);
  }
  const auto set = [&](std::int64_t b, std::int64_t i, double p0, double p1, double p2) {
    r.residual(b, 0, i) = p0;
    r.residual(b, 1, i) = p1;
    r.residual(b, 2, i) = p2;
  };
  set(0, 0, 0.5, 0.25, 0.125);
  set(0, 3, 0.125, 0.25, -0.75);
  set(0, 5, 0.625, -0.625, -0.625);
  set(1, 2, kNaN, 0.5, 0.5);
  set(1, 4, 0.5, kNaN, 7);
  set(1, 8, 0, 0, 1.25);
  const ChecksumSide side = r.Judge();
  struct Expected {
    std::int64_t batch, index;
    double residual;
    bool beyond;
  };
  const Expected expected[] = {{1, 8, 1.25, true},   {1, 4, kNaN, true},   {1, 2, kNaN, false},
                               {0, 3, -0.75, false}, {0, 5, 0.625, false}, {0, 0, 0.5, false}};
  ASSERT_EQ(side.lines.size(), std::size(expected));
  EXPECT_EQ(side.beyond, 2);
  EXPECT_EQ(side.max_ratio, 7);
  for (const Expected& e : expected) {
    const auto found = std::find_if(
        side.lines.begin(), side.lines.end(),
        [&](const ChecksumLine& line) { return line.batch == e.batch && line.index == e.index; });
    ASSERT_NE(found, side.lines.end()) << e.batch << " " << e.index;
    EXPECT_EQ(found->beyond, e.beyond) << e.index;
    if (std::isnan(e.residual)) {
      EXPECT_TRUE(std::isnan(found->residual)) << e.index;
    } else {
      EXPECT_EQ(found->residual, e.residual) << e.index;
    }
  }
}

// Every line has thresholds of its own, and every probe its own noise.
TEST(ChecksumResiduals, KeepsMatricesAndProbesApart) {
  constexpr std::int64_t kLines = 5;
  ChecksumResiduals r(2, kLines, 2);
  for (std::int64_t b = 0; b < 2; ++b) {
    for (std::int64_t i = 0; i < kLines; ++i) {
      const double t = static_cast<double>(10 * b + i + 1);
      r.SetThreshold(b, i, t, 0.01 * t);
      // The medians of |d|/t of the ten lines are 0.06 and 0.006.
      const double ratio = static_cast<double>(b * kLines + i + 1) / 100;
      r.residual(b, 0, i) = ratio * t;
      r.residual(b, 1, i) = -ratio * t / 10;
    }
  }
  r.residual(1, 1, 3) = 14 * 0.5;
  const ChecksumSide side = r.Judge();
  ASSERT_EQ(side.lines.size(), 1u);
  EXPECT_EQ(side.lines[0].batch, 1);
  EXPECT_EQ(side.lines[0].index, 3);
  EXPECT_EQ(side.lines[0].residual, 7);
  EXPECT_EQ(side.lines[0].threshold, 14);
  // Its own noise along the second probe is below 0.01 of the threshold.
  EXPECT_DOUBLE_EQ(side.lines[0].deviation, 0.5 / (6 * 0.01));
  EXPECT_DOUBLE_EQ(side.max_ratio, 0.5);
}

}  // namespace
}  // namespace assay
