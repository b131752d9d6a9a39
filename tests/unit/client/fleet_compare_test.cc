// fleet compare of reports that are not what they should be: none may clear its device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "client/report/json.h"
#include "nlohmann/json.hpp"
#include "tests/unit/client/command.h"

namespace assay::client::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Three nodes' reports of two cases with a probe each, that agree.
class FleetCompareTest : public ::testing::Test {
 protected:
  FleetCompareTest()
      : folder_(std::filesystem::temp_directory_path() /
                ("assay_fleet_compare." + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_);
    for (int i = 0; i < 3; ++i) {
      client::Run run;
      run.target = Target(i);
      run.job.set_name("jobs/" + std::to_string(i));
      run.job.set_state(v1::JOB_STATE_FINISHED);
      run.results = {MakeResult(0, v1::VERDICT_PASSED), MakeResult(1, v1::VERDICT_PASSED)};
      run.results[1].mutable_spec()->mutable_gemm()->set_m(128);
      for (auto& result : run.results) {
        auto* probe = result.add_probes();
        probe->set_name("exact-sparse");
        probe->set_digest(std::string(32, 'a'));
      }
      reports_.push_back(ReportJson({absl::Now(), {run}}));
    }
  }
  ~FleetCompareTest() override { std::filesystem::remove_all(folder_); }

  static std::string Target(int i) { return "a" + std::to_string(i) + ":7575"; }
  Output Compare(std::vector<std::string> more = {}) const {
    std::vector<std::string> args = {"fleet", "compare"};
    for (std::size_t i = 0; i < reports_.size(); ++i) {
      args.push_back(folder_ / (std::to_string(i) + ".json"));
      std::ofstream(args.back()) << reports_[i].dump();
    }
    args.insert(args.end(), more.begin(), more.end());
    return Assay(args);
  }

  const std::filesystem::path folder_;
  std::vector<Json> reports_;
};

TEST_F(FleetCompareTest, ReportsThatAgreePass) {
  const Output output = Compare();
  EXPECT_EQ(output.code, 0) << output.out;
  EXPECT_THAT(output.out, HasSubstr("0 devices accused, 3 not\n"));
}

TEST_F(FleetCompareTest, AMalformedReportIsNotRead) {
  reports_[2]["tests"][1]["probes"][0]["digest"] = std::string(31, 'a');
  const Output output = Compare();
  EXPECT_EQ(output.code, 4);
  EXPECT_THAT(output.out,
              AllOf(HasSubstr("not read:"),
                    HasSubstr("2.json: tests[1].probes[0].digest: must be 32 hexadecimal digits"),
                    HasSubstr("0 devices accused, 2 not, 1 report not read")));
}

TEST_F(FleetCompareTest, AFileThatIsNotThereIsANodeThatIsMissing) {
  const Output output = Compare({"nix.json"});
  EXPECT_EQ(output.code, 4);
  EXPECT_THAT(output.out, AllOf(HasSubstr("nix.json: cannot be read"),
                                HasSubstr("0 devices accused, 3 not, 1 report not read")));
  EXPECT_EQ(nlohmann::json::parse(Compare({"nix.json", "--format", "json"}).out)["verdict"],
            "INCONCLUSIVE");
}

TEST_F(FleetCompareTest, WhoGaveNoDigestIsNotCleared) {
  for (Json& test : reports_[1]["tests"]) test.erase("probes");
  const Output output = Compare();
  EXPECT_EQ(output.code, 4);
  EXPECT_THAT(output.out, AllOf(HasSubstr("UNJUDGED a1:7575 cpu:0  gave none of the 2 digests the "
                                          "others gave"),
                                HasSubstr("0 devices accused, 2 not, 1 not judged")));
  const auto json = nlohmann::json::parse(Compare({"--format", "json"}).out);
  EXPECT_EQ(json["verdict"], "INCONCLUSIVE");
  EXPECT_EQ(json["unjudged"][0]["target"], "a1:7575");
  EXPECT_THAT(Compare({"--format", "html"}).out,
              HasSubstr("UNJUDGED</b> a1:7575 cpu:0: gave none"));
  // What is wrong elsewhere weighs more, and is not hidden by it.
  reports_[0]["tests"][0]["verdict"] = "FAILED";
  EXPECT_EQ(Compare().code, 1);
}

TEST_F(FleetCompareTest, DigestsThatDifferAndAccuseNobodyDoNotPass) {
  reports_.resize(2);
  reports_[1]["tests"][0]["probes"][0]["digest"] = std::string(32, 'b');
  const Output tie = Compare();
  EXPECT_EQ(tie.code, 4);
  EXPECT_THAT(tie.out, HasSubstr("undecided:"));
  EXPECT_EQ(nlohmann::json::parse(Compare({"--format", "json"}).out)["verdict"], "INCONCLUSIVE");
  reports_[0]["versions"]["assayd"] = "0.0.9";
  const Output versions = Compare();
  EXPECT_EQ(versions.code, 4);
  EXPECT_THAT(versions.out, AllOf(HasSubstr("divided:"), Not(HasSubstr("no single card"))));
}

TEST_F(FleetCompareTest, WhereNothingIsComparedEachIsListed) {
  reports_.resize(2);
  for (Json& test : reports_[1]["tests"]) test.erase("probes");
  const Output output = Compare();
  EXPECT_EQ(output.code, 4);
  EXPECT_THAT(output.out,
              AllOf(HasSubstr("nothing could be compared"), HasSubstr("UNJUDGED a0:7575 cpu:0"),
                    HasSubstr("UNJUDGED a1:7575 cpu:0  gave none of the 2 digests")));
}

TEST_F(FleetCompareTest, WhoGaveSomeOfTheDigestsIsNamed) {
  reports_[1]["tests"][0].erase("probes");
  const Output output = Compare();
  EXPECT_EQ(output.code, 0);
  EXPECT_THAT(output.out, HasSubstr("digests: a1:7575 cpu:0 gave 1 of the 2 digests the others"));
}

TEST_F(FleetCompareTest, ADeviceThatRanNothingIsNotCleared) {
  for (Json& test : reports_[1]["tests"]) test["verdict"] = "UNSUPPORTED";
  const Output output = Compare();
  EXPECT_EQ(output.code, 4);
  EXPECT_THAT(output.out,
              HasSubstr("UNJUDGED a1:7575 cpu:0  ran none of its 2 cases: UNSUPPORTED"));
}

TEST_F(FleetCompareTest, ADeviceWhoseCasesNobodyElseRanIsNotCleared) {
  for (Json& test : reports_[1]["tests"]) test["shape"]["k"] = 99;
  const Output output = Compare();
  EXPECT_EQ(output.code, 4);
  EXPECT_THAT(output.out, HasSubstr("UNJUDGED a1:7575 cpu:0  gave no digest of an exact case that "
                                    "another gave too"));
}

// A copy's digest is of its seed; a case that died has none to give.
TEST_F(FleetCompareTest, WhoCouldNotGiveADigestIsNotCalledSilent) {
  for (std::size_t i = 0; i < reports_.size(); ++i) {
    Json copy = reports_[i]["tests"][0];
    copy.erase("probes");
    copy["op"] = "copy";
    copy["digest"] = std::string(32, i == 1 ? 'b' : 'c');
    copy["seed"] = i == 1 ? 9 : 7;
    reports_[i]["tests"].push_back(copy);
  }
  const Output output = Compare();
  EXPECT_EQ(output.code, 0);
  EXPECT_THAT(output.out, Not(HasSubstr("gave")));
  reports_[1]["tests"][0].erase("probes");
  reports_[1]["tests"][0]["verdict"] = "ERROR";
  EXPECT_THAT(Compare().out,
              AllOf(HasSubstr("FAILED   a1:7575"), Not(HasSubstr("the others gave"))));
}

TEST_F(FleetCompareTest, ACopyThatAgreesDoesNotClearWhoGaveNoDigest) {
  for (Json& report : reports_) {
    Json copy = report["tests"][0];
    copy.erase("probes");
    copy["op"] = "copy";
    copy["digest"] = std::string(32, 'c');
    report["tests"].push_back(copy);
  }
  EXPECT_EQ(Compare().code, 0);
  for (Json& test : reports_[1]["tests"]) test.erase("probes");
  const Output output = Compare();
  EXPECT_EQ(output.code, 4);
  EXPECT_THAT(output.out, HasSubstr("UNJUDGED a1:7575 cpu:0  gave none of the 2 digests"));
}

// Another provider computes the same bits in an exact case.
TEST_F(FleetCompareTest, WhoAgreesWithAnotherProviderIsJudged) {
  for (std::size_t i = 0; i < reports_.size(); ++i) {
    Json further = reports_[i]["tests"][0];
    further["shape"]["k"] = 77;
    for (Json& test : reports_[i]["tests"]) test["provider"] = i == 1 ? "openblas" : "onednn";
    if (i == 1) further.erase("probes");
    reports_[i]["tests"].push_back(further);
  }
  const Output output = Compare();
  EXPECT_EQ(output.code, 0);
  EXPECT_THAT(output.out, AllOf(Not(HasSubstr("UNJUDGED")),
                                HasSubstr("digests: a1:7575 cpu:0 gave none of the 1 digest")));
}

TEST_F(FleetCompareTest, ANodeWithoutResultsDoesNotVanish) {
  reports_[1]["tests"] = Json::array();
  const Output output = Compare();
  EXPECT_EQ(output.code, 4);
  EXPECT_THAT(output.out,
              AllOf(HasSubstr("MISSING  a1:7575"), HasSubstr("its report has no results"),
                    HasSubstr("1.json"), HasSubstr("1 target missing")));
}

// One file of several targets, one of which gave nothing.
TEST_F(FleetCompareTest, NorDoesOneAmongTheTargetsOfAFile) {
  reports_[1]["target"] = "a1:7575,a9:7575";
  const Output output = Compare();
  EXPECT_EQ(output.code, 4);
  EXPECT_THAT(output.out,
              AllOf(HasSubstr("MISSING  a9:7575"), HasSubstr("its report has no results")));
}

TEST_F(FleetCompareTest, AJobThatWasCutOffIsListedAndItsResultsVote) {
  reports_[1]["state"] = "RUNNING";
  reports_[1]["tests"].erase(1);
  reports_[1]["tests"][0]["probes"][0]["digest"] = std::string(32, 'a');
  const Output output = Compare();
  EXPECT_EQ(output.code, 4);
  EXPECT_THAT(
      output.out,
      AllOf(HasSubstr("MISSING  a1:7575"), HasSubstr("incomplete: jobs/1 is RUNNING, not FINISHED"),
            HasSubstr("; 1 result came before and is compared"), HasSubstr("5 results")));
  reports_[1]["tests"][0]["probes"][0]["digest"] = std::string(32, 'b');
  EXPECT_THAT(Compare().out, HasSubstr("SUSPECT  a1:7575 cpu:0"));
}

TEST_F(FleetCompareTest, AReportThatIsComparedIsNotReplaced) {
  const std::string report = folder_ / "1.json";
  const Output output = Compare({"--format", "json", "--output", report});
  EXPECT_EQ(output.code, 2);
  EXPECT_EQ(output.err, "assay: output: this command reads " + report + "; name another file\n");
  EXPECT_EQ(nlohmann::json::parse(std::ifstream(report))["schema"], "assay.report/v1");
}

TEST_F(FleetCompareTest, AReportSendsNothingToTheTerminalThatItObeys) {
  reports_[1]["target"] = "a1\x1b[31m:7575";
  reports_[1]["tests"] = Json::array();
  const Output output = Compare();
  EXPECT_THAT(output.out, AllOf(HasSubstr("MISSING  a1?[31m:7575"), Not(HasSubstr("\x1b"))));
}

// The case that would accuse the device may be among those that were lost.
TEST_F(FleetCompareTest, AReportOfFewerResultsThanItCountsIsListed) {
  reports_[1]["tests"].erase(1);
  const Output output = Compare();
  EXPECT_EQ(output.code, 4);
  EXPECT_THAT(output.out,
              AllOf(HasSubstr("MISSING  a1:7575"), HasSubstr("incomplete: has 1 of its 2 results"),
                    HasSubstr("; 1 result came before and is compared")));
  EXPECT_EQ(nlohmann::json::parse(Compare({"--format", "json"}).out)["verdict"], "INCONCLUSIVE");
}

// What a node's own report says of the kernel that a suite requires.
Json Lacks(const std::string& device) {
  return {{"reason", "unsupported"},
          {"device", device},
          {"message", "the suite requires gemm onednn bf16 on " + device + ": it takes fp32 only"}};
}

TEST_F(FleetCompareTest, AKernelThatIsRequiredAndMissingOnAllAccusesNoDevice) {
  for (Json& report : reports_) {
    report["verdict"] = "FAILED";
    report["findings"] = Json::array({Lacks("cpu:0")});
  }
  const Output output = Compare();
  EXPECT_EQ(output.code, 1);
  EXPECT_THAT(output.out,
              AllOf(HasSubstr("fails on every device, so no device is accused:\n  the suite "
                              "requires gemm onednn bf16 on cpu: it takes fp32 only; on all 3"),
                    HasSubstr("0 devices accused, 3 not")));
  const auto json = nlohmann::json::parse(Compare({"--format", "json"}).out);
  EXPECT_EQ(json["verdict"], "FAILED");
  ASSERT_EQ(json["job_findings"].size(), 3u);
  EXPECT_EQ(json["job_findings"][2]["target"], "a2:7575");
  EXPECT_EQ(json["job_findings"][2]["everywhere"], true);
  EXPECT_THAT(Compare({"--format", "html"}).out, HasSubstr("the suite requires gemm onednn bf16"));
}

TEST_F(FleetCompareTest, OnSomeNodesItIsTheirs) {
  reports_[1]["verdict"] = "FAILED";
  reports_[1]["findings"] = Json::array({Lacks("cpu:0")});
  const Output output = Compare();
  EXPECT_EQ(output.code, 1);
  EXPECT_THAT(output.out, AllOf(HasSubstr("FAILED   a1:7575 cpu:0  its job failed\n"),
                                HasSubstr("its job FAILED: the suite requires gemm onednn bf16"),
                                HasSubstr("2 of 3 nodes that ran the suite did not"),
                                HasSubstr("1 device accused, 2 not")));
  const auto json = nlohmann::json::parse(Compare({"--format", "json"}).out);
  EXPECT_EQ(json["accused"][0]["evidence"][0]["reason"], "unsupported");
  EXPECT_EQ(json["job_findings"][0]["everywhere"], false);
}

// Whole runs lacked a kernel; one of the fp32 cases alone did not, and the others were accused.
TEST_F(FleetCompareTest, AJobOfSomeOfTheCasesTellsNothingOfWhatTheOthersRequire) {
  for (const int whole : {0, 1}) {
    reports_[whole]["verdict"] = "FAILED";
    reports_[whole]["findings"] = Json::array({Lacks("cpu:0")});
  }
  reports_[2]["filter"] = "--dtype fp32";
  const Output output = Compare();
  EXPECT_EQ(output.code, 1);
  EXPECT_THAT(output.out, AllOf(HasSubstr("it takes fp32 only; on all 2 nodes"),
                                HasSubstr("0 devices accused, 3 not")));
}

TEST_F(FleetCompareTest, AJobThatFailedAndDoesNotSayWhyDoesNotPass) {
  reports_[1]["verdict"] = "FAILED";
  const Output output = Compare();
  EXPECT_EQ(output.code, 1);
  EXPECT_THAT(output.out, HasSubstr("a1:7575 cpu:0  its job failed"));
  reports_[1]["verdict"] = "fine";
  EXPECT_THAT(Compare().out, HasSubstr("1.json: verdict: must be one of"));
}

TEST_F(FleetCompareTest, AJobThatProvesLessThanItWasToDoesNotPass) {
  reports_[1]["verdict"] = "INCONCLUSIVE";
  reports_[1]["findings"] = {{{"reason", "empty"}, {"message", "none of its cases runs that"}}};
  const Output output = Compare();
  EXPECT_EQ(output.code, 4);
  EXPECT_THAT(output.out, AllOf(HasSubstr("less than was asked for:\n  a1:7575: none of its cases"),
                                HasSubstr("0 devices accused, 3 not")));
}

// One kernel that was late, and a host without memory, accuse nobody; the job is FAILED all the
// same.
TEST_F(FleetCompareTest, AJobThatFailedByWhatAccusesNobodyDoesNotPass) {
  Json& test = reports_[1]["tests"][1];
  for (const char* reason : {"timeout", "memory"}) {
    reports_[1]["verdict"] = "FAILED";
    test["verdict"] = "ERROR";
    test["reason"] = reason;
    test["phase"] = "kernel";
    const Output output = Compare();
    EXPECT_EQ(output.code, 1);
    EXPECT_THAT(output.out,
                AllOf(HasSubstr(std::string("jobs that failed:\n  a1:7575: its job is FAILED: 1 "
                                            "ERROR ") +
                                reason + " ("),
                      HasSubstr("(jobs/1)\n"), HasSubstr("0 devices accused, 3 not")));
    const auto json = nlohmann::json::parse(Compare({"--format", "json"}).out);
    EXPECT_EQ(json["verdict"], "FAILED");
    ASSERT_EQ(json["job_findings"].size(), 1u);
    EXPECT_EQ(json["job_findings"][0]["target"], "a1:7575");
    EXPECT_EQ(json["job_findings"][0]["verdict"], "FAILED");
    EXPECT_EQ(json["job_findings"][0]["reason"], "verdict");
    EXPECT_EQ(json["accused"].size(), 0u);
    EXPECT_THAT(Compare({"--format", "html"}).out, HasSubstr("its job is FAILED: 1 ERROR"));
  }
  reports_[1].erase("verdict");
  EXPECT_EQ(Compare().code, 1) << "nor where only its cases say so";
}

TEST_F(FleetCompareTest, AJobWhoseCasesProveNothingDoesNotPass) {
  reports_[1]["verdict"] = "INCONCLUSIVE";
  reports_[1]["tests"][1]["verdict"] = "INCONCLUSIVE";
  reports_[1]["tests"][1]["reason"] = "zeros";
  const Output output = Compare();
  EXPECT_EQ(output.code, 4);
  EXPECT_THAT(output.out, AllOf(HasSubstr("less than was asked for:\n  a1:7575: its job is "
                                          "INCONCLUSIVE: 1 INCONCLUSIVE zeros ("),
                                HasSubstr("0 devices accused, 3 not")));
  const auto json = nlohmann::json::parse(Compare({"--format", "json"}).out);
  EXPECT_EQ(json["verdict"], "INCONCLUSIVE");
  EXPECT_EQ(json["job_findings"][0]["verdict"], "INCONCLUSIVE");
  reports_[1]["tests"][1]["verdict"] = "PASSED";
  EXPECT_THAT(Compare().out, HasSubstr("its job is INCONCLUSIVE: no case says why"));
}

// Whose it is cannot be told of one file of several targets that does not say it.
TEST_F(FleetCompareTest, AFailedJobOfAFileOfSeveralIsListed) {
  reports_[1]["target"] = "a1:7575,a2:7575";
  reports_[1]["tests"][0]["target"] = "a2:7575";
  reports_[1]["findings"] = Json::array({Lacks("cpu:0")});
  reports_.pop_back();
  const Output output = Compare();
  EXPECT_EQ(output.code, 1);
  EXPECT_THAT(output.out, HasSubstr("jobs that failed:\n  a1:7575,a2:7575: the suite requires"));
  reports_[1]["findings"][0]["target"] = "a2:7575";
  EXPECT_THAT(Compare().out, HasSubstr("FAILED   a2:7575 cpu:0  its job failed"));
}

}  // namespace
}  // namespace assay::client::testing
