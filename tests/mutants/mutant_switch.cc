// Which mutant is active, and which mutants each test reaches.
//
// ASSAY_MUTANT is the number of the active mutant. ASSAY_MUTANT_TRACE names a file: after each test
// a line is added, "name<tab>seconds<tab>numbers of the mutants that the test reached". A line
// named "startup" has those reached before the first test, and one named "no change" those that
// turned out to be none.
#include "mutant_switch.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace mut {

int active = -1;
unsigned char reached[kMost];
unsigned char no_change[kMost];

namespace {

// Before every other initialiser: constants of the sources may be mutants.
__attribute__((constructor(101))) void ReadActive() {
  if (const char* id = std::getenv("ASSAY_MUTANT")) active = std::atoi(id);
}

class Trace : public testing::EmptyTestEventListener {
 public:
  explicit Trace(const char* path) : file_(std::fopen(path, "w")) {}

  void OnTestStart(const testing::TestInfo&) override {
    if (!started_) Write("startup", 0, reached);
    started_ = true;
    std::memset(reached, 0, sizeof reached);
  }
  void OnTestEnd(const testing::TestInfo& test) override {
    const double seconds = static_cast<double>(test.result()->elapsed_time()) / 1000;
    Write(std::string(test.test_suite_name()) + "." + test.name(), seconds, reached);
  }
  void OnTestProgramEnd(const testing::UnitTest&) override {
    Write("no change", 0, no_change);
    std::fclose(file_);
  }

 private:
  void Write(const std::string& name, double seconds, const unsigned char* set) {
    std::fprintf(file_, "%s\t%g\t", name.c_str(), seconds);
    for (int id = 0; id < kMost; ++id) {
      if (set[id] != 0) std::fprintf(file_, "%d ", id);
    }
    std::fprintf(file_, "\n");
    std::fflush(file_);
  }

  std::FILE* file_;
  bool started_ = false;
};

const bool listens = [] {
  if (const char* path = std::getenv("ASSAY_MUTANT_TRACE")) {
    testing::UnitTest::GetInstance()->listeners().Append(new Trace(path));
  }
  return true;
}();

}  // namespace
}  // namespace mut
