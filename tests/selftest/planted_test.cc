// Each planted kernel is caught by the check its table names, as often as it says, and
// the control passes: the harness can say no. In one process, so without the kernels
// that end or block it: those are the end-to-end test's.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "kernels/numerics/cat.h"
#include "kernels/providers/planted/planted.h"
#include "kernels/validate/runner.h"

namespace assay {
namespace {

// Seeds of a row: more where its defect sits in a single element, launch or bit.
constexpr int kSeeds = 3;
constexpr int kSeedsOfSites = 20;

class NoObserver : public PhaseObserver {
 public:
  void Enter(Phase) override {}
};

std::string Describe(const CaseOutcome& outcome) {
  std::string text = Cat("verdict ", static_cast<int>(outcome.verdict));
  for (const Finding& f : outcome.findings) text += Cat("; ", f.reason, ": ", f.message);
  return text;
}

bool Found(const CaseOutcome& outcome, std::string_view reason) {
  return outcome.verdict == Verdict::kFailed &&
         std::any_of(outcome.findings.begin(), outcome.findings.end(),
                     [&](const Finding& f) { return f.reason == reason; });
}

int SeedsOf(const PlantedDefect& d, DType t) {
  if (d.repeats > 10) return kSeedsOfSites;
  return d.check == "exact" || RequiredRate(d, t) < 1.0 ? kSeedsOfSites : kSeeds;
}

class Planted : public ::testing::Test {
 protected:
  Planted() { RegisterAll(registry_); }

  CaseOutcome Run(const Case& c) {
    NoObserver observer;
    return CaseRunner(*device_, registry_, nullptr).Run(c, observer);
  }

  Registry registry_;
  std::unique_ptr<Device> device_ =
      MakeCpuDevice(0, ArenaOptions{.max_bytes = std::int64_t{256} << 20});
};

TEST_F(Planted, EachIsCaughtByItsCheckAsOftenAsItMust) {
  int rows = 0;
  for (const PlantedDefect& d : PlantedDefects()) {
    if (d.ends_process || d.check.empty()) continue;
    for (const DType t : d.dtypes) {
      const std::string_view expected = ExpectedReason(d, t);
      const int seeds = SeedsOf(d, t);
      int caught = 0;
      std::string missed;
      for (int seed = 1; seed <= seeds; ++seed) {
        const CaseOutcome outcome = Run(PlantedCase(d, t, static_cast<std::uint64_t>(seed)));
        if (Found(outcome, expected)) {
          ++caught;
        } else if (missed.empty()) {
          missed = Cat("seed ", seed, ": ", Describe(outcome));
        }
      }
      EXPECT_GE(caught, RequiredRate(d, t) * seeds)
          << d.op << " " << d.name << " " << Name(t) << ": " << caught << " of " << seeds
          << " caught by " << expected << "; " << missed;
      ++rows;
    }
  }
  EXPECT_GT(rows, 250);
}

TEST_F(Planted, TheControlPassesOnEveryProblemThatShowsADefectOfGemm) {
  const PlantedDefect* control = FindPlanted("gemm", "planted/correct");
  ASSERT_NE(control, nullptr);
  for (const PlantedDefect& d : PlantedDefects()) {
    if (d.op != "gemm") continue;
    for (const DType t : d.dtypes) {
      Case c = PlantedCase(d, t);
      c.provider = "planted/correct";
      const CaseOutcome outcome = Run(c);
      EXPECT_EQ(outcome.verdict, Verdict::kPassed) << c.name << ": " << Describe(outcome);
    }
  }
}

// What the table promises its readers.
TEST(PlantedTable, IsWhole) {
  std::map<std::string_view, int> defects;
  std::set<std::string> names;
  for (const PlantedDefect& d : PlantedDefects()) {
    EXPECT_TRUE(names.insert(Cat(d.op, "/", d.name)).second) << d.op << " " << d.name;
    EXPECT_FALSE(d.magnitude.empty()) << d.name;
    EXPECT_EQ(OpName(d.problem), d.op) << d.name;
    EXPECT_EQ(FindPlanted(d.op, PlantedProvider(d)), &d);
    for (const DType t : d.dtypes) {
      const std::vector<FieldError> errors = Check(PlantedCase(d, t));
      EXPECT_TRUE(errors.empty()) << d.op << " " << d.name << " " << Name(t) << ": "
                                  << errors.front().field << " " << errors.front().message;
      EXPECT_GT(RequiredRate(d, t), 0.0);
    }
    defects[d.op] += d.check.empty() ? 0 : 1;
  }
  for (const std::string_view op :
       {"gemm", "conv", "attention", "softmax", "layer_norm", "dequant_softmax"}) {
    EXPECT_GE(defects[op], 8) << op;
  }
}

// The site is drawn from the seed: other seeds, other elements.
TEST_F(Planted, TheSiteFollowsTheSeed) {
  const PlantedDefect* nan = FindPlanted("gemm", "planted/nan");
  std::set<std::int64_t> sites;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    const CaseOutcome outcome = Run(PlantedCase(*nan, DType::kF32, seed));
    ASSERT_TRUE(outcome.compare.has_value());
    sites.insert(outcome.compare->first_nan);
  }
  EXPECT_GT(sites.size(), 5u);
}

// Those that end the process do it as the table says.
TEST(PlantedDeathTest, CrashAbortAndExit) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto launch = [](std::string_view provider) {
    Registry registry;
    RegisterAll(registry);
    const std::unique_ptr<Device> device =
        MakeCpuDevice(0, ArenaOptions{.max_bytes = std::int64_t{64} << 20});
    NoObserver observer;
    const PlantedDefect* d = FindPlanted("gemm", provider);
    CaseRunner(*device, registry, nullptr).Run(PlantedCase(*d, DType::kF32), observer);
  };
  EXPECT_DEATH(launch("planted/crash"), "");
  EXPECT_DEATH(launch("planted/abort"), "");
  EXPECT_EXIT(launch("planted/exit"), ::testing::ExitedWithCode(3), "");
}

}  // namespace
}  // namespace assay
