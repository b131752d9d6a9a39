// Shares what tests of planted kernels need on every device: the words of an outcome, the rule for
// a defect that is found, and the check that each defect of a table is found as often as it says.
#ifndef ASSAY_TESTS_SELFTEST_PLANTED_CHECKS_H_
#define ASSAY_TESTS_SELFTEST_PLANTED_CHECKS_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>

#include "kernels/providers/planted/planted.h"
#include "kernels/text/cat.h"
#include "kernels/validate/runner.h"
#include "tests/outcome_text.h"

namespace assay::testing {

// How many seeds a defect gets that sits elsewhere with every seed: `few` in every run of the
// tests, and as many as ASSAY_TEST_SEEDS says in the long ones.
inline int SeedsOr(int few) {
  const char* given = std::getenv("ASSAY_TEST_SEEDS");
  return given == nullptr ? few : std::max(1, static_cast<int>(std::strtol(given, nullptr, 10)));
}
inline bool IsLongRun() { return std::getenv("ASSAY_TEST_SEEDS") != nullptr; }

// Whether a defect is run in this format: in the long runs in all of them, else in one, which
// another defect need not have.
inline bool IsRun(const PlantedDefect& d, DType t) {
  return IsLongRun() || d.dtypes[d.name.size() % d.dtypes.size()] == t;
}

inline bool Found(const CaseOutcome& outcome, std::string_view reason) {
  return outcome.verdict == Verdict::kFailed &&
         std::any_of(outcome.findings.begin(), outcome.findings.end(),
                     [&](const Finding& f) { return ReasonWord(f.reason) == reason; });
}

// Runs every defect that does not end its process, in each of its formats for which
// `seeds_of(defect, dtype)` is above 0, with so many seeds from 1 up; `run(case)` gives the
// outcome. Returns how many rows, of a defect and a format, were run.
template <class SeedsOf, class Run>
int ExpectEachIsCaught(std::span<const PlantedDefect> defects, SeedsOf seeds_of, Run run) {
  int rows = 0;
  for (const PlantedDefect& d : defects) {
    if (d.ends_process || d.check.empty()) continue;
    for (const DType t : d.dtypes) {
      const std::string_view expected = ExpectedReason(d, t);
      const int seeds = seeds_of(d, t);
      int caught = 0;
      std::string missed;
      for (int seed = 1; seed <= seeds; ++seed) {
        const CaseOutcome outcome = run(PlantedCase(d, t, static_cast<std::uint64_t>(seed)));
        if (Found(outcome, expected)) {
          ++caught;
        } else if (missed.empty()) {
          missed = Cat("seed ", seed, ": ", Describe(outcome));
        }
      }
      EXPECT_GE(caught, RequiredRate(d, t) * seeds)
          << d.op << " " << d.name << " " << Name(t) << ": " << caught << " of " << seeds
          << " caught by " << expected << "; " << missed;
      rows += seeds > 0 ? 1 : 0;
    }
  }
  return rows;
}

}  // namespace assay::testing

#endif  // ASSAY_TESTS_SELFTEST_PLANTED_CHECKS_H_
