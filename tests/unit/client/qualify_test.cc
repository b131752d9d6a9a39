// Whether a device is fit for work: levels, codes, and telling card from library.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/blame/rerun.h"
#include "client/cli/hook.h"
#include "client/qualify/judgement.h"
#include "client/qualify/level.h"
#include "client/qualify/report.h"
#include "tests/unit/client/qualify_evidence.h"

namespace assay::client {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

using qualify_testing::CodeOf;
using qualify_testing::Evidence;
using qualify_testing::Killed;
using qualify_testing::kRight;
using qualify_testing::Late;
using qualify_testing::Result;

TEST(Qualify, LevelsByNameAndNumber) {
  EXPECT_EQ(ParseLevel("nightly")->number, 3);
  EXPECT_EQ(ParseLevel("3")->suite, "nightly");
  EXPECT_THAT(std::string(ParseLevel("nigthly").status().message()), HasSubstr("\"nightly\""));
  EXPECT_FALSE(ParseLevel("5").ok());
  EXPECT_EQ(SelftestOf(*ParseLevel("quick"), "cpu:0", 9).device(), "cpu:0");
  EXPECT_FALSE(SelftestOf(*ParseLevel("nightly"), "cpu:0", 9).has_filter());
}

TEST(Qualify, SeedsAreOfTheDayTheNodeAndTheDevice) {
  std::set<std::uint64_t> seeds;
  for (const char* day : {"2026-11-22", "2026-11-23"}) {
    for (const char* host : {"a01", "a02"}) {
      for (const char* device : {"cuda:0", "cuda:1"}) seeds.insert(NightlySeed(day, host, device));
    }
  }
  EXPECT_EQ(seeds.size(), 8u);
  EXPECT_EQ(NightlySeed("2026-11-22", "a01", "cuda:0"), NightlySeed("2026-11-22", "a01", "cuda:0"));
}

TEST(Qualify, EverythingRightIsQualified) {
  EXPECT_EQ(CodeOf(Evidence({kRight})), "A000");
  EXPECT_EQ(CodeOf(Evidence({kRight, Result(v1::VERDICT_UNSUPPORTED, "unsupported"),
                             Result(v1::VERDICT_SKIPPED, "budget")})),
            "A000");
}

TEST(Qualify, WhatProvesNothingQualifiesNothing) {
  EXPECT_EQ(CodeOf(Evidence({})), "A307");
  EXPECT_EQ(CodeOf(Evidence({Result(v1::VERDICT_SKIPPED, "budget")})), "A307");
  EXPECT_EQ(CodeOf(Evidence({kRight, Result(v1::VERDICT_INCONCLUSIVE, "zeros")})), "A304");
  EXPECT_EQ(CodeOf(Evidence({kRight, Result(v1::VERDICT_INCONCLUSIVE, "memory")})), "A305");
  DeviceEvidence cancelled = Evidence({kRight});
  cancelled.job.set_state(v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(CodeOf(cancelled), "A306");
}

TEST(Qualify, TheHeaviestDecidesAndAllAreTold) {
  const Fit fit = Judge(
      Evidence({kRight, Result(v1::VERDICT_FAILED, "slower", 1),
                Result(v1::VERDICT_INCONCLUSIVE, "zeros", 2),
                Result(v1::VERDICT_ERROR, "timeout", 3), Result(v1::VERDICT_FAILED, "slower", 4)}),
      {});
  ASSERT_EQ(fit.grievances.size(), 3u);
  EXPECT_EQ(fit.code().code, "A112");
  EXPECT_EQ(fit.grievances[0].repro, "assay run gemm");
  EXPECT_EQ(fit.grievances[1].code->code, "A304");
  EXPECT_EQ(fit.grievances[2].code->code, "A201");
  EXPECT_EQ(fit.grievances[2].cases, 2);
}

TEST(Qualify, ACrashIsTriedAgainBeforeTheDeviceIsAccused) {
  for (const auto& [reason, code] : {std::pair("crash", "A111"), std::pair("fault", "A114")}) {
    const v1::CaseResult crash = Result(v1::VERDICT_ERROR, reason, 1);
    DeviceEvidence evidence = Evidence({kRight, crash});
    EXPECT_EQ(CodeOf(evidence), code);
    evidence.retries = {{crash, {crash}, {kRight}}};
    EXPECT_EQ(CodeOf(evidence), code) << "this device alone";
    evidence.retries = {{crash, {crash}, {crash}}};
    EXPECT_EQ(CodeOf(evidence), "A117") << "the library, wherever it runs";
    EXPECT_EQ(Judge(evidence, {}).code().severity, "configuration");
    evidence.retries = {{crash, {kRight}, {kRight}}};
    EXPECT_EQ(CodeOf(evidence), "A119") << "it did not come back";
    evidence.retries = {{crash, {}, {}}};
    EXPECT_EQ(CodeOf(evidence), code) << "the retry was refused";
    v1::CaseResult aside = Result(v1::VERDICT_ERROR, "fault", 1);
    aside.mutable_findings(0)->set_quarantined(true);
    evidence.retries = {{crash, {crash}, {aside}}};
    EXPECT_EQ(CodeOf(evidence), code) << "a sibling that was set aside ran nothing";
  }
}

// What a device did not run, since its worker had died too often, is told as that.
TEST(Qualify, ADeviceThatWasSetAsideMeanwhileIsInQuarantine) {
  const v1::CaseResult crash = Result(v1::VERDICT_ERROR, "crash", 1);
  v1::CaseResult aside = Result(v1::VERDICT_ERROR, "fault", 2);
  aside.mutable_findings(0)->set_quarantined(true);
  DeviceEvidence evidence = Evidence({kRight, crash, aside});
  EXPECT_EQ(CodeOf(evidence), "A115");
  EXPECT_TRUE(WorthRetrying({aside}, Trouble::kCrashed, 2).empty());
  evidence.retries = {{crash, {aside}, {crash}}};
  EXPECT_EQ(CodeOf(evidence), "A117") << "of a library that crashes everywhere";
}

// One crash in a library that crashes everywhere need not be retried for all of them.
TEST(Qualify, CrashesWithoutARetryShareTheOutcomeOfTheirProvider) {
  const v1::CaseResult first = Result(v1::VERDICT_ERROR, "crash", 1);
  const v1::CaseResult second = Result(v1::VERDICT_ERROR, "crash", 2);
  DeviceEvidence evidence = Evidence({kRight, first, second});
  evidence.retries = {{first, {first}, {first}}};
  EXPECT_EQ(CodeOf(evidence), "A117");
  evidence.results.push_back(Result(v1::VERDICT_ERROR, "crash", 3, "builtin"));
  EXPECT_EQ(CodeOf(evidence), "A111");
}

// The host's memory, or an operator: no fault of the card's.
TEST(Qualify, MemoryAndWhatIsKilledFromOutsideAccuseNoDevice) {
  const v1::CaseResult memory = Result(v1::VERDICT_ERROR, "memory", 1);
  for (const auto& [result, code] : {std::pair(Killed(1), "A311"), std::pair(memory, "A113")}) {
    const Fit fit = Judge(Evidence({kRight, result}), {});
    EXPECT_EQ(fit.code().code, code);
    EXPECT_EQ(fit.code().fitness, Fitness::kInconclusive) << code;
    EXPECT_EQ(fit.code().severity, "configuration") << code;
    EXPECT_TRUE(WorthRetrying({result}, Trouble::kCrashed, 2).empty()) << code;
  }
}

TEST(Qualify, AJobThatProvesLessThanItWasToQualifiesNothing) {
  DeviceEvidence evidence = Evidence({kRight, Result(v1::VERDICT_SKIPPED, "budget", 2)});
  evidence.job.add_findings()->set_reason("budget");
  EXPECT_EQ(CodeOf(evidence), "A308");
  evidence.job.mutable_findings(0)->set_reason("baseline");
  EXPECT_EQ(CodeOf(evidence), "A308");
  evidence = Evidence({kRight});
  evidence.job.set_verdict(v1::VERDICT_INCONCLUSIVE);
  EXPECT_EQ(CodeOf(evidence), "A308") << "whatever the daemon's reason";
  for (const char* reason : {"budget", "unsupported", "replay"}) {
    EXPECT_EQ(CodeOf(Evidence({kRight, Result(v1::VERDICT_INCONCLUSIVE, reason, 1)})), "A308");
  }
}

TEST(Qualify, NoiseMattersWhereTimesAreHeldAgainstOthers) {
  v1::CaseResult noisy = kRight;
  noisy.mutable_bench()->set_noisy(true);
  EXPECT_EQ(CodeOf(Evidence({noisy})), "A000");
  noisy.mutable_bench()->mutable_baseline()->set_change(v1::CHANGE_SAME);
  EXPECT_EQ(CodeOf(Evidence({noisy})), "A000");
  noisy.mutable_bench()->mutable_baseline()->set_change(v1::CHANGE_AMBIGUOUS);
  EXPECT_EQ(CodeOf(Evidence({noisy})), "A203");
  v1::CaseResult share = Result(v1::VERDICT_INCONCLUSIVE, "efficiency", 1);
  EXPECT_EQ(CodeOf(Evidence({kRight, share})), "A304") << "without a ceiling";
  share.mutable_bench()->set_noisy(true);
  EXPECT_EQ(CodeOf(Evidence({kRight, share})), "A304") << "nor with noise";
  share.mutable_bench()->set_efficiency(0.3);
  EXPECT_EQ(CodeOf(Evidence({kRight, share})), "A203");
}

TEST(Qualify, TheEssenceOfAResultIsJudgedAsTheWhole) {
  v1::CaseResult right = kRight;
  right.mutable_stats()->set_rho(0.5);
  for (int n = 0; n < 20; ++n) right.add_probes()->set_name("exact-integers");
  v1::CaseResult hot = right;
  hot.mutable_bench()->mutable_conditions()->add_throttle_reasons("thermal");
  v1::CaseResult wrong = Result(v1::VERDICT_FAILED, "bound", 1);
  wrong.mutable_stats()->set_rho(9);
  for (const v1::CaseResult& whole : {right, hot, wrong, Result(v1::VERDICT_INCONCLUSIVE, "zeros"),
                                      Result(v1::VERDICT_UNSUPPORTED)}) {
    const Fit as_whole = Judge(Evidence({kRight, whole}), {});
    const Fit as_essence = Judge(Evidence({Essence(kRight), Essence(whole)}), {});
    EXPECT_EQ(as_essence.code().code, as_whole.code().code);
    EXPECT_EQ(as_essence.grievances[0].why, as_whole.grievances[0].why);
  }
  EXPECT_LT(Essence(right).ByteSizeLong() * 4, right.ByteSizeLong());
  EXPECT_EQ(Essence(wrong).ByteSizeLong(), wrong.ByteSizeLong()) << "it is run again, as it was";
}

TEST(Qualify, SlowIsDegraded) {
  EXPECT_EQ(
      Judge(Evidence({kRight, Result(v1::VERDICT_FAILED, "efficiency", 1)}), {}).code().fitness,
      Fitness::kDegraded);
  v1::CaseResult hot = kRight;
  hot.mutable_bench()->mutable_conditions()->add_throttle_reasons("power");
  EXPECT_EQ(CodeOf(Evidence({hot})), "A000") << "a power cap is how a device is run";
  hot.mutable_bench()->mutable_conditions()->add_throttle_reasons("thermal");
  EXPECT_EQ(CodeOf(Evidence({hot})), "A204");
}

TEST(Qualify, CardOrLibrary) {
  const v1::CaseResult wrong = Result(v1::VERDICT_FAILED, "bound", 1);
  const v1::CaseResult again = Result(v1::VERDICT_FAILED, "bound", 0);
  const v1::CaseResult other_right = Result(v1::VERDICT_PASSED, "", 1, "builtin");
  const v1::CaseResult other_wrong = Result(v1::VERDICT_FAILED, "bound", 1, "builtin");
  const v1::CaseResult right = Result(v1::VERDICT_PASSED);
  const auto code = [&](std::vector<v1::CaseResult> here, std::vector<v1::CaseResult> sibling) {
    DeviceEvidence evidence = Evidence({kRight, wrong});
    evidence.retries.push_back({wrong, std::move(here), std::move(sibling)});
    return CodeOf(evidence);
  };
  EXPECT_EQ(CodeOf(Evidence({kRight, wrong})), "A103");
  EXPECT_EQ(code({}, {}), "A103") << "the retry was refused: nothing is known";
  EXPECT_EQ(code({again, other_right}, {}), "A103") << "no sibling";
  EXPECT_EQ(code({again, other_right}, {right}), "A101") << "this card alone";
  EXPECT_EQ(code({again, other_wrong}, {right, right}), "A106") << "whatever runs on it";
  EXPECT_EQ(code({again, other_right}, {again}), "A102") << "the library, wherever it runs";
  EXPECT_EQ(code({again, other_wrong}, {again}), "A103") << "all of them: neither";
  EXPECT_EQ(code({right, other_right}, {right}), "A104") << "it did not come back";
  EXPECT_EQ(code({right, other_right}, {again}), "A102") << "but on another device";
  const v1::CaseResult unproven = Result(v1::VERDICT_INCONCLUSIVE, "zeros");
  EXPECT_EQ(code({}, {right}), "A103") << "once, and never confirmed";
  EXPECT_EQ(code({unproven}, {right}), "A103");
  EXPECT_EQ(code({Killed(0)}, {right}), "A103");
  EXPECT_EQ(code({unproven, other_wrong}, {right}), "A103");
}

TEST(Qualify, NoCardIsAcquittedByAnotherThatIsBad) {
  const v1::CaseResult wrong = Result(v1::VERDICT_FAILED, "bound", 1);
  const v1::CaseResult right = Result(v1::VERDICT_PASSED);
  const v1::CaseResult crash = Result(v1::VERDICT_ERROR, "crash");
  DeviceEvidence evidence = Evidence({kRight, wrong});
  const auto code = [&](std::vector<v1::CaseResult> sibling) {
    evidence.retries = {{wrong, {wrong}, std::move(sibling)}};
    return CodeOf(evidence);
  };
  EXPECT_EQ(code({wrong, right}), "A103");
  EXPECT_EQ(code({wrong, wrong}), "A102");
  EXPECT_EQ(code({crash, right}), "A101") << "an ERROR has no vote";
  EXPECT_EQ(code({crash, wrong}), "A102");
  EXPECT_EQ(code({crash}), "A103");
  EXPECT_EQ(code({Result(v1::VERDICT_FAILED, "slower")}), "A101") << "slow, and right";
}

TEST(Qualify, LaunchesThatDifferAreRunAgainToTellCardFromLibrary) {
  const v1::CaseResult unsteady = Result(v1::VERDICT_FAILED, "nondeterministic", 1);
  const v1::CaseResult steady = Result(v1::VERDICT_PASSED, "", 1);
  DeviceEvidence evidence = Evidence({kRight, unsteady});
  EXPECT_EQ(CodeOf(evidence), "A105");
  ASSERT_EQ(WorthRetrying(evidence.results, Trouble::kWrong, 3).size(), 1u);
  const auto code = [&](std::vector<v1::CaseResult> here, std::vector<v1::CaseResult> sibling) {
    evidence.retries = {{unsteady, std::move(here), std::move(sibling)}};
    return CodeOf(evidence);
  };
  EXPECT_EQ(code({unsteady}, {steady}), "A101");
  EXPECT_EQ(code({unsteady}, {unsteady}), "A102");
  EXPECT_EQ(code({unsteady}, {}), "A105") << "no sibling";
  EXPECT_EQ(code({steady}, {steady}), "A104") << "it did not come back";
  EXPECT_EQ(code({unsteady}, {steady, unsteady}), "A105") << "neither";
  EXPECT_EQ(code({}, {steady}), "A105") << "once, and never confirmed";
}

TEST(Qualify, WrongResultsWithoutARetryShareTheOutcomeOfTheirProvider) {
  std::vector<v1::CaseResult> results = {kRight};
  for (int n = 1; n < 6; ++n) results.push_back(Result(v1::VERDICT_FAILED, "bound", n));
  DeviceEvidence evidence = Evidence(results);
  evidence.retries = {{results[1], {results[1]}, {results[1]}}};
  const Fit fit = Judge(evidence, {});
  EXPECT_EQ(fit.code().code, "A102");
  EXPECT_EQ(fit.grievances[0].cases, 5);
  evidence.retries.push_back({results[2], {results[2]}, {kRight}});
  EXPECT_EQ(Judge(evidence, {}).grievances[1].code->code, "A103") << "of two minds";
}

TEST(Qualify, SiblingsAreOfTheSameModelWhereThereAreAny) {
  std::vector<v1::Device> devices;
  for (const char* model : {"A100", "A100", "H100", "A100", "L4"}) {
    v1::Device& device = devices.emplace_back();
    device.set_id(absl::StrCat("cuda:", devices.size() - 1));
    device.set_backend("cuda");
    device.set_model(model);
    device.set_state(v1::DEVICE_STATE_READY);
  }
  EXPECT_THAT(SiblingsOf(devices, devices[0], 2), ElementsAre("cuda:1", "cuda:3"));
  EXPECT_THAT(SiblingsOf(devices, devices[1], 2), ElementsAre("cuda:3", "cuda:0"))
      << "not all burden the same";
  EXPECT_THAT(SiblingsOf(devices, devices[2], 2), ElementsAre("cuda:3", "cuda:4"));
  devices[3].set_state(v1::DEVICE_STATE_QUARANTINED);
  devices[4].set_backend("hip");
  EXPECT_THAT(SiblingsOf(devices, devices[1], 2), ElementsAre("cuda:0"));
  EXPECT_THAT(SiblingsOf(devices, devices[4], 2), ElementsAre());
}

TEST(Qualify, TheMoreDrasticStepIsTheHeadline) {
  const v1::CaseResult library = Result(v1::VERDICT_FAILED, "bound", 1);
  const v1::CaseResult card = Result(v1::VERDICT_FAILED, "bound", 2, "builtin");
  const v1::CaseResult right = Result(v1::VERDICT_PASSED);
  DeviceEvidence evidence = Evidence({kRight, library, card});
  evidence.retries = {{library, {library}, {library}}, {card, {card, right}, {right}}};
  const Fit fit = Judge(evidence, {});
  EXPECT_EQ(fit.code().code, "A101");
  EXPECT_EQ(fit.code().severity, "isolate");
  EXPECT_EQ(fit.grievances[1].code->code, "A102");
}

TEST(Qualify, ASelftestThatMissesMakesTheRestWorthless) {
  DeviceEvidence evidence = Evidence({kRight});
  v1::Job& selftest = evidence.selftest.emplace();
  selftest.set_state(v1::JOB_STATE_FINISHED);
  EXPECT_EQ(CodeOf(evidence), "A303") << "no report";
  selftest.set_verdict(v1::VERDICT_PASSED);
  v1::SelftestRow& row = *selftest.mutable_selftest()->add_rows();
  row.set_caught(true);
  EXPECT_EQ(CodeOf(evidence), "A000");
  selftest.set_verdict(v1::VERDICT_FAILED);
  selftest.mutable_selftest()->add_correct()->set_false_alarms(1);
  EXPECT_EQ(CodeOf(evidence), "A302");
  row.set_caught(false);
  EXPECT_EQ(CodeOf(evidence), "A301");
}

TEST(Qualify, ASelftestThatProvesTooLittleQualifiesNothing) {
  DeviceEvidence evidence = Evidence({kRight});
  v1::Job& selftest = evidence.selftest.emplace();
  selftest.set_name("jobs/selftest");
  selftest.set_state(v1::JOB_STATE_FINISHED);
  selftest.mutable_selftest()->add_rows()->set_caught(true);
  selftest.set_verdict(v1::VERDICT_INCONCLUSIVE);
  EXPECT_EQ(CodeOf(evidence), "A303") << "no right kernel was proven right";
  selftest.add_findings()->set_message("the job's deadline passed");
  const Fit fit = Judge(evidence, {});
  ASSERT_EQ(fit.grievances.size(), 1u);
  EXPECT_EQ(fit.code().code, "A303");
  EXPECT_EQ(fit.grievances[0].why, "jobs/selftest: the job's deadline passed");
  selftest.clear_selftest();
  EXPECT_EQ(Judge(evidence, {}).grievances[0].why, "jobs/selftest: the job's deadline passed");
  evidence.selftest.reset();
  EXPECT_EQ(CodeOf(evidence), "A000") << "a device that has no planted kernels";
  evidence.no_selftest = "no self-test can be made";
  EXPECT_EQ(CodeOf(evidence), "A303");
  EXPECT_EQ(CodeOf(evidence, {"A303"}), "A000");
}

TEST(Qualify, ARequiredKernelThatIsNotThereFails) {
  DeviceEvidence evidence = Evidence({kRight});
  evidence.job.add_findings()->set_reason("unsupported");
  EXPECT_EQ(CodeOf(evidence), "A401");
  evidence.job.mutable_findings(0)->set_reason("empty");
  EXPECT_EQ(CodeOf(evidence), "A308") << "no case of the suite runs it: as the daemon has it";
}

TEST(Qualify, IgnoredCodesDoNotCount) {
  const DeviceEvidence evidence = Evidence({kRight, Result(v1::VERDICT_INCONCLUSIVE, "zeros", 1),
                                            Result(v1::VERDICT_FAILED, "slower", 2)});
  EXPECT_EQ(CodeOf(evidence, {"A304"}), "A201");
  EXPECT_EQ(CodeOf(evidence, {"A304", "A201"}), "A000");
}

TEST(Qualify, NothingThatIsIgnoredQualifiesADeviceOnWhichNothingPassed) {
  const v1::CaseResult unchecked = Late(0, "recheck");
  const v1::CaseResult crash = Result(v1::VERDICT_ERROR, "crash");
  EXPECT_EQ(CodeOf(Evidence({unchecked, unchecked}), {"A309"}), "A307");
  EXPECT_EQ(CodeOf(Evidence({crash}), {"A111"}), "A307");
  EXPECT_EQ(CodeOf(Evidence({Result(v1::VERDICT_FAILED, "bound")}), {"A103"}), "A307");
  EXPECT_EQ(CodeOf(Evidence({Result(v1::VERDICT_FAILED, "slower")}), {"A201"}), "A307");
  EXPECT_EQ(CodeOf(Evidence({unchecked, Result(v1::VERDICT_INCONCLUSIVE, "noisy")}), {"A309"}),
            "A307");
  EXPECT_EQ(CodeOf(Evidence({Result(v1::VERDICT_FAILED, "slower")})), "A201");
  EXPECT_EQ(CodeOf(Evidence({}), {"A307"}), "A307");
  DeviceEvidence cancelled = Evidence({kRight});
  cancelled.job.set_state(v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(CodeOf(cancelled, {"A306"}), "A306");
}

TEST(Qualify, RetriesAreOfDifferentKinds) {
  std::vector<v1::CaseResult> results;
  for (int n = 0; n < 5; ++n) results.push_back(Result(v1::VERDICT_FAILED, "bound", n));
  results.push_back(Result(v1::VERDICT_FAILED, "bound", 5, "builtin"));
  results.push_back(Result(v1::VERDICT_FAILED, "slower", 6));
  results.push_back(Result(v1::VERDICT_ERROR, "crash", 7));
  const std::vector<v1::CaseResult> chosen = WorthRetrying(results, Trouble::kWrong, 3);
  ASSERT_EQ(chosen.size(), 3u);
  EXPECT_EQ(chosen[0].index(), 0);
  EXPECT_EQ(chosen[1].index(), 5);
  EXPECT_LT(chosen[2].index(), 5);
}

TEST(Qualify, EveryCodeSaysWhatToDo) {
  std::set<std::string_view> codes;
  for (const QualifyCode& c : QualifyCodes()) {
    EXPECT_TRUE(codes.insert(c.code).second) << c.code;
    EXPECT_FALSE(c.meaning.empty()) << c.code;
    EXPECT_EQ(c.next_step.empty(), c.fitness == Fitness::kQualified) << c.code;
  }
}

TEST(Qualify, TheQuietMajorityIsCounted) {
  QualificationReport report;
  report.level = *ParseLevel("quick");
  for (int i = 0; i < 12; ++i) {
    DeviceFit& device = report.devices.emplace_back();
    device.target = absl::StrCat("a", i);
    device.device = "cpu:0";
    device.fit.grievances = {Aggrieved(i == 7 ? "A203" : "A000", "")};
  }
  Sort(report);
  const auto table = [&](bool every_row) {
    std::ostringstream out;
    WriteQualificationTable(report, false, every_row, out);
    return out.str();
  };
  EXPECT_THAT(table(false), HasSubstr("DEGRADED      a7 "));
  EXPECT_THAT(table(false), HasSubstr("11 devices (--all lists them)\n"));
  EXPECT_THAT(table(false), Not(HasSubstr("a11")));
  EXPECT_THAT(table(true), HasSubstr("QUALIFIED     a11 "));
  EXPECT_THAT(table(true), Not(HasSubstr("--all")));
  report.devices.resize(9);
  EXPECT_THAT(table(false), HasSubstr("QUALIFIED     a")) << "a few are rows";
}

TEST(Qualify, TheReportOrdersAndCounts) {
  QualificationReport report;
  report.level = *ParseLevel("quick");
  for (const char* code : {"A000", "A203", "A103"}) {
    DeviceFit& device = report.devices.emplace_back();
    device.target = "a01:7575";
    device.device = code;
    device.fit.grievances = {Aggrieved(code, "")};
  }
  EXPECT_EQ(FitnessOf(QualificationReport()), Fitness::kInconclusive);
  Sort(report);
  const Json json = QualificationJson(report);
  EXPECT_EQ(json["schema"], "assay.qualification/v1");
  EXPECT_EQ(json["verdict"], "FAILED");
  EXPECT_EQ(json["devices"][0]["code"], "A103");
  EXPECT_EQ(json["devices"][2]["verdict"], "QUALIFIED");
  EXPECT_TRUE(json["missing"].empty());
  EXPECT_EQ(QualificationSummary(report),
            "quick: 1 QUALIFIED, 1 DEGRADED, 1 FAILED of 3 devices on 1 node");
  report.devices = {report.devices.back()};
  EXPECT_EQ(FitnessOf(report), Fitness::kQualified);
  report.missing.push_back({"a02:7575", "refused", {}, {}});
  EXPECT_EQ(FitnessOf(report), Fitness::kInconclusive);
  report.missing.push_back({"a01:7575", "7 too few", 8, 1, false, true});
  EXPECT_EQ(FitnessOf(report), Fitness::kFailed);
}

TEST(Qualify, MoreDevicesThanExpectedFailNone) {
  QualificationReport report;
  report.level = *ParseLevel("quick");
  report.devices.emplace_back().fit.grievances = {Aggrieved("A000", "")};
  report.missing.push_back({"a01:7575", "1 too many", 1, 2, false, true});
  EXPECT_EQ(FitnessOf(report), Fitness::kInconclusive);
  const Json json = QualificationJson(report);
  EXPECT_EQ(json["missing"][0]["code"], "A904");
  EXPECT_EQ(json["missing"][0]["severity"], "configuration");
  report.missing[0].found = 0;
  EXPECT_EQ(QualificationJson(report)["missing"][0]["code"], "A116");
}

TEST(Qualify, TheCountsOfTheSummaryAddUp) {
  QualificationReport report;
  report.level = *ParseLevel("quick");
  for (const char* target : {"a01", "a02"}) {
    DeviceFit& device = report.devices.emplace_back();
    device.target = target;
    device.fit.grievances = {Aggrieved("A000", "")};
  }
  report.missing.push_back({"a03", "refused", {}, {}});
  EXPECT_EQ(QualificationSummary(report),
            "quick: 2 QUALIFIED of 2 devices on 2 nodes, 1 of 3 nodes missing");
  // The device that is missing by its name is one of those that are missing by their number.
  report.missing = {{"a01", "2 too few", 3, 1, false, true}, {"a01", "expected one", 1, 0}};
  EXPECT_EQ(QualificationSummary(report),
            "quick: 2 QUALIFIED of 2 devices on 2 nodes, 2 devices missing");
  report.missing = {{"a01", "1 too many", 0, 1, false, true}};
  EXPECT_EQ(QualificationSummary(report),
            "quick: 2 QUALIFIED of 2 devices on 2 nodes, 1 device more than expected");
  report.devices.clear();
  report.missing = {{"a03", "refused", {}, {}}};
  EXPECT_EQ(QualificationSummary(report), "quick: nothing was qualified, 1 of 1 node missing");
}

TEST(Qualify, WhetherASuiteTimesItsCases) {
  EXPECT_EQ(SuiteTimes("[[case]]\nop = \"gemm\"\n[[fill]]\nmode = \"validate\"\n"), false);
  EXPECT_EQ(SuiteTimes("[[case]]\nop = \"gemm\"\n[[case]]\nmode = \"both\"\n"), true);
  EXPECT_EQ(SuiteTimes("[[fill]]\nmode = [\"validate\", \"benchmark\"]\n"), true);
  EXPECT_EQ(SuiteTimes("title = \"nothing is known of its cases\"\n"), std::nullopt);
  EXPECT_EQ(SuiteTimes("[[case"), std::nullopt);
}

TEST(Hook, GetsItsInputAndItsEndIsTold) {
  EXPECT_TRUE(RunHook("read line; test \"$line\" = fit", "fit\n", absl::Seconds(120)).ok());
  EXPECT_TRUE(RunHook("exit 0", std::string(1 << 20, 'x'), absl::Seconds(120)).ok())
      << "one that does not read";
  EXPECT_TRUE(
      RunHook("test $(wc -c) = 1048576", std::string(1 << 20, 'x'), absl::Seconds(120)).ok());
  EXPECT_THAT(std::string(RunHook("exit 3", "", absl::Seconds(120)).message()),
              HasSubstr("exit code 3"));
  EXPECT_TRUE(
      absl::IsDeadlineExceeded(RunHook("sleep 100 & sleep 100", "", absl::Milliseconds(100))));
}

// What a Ctrl-C does to a process that runs a hook: the hook and what it started end with
// it, and it ends by the signal. The hook's processes hold the pipe `out` open; once all of
// them are gone it has an end.
TEST(Hook, EndsWithItsProcessAtASignal) {
  for (const int number : {SIGINT, SIGTERM}) {
    int out[2];
    ASSERT_EQ(pipe(out), 0);
    const pid_t client = fork();
    ASSERT_GE(client, 0);
    if (client == 0) {
      close(out[0]);
      dup2(out[1], STDERR_FILENO);
      close(out[1]);
      signal(number, SIG_DFL);
      (void)RunHook("sleep 300 & echo started >&2; sleep 300", "", absl::Seconds(300));
      _exit(0);
    }
    close(out[1]);
    char word[8] = {};
    ASSERT_EQ(read(out[0], word, sizeof word), 8);  // "started\n": the hook runs
    kill(client, number);
    int status = 0;
    ASSERT_EQ(waitpid(client, &status, 0), client);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == number) << status;
    pollfd ended = {out[0], POLLIN, 0};
    EXPECT_EQ(poll(&ended, 1, 20'000), 1) << "something of the hook is left";
    EXPECT_EQ(read(out[0], word, 1), 0);
    close(out[0]);
  }
}

}  // namespace
}  // namespace assay::client
