// Which times count, which cases are the same, what is refused and what fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/baselines/baseline_match.h"
#include "server/baselines/baselines.h"

namespace assay::server {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

v1::CaseResult Timed(int m, double seconds, v1::Verdict verdict = v1::VERDICT_PASSED) {
  v1::CaseResult result;
  v1::CaseSpec& spec = *result.mutable_spec();
  spec.mutable_gemm()->set_m(m);
  spec.set_dtype(v1::DTYPE_FP32);
  spec.set_provider("builtin");
  spec.set_mode(v1::MODE_BENCHMARK);
  result.set_name("gemm " + std::to_string(m));
  result.set_verdict(verdict);
  result.set_repro("assay bench gemm");
  v1::BenchStats& bench = *result.mutable_bench();
  bench.set_median_seconds(seconds);
  bench.set_p10_seconds(seconds);
  bench.set_p90_seconds(seconds);
  bench.set_samples(100);
  return result;
}

void Find(v1::CaseResult& result, const char* reason) { result.add_findings()->set_reason(reason); }

v1::Baseline Of(std::vector<v1::CaseResult> results) {
  v1::Baseline baseline;
  for (v1::CaseResult& result : results) *baseline.add_results() = std::move(result);
  return baseline;
}

TEST(BaselineMatch, ATimeCountsWhereTheOutputHeld) {
  EXPECT_TRUE(TimeCounts(Timed(8, 1)));
  EXPECT_FALSE(TimeCounts(Timed(8, 0)));
  EXPECT_FALSE(TimeCounts(Timed(8, 1, v1::VERDICT_FAILED))) << "of no reason";
  EXPECT_FALSE(TimeCounts(Timed(8, 1, v1::VERDICT_ERROR)));
  for (const char* reason : {"efficiency", "slower"}) {
    v1::CaseResult slow = Timed(8, 1, v1::VERDICT_FAILED);
    Find(slow, reason);
    EXPECT_TRUE(TimeCounts(slow)) << reason;
    Find(slow, "bound");
    EXPECT_FALSE(TimeCounts(slow)) << "the output was wrong, too";
  }
  v1::CaseResult in_passing = Timed(8, 1);
  in_passing.mutable_spec()->set_mode(v1::MODE_VALIDATE);
  EXPECT_FALSE(TimeCounts(in_passing));
  in_passing.mutable_spec()->clear_mode();  // as an older report has it
  EXPECT_TRUE(TimeCounts(in_passing));
  in_passing.mutable_bench()->set_samples(2);
  EXPECT_FALSE(TimeCounts(in_passing));
}

TEST(BaselineMatch, CasesAreTheSameByWhatIsTimed) {
  const BaselineIndex index(Of({Timed(8, 1), Timed(16, 2)}), "baselines/x", 0.05);
  v1::CaseResult result = Timed(16, 2.2);
  result.set_name("called otherwise");
  result.mutable_spec()->set_seed(7);
  result.mutable_spec()->set_rtol(1e-3);
  const auto change = index.Read(result);
  ASSERT_TRUE(change);
  EXPECT_DOUBLE_EQ(change->baseline_seconds(), 2);
  EXPECT_DOUBLE_EQ(change->ratio(), 1.1);
  EXPECT_EQ(change->change(), v1::CHANGE_SLOWER);
  EXPECT_EQ(change->name(), "called otherwise");
  EXPECT_FALSE(index.Read(Timed(32, 2)));
  for (const auto& differ : std::vector<std::function<void(v1::CaseSpec&)>>{
           [](v1::CaseSpec& s) { s.set_provider("onednn"); },
           [](v1::CaseSpec& s) { s.set_dtype(v1::DTYPE_BF16); },
           [](v1::CaseSpec& s) { s.set_out_dtype(v1::DTYPE_FP32); },
           [](v1::CaseSpec& s) { s.set_pattern("zeros"); },
           [](v1::CaseSpec& s) { s.mutable_gemm()->set_trans_a(true); }}) {
    v1::CaseResult other = Timed(16, 2);
    differ(*other.mutable_spec());
    EXPECT_FALSE(index.Read(other)) << other.spec().ShortDebugString();
  }
}

TEST(BaselineMatch, ATimeInAGraphIsHeldAgainstItsLikeOnly) {
  v1::CaseResult in_graph = Timed(8, 1);
  in_graph.mutable_bench()->set_launches_per_sample(64);
  const BaselineIndex alone(Of({Timed(8, 1)}), "baselines/x", 0.05);
  EXPECT_FALSE(alone.Read(in_graph));
  const BaselineIndex both(Of({Timed(8, 2), in_graph}), "baselines/x", 0.05);
  EXPECT_DOUBLE_EQ(both.Read(in_graph)->baseline_seconds(), 1);
  EXPECT_DOUBLE_EQ(both.Read(Timed(8, 1))->baseline_seconds(), 2);
}

// Whether launches are replayed as a graph is decided anew in each run, by how long they take.
TEST(BaselineMatch, ACaseThatWasTimedTheOtherWayIsNoNewOne) {
  v1::CaseResult in_graph = Timed(8, 3e-6);
  in_graph.mutable_bench()->set_launches_per_sample(64);
  const BaselineIndex index(Of({in_graph}), "baselines/x", 0.05);
  v1::CaseResult now = Timed(8, 60e-6);
  const auto response = index.Compare(Of({now}));
  EXPECT_THAT(response.added(), IsEmpty());
  EXPECT_THAT(response.missing(), IsEmpty());
  ASSERT_EQ(response.lost_size(), 1);
  EXPECT_EQ(response.lost(0).verdict(), v1::VERDICT_INCONCLUSIVE);
  EXPECT_EQ(response.lost(0).findings(0).reason(), "replay");
  index.HoldAgainst(now);
  EXPECT_EQ(now.verdict(), v1::VERDICT_INCONCLUSIVE);
  ASSERT_EQ(now.findings_size(), 1);
  EXPECT_EQ(now.findings(0).reason(), "replay");
  EXPECT_EQ(now.findings(0).message(),
            "60 µs by itself now, 3 µs as part of a graph in baselines/x: a launch in a graph is "
            "without the host's part, and nothing can be told");
  EXPECT_EQ(now.repro(), "assay bench gemm --compare baselines/x");
  EXPECT_TRUE(WasHeld(now));
  EXPECT_TRUE(TimeCounts(now)) << "it may be the next baseline's";
  v1::CaseResult inefficient = Timed(8, 60e-6, v1::VERDICT_FAILED);
  Find(inefficient, "efficiency");
  index.HoldAgainst(inefficient);
  EXPECT_EQ(inefficient.verdict(), v1::VERDICT_FAILED);
  EXPECT_EQ(inefficient.findings(0).reason(), "efficiency");
}

TEST(BaselineMatch, WhatItNeverTimedMayBeUnsupported) {
  const BaselineIndex index(Of({Timed(8, 1)}), "baselines/x", 0.05);
  v1::CaseResult known = Timed(8, 0, v1::VERDICT_UNSUPPORTED), fresh = known, checked = known;
  for (v1::CaseResult* result : {&known, &fresh, &checked}) {
    result->clear_bench();
    Find(*result, "unsupported");
  }
  fresh.mutable_spec()->set_provider("onednn");
  checked.mutable_spec()->set_mode(v1::MODE_VALIDATE);
  for (v1::CaseResult* result : {&known, &fresh, &checked}) index.HoldAgainst(*result);
  EXPECT_EQ(known.verdict(), v1::VERDICT_INCONCLUSIVE);
  EXPECT_EQ(fresh.verdict(), v1::VERDICT_UNSUPPORTED);
  EXPECT_EQ(checked.verdict(), v1::VERDICT_UNSUPPORTED);
  EXPECT_TRUE(IsUnsupported(known)) << "nothing ran all the same";
}

TEST(BaselineMatch, OfSeveralTheOneOfTheSameNameAndSeedIsMeant) {
  v1::CaseResult first = Timed(8, 1), second = Timed(8, 2);
  first.mutable_spec()->set_seed(1);
  second.mutable_spec()->set_seed(2);
  const BaselineIndex index(Of({first, second}), "baselines/x", 0.05);
  EXPECT_DOUBLE_EQ(index.Read(first)->baseline_seconds(), 1);
  EXPECT_DOUBLE_EQ(index.Read(second)->baseline_seconds(), 2);
  // The name tells more than the seed; what is alike in neither is held against the first.
  second.set_name("another");
  EXPECT_DOUBLE_EQ(index.Read(second)->baseline_seconds(), 2);
  second.set_name(first.name());
  second.mutable_spec()->set_seed(3);
  EXPECT_DOUBLE_EQ(index.Read(second)->baseline_seconds(), 1);
  second.set_name("another");
  EXPECT_DOUBLE_EQ(index.Read(second)->baseline_seconds(), 1);
}

TEST(BaselineMatch, TheLineThatRepeatsItNamesTheBaselineAsAShellReadsIt) {
  const auto line = [](const char* label, double threshold) {
    v1::CaseResult slower = Timed(8, 2e-3);
    BaselineIndex(Of({Timed(8, 1e-3)}), label, threshold).HoldAgainst(slower);
    EXPECT_EQ(slower.verdict(), v1::VERDICT_FAILED);
    return slower.repro();
  };
  EXPECT_EQ(line("jobs/ab12", 0.05), "assay bench gemm --compare jobs/ab12");
  EXPECT_EQ(line("/home/me/it's before.json", 0.1),
            "assay bench gemm --compare '/home/me/it'\\''s before.json' --threshold 0.1");
  EXPECT_EQ(line("x; rm -r y", 0.05), "assay bench gemm --compare 'x; rm -r y'");
  EXPECT_EQ(line(std::string(kUnnamedBaseline).c_str(), 0.05), "assay bench gemm");
}

TEST(BaselineMatch, ASlowerCaseFailsAndNoOtherVerdictChanges) {
  const BaselineIndex index(Of({Timed(8, 1e-3)}), "baselines/x", 0.05);
  v1::CaseResult slower = Timed(8, 1.1e-3);
  index.HoldAgainst(slower);
  EXPECT_EQ(slower.verdict(), v1::VERDICT_FAILED);
  ASSERT_EQ(slower.findings_size(), 1);
  EXPECT_EQ(slower.findings(0).reason(), "slower");
  EXPECT_EQ(slower.findings(0).message(),
            "1.1 ms against 1 ms in baselines/x: 1.100 times, above 1.05 (noise 1.1 %)");
  EXPECT_EQ(slower.repro(), "assay bench gemm --compare baselines/x");
  for (const auto& [seconds, change] :
       {std::pair{1e-3, v1::CHANGE_SAME}, std::pair{0.9e-3, v1::CHANGE_FASTER}}) {
    v1::CaseResult result = Timed(8, seconds);
    index.HoldAgainst(result);
    EXPECT_EQ(result.verdict(), v1::VERDICT_PASSED);
    EXPECT_EQ(result.bench().baseline().change(), change);
    EXPECT_THAT(result.findings(), IsEmpty());
  }
  v1::CaseResult unsure = Timed(8, 1.1e-3);
  unsure.mutable_bench()->set_p90_seconds(3e-3);
  index.HoldAgainst(unsure);
  EXPECT_EQ(unsure.bench().baseline().change(), v1::CHANGE_AMBIGUOUS);
  EXPECT_EQ(unsure.verdict(), v1::VERDICT_INCONCLUSIVE) << "the noise hides the effect";
  ASSERT_EQ(unsure.findings_size(), 1);
  EXPECT_EQ(unsure.findings(0).reason(), "noisy");
  unsure = Timed(8, 1.04e-3);
  unsure.mutable_bench()->set_p90_seconds(3e-3);
  index.HoldAgainst(unsure);
  EXPECT_EQ(unsure.bench().baseline().change(), v1::CHANGE_AMBIGUOUS);
  EXPECT_EQ(unsure.verdict(), v1::VERDICT_PASSED) << "nothing speaks for a slower one";
  v1::CaseResult waited = Timed(8, 1e-3);
  waited.mutable_bench()->mutable_conditions()->set_waiting_ratio(0.2);
  v1::CaseResult hidden = Timed(8, 1.04e-3);
  BaselineIndex(Of({waited}), "baselines/x", 0.05).HoldAgainst(hidden);
  EXPECT_EQ(hidden.bench().baseline().change(), v1::CHANGE_AMBIGUOUS);
  EXPECT_EQ(hidden.verdict(), v1::VERDICT_INCONCLUSIVE) << "alone, it may have been faster";
  ASSERT_EQ(hidden.findings_size(), 1);
  EXPECT_THAT(hidden.findings(0).message(),
              AllOf(StartsWith("1.04 ms against 1 ms in baselines/x: 1.040 times, and up to 1.300 "
                               "times but for what the baseline's threads waited for processors "
                               "that others had, above 1.05 "),
                    HasSubstr("save that as the baseline")));
  EXPECT_DOUBLE_EQ(hidden.bench().baseline().most_ratio(), 1.3);
  EXPECT_FALSE(hidden.bench().baseline().has_least_ratio());
  v1::CaseResult both_waited = Timed(8, 1.04e-3);
  both_waited.mutable_bench()->mutable_conditions()->set_waiting_ratio(1);
  BaselineIndex(Of({waited}), "baselines/x", 0.05).HoldAgainst(both_waited);
  ASSERT_EQ(both_waited.findings_size(), 1);
  EXPECT_THAT(both_waited.findings(0).message(),
              HasSubstr("; up to 100 % of it threads waited for processors that others had"));
  // What failed already failed for its own reason.
  v1::CaseResult low = Timed(8, 1.04e-3, v1::VERDICT_FAILED);
  Find(low, "efficiency");
  BaselineIndex(Of({waited}), "baselines/x", 0.05).HoldAgainst(low);
  EXPECT_EQ(low.verdict(), v1::VERDICT_FAILED);
  ASSERT_EQ(low.findings_size(), 2);
  EXPECT_EQ(low.findings(0).reason(), "efficiency");
  EXPECT_EQ(low.findings(1).reason(), "noisy");
  // A low efficiency stays, behind; a wrong output is not timed; one that others disturbed
  // is no proof against the kernel.
  v1::CaseResult both = Timed(8, 1.1e-3, v1::VERDICT_FAILED);
  Find(both, "efficiency");
  index.HoldAgainst(both);
  ASSERT_EQ(both.findings_size(), 2);
  EXPECT_EQ(both.findings(0).reason(), "slower");
  v1::CaseResult wrong = Timed(8, 1.1e-3, v1::VERDICT_FAILED);
  Find(wrong, "bound");
  index.HoldAgainst(wrong);
  EXPECT_EQ(wrong.findings_size(), 1);
  EXPECT_FALSE(wrong.bench().has_baseline());
  v1::CaseResult noisy = Timed(8, 1.1e-3, v1::VERDICT_INCONCLUSIVE);
  Find(noisy, "noisy");
  index.HoldAgainst(noisy);
  EXPECT_EQ(noisy.verdict(), v1::VERDICT_INCONCLUSIVE);
  EXPECT_FALSE(noisy.bench().has_baseline()) << "the time is others', too";
}

TEST(BaselineMatch, BothSidesAreSaid) {
  const BaselineIndex index(Of({Timed(8, 1), Timed(16, 1)}), "baselines/x", 0.05);
  const auto response = index.Compare(Of({Timed(32, 1), Timed(8, 1)}));
  ASSERT_EQ(response.changes_size(), 1);
  EXPECT_EQ(response.changes(0).name(), "gemm 8");
  EXPECT_THAT(response.missing(), ElementsAre("gemm 16"));
  EXPECT_THAT(response.added(), ElementsAre("gemm 32"));
}

TEST(BaselineMatch, ATimeThatOthersDisturbedIsNeitherSide) {
  v1::CaseResult disturbed = Timed(8, 2, v1::VERDICT_INCONCLUSIVE);
  Find(disturbed, "noisy");
  EXPECT_FALSE(TimeCounts(disturbed));
  const BaselineIndex index(Of({disturbed}), "baselines/x", 0.05);
  EXPECT_FALSE(index.Read(Timed(8, 4)));
}

TEST(BaselineMatch, ACaseThatLostItsTimeIsSaid) {
  const BaselineIndex index(Of({Timed(8, 1), Timed(16, 1)}), "baselines/x", 0.05);
  v1::CaseResult crashed = Timed(8, 1, v1::VERDICT_ERROR);
  Find(crashed, "crash");
  EXPECT_TRUE(LacksItsTime(crashed));
  EXPECT_FALSE(LacksItsTime(Timed(8, 1)));
  v1::Baseline current = Of({Timed(16, 1)});
  *current.add_untimed() = Untimed(crashed);
  const auto response = index.Compare(current);
  ASSERT_EQ(response.lost_size(), 1);
  EXPECT_EQ(response.lost(0).name(), "gemm 8");
  EXPECT_EQ(response.lost(0).verdict(), v1::VERDICT_ERROR);
  EXPECT_EQ(response.lost(0).findings(0).reason(), "crash");
  EXPECT_THAT(response.missing(), IsEmpty());
}

// Only what reached its kernel says the pattern that its operator has by itself.
TEST(BaselineMatch, WhatNeverRanIsTheSameCase) {
  v1::CaseResult before = Timed(8, 1);
  before.mutable_spec()->mutable_gemm()->set_n(8);
  before.mutable_spec()->mutable_gemm()->set_k(8);
  v1::CaseResult crashed = before;
  before.mutable_spec()->set_pattern("normal");
  crashed.set_verdict(v1::VERDICT_ERROR);
  Find(crashed, "crash");
  const BaselineIndex index(Of({before}), "baselines/x", 0.05);
  EXPECT_TRUE(index.Holds(crashed.spec(), "cpu:0"));
  v1::Baseline current;
  *current.add_untimed() = Untimed(crashed);
  const auto response = index.Compare(current);
  EXPECT_EQ(response.lost_size(), 1);
  EXPECT_THAT(response.missing(), IsEmpty());
  crashed.mutable_spec()->set_pattern("zeros");
  EXPECT_FALSE(index.Holds(crashed.spec(), "cpu:0"));
}

TEST(BaselineMatch, AnotherDeviceOfTheModelMustExceedMore) {
  v1::Baseline there, here;
  there.set_device("cuda:0");
  there.set_host("a07");
  EXPECT_EQ(DefaultThreshold(there, here), 0.05) << "not known to be another";
  here = there;
  EXPECT_EQ(DefaultThreshold(there, here), 0.05);
  here.set_device("cuda:1");
  EXPECT_EQ(DefaultThreshold(there, here), 0.10);
  EXPECT_THAT(Differences(there, here), IsEmpty());
  here.set_device("cpu:0");
  EXPECT_THAT(Differences(there, here), ElementsAre("kind of device \"cuda\" there, \"cpu\" here"));
  here = there;
  here.set_host("a08");
  EXPECT_EQ(DefaultThreshold(there, here), 0.10);
}

TEST(BaselineMatch, DeviceDriverAndSuiteMustBeTheSame) {
  v1::Job job;
  job.set_suite("smoke");
  job.set_suite_version("2");
  (*job.mutable_environment())["model"] = "a card";
  (*job.mutable_environment())["driver_version"] = "570.1";
  (*job.mutable_environment())["onednn"] = "3.0";
  (*job.mutable_environment())["host"] = "a07";
  const v1::Baseline here = Describe(job);
  EXPECT_EQ(here.versions().at("onednn"), "3.0");
  EXPECT_EQ(here.host(), "a07");
  v1::Baseline there = here;
  (*there.mutable_versions())["onednn"] = "2.0";
  there.set_host("a08");
  EXPECT_THAT(Differences(there, here), IsEmpty());
  there.set_suite_version("1");
  EXPECT_THAT(Differences(there, here),
              ElementsAre("version of suite smoke \"1\" there, \"2\" here"));
  there.set_suite("other");
  EXPECT_THAT(Differences(there, here), IsEmpty()) << "case by case";
  there.set_driver_version("560.0");
  there.clear_model();
  EXPECT_THAT(Differences(there, here), ElementsAre("device model not known there, \"a card\" here",
                                                    "driver \"560.0\" there, \"570.1\" here"));
}

class StoredBaselines : public testing::Test {
 protected:
  StoredBaselines() {
    char path[] = "/tmp/assay-baselines-XXXXXX";
    folder_ = mkdtemp(path);
    auto store = Store::Open({.folder = folder_});
    EXPECT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }
  ~StoredBaselines() override {
    store_.reset();
    std::filesystem::remove_all(folder_);
  }

  std::string folder_;
  std::unique_ptr<Store> store_;
};

// A benchmark times before it verifies: what is wrong has a time, too.
TEST_F(StoredBaselines, AFileOfAKernelThatIsWrongNowIsNotHeldForOneThatIsMissing) {
  v1::CaseResult wrong = Timed(8, 1, v1::VERDICT_FAILED);
  Find(wrong, "bound");
  v1::CaseResult disturbed = Timed(16, 1, v1::VERDICT_INCONCLUSIVE);
  Find(disturbed, "noisy");
  v1::CompareBaselinesRequest request;
  *request.mutable_baseline()->mutable_inline_() = Of({Timed(8, 1), Timed(16, 1), Timed(32, 1)});
  *request.mutable_current()->mutable_inline_() = Of({wrong, disturbed, Timed(32, 1)});
  Baselines baselines(*store_);
  const auto response = baselines.Compare(request);
  ASSERT_TRUE(response.ok()) << response.status();
  ASSERT_EQ(response->lost_size(), 2);
  EXPECT_EQ(response->lost(0).verdict(), v1::VERDICT_FAILED);
  EXPECT_EQ(response->lost(0).findings(0).reason(), "bound");
  EXPECT_EQ(response->lost(1).findings(0).reason(), "noisy");
  EXPECT_THAT(response->missing(), IsEmpty());
  *request.mutable_baseline()->mutable_inline_() = Of({wrong});
  EXPECT_TRUE(absl::IsFailedPrecondition(baselines.Compare(request).status())) << "as a job's";
}

// Else the times of a night whose kernel is wrong would pass once they are stored.
TEST_F(StoredBaselines, WhatLostItsTimeIsStoredToo) {
  v1::CaseResult wrong = Timed(8, 1, v1::VERDICT_FAILED);
  Find(wrong, "bound");
  Baselines baselines(*store_);
  v1::CreateBaselineRequest create;
  create.set_baseline_id("tonight");
  *create.mutable_baseline() = Of({wrong, Timed(16, 1)});
  const auto created = baselines.Create(create);
  ASSERT_TRUE(created.ok()) << created.status();
  EXPECT_EQ(created->case_count(), 1);
  v1::CompareBaselinesRequest request;
  *request.mutable_baseline()->mutable_inline_() = Of({Timed(8, 1), Timed(16, 1)});
  request.mutable_current()->set_name("baselines/tonight");
  const auto response = baselines.Compare(request);
  ASSERT_TRUE(response.ok()) << response.status();
  ASSERT_EQ(response->lost_size(), 1);
  EXPECT_EQ(response->lost(0).verdict(), v1::VERDICT_FAILED);
  EXPECT_THAT(response->missing(), IsEmpty());
}

TEST_F(StoredBaselines, TimesOfACallersOwnAreBounded) {
  v1::Baseline many;
  for (int i = 0; i < 10'001; ++i) many.add_results();
  for (const bool current : {false, true}) {
    v1::CompareBaselinesRequest request;
    *request.mutable_baseline()->mutable_inline_() = Of({Timed(8, 1)});
    *request.mutable_current()->mutable_inline_() = Of({Timed(8, 1)});
    *(current ? request.mutable_current() : request.mutable_baseline())->mutable_inline_() = many;
    const absl::Status refused = Baselines(*store_).Compare(request).status();
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()),
                HasSubstr(current ? "current.inline.results" : "baseline.inline.results"));
  }
}

TEST_F(StoredBaselines, AJobsNameThatIsNoneIsRefusedAndNotRepeated) {
  Baselines baselines(*store_);
  for (const std::string& bad : {"jobs/" + std::string(65'536, 'a'), std::string("jobs/\x1b[2J"),
                                 std::string("jobs/"), std::string("jobs/../x")}) {
    for (const bool current : {false, true}) {
      v1::CompareBaselinesRequest request;
      *request.mutable_baseline()->mutable_inline_() = Of({Timed(8, 1)});
      *request.mutable_current()->mutable_inline_() = Of({Timed(8, 1)});
      (current ? request.mutable_current() : request.mutable_baseline())->set_name(bad);
      const absl::Status refused = baselines.Compare(request).status();
      EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
      EXPECT_LT(refused.message().size(), 200u);
      EXPECT_THAT(std::string(refused.message()),
                  HasSubstr(current ? "current.name: must be jobs/ID" : "baseline.name: must be"));
    }
    v1::CreateBaselineRequest create;
    create.mutable_baseline()->set_job(bad);
    const absl::Status refused = baselines.Create(create).status();
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("baseline.job: must be jobs/ID"));
  }
}

TEST(Baselines, ASpecSaysOneBaselineAndAThresholdThatCanBe) {
  const auto fields = [](const v1::JobSpec& spec) {
    std::vector<FieldError> errors;
    Baselines::CheckSpec(spec, 100, errors);
    std::vector<std::string> names;
    for (const FieldError& e : errors) names.push_back(e.field);
    return names;
  };
  v1::JobSpec spec;
  EXPECT_THAT(fields(spec), IsEmpty());
  spec.set_baseline_threshold(0.1);
  EXPECT_THAT(fields(spec), ElementsAre("spec.baseline_threshold"));
  spec.set_baseline("baselines/x");
  EXPECT_THAT(fields(spec), IsEmpty());
  for (const double bad : {0.0, -1.0, 11.0, std::nan("")}) {
    spec.set_baseline_threshold(bad);
    EXPECT_THAT(fields(spec), ElementsAre("spec.baseline_threshold")) << bad;
  }
  spec.clear_baseline_threshold();
  spec.mutable_inline_baseline();
  EXPECT_THAT(fields(spec), ElementsAre("spec.inline_baseline"));
  spec.clear_baseline();
  spec.mutable_inline_baseline()->set_name(std::string(4096, 'x'));
  EXPECT_THAT(fields(spec), IsEmpty());
  spec.mutable_inline_baseline()->set_name(std::string(4097, 'x'));
  EXPECT_THAT(fields(spec), ElementsAre("spec.inline_baseline.name"));
  spec.clear_inline_baseline();
  for (const char* bad : {"x", "baselines/", "baselines/.x", "baselines/a b", "jobs/x"}) {
    spec.set_baseline(bad);
    EXPECT_THAT(fields(spec), ElementsAre("spec.baseline")) << bad;
  }
  EXPECT_TRUE(CheckBaselineName("name", "baselines/A.b-c_9").ok());
  EXPECT_FALSE(CheckBaselineName("name", "baselines/" + std::string(65, 'a')).ok());
}

}  // namespace
}  // namespace assay::server
