// assay qualify as a command: what is said and refused before and after the nodes are asked.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "tests/unit/client/command.h"

namespace assay::client::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::string Folder(const std::string& name) {
  const auto path = std::filesystem::path(::testing::TempDir()) / absl::StrCat("qualify-", name);
  std::filesystem::remove_all(path);
  return path.string();
}

std::string Written(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
  return path;
}

TEST(QualifyCommand, WhatCannotBeWrittenIsRefusedBeforeAnythingRuns) {
  FakeService service;
  const Output output = Assay(service, {"qualify", "quick", "--output", "/nonexistent/q.json"});
  EXPECT_EQ(output.code, 2);
  EXPECT_THAT(output.err, HasSubstr("output: cannot write /nonexistent/q.json"));
  const std::string file = Written(Folder("file"), "no folder");
  const Output reports = Assay(service, {"qualify", "quick", "--reports", file + "/in"});
  EXPECT_EQ(reports.code, 2);
  EXPECT_THAT(reports.err, HasSubstr("reports: cannot write to " + file));
  EXPECT_EQ(service.jobs_made(), 0);
}

TEST(QualifyCommand, MakesTheFolderOfReports) {
  FakeService service;
  service.results = {MakeResult(0, v1::VERDICT_PASSED)};
  const std::string folder = Folder("reports") + "/deep";
  const Output output = Assay(service, {"qualify", "quick", "--no-selftest", "--reports", folder});
  EXPECT_EQ(output.code, 0) << output.out << output.err;
  EXPECT_FALSE(std::filesystem::is_empty(folder));
}

TEST(QualifyCommand, ASignalCancelsItsJob) {
  FakeService service;
  service.hang = true;
  std::thread signaller([&] {
    while (service.watched_after().empty()) std::this_thread::yield();
    std::raise(SIGTERM);
  });
  const Output output = Assay(service, {"qualify", "quick", "--no-selftest"});
  signaller.join();
  EXPECT_EQ(output.code, 4) << output.out;
  EXPECT_THAT(output.out, HasSubstr("A306"));
  EXPECT_THAT(service.cancelled(), ElementsAre("jobs/4f2k"));
  EXPECT_EQ(service.jobs_made(), 1) << "and nothing is begun";
}

v1::CaseResult LateResult(int index) {
  v1::CaseResult late = MakeResult(index, v1::VERDICT_ERROR);
  late.mutable_findings(0)->set_reason("timeout");
  late.mutable_findings(0)->set_phase("kernel");
  return late;
}

// Ends its first job, and hangs at the second.
class HangsAtTheSecond : public FakeService {
 public:
  grpc::Status CreateJob(grpc::ServerContext* context, const v1::CreateJobRequest* request,
                         v1::Job* job) override {
    hang = jobs_made() > 0;
    return FakeService::CreateJob(context, request, job);
  }
};

TEST(QualifyCommand, ASignalDuringARetryAccusesNobody) {
  HangsAtTheSecond service;
  service.results = {MakeResult(0, v1::VERDICT_PASSED), LateResult(1)};
  std::thread signaller([&] {
    while (service.watched_after().size() < 2) std::this_thread::yield();
    std::raise(SIGTERM);
  });
  const Output output = Assay(service, {"qualify", "quick", "--no-selftest"});
  signaller.join();
  EXPECT_EQ(output.code, 4) << output.out;
  EXPECT_THAT(output.out, HasSubstr("A306"));
  EXPECT_THAT(output.out, Not(HasSubstr("A112")));
  EXPECT_EQ(service.jobs_made(), 2);
}

// What came before is judged, and that the rest did not is said.
TEST(QualifyCommand, WhatIsWrongIsKeptWhereTheStreamBreaks) {
  FakeService service;
  service.results = {MakeResult(0, v1::VERDICT_PASSED), MakeResult(1, v1::VERDICT_FAILED),
                     LateResult(2), MakeResult(3, v1::VERDICT_PASSED)};
  service.die_after = 4;  // the start and three results
  const std::vector<std::string> words = {"qualify", "quick",    "--no-selftest", "--reconnect",
                                          "0",       "--format", "json"};
  const Output output = Assay(service, words);
  EXPECT_EQ(output.code, 1) << output.out;
  const auto device = nlohmann::json::parse(output.out)["devices"][0];
  EXPECT_EQ(device["code"], "A103");
  EXPECT_THAT(std::string(device["reason"]), HasSubstr(std::string(device["findings"][0]["why"])));
  EXPECT_EQ(device["cases"], 3);
  std::vector<std::string> codes;
  for (const auto& finding : device["findings"]) codes.push_back(finding["code"]);
  EXPECT_THAT(codes, ElementsAre("A103", "A901", "A306"));
  EXPECT_EQ(service.jobs_made(), 1) << "nothing is run again where nobody answers";
  service.die_after = 2;  // and one that passed
  EXPECT_EQ(nlohmann::json::parse(Assay(service, words).out)["devices"][0]["code"], "A901");
}

TEST(QualifyCommand, DeadlinesAreThoseOfEveryJob) {
  FakeService service;
  service.results = {MakeResult(0, v1::VERDICT_FAILED)};
  Assay(service,
        {"qualify", "quick", "--no-selftest", "--case-deadline", "4s", "--job-deadline", "20s"});
  const auto created = service.created();
  EXPECT_GE(created.size(), 2u) << "the level, and what failed again";
  for (const v1::CreateJobRequest& request : created) {
    EXPECT_EQ(request.spec().case_deadline().seconds(), 4);
    EXPECT_EQ(request.spec().deadline().seconds(), 20);
  }
  const Output refused = Assay(service, {"qualify", "quick", "--case-deadline", "0s"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("case-deadline: must be more than 0, got \"0s\""));
}

TEST(QualifyCommand, ADeviceThatNoNodeHasIsTheRequestsFault) {
  FakeService service;
  const Output output = Assay(service, {"qualify", "quick", "--device", "cpu:9"});
  EXPECT_EQ(output.code, 2);
  EXPECT_THAT(output.out, HasSubstr("A903"));
  EXPECT_THAT(output.out, HasSubstr("it has no device \"cpu:9\"; it has cpu:0"));
  EXPECT_THAT(output.out, HasSubstr("assay devices --target " + service.target()));
  EXPECT_THAT(output.out, Not(HasSubstr("systemctl")));
  EXPECT_THAT(output.err, HasSubstr("1 of 1 node without a device that was asked for"));
  EXPECT_EQ(service.jobs_made(), 0);
}

TEST(QualifyCommand, IgnoredDevicesAreThereButNotJudged) {
  FakeService service;
  const Output output =
      Assay(service, {"qualify", "quick", "--expect-devices", "1", "--ignore", "cpu:0"});
  EXPECT_EQ(output.code, 2);
  EXPECT_THAT(output.out, HasSubstr("nothing is left to qualify: --ignore names cpu:0"));
  EXPECT_THAT(output.out, Not(HasSubstr("A116")));
  const Output two =
      Assay(service, {"qualify", "quick", "--expect-devices", "2", "--ignore", "cpu:0"});
  EXPECT_EQ(two.code, 1);
  EXPECT_THAT(two.out, HasSubstr("expected 2 devices, found 1, with those that are ignored"));
  EXPECT_EQ(service.jobs_made(), 0);
}

TEST(QualifyCommand, ATargetThatIsNamedTwiceIsAskedOnce) {
  FakeService service;
  service.results = {MakeResult(0, v1::VERDICT_PASSED)};
  const std::string& target = service.target();
  const Output output = Assay({"qualify", "quick", "--no-selftest", "--target",
                               absl::StrCat(target, ",", target, ",127.0.0.1:1")});
  EXPECT_EQ(output.code, 4) << output.out;
  EXPECT_EQ(service.jobs_made(), 1);
  EXPECT_THAT(output.err, HasSubstr(target + " is named more than once, asked once\n"));
  EXPECT_THAT(output.err,
              HasSubstr("quick: 1 QUALIFIED of 1 device on 1 node, 1 of 2 nodes missing\n"));
}

TEST(QualifyCommand, WhatWouldQualifyTheUnprovenIsNotIgnored) {
  FakeService service;
  for (const char* code : {"A306", "A307"}) {
    const Output output = Assay(service, {"qualify", "quick", "--ignore", code});
    EXPECT_EQ(output.code, 2);
    EXPECT_THAT(output.err, HasSubstr(absl::StrCat("ignore: ", code, " cannot be ignored")));
    EXPECT_THAT(output.err, HasSubstr("leave it out"));
  }
  EXPECT_EQ(service.jobs_made(), 0);
}

TEST(QualifyCommand, MoreDevicesThanExpectedAreNoFailure) {
  FakeService service;
  service.results = {MakeResult(0, v1::VERDICT_PASSED)};
  const Output output = Assay(service, {"qualify", "quick", "--expect-devices", "0"});
  EXPECT_EQ(output.code, 4) << output.out;
  EXPECT_THAT(output.out, HasSubstr("A904"));
  EXPECT_THAT(output.err, HasSubstr("1 device more than expected"));
  EXPECT_EQ(Assay(service, {"qualify", "quick", "--expect-devices", "0", "--ignore", "cpu:0"}).code,
            4);
}

// The devices of the jobs that a qualification of cpu:0, beside cpu:1, makes where kernels hang.
std::vector<std::string> DevicesOfJobs(const std::vector<std::string>& words, Output& output) {
  FakeService service;
  service.more_devices = {v1::Device()};
  service.more_devices[0].set_id("cpu:1");
  service.more_devices[0].set_backend("cpu");
  service.more_devices[0].set_state(v1::DEVICE_STATE_READY);
  for (int n = 0; n < 5; ++n) service.results.push_back(LateResult(n));
  std::vector<std::string> line = {"qualify", "quick", "--no-selftest", "--device", "cpu:0"};
  line.insert(line.end(), words.begin(), words.end());
  output = Assay(service, line);
  std::vector<std::string> devices;
  for (const v1::CreateJobRequest& made : service.created())
    devices.push_back(made.spec().device());
  return devices;
}

// Each may take its whole deadline again.
TEST(QualifyCommand, OfKernelsThatHangFewAreRunAgain) {
  Output output;
  EXPECT_THAT(DevicesOfJobs({}, output), ElementsAre("cpu:0", "cpu:0", "cpu:1"));
  EXPECT_EQ(output.code, 1);
  EXPECT_THAT(output.out, HasSubstr("A118"));
}

// They may be another's.
TEST(QualifyCommand, SiblingsCanBeLeftAlone) {
  Output output;
  EXPECT_THAT(DevicesOfJobs({"--no-siblings"}, output), ElementsAre("cpu:0", "cpu:0"));
  EXPECT_THAT(output.out, HasSubstr("A112"));
}

// Its kernel is wrong on cpu:0, and right on the device beside it.
class WrongOnTheFirst : public FakeService {
 public:
  grpc::Status CreateJob(grpc::ServerContext* context, const v1::CreateJobRequest* request,
                         v1::Job* job) override {
    const bool first = request->spec().device() == "cpu:0";
    results = {MakeResult(0, first ? v1::VERDICT_FAILED : v1::VERDICT_PASSED)};
    return FakeService::CreateJob(context, request, job);
  }
};

// The kernel may be wrong on the model alone.
TEST(QualifyCommand, ADeviceOfAnotherModelThatIsRightAccusesNobody) {
  for (const auto& [model, code] :
       {std::pair("EPYC 9755", "A101"), std::pair("another model", "A103")}) {
    WrongOnTheFirst service;
    service.more_devices = {v1::Device()};
    service.more_devices[0].set_id("cpu:1");
    service.more_devices[0].set_backend("cpu");
    service.more_devices[0].set_model(model);
    service.more_devices[0].set_state(v1::DEVICE_STATE_READY);
    const Output output =
        Assay(service, {"qualify", "quick", "--no-selftest", "--device", "cpu:0"});
    EXPECT_EQ(output.code, 1);
    EXPECT_THAT(output.out, HasSubstr(code)) << model;
  }
}

v1::Device Gpu() {
  v1::Device gpu;
  gpu.set_name("devices/cuda:0");
  gpu.set_id("cuda:0");
  gpu.set_backend("cuda");
  gpu.set_state(v1::DEVICE_STATE_READY);
  return gpu;
}

v1::Kernel PlantedOf(const std::string& backend, bool available) {
  v1::Kernel kernel;
  kernel.set_op("gemm");
  kernel.set_provider("planted/wrong-tile");
  kernel.set_backend(backend);
  kernel.set_available(available);
  kernel.mutable_planted()->set_magnitude("a tile");
  return kernel;
}

// The suites of the jobs that a qualification of cuda:0 made.
std::vector<std::string> SuitesOn(FakeService& service, const std::vector<v1::Kernel>& planted,
                                  const std::vector<std::string>& words = {}) {
  service.more_devices = {Gpu()};
  service.more_kernels = planted;
  service.results = {MakeResult(0, v1::VERDICT_PASSED)};
  std::vector<std::string> line = {"qualify", "quick", "--device", "cuda:0"};
  line.insert(line.end(), words.begin(), words.end());
  Assay(service, line);
  std::vector<std::string> suites;
  for (const v1::CreateJobRequest& made : service.created()) {
    EXPECT_EQ(made.spec().device(), "cuda:0");
    suites.push_back(made.spec().suite());
  }
  return suites;
}

TEST(QualifyCommand, AGpuWithPlantedKernelsIsSelfTestedFirst) {
  FakeService service;
  EXPECT_THAT(SuitesOn(service, {PlantedOf("cpu", true), PlantedOf("cuda", true)}),
              ElementsAre("selftest", "quick"));
}

TEST(QualifyCommand, ADeviceWithoutDefectsToFindIsNotSelfTested) {
  FakeService of_the_cpu, unavailable, unasked;
  EXPECT_THAT(SuitesOn(of_the_cpu, {PlantedOf("cpu", true)}), ElementsAre("quick"));
  EXPECT_THAT(SuitesOn(unavailable, {PlantedOf("cuda", false)}), ElementsAre("quick"));
  EXPECT_THAT(SuitesOn(unasked, {PlantedOf("cuda", true)}, {"--no-selftest"}),
              ElementsAre("quick"));
}

TEST(QualifyCommand, ADeviceWhoseDefectsCannotRunIsNotQualified) {
  const auto code = [](const std::vector<v1::Kernel>& planted, const std::string& more) {
    FakeService service;
    service.more_devices = {Gpu()};
    service.more_kernels = planted;
    service.results = {MakeResult(0, v1::VERDICT_PASSED)};
    const Output output =
        Assay(service, {"qualify", "quick", "--device", "cuda:0", "--format", "json", more});
    return nlohmann::json::parse(output.out)["devices"][0]["code"].get<std::string>();
  };
  EXPECT_EQ(code({PlantedOf("cuda", false)}, "--no-retry"), "A303");
  EXPECT_EQ(code({PlantedOf("cuda", false)}, "--no-selftest"), "A000");
  EXPECT_EQ(code({PlantedOf("cpu", true)}, "--no-retry"), "A000") << "it has none";
}

TEST(QualifyCommand, ABudgetOfNothingIsRefused) {
  FakeService service;
  for (const char* budget : {"0", "0s"}) {
    const Output output = Assay(service, {"qualify", "quick", "--budget", budget});
    EXPECT_EQ(output.code, 2);
    EXPECT_THAT(output.err, HasSubstr("budget: must be more than 0, got \""));
  }
  EXPECT_EQ(service.jobs_made(), 0);
}

TEST(QualifyCommand, AHookNeedsTime) {
  FakeService service;
  const Output output =
      Assay(service, {"qualify", "quick", "--on-verdict", "true", "--hook-deadline", "0s"});
  EXPECT_EQ(output.code, 2);
  EXPECT_THAT(output.err, HasSubstr("hook-deadline: must be more than 0, got \"0s\""));
  EXPECT_EQ(service.jobs_made(), 0);
}

TEST(QualifyCommand, HelpCallsATimeByOneWord) {
  const std::string help = Assay({"qualify", "--help"}).out;
  EXPECT_THAT(help, HasSubstr("--hook-deadline TIME"));
  EXPECT_THAT(help, HasSubstr("--budget TIME"));
  EXPECT_THAT(help, Not(HasSubstr("DURATION")));
}

TEST(QualifyCommand, TakesNodesAsAFleetDoes) {
  FakeService service;
  service.results = {MakeResult(0, v1::VERDICT_PASSED)};
  const std::string file = Written(Folder("nodes.txt"), service.target() + "  # the only one\n");
  EXPECT_EQ(Assay({"qualify", "quick", "--no-selftest", "--target", "@" + file}).code, 0);
  const std::string port = service.target().substr(service.target().find(':'));
  const Output dns = Assay({"qualify", "quick", "--no-selftest", "--target",
                            "dns:127.0.0.1" + port + ",dns:no-such-host.invalid"});
  EXPECT_EQ(dns.code, 4) << dns.err;
  EXPECT_THAT(dns.out, HasSubstr("cannot resolve no-such-host.invalid"));
  EXPECT_EQ(service.jobs_made(), 2);
  EXPECT_EQ(Assay({"qualify", "quick", "--target", "@/nonexistent"}).code, 2);
}

TEST(QualifyCommand, ADeviceThatIsIgnoredAndNowhereIsTold) {
  FakeService service;
  service.results = {MakeResult(0, v1::VERDICT_PASSED)};
  const Output output =
      Assay(service, {"qualify", "quick", "--no-selftest", "--ignore", "cpu:7,A203"});
  EXPECT_EQ(output.code, 0) << output.out;
  EXPECT_THAT(output.err, HasSubstr("ignore: no target that answered has cpu:7\n"));
  EXPECT_THAT(Assay(service, {"qualify", "quick", "--ignore", "cpu:0"}).err,
              Not(HasSubstr("no target that answered")));
}

TEST(QualifyCommand, ADaemonAtTwoAddressesCountsOnce) {
  FakeService service;
  service.results = {MakeResult(0, v1::VERDICT_PASSED)};
  service.more_info.mutable_start_time()->set_seconds(1'763'750'000);
  const std::string port = service.target().substr(service.target().find(':'));
  const Output output = Assay(
      {"qualify", "quick", "--no-selftest", "--target", "127.0.0.1" + port + ",localhost" + port});
  EXPECT_EQ(output.code, 0) << output.out;
  EXPECT_THAT(output.err, HasSubstr("localhost" + port + " cpu:0 is 127.0.0.1" + port +
                                    " cpu:0 by another address, counted once\n"));
  EXPECT_THAT(output.err, HasSubstr("quick: 1 QUALIFIED of 1 device on 1 node\n"));
}

TEST(QualifyCommand, ABaselineMayBeAFile) {
  FakeService service;
  v1::CaseResult timed = MakeResult(0, v1::VERDICT_PASSED);
  timed.mutable_spec()->set_mode(v1::MODE_BOTH);
  service.results = {timed};
  const std::string file = Folder("baseline.json");
  ASSERT_EQ(Assay(service, {"report", "4f2k", "--output", file}).code, 0);
  const Output output =
      Assay(service, {"qualify", "quick", "--no-selftest", "--no-retry", "--baseline", file});
  ASSERT_EQ(service.jobs_made(), 1) << output.out << output.err;
  EXPECT_EQ(service.created()[0].spec().inline_baseline().results_size(), 1);
  std::stringstream text;
  text << std::ifstream(file).rdbuf();
  auto other = nlohmann::json::parse(text.str());
  other["model"] = "EPYC 9755 (128 cores)";
  const std::vector<std::string> held = {
      "qualify",    "quick",      "--no-selftest",
      "--no-retry", "--baseline", Written(Folder("cores.json"), other.dump())};
  EXPECT_NE(Assay(service, held).code, 2);
  EXPECT_EQ(service.jobs_made(), 2);
  other["model"] = "Another";
  const Output wrong = Assay(
      service, {"qualify", "quick", "--baseline", Written(Folder("other.json"), other.dump())});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.out, HasSubstr("is of a device of model \"Another\", and cpu:0 is"));
  EXPECT_EQ(service.jobs_made(), 2) << "before the self-test";
  const Output none =
      Assay(service, {"qualify", "quick", "--baseline", "/nonexistent/before.json"});
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err, HasSubstr("/nonexistent/before.json"));
  EXPECT_EQ(service.jobs_made(), 2);
}

}  // namespace
}  // namespace assay::client::testing
