#include "kernels/text/percent.h"

#include <gtest/gtest.h>

#include "kernels/text/hex.h"

namespace assay {
namespace {

TEST(Percent, HasTwoDigits) {
  EXPECT_EQ(Percent(0), "0 %");
  EXPECT_EQ(Percent(0.00042), "0.042 %");
  EXPECT_EQ(Percent(0.0055), "0.55 %");
  EXPECT_EQ(Percent(0.05), "5 %");
  EXPECT_EQ(Percent(0.0625), "6.2 %");
  EXPECT_EQ(Percent(0.99), "99 %");
  EXPECT_EQ(Percent(0.996), "100 %");
  EXPECT_EQ(Percent(1.2), "120 %");
}

TEST(Hex128, HasAllDigitsTheFirstWordFirst) {
  EXPECT_EQ(Hex128({0x1234, ~std::uint64_t{0}}), "0000000000001234ffffffffffffffff");
}

}  // namespace
}  // namespace assay
