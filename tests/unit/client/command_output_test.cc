// The files that commands write: whole, and only for what ran.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/unit/client/command.h"

namespace assay::client::testing {
namespace {

using ::testing::HasSubstr;

TEST(Output, AnEndingThatNamesNoFormatIsRefused) {
  FakeService service;
  const Output output = Assay(service, {"report", "4f2k", "--output", "rep.pdf"});
  EXPECT_EQ(output.code, 2);
  EXPECT_THAT(output.err, HasSubstr("output: the ending \".pdf\" names no format"));
  EXPECT_THAT(output.err, HasSubstr(".xml (junit)"));
}

TEST(Output, AFileAppearsWholeAndOnlyForWhatRan) {
  FakeService service;
  service.results = {MakeResult(0, v1::VERDICT_PASSED)};
  const std::string path = ::testing::TempDir() + "/report.json";
  std::remove(path.c_str());
  service.create_status = {grpc::StatusCode::NOT_FOUND, "no device"};
  EXPECT_EQ(RunGemm(service, {"--output", path}).code, 2);
  EXPECT_FALSE(std::ifstream(path).good());
  service.create_status = grpc::Status::OK;
  EXPECT_EQ(RunGemm(service, {"--output", path}).code, 0);
  // The extension chose the format.
  EXPECT_EQ(nlohmann::json::parse(std::ifstream(path))["schema"], "assay.report/v1");
  EXPECT_EQ(RunGemm(service, {"--output", "/nonexistent/x.json"}).code, 2);
}

std::string Content(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A path in a folder of the test's own with the content "from before".
std::string ReportFromBefore(const std::string& name) {
  struct Folder {
    Folder() {
      if (mkdtemp(path.data()) == nullptr) std::abort();
    }
    ~Folder() { std::filesystem::remove_all(path); }
    std::string path = ::testing::TempDir() + "/assay-output-XXXXXX";
  };
  static const Folder folder;
  const std::string path = folder.path + "/" + name;
  std::filesystem::remove(path);  // which may be a pipe that nobody reads
  std::ofstream(path) << "from before";
  return path;
}

TEST(Output, ADeviceStaysOneAndALinkToo) {
  FakeService service;
  service.results = {MakeResult(0, v1::VERDICT_PASSED)};
  const std::string pipe = ReportFromBefore("pipe");
  std::remove(pipe.c_str());
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::string read;
  std::thread reader([&] { read = Content(pipe); });
  EXPECT_EQ(RunGemm(service, {"--format", "jsonl", "--output", pipe}).code, 0);
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
  reader.join();
  EXPECT_THAT(read, HasSubstr("\"verdict\":\"PASSED\""));
  // A link to a file that is there, and one to a file that is not yet.
  const std::string target = ReportFromBefore("target.json");
  const std::string link = ReportFromBefore("link.json");
  for (int i = 0; i < 2; ++i) {
    std::remove(link.c_str());
    std::filesystem::create_symlink("target.json", link);
    EXPECT_EQ(RunGemm(service, {"--output", link}).code, 0);
    EXPECT_TRUE(std::filesystem::is_symlink(link));
    EXPECT_THAT(Content(target), HasSubstr("assay.report/v1"));
    std::remove(target.c_str());
  }
}

TEST(Output, LeavingKeepsTheReportFromBefore) {
  for (const char* name : {"r.json", "r.xml", "r.html"}) {
    FakeService service;
    service.results = {MakeResult(0, v1::VERDICT_PASSED)};
    service.hang = true;
    const std::string path = ReportFromBefore(name);
    std::thread user([&service] {
      while (service.watched_after().empty()) std::this_thread::yield();
      std::raise(SIGTERM);
    });
    EXPECT_EQ(RunGemm(service, {"--output", path}).code, 4);
    user.join();
    EXPECT_EQ(Content(path), "from before") << name;
  }
}

TEST(Output, WhatWasSeenIsWrittenThoughTheDaemonDied) {
  for (const char* name : {"d.json", "d.jsonl", "d.csv"}) {
    FakeService service;
    service.results = {MakeResult(0, v1::VERDICT_PASSED), MakeResult(1, v1::VERDICT_PASSED)};
    service.die_after = 2;  // the start and one result
    const std::string path = ReportFromBefore(name);
    EXPECT_EQ(RunGemm(service, {"--output", path, "--reconnect", "0s"}).code, 3);
    EXPECT_THAT(Content(path), HasSubstr("onednn #0")) << name;
    // Nothing was seen: nothing is put in its place.
    service.always_drop = true;
    const std::string kept = ReportFromBefore(name);
    EXPECT_EQ(RunGemm(service, {"--output", kept, "--reconnect", "0s"}).code, 3);
    EXPECT_EQ(Content(kept), "from before") << name;
  }
}

TEST(Output, OneOfSeveralTargetsMayBeDown) {
  FakeService up, down;
  up.results = {MakeResult(0, v1::VERDICT_PASSED)};
  down.create_status = {grpc::StatusCode::UNAVAILABLE, "draining"};
  const std::string path = ReportFromBefore("targets.json");
  EXPECT_EQ(Assay({"run", "gemm", "--m", "4", "--output", path, "--target",
                   up.target() + "," + down.target()})
                .code,
            3);
  EXPECT_EQ(nlohmann::json::parse(Content(path))["passed"], 1);
}

TEST(Output, ABaselineThatIsReadIsNotReplaced) {
  const std::string file = ReportFromBefore("baseline.json");
  const std::vector<std::vector<std::string>> lines = {
      {"baseline", "compare", file, "jobs/4f2k"},
      {"baseline", "compare", "jobs/4f2k", file},
      {"baseline", "show", file},
      {"bench", "gemm", "--m", "4", "--compare", file},
      {"qualify", "quick", "--baseline", file}};
  for (std::vector<std::string> line : lines) {
    line.insert(line.end(), {"--output", file, "--target", "127.0.0.1:1"});
    const Output output = Assay(line);
    EXPECT_EQ(output.code, 2) << line[1];
    EXPECT_EQ(output.err, "assay: output: this command reads " + file + "; name another file\n");
  }
  EXPECT_EQ(Content(file), "from before");
}

}  // namespace
}  // namespace assay::client::testing
