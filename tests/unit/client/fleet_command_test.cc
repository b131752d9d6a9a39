// fleet run and fleet status against fake daemons.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <thread>

#include "absl/strings/str_cat.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"
#include "nlohmann/json.hpp"
#include "tests/unit/client/command.h"

namespace assay::client::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

// Five nodes whose probes agree.
class FleetCommandTest : public ::testing::Test {
 protected:
  FleetCommandTest() : nodes_(5) {
    for (FakeService& node : nodes_) {
      node.results = {MakeResult(0, v1::VERDICT_PASSED), MakeResult(1, v1::VERDICT_PASSED)};
      node.results[1].mutable_spec()->mutable_gemm()->set_m(128);
      for (auto& result : node.results) SetDigest(result, 'a');
    }
  }
  static void SetDigest(v1::CaseResult& result, char digit) {
    result.clear_probes();
    auto* probe = result.add_probes();
    probe->set_name("exact-sparse");
    probe->set_digest(std::string(32, digit));
  }
  std::string Targets() const {
    std::string list;
    for (const FakeService& node : nodes_) list += (list.empty() ? "" : ",") + node.target();
    return list;
  }
  Output Fleet(std::vector<std::string> more = {}) const {
    std::vector<std::string> args = {"fleet", "run", "--suite", "nightly", Targets()};
    args.insert(args.end(), more.begin(), more.end());
    return Assay(args);
  }

  std::deque<FakeService> nodes_;
};

TEST_F(FleetCommandTest, NodesThatAgreePass) {
  const Output output = Fleet();
  EXPECT_EQ(output.code, 0) << output.out << output.err;
  EXPECT_THAT(output.out,
              AllOf(HasSubstr("5 nodes, 5 devices"), HasSubstr("0 devices accused, 5 not")));
  for (const FakeService& node : nodes_) {
    EXPECT_THAT(output.out, HasSubstr("finished    " + node.target()));
    ASSERT_THAT(node.created(), SizeIs(1));
    EXPECT_EQ(node.created()[0].spec().suite(), "nightly");
  }
}

TEST_F(FleetCommandTest, ADeviationIsRunAgainThereAndOnASibling) {
  SetDigest(nodes_[3].results[0], 'b');
  nodes_[3].results[0].mutable_spec()->set_seed(99);  // to be known again
  const Output output = Fleet({"--format", "json"});
  EXPECT_EQ(output.code, 1) << output.err;
  const auto json = nlohmann::json::parse(output.out);
  EXPECT_EQ(json["schema"], "assay.fleet/v1");
  EXPECT_EQ(json["verdict"], "FAILED");
  ASSERT_EQ(json["accused"].size(), 1u);
  const auto& accused = json["accused"][0];
  EXPECT_EQ(accused["target"], nodes_[3].target());
  EXPECT_EQ(accused["charge"], "SUSPECT");
  EXPECT_EQ(accused["evidence"][0]["digest"], std::string(32, 'b'));
  EXPECT_EQ(accused["evidence"][0]["expected_digest"], std::string(32, 'a'));
  EXPECT_EQ(accused["evidence"][0]["devices_that_agree"], 4);
  ASSERT_EQ(accused["reruns"].size(), 2u);
  EXPECT_EQ(accused["reruns"][0]["outcome"], "again");
  EXPECT_EQ(accused["reruns"][1]["outcome"], "right");
  EXPECT_EQ(accused["reruns"][1]["sibling"], true);
  EXPECT_THAT(accused["reads_as"], HasSubstr("suspect this card"));
  // Asked for exactly the case that deviated, on both.
  ASSERT_THAT(nodes_[3].created(), SizeIs(2));
  ASSERT_THAT(nodes_[0].created(), SizeIs(2));
  for (int node : {3, 0}) {
    const v1::JobSpec spec = nodes_[static_cast<std::size_t>(node)].created()[1].spec();
    ASSERT_EQ(spec.cases().cases_size(), 1);
    EXPECT_EQ(spec.cases().cases(0).seed(), 99u);
    EXPECT_EQ(spec.device(), "cpu:0");
  }
  EXPECT_THAT(nodes_[1].created(), SizeIs(1));
  EXPECT_THAT(Fleet({"--reruns", "0"}).out, AllOf(HasSubstr("SUSPECT"), Not(HasSubstr("rerun"))));
}

// As those have that fill a suite's budget: the data of another seed may be right.
TEST_F(FleetCommandTest, OfCasesOfOneNameTheOneThatFailedIsRunAgain) {
  for (FakeService& node : nodes_) {
    node.results[1] = node.results[0];
    node.results[1].set_index(1);
    node.results[1].mutable_spec()->set_seed(8);
  }
  v1::CaseResult& failed = nodes_[3].results[1];
  failed.set_verdict(v1::VERDICT_FAILED);
  failed.add_findings()->set_reason("bound");
  const Output output = Fleet({"--format", "json"});
  EXPECT_EQ(output.code, 1) << output.err;
  const auto accused = nlohmann::json::parse(output.out)["accused"];
  ASSERT_EQ(accused.size(), 1u);
  EXPECT_EQ(accused[0]["charge"], "FAILED");
  for (const std::size_t node : {3, 0}) {
    ASSERT_THAT(nodes_[node].created(), SizeIs(2));
    EXPECT_EQ(nodes_[node].created()[1].spec().cases().cases(0).seed(), 8u);
  }
}

// What one case did on the device and another on the sibling convicts nobody.
TEST_F(FleetCommandTest, ASiblingClearsTheLibraryOnlyInACaseThatWentWrongAgain) {
  class Losing : public FakeService {  // the rerun of one case gives no digest
   public:
    grpc::Status CreateJob(grpc::ServerContext* context, const v1::CreateJobRequest* request,
                           v1::Job* job) override {
      if (all.empty()) all = results;
      if (request->spec().has_cases()) {
        const bool second = request->spec().cases().cases(0).gemm().m() == 128;
        results = {all[second ? 1 : 0]};
        if (second == loses_second) results[0].clear_probes();
      }
      return FakeService::CreateJob(context, request, job);
    }
    bool loses_second = false;
    std::vector<v1::CaseResult> all;
  };
  Losing sibling, bad;
  bad.loses_second = true;
  for (Losing* node : {&sibling, &bad}) {
    node->results = nodes_[0].results;
    for (auto& result : node->results) SetDigest(result, node == &bad ? 'b' : 'a');
  }
  const Output output = Assay({"fleet", "run", "--suite", "nightly", "--format", "json",
                               absl::StrCat(sibling.target(), ",", Targets(), ",", bad.target())});
  EXPECT_EQ(output.code, 1) << output.err;
  const auto accused = nlohmann::json::parse(output.out)["accused"];
  ASSERT_EQ(accused.size(), 1u);
  std::vector<std::string> outcomes;
  for (const auto& rerun : accused[0]["reruns"]) outcomes.push_back(rerun["outcome"]);
  EXPECT_THAT(outcomes, ::testing::UnorderedElementsAre("again", "unknown", "unknown", "right"));
  EXPECT_THAT(accused[0]["reads_as"], HasSubstr("no sibling to tell"));
}

// What the host does to a rerun says nothing of the card, and nothing of the library.
TEST_F(FleetCommandTest, ARerunThatTheHostEndedHasNoVote) {
  class KilledOnTheSibling : public FakeService {
   public:
    grpc::Status CreateJob(grpc::ServerContext* context, const v1::CreateJobRequest* request,
                           v1::Job* job) override {
      if (request->spec().has_cases()) {
        results = {MakeResult(0, v1::VERDICT_ERROR)};
        results[0].mutable_findings(0)->set_reason("memory");
        results[0].mutable_findings(0)->set_blame(v1::BLAME_HOST);
      }
      return FakeService::CreateJob(context, request, job);
    }
  };
  KilledOnTheSibling sibling;
  sibling.results = {MakeResult(0, v1::VERDICT_PASSED)};
  FakeService bad;
  bad.results = {MakeResult(0, v1::VERDICT_ERROR)};
  const Output output = Assay({"fleet", "run", "--suite", "nightly", "--format", "json",
                               absl::StrCat(sibling.target(), ",", bad.target())});
  EXPECT_EQ(output.code, 1) << output.err;
  const auto accused = nlohmann::json::parse(output.out)["accused"];
  ASSERT_EQ(accused.size(), 1u);
  ASSERT_EQ(accused[0]["reruns"].size(), 2u);
  EXPECT_EQ(accused[0]["reruns"][0]["outcome"], "again");
  EXPECT_EQ(accused[0]["reruns"][1]["outcome"], "unknown");
  EXPECT_THAT(accused[0]["reads_as"], HasSubstr("no sibling to tell"));
}

// The rerun of the device gives what the first run gave; the sibling's has no such error.
TEST_F(FleetCommandTest, ALossOfPrecisionIsRunAgainThereAndOnASibling) {
  for (FakeService& node : nodes_) node.results[0].mutable_precision()->set_rms(0.7);
  nodes_[3].results[0].mutable_precision()->set_rms(118);
  const Output output = Fleet({"--format", "json"});
  EXPECT_EQ(output.code, 1) << output.err;
  const auto accused = nlohmann::json::parse(output.out)["accused"];
  ASSERT_EQ(accused.size(), 1u);
  EXPECT_EQ(accused[0]["target"], nodes_[3].target());
  EXPECT_EQ(accused[0]["charge"], "SUSPECT");
  ASSERT_EQ(accused[0]["reruns"].size(), 2u);
  EXPECT_EQ(accused[0]["reruns"][0]["outcome"], "again");
  EXPECT_THAT(accused[0]["reruns"][0]["text"], HasSubstr("rms error 118.0, the median is 0.70"));
  EXPECT_EQ(accused[0]["reruns"][1]["outcome"], "right");
}

TEST_F(FleetCommandTest, AJobThatLacksARequiredKernelIsNoPass) {
  v1::Finding lack;
  lack.set_reason("unsupported");
  lack.set_message("the suite requires gemm onednn bf16 on cpu:0: it takes fp32 only");
  lack.set_device("cpu:0");
  for (FakeService& node : nodes_) {
    node.verdict = v1::VERDICT_FAILED;
    node.job_findings = {lack};
  }
  const Output output = Fleet();
  EXPECT_EQ(output.code, 1);
  EXPECT_THAT(output.out, AllOf(HasSubstr("worst FAILED  the suite requires gemm onednn bf16"),
                                Not(HasSubstr("worst PASSED")), HasSubstr("on all 5 nodes")));
}

TEST_F(FleetCommandTest, ANodeThatIsNotThereIsListed) {
  std::string gone;
  { gone = FakeService().target(); }
  const Output output = Fleet({gone});
  EXPECT_EQ(output.code, 4);
  EXPECT_THAT(output.out, AllOf(HasSubstr("MISSING  " + gone), HasSubstr("connection refused"),
                                HasSubstr("0 devices accused, 5 not, 1 target missing")));
  SetDigest(nodes_[3].results[0], 'b');
  EXPECT_EQ(Fleet({gone}).code, 1) << "what failed weighs more";
}

TEST_F(FleetCommandTest, ANodeThatDiesHalfWayIsReportedWithWhatItHad) {
  nodes_[2].die_after = 2;  // the start and one result
  const Output output = Fleet({"--reconnect", "0", "--format", "json"});
  EXPECT_EQ(output.code, 4);
  const auto json = nlohmann::json::parse(output.out);
  ASSERT_EQ(json["missing"].size(), 1u);
  EXPECT_EQ(json["missing"][0]["target"], nodes_[2].target());
  EXPECT_EQ(json["missing"][0]["results"], 1);
  EXPECT_EQ(json["results"], 9);
}

// These daemons live in 2023: their results count as any, and each clock is named.
TEST_F(FleetCommandTest, ClocksThatAreOffAreNamedAndAccuseNobody) {
  const Output output = Fleet({"--format", "json"});
  EXPECT_EQ(output.code, 0);
  const auto json = nlohmann::json::parse(output.out);
  EXPECT_EQ(json["accused"].size(), 0u);
  const std::vector<std::string> lines = json["differences"];
  for (const FakeService& node : nodes_) {
    EXPECT_THAT(lines, Contains(AllOf(HasSubstr("clock: that of " + node.target()),
                                      HasSubstr("behind this machine's"))));
  }
}

TEST_F(FleetCommandTest, ATargetWithoutAnAddressIsListed) {
  const Output output = Fleet({"no-such-host.invalid:7575"});
  EXPECT_EQ(output.code, 4);
  EXPECT_THAT(output.out, AllOf(HasSubstr("MISSING  no-such-host.invalid:7575"),
                                HasSubstr("the host name is unknown"),
                                HasSubstr("0 devices accused, 5 not, 1 target missing")));
}

TEST_F(FleetCommandTest, ANodeThatRefusesIsListed) {
  nodes_[1].create_status = {grpc::StatusCode::NOT_FOUND, "no suite \"nightly\""};
  const Output output = Fleet();
  EXPECT_EQ(output.code, 4);
  EXPECT_THAT(output.out, AllOf(HasSubstr("refused     " + nodes_[1].target()),
                                HasSubstr("no suite \"nightly\"")));
}

TEST_F(FleetCommandTest, ARequestThatAllRefuseIsTheUsersMistake) {
  for (FakeService& node : nodes_) {
    node.create_status = {grpc::StatusCode::NOT_FOUND, "no suite \"nightly\""};
  }
  std::string gone;
  { gone = FakeService().target(); }
  for (const bool table : {true, false}) {
    const Output output = table ? Fleet({gone}) : Fleet({gone, "--format", "json"});
    EXPECT_EQ(output.code, 2);
    EXPECT_EQ(output.err.substr(output.err.rfind("assay: ")), "assay: no suite \"nightly\"\n");
    EXPECT_THAT(output.out + output.err, Not(HasSubstr("refused     ")));
  }
  // One that is full says nothing of the request.
  nodes_[0].create_status = {grpc::StatusCode::RESOURCE_EXHAUSTED, "the queue is full"};
  const Output output = Fleet();
  EXPECT_EQ(output.code, 4);
  for (const FakeService& node : nodes_) {
    EXPECT_THAT(output.out, HasSubstr("refused     " + node.target()));
  }
}

TEST_F(FleetCommandTest, AJobThatEndedBeforeItsEndIsIncomplete) {
  nodes_[1].end_state = v1::JOB_STATE_CANCELLED;
  const Output output = Fleet();
  EXPECT_EQ(output.code, 4);
  EXPECT_THAT(output.out, AllOf(HasSubstr("MISSING  " + nodes_[1].target()),
                                HasSubstr("incomplete: jobs/4f2k is CANCELLED, not FINISHED; 2 "
                                          "results came before and are compared"),
                                HasSubstr("0 devices accused, 5 not, 1 target missing")));
}

TEST_F(FleetCommandTest, ANodeWithoutResultsIsListed) {
  nodes_[1].results.clear();
  const Output output = Fleet();
  EXPECT_EQ(output.code, 4);
  EXPECT_THAT(output.out, AllOf(HasSubstr("MISSING  " + nodes_[1].target()),
                                HasSubstr("ended without a result (jobs/4f2k)"),
                                HasSubstr("0 devices accused, 4 not, 1 target missing")));
}

TEST_F(FleetCommandTest, ATargetNamedTwiceIsAskedOnce) {
  const Output output = Fleet({nodes_[0].target()});
  EXPECT_EQ(output.code, 0);
  EXPECT_THAT(output.out, HasSubstr(nodes_[0].target() + " is named more than once"));
  EXPECT_THAT(nodes_[0].created(), SizeIs(1));
}

TEST_F(FleetCommandTest, EachNodesReportCanBeKeptAndComparedAgain) {
  const std::string folder =
      std::filesystem::temp_directory_path() / ("assay_fleet_reports." + std::to_string(getpid()));
  SetDigest(nodes_[3].results[0], 'b');
  EXPECT_EQ(Fleet({"--reports", folder, "--reruns", "0"}).code, 1);
  std::vector<std::string> args = {"fleet", "compare", "--format", "json"};
  for (const auto& file : std::filesystem::directory_iterator(folder)) args.push_back(file.path());
  EXPECT_THAT(args, SizeIs(4 + 5));
  const Output again = Assay(args);
  EXPECT_EQ(again.code, 1);
  EXPECT_EQ(nlohmann::json::parse(again.out)["accused"][0]["target"], nodes_[3].target());
  std::filesystem::remove_all(folder);
}

TEST_F(FleetCommandTest, AFolderThatCannotBeMadeIsRefusedBeforeAnyJob) {
  const Output output = Fleet({"--reports", "/dev/null/reports"});
  EXPECT_EQ(output.code, 2);
  EXPECT_THAT(output.err, HasSubstr("reports: cannot make /dev/null/reports: Not a directory"));
  EXPECT_THAT(nodes_[0].created(), SizeIs(0));
}

TEST_F(FleetCommandTest, WhoLeavesIsToldWhatGoesOn) {
  nodes_[4].hang = true;  // all results, and no end
  std::thread leaver([this] {
    // Not before the job is watched: earlier there is nothing to leave.
    while (nodes_[4].watched_after().empty()) std::this_thread::yield();
    kill(getpid(), SIGTERM);
  });
  const Output output = Fleet();
  leaver.join();
  EXPECT_EQ(output.code, 4);
  EXPECT_THAT(output.out, AllOf(HasSubstr("MISSING  " + nodes_[4].target()),
                                HasSubstr("jobs/4f2k goes on there")));
  EXPECT_THAT(nodes_[4].cancelled(), SizeIs(0));
}

TEST_F(FleetCommandTest, OnATerminalTheLinesAreRedrawn) {
  std::vector<std::string> args = {"fleet", "run", "--suite", "nightly", Targets()};
  const Output output = Assay(args, true);
  EXPECT_EQ(output.code, 0);
  EXPECT_THAT(output.out, AllOf(HasSubstr("5 of 5 nodes have ended"), HasSubstr("\x1b[1A\x1b[2K")));
}

TEST_F(FleetCommandTest, StatusIsALineADevice) {
  std::string gone;
  { gone = FakeService().target(); }
  const Output output = Assay({"fleet", "status", Targets(), gone});
  EXPECT_EQ(output.code, 4);
  EXPECT_THAT(output.out,
              AllOf(HasSubstr("NODE"), HasSubstr(nodes_[4].target()), HasSubstr("EPYC 9755"),
                    HasSubstr("READY"), HasSubstr("0.1.0"), HasSubstr("PASSED")));
  EXPECT_THAT(output.err, HasSubstr("missing " + gone));
  const Output json = Assay({"fleet", "status", Targets(), "--format", "json"});
  EXPECT_EQ(json.code, 0);
  const auto document = nlohmann::json::parse(json.out);
  EXPECT_EQ(document["schema"], "assay.fleet.status/v1");
  EXPECT_EQ(document["devices"].size(), 5u);
}

TEST_F(FleetCommandTest, MistakesAreUsage) {
  EXPECT_EQ(Assay({"fleet"}).code, 2);
  EXPECT_THAT(Assay({"fleet", "run", Targets()}).err,
              HasSubstr("nothing to run: name --suite or --suite-file"));
  const std::string suite = ::testing::TempDir() + "/not_utf8.toml";
  std::ofstream(suite) << "title = \"\xff\"\n";
  EXPECT_THAT(Assay({"fleet", "run", "--suite-file", suite, Targets()}).err,
              HasSubstr("suite-file: " + suite + " is not UTF-8 text, so it is no suite"));
  EXPECT_THAT(Fleet({"--limit", "0"}).err,
              HasSubstr("limit: must be a whole number from 1 to 65536, got \"0\""));
  EXPECT_THAT(Fleet({"--reruns", "-1"}).err, HasSubstr("reruns: must be a whole number from 0"));
  EXPECT_EQ(Assay({"fleet", "status", "--limit", "0"}).code, 2);
  EXPECT_THAT(Fleet({"--format", "csv"}).err, HasSubstr("a fleet can be had as table, json, html"));
  const Output tool = Assay({"fleet", "status", "slurm:no-such-partition"});
  EXPECT_EQ(tool.code, 3);
  EXPECT_THAT(tool.err, HasSubstr("sinfo"));
}

// Refuses every job and every question, but not before as many have been asked for as it listens on
// ports.
class Gathering : public v1::ValidationService::Service {
 public:
  explicit Gathering(std::size_t ports) : ports_(ports) {
    grpc::ServerBuilder builder;
    for (int& port : ports_) {
      builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    }
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~Gathering() override { server_->Shutdown(); }

  std::string targets() const {
    std::string list;
    for (const int port : ports_)
      list += (list.empty() ? "127.0.0.1:" : ",127.0.0.1:") + std::to_string(port);
    return list;
  }
  std::size_t at_once() const { return arrived_; }

  grpc::Status CreateJob(grpc::ServerContext*, const v1::CreateJobRequest*, v1::Job*) override {
    return Arrive();
  }
  grpc::Status GetServerInfo(grpc::ServerContext*, const v1::GetServerInfoRequest*,
                             v1::ServerInfo*) override {
    return Arrive();
  }

 private:
  grpc::Status Arrive() {
    std::unique_lock lock(mutex_);
    ++arrived_;
    all_.notify_all();
    const bool all =
        all_.wait_for(lock, std::chrono::seconds(25), [&] { return arrived_ == ports_.size(); });
    return {grpc::StatusCode::FAILED_PRECONDITION, all ? "all are here" : "somebody is late"};
  }

  std::vector<int> ports_;
  std::mutex mutex_;
  std::condition_variable all_;
  std::size_t arrived_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

// One after the other, or 255 at once, would wait for ever.
TEST(FleetFanOut, AsksAll256TargetsAtOnce) {
  Gathering nodes(256);
  const Output output = Assay({"fleet", "run", "--suite", "nightly", nodes.targets()});
  EXPECT_EQ(output.code, 4);
  EXPECT_EQ(nodes.at_once(), 256u);
  EXPECT_THAT(output.out, AllOf(HasSubstr("all are here"), Not(HasSubstr("somebody is late")),
                                HasSubstr("256 targets missing")));
}

TEST(FleetFanOut, QualifiesAll256TargetsAtOnce) {
  Gathering nodes(256);
  const Output output =
      Assay({"qualify", "quick", "--target", nodes.targets(), "--format", "json"});
  EXPECT_EQ(output.code, 3) << output.err;
  EXPECT_EQ(nodes.at_once(), 256u);
  const auto missing = nlohmann::json::parse(output.out)["missing"];
  ASSERT_EQ(missing.size(), 256u);
  for (const auto& one : missing) {
    EXPECT_THAT(one["reason"].get<std::string>(), HasSubstr("all are here"));
  }
}

}  // namespace
}  // namespace assay::client::testing
