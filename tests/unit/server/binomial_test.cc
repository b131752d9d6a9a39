// The confidence interval of a counted rate, against tables and closed forms.
#include "server/plan/binomial.h"

#include <gtest/gtest.h>

#include <cmath>

namespace assay::server {
namespace {

TEST(Binomial, ChancesAreThoseOfTheDistribution) {
  EXPECT_NEAR(ChanceOfAtMost(1, 2, 0.5), 0.75, 1e-12);
  EXPECT_NEAR(ChanceOfAtMost(0, 10, 0.1), std::pow(0.9, 10), 1e-12);
  EXPECT_EQ(ChanceOfAtMost(3, 3, 0.9), 1.0);
  EXPECT_EQ(ChanceOfAtMost(2, 3, 1.0), 0.0);
  EXPECT_EQ(ChanceOfAtMost(0, 3, 0.0), 1.0);
}

TEST(Binomial, TheIntervalIsThatOfClopperAndPearson) {
  EXPECT_NEAR(LowestRate(20, 20), 0.8316, 5e-5);
  EXPECT_NEAR(LowestRate(2, 2), 0.1581, 5e-5);
  EXPECT_NEAR(LowestRate(1, 1), 0.025, 1e-9);
  EXPECT_NEAR(LowestRate(19, 20), 0.7513, 5e-5);
  EXPECT_NEAR(HighestRate(19, 20), 0.9987, 5e-5);
  EXPECT_NEAR(LowestRate(5, 10), 0.1871, 5e-5);
  EXPECT_NEAR(HighestRate(5, 10), 0.8129, 5e-5);
}

TEST(Binomial, NothingFoundAndEverythingFoundHaveOneOpenEnd) {
  EXPECT_EQ(LowestRate(0, 20), 0.0);
  EXPECT_EQ(HighestRate(20, 20), 1.0);
  for (const int n : {1, 40, 427, 40'000}) {
    EXPECT_NEAR(HighestRate(0, n), 1 - std::pow(0.025, 1.0 / n), 1e-9) << n;
  }
}

}  // namespace
}  // namespace assay::server
