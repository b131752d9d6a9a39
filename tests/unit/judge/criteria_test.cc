// What all criteria are said to make of an output is what each makes of it where it gates.
#include "kernels/judge/criteria.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/unit/judge/distorted.h"

namespace assay {
namespace {

using testing::Distort;
using testing::GemmCase;
using testing::RunDistorted;

constexpr Criterion kAll[] = {Criterion::kBound, Criterion::kDerived, Criterion::kAllClose,
                              Criterion::kUlp,   Criterion::kBitwise, Criterion::kLegacy};

TEST(AllCriteria, SayWhatEachSaysWhereItGates) {
  const Distort distortions[] = {
      [](std::vector<double>&, const Plan&) {},
      [](std::vector<double>& v, const Plan&) { v[7] = std::nextafterf(float(v[7]), 1e9F); },
      [](std::vector<double>& v, const Plan&) { v[7] *= 1 + 0x1p-20; },
      [](std::vector<double>& v, const Plan&) { v[7] += 1e-5; },
      [](std::vector<double>& v, const Plan&) { v[7] += 1e-3; },
      [](std::vector<double>& v, const Plan&) { v[7] += 1; },
      [](std::vector<double>& v, const Plan&) { v[7] = std::nan(""); },
  };
  int accepted = 0, refused = 0;
  for (std::size_t d = 0; d < std::size(distortions); ++d) {
    Case c = GemmCase(DType::kF32, 16, 16, 64);
    c.all_criteria = true;
    const CaseOutcome outcome = RunDistorted(c, distortions[d]);
    ASSERT_EQ(outcome.criteria.size(), std::size(kAll));
    for (std::size_t i = 0; i < std::size(kAll); ++i) {
      SCOPED_TRACE(::testing::Message() << "distortion " << d << ", criterion " << i);
      const CriterionOutcome& said = outcome.criteria[i];
      EXPECT_EQ(said.criterion, kAll[i]);
      Case by = GemmCase(DType::kF32, 16, 16, 64);
      by.criterion = kAll[i];
      const CaseOutcome gated = RunDistorted(by, distortions[d]);
      EXPECT_EQ(said.passed, gated.verdict == Verdict::kPassed);
      (said.passed ? accepted : refused) += 1;
      if (kAll[i] == Criterion::kLegacy) {
        EXPECT_FALSE(said.mismatches.has_value()) << "it knows maxima only";
      } else {
        EXPECT_EQ(said.mismatches, gated.compare->mismatches);
      }
      EXPECT_EQ(said.atol, gated.atol);
      EXPECT_EQ(said.rtol, gated.rtol);
    }
  }
  EXPECT_GT(accepted, 10);
  EXPECT_GT(refused, 10);
}

// A wide one lets by what a narrow one refuses: no criterion answers for another.
TEST(AllCriteria, DifferWhereTheyShould) {
  Case c = GemmCase(DType::kF32, 16, 16, 4);
  c.all_criteria = true;
  const CaseOutcome outcome =
      RunDistorted(c, [](std::vector<double>& v, const Plan&) { v[7] += 5e-5; });
  const auto passed = [&](std::size_t i) { return outcome.criteria.at(i).passed; };
  EXPECT_FALSE(passed(0)) << "bound";
  EXPECT_TRUE(passed(2)) << "allclose";
  EXPECT_FALSE(passed(4)) << "bitwise";
  EXPECT_EQ(outcome.criteria[4].mismatches, 1);
}

}  // namespace
}  // namespace assay
