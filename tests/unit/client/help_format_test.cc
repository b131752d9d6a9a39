// The layout of --help on terminals of several widths and in a pipe.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "client/cli/app.h"
#include "client/cli/help_format.h"
#include "client/report/units.h"

namespace assay::client {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string Help(std::vector<std::string> words, int width) {
  std::ostringstream out, err;
  Streams streams{out, err};
  streams.width = width;
  words.emplace_back("--help");
  EXPECT_EQ(RunCommandLine(words, streams), 0);
  return out.str();
}

TEST(HelpFormat, NoLineIsWiderThanTheTerminal) {
  for (const int width : {80, 120}) {
    for (const std::vector<std::string>& words :
         std::vector<std::vector<std::string>>{{},
                                               {"run"},
                                               {"run", "gemm"},
                                               {"bench"},
                                               {"submit", "conv"},
                                               {"compare"},
                                               {"qualify"},
                                               {"selftest"},
                                               {"explain"},
                                               {"devices"},
                                               {"show"},
                                               {"jobs"},
                                               {"baseline", "compare"}}) {
      std::istringstream lines(Help(words, width));
      for (std::string line; std::getline(lines, line);) {
        EXPECT_LE(DisplayWidth(line), static_cast<std::size_t>(width)) << line;
      }
    }
  }
}

TEST(HelpFormat, DescriptionsGoOnBelowTheirBeginning) {
  EXPECT_THAT(
      Help({"run", "gemm"}, 80),
      HasSubstr("  --k N                       columns of op(A) and rows of op(B): the length of\n"
                "                              each sum\n"));
  EXPECT_THAT(
      Help({"run", "gemm"}, 0),
      HasSubstr("  --k N                       columns of op(A) and rows of op(B): the length of "
                "each sum\n"))
      << "in a pipe a description is a line";
  EXPECT_EQ(Wrapped("  one   two three four five six seven eight", 30),
            "  one   two three four five\n        six seven eight");
}

TEST(HelpFormat, AnOptionHasOneName) {
  const std::string help = Help({"run"}, 0);
  EXPECT_THAT(help, HasSubstr("  --repeat N "));
  EXPECT_THAT(help, Not(HasSubstr("--repeats")));
  EXPECT_THAT(Help({"qualify"}, 0), HasSubstr("  --expect-devices [BACKEND:]N\n"
                                              "                              how many"));
}

TEST(HelpFormat, SaysWhatTheCommandItselfDoes) {
  EXPECT_THAT(Help({"bench"}, 0), HasSubstr("both (default benchmark)"));
  EXPECT_THAT(Help({"run"}, 0), HasSubstr("both (default validate)"));
  EXPECT_THAT(Help({"run"}, 0), HasSubstr("--bench"));
  EXPECT_THAT(Help({"bench"}, 0), Not(HasSubstr("--bench ")));
  const std::string threshold = "5%; 10% on another host, or on another device of the model)";
  EXPECT_THAT(Help({"bench"}, 0), HasSubstr(threshold));
  EXPECT_THAT(Help({"qualify"}, 0), HasSubstr(threshold));
  EXPECT_THAT(Help({"baseline", "compare"}, 0), HasSubstr(threshold));
  EXPECT_THAT(Help({"qualify"}, 0), HasSubstr("1 one failed, is degraded or is missing"));
}

}  // namespace
}  // namespace assay::client
