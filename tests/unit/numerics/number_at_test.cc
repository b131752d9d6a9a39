// Numbers in lines of words.
#include "kernels/text/number_at.h"

#include <gtest/gtest.h>

namespace assay {
namespace {

TEST(NumberAt, TakesTheWordThatIsAsked) {
  EXPECT_EQ(NumberAt("12 -3\t45\n", 0), 12);
  EXPECT_EQ(NumberAt("  12 -3\t45\n", 1), -3);
  EXPECT_EQ(NumberAt("12 -3\t45\n", 2), 45);
  EXPECT_EQ(NumberAt(" S 4711", 1), 4711) << "whatever the words before are";
}

TEST(NumberAt, WhatIsNoNumberIsNone) {
  for (const char* text : {"", " ", "12", "x 3x", "1 99999999999999999999", "1 0x10", "1 +"}) {
    EXPECT_FALSE(NumberAt(text, 1)) << text;
  }
}

}  // namespace
}  // namespace assay
