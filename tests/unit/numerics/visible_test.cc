// Text of strangers: what a terminal would obey, or what would make text look like another.
#include "kernels/text/visible.h"

#include <gtest/gtest.h>

namespace assay {
namespace {

TEST(Visible, PlainTextIsAsItWas) {
  for (const char* plain :
       {"", "gemm 64x64 fp32", "0–5 µs ± 3 %", "naïve", "日本語", "\u2010\u2014\u2030"}) {
    EXPECT_EQ(FindControl(plain), std::string_view::npos) << plain;
    EXPECT_EQ(Visible(plain), plain);
  }
}

TEST(Visible, WhatATerminalObeysIsReplaced) {
  EXPECT_EQ(Visible("\x1b[2Jgone\r\n\x7f"), "?[2Jgone???");
  EXPECT_EQ(Visible("a\u0085b\u009bc"), "a?b?c");
  EXPECT_EQ(Visible(std::string_view("a\0b", 3)), "a?b");
  EXPECT_EQ(FindControl("ab\x07"), 2u);
}

TEST(Visible, WhatTurnsTextAroundIsReplaced) {
  for (const char* turn :
       {"\u061c", "\u200e", "\u200f", "\u2028", "\u2029", "\u202a", "\u202e", "\u2066", "\u2069"}) {
    EXPECT_EQ(Visible(std::string("a") + turn + "b"), "a?b") << turn;
  }
  EXPECT_EQ(Visible("\u2065\u202f\u200d"), "\u2065\u202f\u200d") << "their neighbours do not";
}

TEST(Visible, TextThatEndsInTheMiddleOfACharacterIsTaken) {
  EXPECT_EQ(Visible("a\xe2\x80"), "a\xe2\x80");
  EXPECT_EQ(Visible("a\xe2"), "a\xe2");
  EXPECT_EQ(Visible("a\xc2"), "a\xc2");
}

}  // namespace
}  // namespace assay
