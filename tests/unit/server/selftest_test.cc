// The self-test's suite and score: what is run, and when a defect counts as caught.
#include "server/plan/selftest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/cheats/cheats.h"

namespace assay::server {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

v1::CaseSpec Example(const std::string& provider, std::int64_t n, int repeats = 0) {
  v1::CaseSpec spec;
  spec.mutable_copy()->set_count(n);
  spec.set_dtype(v1::DTYPE_FP32);
  spec.set_provider(provider);
  spec.set_repeats(repeats);
  return spec;
}

v1::Kernel KernelOf(const std::string& provider) {
  v1::Kernel kernel;
  kernel.set_op("copy");
  kernel.set_provider(provider);
  kernel.set_backend("cpu");
  kernel.set_available(true);
  kernel.add_dtypes(v1::DTYPE_FP32);
  return kernel;
}

v1::Kernel Planted(const std::string& defect, int position, std::int64_t n, const char* check,
                   double rate = 1.0, int repeats = 0, bool fatal = false) {
  v1::Kernel kernel = KernelOf("planted/" + defect);
  kernel.mutable_planted()->set_position(position);
  kernel.mutable_planted()->set_magnitude("large");
  v1::PlantedExample& example = *kernel.mutable_planted()->add_examples();
  *example.mutable_spec() = Example("planted/" + defect, n, repeats);
  example.set_check(check);
  example.set_required_rate(rate);
  example.set_ends_process(fatal);
  return kernel;
}

std::vector<v1::Kernel> Kernels() {
  return {KernelOf("builtin"), Planted("race", 1, 64, "nondeterministic", 1.0, 20),
          Planted("crash", 3, 8, "crash", 1.0, 0, true), Planted("zeros", 0, 64, "exact"),
          Planted("rare", 2, 8, "bound", 0.5)};
}

TEST(SelftestSuite, RightKernelsRunAsOftenAsWhatOnlyRepeatsShow) {
  const std::vector<v1::Kernel> kernels = Kernels();
  const Suite suite = SelftestSuite(kernels, "cpu", 7, 2);
  std::vector<std::string> seen;
  for (const Case& c : suite.cases) {
    seen.push_back(c.provider + " " + std::to_string(std::get<CopyProblem>(c.problem).count) +
                   " x" + std::to_string(c.repeats) + " seed " + std::to_string(*c.seed));
  }
  EXPECT_THAT(seen, ElementsAre("planted/zeros 64 x0 seed 7", "planted/zeros 64 x0 seed 8",
                                "planted/race 64 x20 seed 7", "planted/race 64 x20 seed 8",
                                "planted/rare 8 x0 seed 7", "planted/rare 8 x0 seed 8",
                                // The race's problem is that of the zeros: run once, repeated.
                                "builtin 64 x20 seed 7", "builtin 64 x20 seed 8",
                                "builtin 8 x0 seed 7", "builtin 8 x0 seed 8",
                                // What ends its process comes last, and once.
                                "planted/crash 8 x0 seed 7"));
}

class Score : public ::testing::Test {
 protected:
  void Add(const v1::CaseSpec& spec, v1::Verdict verdict, const std::vector<std::string>& reasons,
           const std::vector<v1::Criterion>& refusing = {}) {
    v1::CaseResult result;
    *result.mutable_spec() = spec;
    result.set_device("cpu:0");
    result.set_verdict(verdict);
    for (const std::string& reason : reasons) result.add_findings()->set_reason(reason);
    for (const v1::Criterion c : {v1::CRITERION_BOUND, v1::CRITERION_DERIVED,
                                  v1::CRITERION_ALLCLOSE, v1::CRITERION_LEGACY}) {
      v1::CriterionResult& criterion = *result.add_criteria();
      criterion.set_criterion(c);
      criterion.set_passed(std::find(refusing.begin(), refusing.end(), c) == refusing.end());
    }
    score_.Add(result);
  }

  SelftestScore score_{Kernels()};
};

TEST_F(Score, ARunThatSomebodyElseEndedDoesNotCount) {
  v1::CaseResult result;
  result.set_device("cpu:0");
  result.set_verdict(v1::VERDICT_ERROR);
  v1::Finding& finding = *result.add_findings();
  finding.set_reason("crash");
  for (const char* provider : {"builtin", "planted/rare"}) {
    *result.mutable_spec() = Example(provider, 8);
    finding.mutable_death()->set_cause(v1::DEATH_CAUSE_KILLED);
    EXPECT_TRUE(EndedFromOutside(result));
    score_.Add(result);
  }
  EXPECT_EQ(score_.Report().rows_size(), 0);
  EXPECT_EQ(score_.Report().correct_size(), 0);
  finding.mutable_death()->set_cause(v1::DEATH_CAUSE_SIGNAL);
  EXPECT_FALSE(EndedFromOutside(result));
  *result.mutable_spec() = Example("builtin", 8);
  score_.Add(result);
  EXPECT_EQ(score_.Report().correct(0).false_alarms(), 1);
  finding.mutable_death()->set_cause(v1::DEATH_CAUSE_KILLED);
  result.mutable_spec()->set_provider("cheat/kills-judge");
  EXPECT_FALSE(EndedFromOutside(result)) << "it may have done so itself";
}

TEST_F(Score, OneRuleSaysWhatIsCaughtAndWhatOthersWouldCatch) {
  // Of a rate of a half 3 of 10 are no sign of less, and none is one.
  const v1::CaseSpec rare = Example("planted/rare", 8);
  for (int i = 0; i < 10; ++i) {
    const bool found = i < 3;
    Add(rare, found ? v1::VERDICT_FAILED : v1::VERDICT_PASSED,
        found ? std::vector<std::string>{"bound", "bias"} : std::vector<std::string>{},
        found ? std::vector{v1::CRITERION_ALLCLOSE} : std::vector<v1::Criterion>{});
  }
  const v1::SelftestReport report = score_.Report();
  ASSERT_EQ(report.rows_size(), 1);
  const v1::SelftestRow& row = report.rows(0);
  EXPECT_EQ(row.defect(), "rare");
  EXPECT_EQ(row.trials(), 10);
  EXPECT_EQ(row.detected(), 3);
  EXPECT_EQ(row.judged(), 10);
  EXPECT_EQ(row.allclose(), 3);
  EXPECT_EQ(row.derived(), 0);
  EXPECT_TRUE(row.caught());
  EXPECT_NEAR(row.rate_low(), 0.0667, 5e-5) << "3 of 10";
  EXPECT_FALSE(report.has_false_alarm_rate_high()) << "no right kernel ran";
  EXPECT_TRUE(row.allclose_catches()) << "as often as what counts as caught";
  EXPECT_FALSE(row.derived_catches());
  EXPECT_FALSE(row.legacy_catches());
  EXPECT_THAT(row.caught_by(), UnorderedElementsAre("bound", "bias"));
  EXPECT_EQ(SelftestVerdict(report), v1::VERDICT_PASSED);
}

TEST_F(Score, AnotherFindingThanTheDefectsOwnIsNotCaught) {
  Add(Example("planted/zeros", 64), v1::VERDICT_FAILED, {"guard"}, {v1::CRITERION_LEGACY});
  const v1::SelftestReport report = score_.Report();
  EXPECT_EQ(report.rows(0).detected(), 0);
  EXPECT_FALSE(report.rows(0).caught());
  EXPECT_TRUE(report.rows(0).legacy_catches());
  EXPECT_THAT(report.rows(0).caught_by(), ElementsAre("guard"));
  EXPECT_EQ(SelftestVerdict(report), v1::VERDICT_FAILED);
}

TEST_F(Score, RightKernelsThatFailAreFalseAlarms) {
  Add(Example("planted/zeros", 64), v1::VERDICT_FAILED, {"exact"});
  Add(Example("builtin", 64), v1::VERDICT_PASSED, {});
  EXPECT_EQ(SelftestVerdict(score_.Report()), v1::VERDICT_PASSED);
  Add(Example("builtin", 64), v1::VERDICT_UNSUPPORTED, {"unsupported"});
  Add(Example("builtin", 64), v1::VERDICT_SKIPPED, {"cancelled"});
  Add(Example("builtin", 64), v1::VERDICT_INCONCLUSIVE, {"suspect"});
  EXPECT_EQ(SelftestVerdict(score_.Report()), v1::VERDICT_PASSED);
  Add(Example("builtin", 64), v1::VERDICT_FAILED, {"nondeterministic"});
  const v1::SelftestReport report = score_.Report();
  ASSERT_EQ(report.correct_size(), 1);
  EXPECT_EQ(report.correct(0).runs(), 3);
  EXPECT_EQ(report.correct(0).false_alarms(), 1);
  EXPECT_EQ(report.correct(0).inconclusive(), 1);
  EXPECT_NEAR(report.false_alarm_rate_high(), 0.9057, 5e-5) << "1 of 3";
  EXPECT_EQ(SelftestVerdict(report), v1::VERDICT_FAILED);
}

TEST_F(Score, RowsComeInTheTablesOrderAndUntriedOnesAreMissed) {
  Add(Example("planted/race", 64, 20), v1::VERDICT_FAILED, {"nondeterministic"});
  Add(Example("planted/zeros", 64), v1::VERDICT_UNSUPPORTED, {"unsupported"});
  const v1::SelftestReport report = score_.Report();
  ASSERT_EQ(report.rows_size(), 2);
  EXPECT_EQ(report.rows(0).defect(), "zeros");
  EXPECT_EQ(report.rows(0).trials(), 0);
  EXPECT_FALSE(report.rows(0).caught());
  EXPECT_FALSE(report.rows(0).has_rate_low());
  EXPECT_EQ(report.rows(1).defect(), "race");
  EXPECT_TRUE(report.rows(1).caught());
  EXPECT_EQ(SelftestVerdict(SelftestScore(Kernels()).Report()), v1::VERDICT_INCONCLUSIVE);
}

// A defect has one name on every backend, and each backend its own check and place for it.
TEST(SelftestScore, HoldsEachDeviceToItsOwnTable) {
  std::vector<v1::Kernel> kernels = {
      Planted("zeros", 0, 64, "exact"), Planted("crash", 1, 8, "crash", 1.0, 0, true),
      Planted("crash", 0, 8, "fault", 1.0, 0, true), Planted("zeros", 1, 64, "bound")};
  for (std::size_t i = 2; i < kernels.size(); ++i) kernels[i].set_backend("cuda");
  SelftestScore score(kernels);
  const auto add = [&](const char* device, const char* provider, std::int64_t n,
                       v1::Verdict verdict, const char* reason) {
    v1::CaseResult result;
    *result.mutable_spec() = Example(provider, n);
    result.set_device(device);
    result.set_verdict(verdict);
    result.add_findings()->set_reason(reason);
    score.Add(result);
  };
  for (const char* device : {"cpu:0", "cuda:0"}) {
    const bool cpu = device[1] == 'p';
    add(device, "planted/zeros", 64, v1::VERDICT_FAILED, cpu ? "exact" : "bound");
    add(device, "planted/crash", 8, v1::VERDICT_ERROR, cpu ? "crash" : "fault");
  }
  const v1::SelftestReport report = score.Report();
  std::vector<std::string> rows;
  for (const v1::SelftestRow& row : report.rows()) {
    rows.push_back(row.device() + " " + row.defect() + " " + row.check());
    EXPECT_TRUE(row.caught()) << rows.back();
  }
  EXPECT_THAT(rows, UnorderedElementsAre("cpu:0 zeros exact", "cpu:0 crash crash",
                                         "cuda:0 crash fault", "cuda:0 zeros bound"));
  EXPECT_EQ(SelftestVerdict(report), v1::VERDICT_PASSED);
}

TEST(ReachesRate, AsksForWhatTheRateMakesLikely) {
  EXPECT_FALSE(ReachesRate(0, 0, 0.5));
  EXPECT_FALSE(ReachesRate(0, 10, 0.0));
  EXPECT_TRUE(ReachesRate(1, 10, 0.0));
  EXPECT_TRUE(ReachesRate(10, 10, 1.0));
  EXPECT_FALSE(ReachesRate(9, 10, 1.0)) << "a rate of 1 allows no miss";
  // P(at most 1 of 20 at a half) is 2e-5, of 4 it is 6e-3.
  EXPECT_FALSE(ReachesRate(1, 20, 0.5));
  EXPECT_TRUE(ReachesRate(4, 20, 0.5));
}

// A cheat or a twin, on cpu:0.
v1::CaseResult CheatResult(const std::string& provider, v1::Verdict verdict,
                           v1::Reason reason = v1::REASON_UNSPECIFIED,
                           v1::Blame blame = v1::BLAME_KERNEL) {
  v1::CaseResult result;
  result.mutable_spec()->mutable_gemm()->set_m(33);
  result.mutable_spec()->set_provider(provider);
  result.set_device("cpu:0");
  result.set_verdict(verdict);
  if (reason == v1::REASON_UNSPECIFIED) return result;
  v1::Finding& finding = *result.add_findings();
  finding.set_reason_code(reason);
  finding.set_blame(blame);
  finding.set_message("why");
  return result;
}

v1::SelftestReport CheatsReport(const std::vector<v1::CaseResult>& results) {
  SelftestScore score({});
  for (const v1::CaseResult& result : results) score.Add(result);
  return score.Report();
}

TEST(Cheats, AreStoppedByAFindingAgainstThem) {
  const v1::CaseResult twin = CheatResult("cheat/zeros-twin", v1::VERDICT_PASSED);
  v1::SelftestReport report =
      CheatsReport({CheatResult("cheat/zeros", v1::VERDICT_FAILED, v1::REASON_EXACT), twin});
  ASSERT_EQ(report.cheats_size(), 1);
  const v1::CheatRow& row = report.cheats(0);
  EXPECT_EQ(row.cheat(), "zeros");
  EXPECT_EQ(row.op(), "gemm");
  EXPECT_EQ(row.way(), v1::KERNEL_FORM_LIBRARY);
  EXPECT_EQ(row.provider(), "cheat/zeros");
  EXPECT_TRUE(row.stopped());
  EXPECT_EQ(row.reason(), v1::REASON_EXACT);
  EXPECT_EQ(row.barrier(), v1::BARRIER_UNSPECIFIED);
  EXPECT_EQ(row.twin(), v1::VERDICT_PASSED);
  EXPECT_EQ(row.message(), "");
  EXPECT_EQ(SelftestVerdict(report), v1::VERDICT_PASSED);
  // A result that is doubted is no pass either.
  report = CheatsReport(
      {CheatResult("cheat/zeros", v1::VERDICT_INCONCLUSIVE, v1::REASON_IMPOSSIBLE), twin});
  EXPECT_EQ(SelftestVerdict(report), v1::VERDICT_PASSED);
}

TEST(Cheats, ThatPassOrWhoseTwinFailsMakeTheSelftestFail) {
  const v1::CaseResult twin = CheatResult("cheat/zeros-twin", v1::VERDICT_PASSED);
  EXPECT_EQ(SelftestVerdict(CheatsReport({CheatResult("cheat/zeros", v1::VERDICT_PASSED), twin})),
            v1::VERDICT_FAILED);
  const v1::CaseResult stopped = CheatResult("cheat/zeros", v1::VERDICT_FAILED, v1::REASON_EXACT);
  const v1::SelftestReport report = CheatsReport(
      {stopped, CheatResult("cheat/zeros-twin", v1::VERDICT_FAILED, v1::REASON_BOUND)});
  EXPECT_EQ(SelftestVerdict(report), v1::VERDICT_FAILED);
  EXPECT_NE(report.cheats(0).message(), "");
}

TEST(Cheats, ProveNothingIfTheyDidNotRunOrFailedForAnotherReason) {
  const v1::CaseResult twin = CheatResult("cheat/zeros-twin", v1::VERDICT_PASSED);
  const v1::CaseResult stopped = CheatResult("cheat/zeros", v1::VERDICT_FAILED, v1::REASON_EXACT);
  for (const std::vector<v1::CaseResult>& results : std::vector<std::vector<v1::CaseResult>>{
           {twin},
           {stopped},
           {stopped, CheatResult("cheat/zeros-twin", v1::VERDICT_INCONCLUSIVE, v1::REASON_NOISY)},
           {CheatResult("cheat/zeros", v1::VERDICT_UNSUPPORTED, v1::REASON_UNSUPPORTED), twin},
           {CheatResult("cheat/zeros", v1::VERDICT_INCONCLUSIVE, v1::REASON_MEMORY), twin},
           {CheatResult("cheat/zeros", v1::VERDICT_ERROR, v1::REASON_CRASH, v1::BLAME_HOST), twin},
           // An impossible cheat shows by an output that it never wrote, and by nothing else.
           {CheatResult("cheat/forks", v1::VERDICT_FAILED, v1::REASON_BOUND),
            CheatResult("cheat/forks-twin", v1::VERDICT_PASSED)}}) {
    EXPECT_EQ(SelftestVerdict(CheatsReport(results)), v1::VERDICT_INCONCLUSIVE);
  }
  const v1::SelftestReport impossible =
      CheatsReport({CheatResult("cheat/forks", v1::VERDICT_FAILED, v1::REASON_UNWRITTEN),
                    CheatResult("cheat/forks-twin", v1::VERDICT_PASSED)});
  EXPECT_EQ(impossible.cheats(0).barrier(), v1::BARRIER_PROCESSES);
  EXPECT_EQ(impossible.cheats(0).reason(), v1::REASON_UNSPECIFIED);
  EXPECT_EQ(SelftestVerdict(impossible), v1::VERDICT_PASSED);
}

TEST(Cheats, ThatAreRightAreShownByTheLibrariesOfTheirResult) {
  const v1::CaseResult twin = CheatResult("cheat/calls-library-twin", v1::VERDICT_PASSED);
  v1::CaseResult cheat = CheatResult("cheat/calls-library", v1::VERDICT_PASSED);
  EXPECT_EQ(SelftestVerdict(CheatsReport({cheat, twin})), v1::VERDICT_FAILED);
  cheat.add_loaded_libraries("libopenblas.so.0");
  const v1::SelftestReport report = CheatsReport({cheat, twin});
  EXPECT_TRUE(report.cheats(0).stopped());
  EXPECT_EQ(report.cheats(0).reason(), v1::REASON_UNSPECIFIED);
  EXPECT_EQ(SelftestVerdict(report), v1::VERDICT_PASSED);
  // Of a cheat that gets something that it did not earn, a name is not enough.
  cheat.mutable_spec()->set_provider("cheat/zeros");
  EXPECT_EQ(SelftestVerdict(CheatsReport({cheat})), v1::VERDICT_FAILED);
  // A machine without such a library.
  const v1::SelftestReport none = CheatsReport(
      {CheatResult("cheat/calls-library", v1::VERDICT_FAILED, v1::REASON_UNWRITTEN), twin});
  EXPECT_EQ(none.cheats(0).reason(), v1::REASON_UNWRITTEN);
  EXPECT_EQ(SelftestVerdict(none), v1::VERDICT_PASSED);
}

TEST(Cheats, HaveATwinWithTheSameProblemAndNoFewerThanThirty) {
  const Suite suite = AdversarialSuite("cpu", 7);
  EXPECT_GE(suite.cases.size(), 60u);
  ASSERT_EQ(suite.cases.size() % 2, 0u);
  for (std::size_t i = 0; i < suite.cases.size(); i += 2) {
    EXPECT_EQ(suite.cases[i].provider + "-twin", suite.cases[i + 1].provider);
    EXPECT_EQ(suite.cases[i].seed, suite.cases[i + 1].seed);
    EXPECT_EQ(suite.cases[i].mode, suite.cases[i + 1].mode);
  }
  EXPECT_TRUE(AdversarialSuite("cuda", 7).cases.empty());
}

static_assert(static_cast<int>(Barrier::kNone) == v1::BARRIER_UNSPECIFIED);
static_assert(static_cast<int>(Barrier::kMemory) == v1::BARRIER_MEMORY);
static_assert(static_cast<int>(Barrier::kFiles) == v1::BARRIER_FILES);
static_assert(static_cast<int>(Barrier::kNetwork) == v1::BARRIER_NETWORK);
static_assert(static_cast<int>(Barrier::kProcesses) == v1::BARRIER_PROCESSES);
static_assert(static_cast<int>(Barrier::kSignals) == v1::BARRIER_SIGNALS);
static_assert(static_cast<int>(Barrier::kLeftovers) == v1::BARRIER_LEFTOVERS);
static_assert(static_cast<int>(Barrier::kClock) == v1::BARRIER_CLOCK);
static_assert(static_cast<int>(Barrier::kLaunches) == v1::BARRIER_LAUNCHES);
static_assert(static_cast<int>(Barrier::kSystem) == v1::BARRIER_SYSTEM);
static_assert(static_cast<int>(Barrier::kSystem) + 1 == v1::Barrier_ARRAYSIZE);

}  // namespace
}  // namespace assay::server
