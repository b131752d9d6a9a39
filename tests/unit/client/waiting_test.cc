// What a person is told while nothing seems to happen, and of what a command did.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

#include "client/lib/patterns.h"
#include "client/lib/program.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "kernels/numerics/pattern.h"
#include "tests/unit/client/command.h"

// The system's clock is so much ahead of the real one [s].
static std::atomic<long> clock_ahead{0};

// In place of the C library's.
extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const long status = syscall(SYS_clock_gettime, clock, time);
  if (status == 0 && clock == CLOCK_REALTIME) time->tv_sec += clock_ahead;
  return static_cast<int>(status);
}

namespace assay::client::testing {
namespace {

constexpr long kDay = 86'400;

// Sets the clock back at its end.
struct JumpingClock {
  ~JumpingClock() { clock_ahead = 0; }
};

using ::testing::HasSubstr;
using ::testing::Not;

v1::Job Other(const std::string& name, v1::JobState state, int created, int priority = 0,
              const std::string& device = "cpu:0") {
  v1::Job job;
  job.set_name(name);
  job.set_state(state);
  job.add_devices(device);
  job.mutable_create_time()->set_seconds(created);
  job.mutable_spec()->set_priority(priority);
  return job;
}

TEST(Queue, AQueuedJobSaysHowManyAreAhead) {
  constexpr int kOurs = 1'700'000'000;  // when the fake's job was created
  FakeService service;
  service.results = {MakeResult(0, v1::VERDICT_PASSED)};
  service.start_state = v1::JOB_STATE_QUEUED;
  service.other_jobs = {
      Other("jobs/runs", v1::JOB_STATE_RUNNING, kOurs - 5),
      Other("jobs/earlier", v1::JOB_STATE_QUEUED, kOurs - 3),
      Other("jobs/first", v1::JOB_STATE_QUEUED, kOurs + 3, /*priority=*/1),
      Other("jobs/later", v1::JOB_STATE_QUEUED, kOurs + 3),
      Other("jobs/last", v1::JOB_STATE_QUEUED, kOurs - 3, /*priority=*/-1),
      Other("jobs/elsewhere", v1::JOB_STATE_RUNNING, kOurs - 5, 0, "cuda:0"),
      Other("jobs/ended", v1::JOB_STATE_FINISHED, kOurs - 5),
      Other("jobs/4f2k", v1::JOB_STATE_QUEUED, kOurs),
  };
  const Output output = RunGemm(service);
  EXPECT_EQ(output.code, 0);
  EXPECT_THAT(output.err, HasSubstr("assay: jobs/4f2k is queued, 3 ahead\n"));
  service.other_jobs.clear();
  EXPECT_THAT(RunGemm(service).err, Not(HasSubstr("queued")));
}

// As the daemon refuses a watcher, with and without a time to come again.
grpc::Status TooMany(std::optional<int> milliseconds) {
  google::rpc::Status details;
  google::rpc::ErrorInfo info;
  info.set_domain("assay");
  info.set_reason("LIMIT_REACHED");
  details.add_details()->PackFrom(info);
  if (milliseconds) {
    google::rpc::RetryInfo retry;
    retry.mutable_retry_delay()->set_nanos(*milliseconds * 1'000'000);
    details.add_details()->PackFrom(retry);
  }
  return {grpc::StatusCode::RESOURCE_EXHAUSTED, "too many watchers", details.SerializeAsString()};
}

TEST(Limits, AWatcherComesAgainWhenTheDaemonSays) {
  FakeService service;
  service.results = {MakeResult(0, v1::VERDICT_PASSED)};
  service.watch_refusals = {TooMany(20), TooMany(20)};
  const Output output = RunGemm(service);
  EXPECT_EQ(output.code, 0) << output.err;
  EXPECT_EQ(service.watched_after().size(), 3u);
  EXPECT_THAT(output.err, HasSubstr("refused: too many watchers; trying again"));
}

TEST(Limits, AWatcherGivesUpIfTheDaemonSaysNothingOrTooLong) {
  for (const std::optional<int> delay : {std::optional<int>(), std::optional<int>(900)}) {
    FakeService service;
    service.results = {MakeResult(0, v1::VERDICT_PASSED)};
    service.watch_refusals = {TooMany(delay)};
    const Output output = RunGemm(service, {"--reconnect", "800ms"});
    EXPECT_EQ(output.code, 3);
    EXPECT_EQ(service.watched_after().size(), 1u);
    EXPECT_THAT(output.err, HasSubstr("refused: too many watchers"));
  }
}

// A daemon that stops says so to the open stream, and then cancels what begins.
TEST(Watch, ADaemonThatStopsIsWaitedFor) {
  FakeService service;
  service.results = {MakeResult(0, v1::VERDICT_PASSED)};
  service.watch_refusals = {{grpc::StatusCode::UNAVAILABLE, "assayd is stopping"},
                            {grpc::StatusCode::CANCELLED, "CANCELLED"}};
  const Output output = RunGemm(service);
  EXPECT_EQ(output.code, 0) << output.err;
  EXPECT_EQ(service.watched_after().size(), 3u);
}

TEST(Watch, AJobThatHasFinishedIsFinishedWhateverComesAfter) {
  FakeService service;
  service.results = {MakeResult(0, v1::VERDICT_PASSED)};
  service.late_progress = true;
  const Output output = RunGemm(service, {"--reconnect", "800ms"});
  EXPECT_EQ(output.code, 0) << output.err;
  EXPECT_EQ(service.watched_after().size(), 1u);
}

// Each stream begins with the progress of the case that runs, and breaks at once.
class ProgressAlone : public FakeService {
 public:
  grpc::Status WatchJob(grpc::ServerContext*, const v1::WatchJobRequest*,
                        grpc::ServerWriter<v1::JobEvent>* writer) override {
    ++calls;
    v1::JobEvent progress;
    progress.mutable_progress()->set_phase("runs");
    writer->Write(progress);
    return end;
  }
  grpc::Status end;
  std::atomic<int> calls = 0;
};

TEST(Watch, StreamsThatBringNothingNewAreNotFollowedForEver) {
  for (const grpc::Status& end :
       {grpc::Status::OK, grpc::Status(grpc::StatusCode::UNAVAILABLE, "Socket closed"),
        grpc::Status(grpc::StatusCode::CANCELLED, "CANCELLED")}) {
    ProgressAlone service;
    service.end = end;
    const Output output = RunGemm(service, {"--reconnect", "2s"});
    EXPECT_EQ(output.code, 3);
    EXPECT_GE(service.calls, 2);
    const std::size_t told = output.err.find("trying again");
    EXPECT_NE(told, std::string::npos) << output.err;
    EXPECT_EQ(output.err.find("trying again", told + 1), std::string::npos)
        << "one loss is told once: " << output.err;
  }
}

// The clock jumps while the daemon refuses.
class JumpingService : public FakeService {
 public:
  grpc::Status WatchJob(grpc::ServerContext* context, const v1::WatchJobRequest* request,
                        grpc::ServerWriter<v1::JobEvent>* writer) override {
    clock_ahead += kDay;
    return FakeService::WatchJob(context, request, writer);
  }
};

TEST(Clock, AJumpIsNoTimeInWhichTheDaemonWasAway) {
  const JumpingClock clock;
  JumpingService service;
  service.results = {MakeResult(0, v1::VERDICT_PASSED)};
  const grpc::Status lost(grpc::StatusCode::UNAVAILABLE, "Socket closed");
  service.watch_refusals = {lost, lost};
  const Output output = RunGemm(service);
  EXPECT_EQ(output.code, 0) << output.err;
  EXPECT_EQ(service.watched_after().size(), 3u);
}

TEST(Clock, AJumpIsNoTimeInWhichAProgramSaidNothing) {
  namespace fs = std::filesystem;
  const JumpingClock clock;
  std::string folder = (fs::temp_directory_path() / "assay-clock-XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  std::thread jump([&] {
    while (!fs::exists(folder + "/begun"))
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    clock_ahead = kDay;
    std::ofstream(folder + "/go").put('\n');
  });
  const auto said = RunProgram(
      {"sh", "-c", "cd " + folder + "; : >begun; until [ -e go ]; do sleep 0.01; done; echo said"},
      absl::Seconds(120));
  jump.join();
  fs::remove_all(folder);
  ASSERT_TRUE(said.ok()) << said.status();
  EXPECT_EQ(*said, "said\n");
}

TEST(Progress, WhatIsDoneFirstIsSaid) {
  FakeService service;
  service.results = {MakeResult(0, v1::VERDICT_PASSED)};
  service.progress_phase = "measuring the ceilings of cpu:0";
  EXPECT_THAT(RunGemm(service).err,
              HasSubstr("gemm 64x32x16 bf16 onednn #0: measuring the ceilings of cpu:0\n"));
  EXPECT_THAT(RunGemm(service, {}, true).out,
              HasSubstr("gemm 64x32x16 bf16 onednn #0 (measuring the ceilings of cpu:0)"));
  service.progress_phase.clear();
  EXPECT_THAT(RunGemm(service).err, Not(HasSubstr("measuring")));
}

TEST(Cancel, SaysWhatItDid) {
  const auto said = [](v1::JobState before, v1::JobState after) {
    FakeService service;
    service.results = {MakeResult(0, v1::VERDICT_PASSED), MakeResult(1, v1::VERDICT_PASSED)};
    service.known_state = before;
    service.cancelled_state = after;
    return Assay(service, {"cancel", "4f2k"}).out;
  };
  EXPECT_EQ(said(v1::JOB_STATE_QUEUED, v1::JOB_STATE_CANCELLED),
            "jobs/4f2k cancelled: 0 of 2 cases have their results\n");
  FakeService one;
  one.results = {MakeResult(0, v1::VERDICT_PASSED)};
  one.known_state = v1::JOB_STATE_QUEUED;
  one.cancelled_state = v1::JOB_STATE_CANCELLED;
  EXPECT_EQ(Assay(one, {"cancel", "4f2k"}).out,
            "jobs/4f2k cancelled: 0 of 1 case has its result\n");
  EXPECT_EQ(said(v1::JOB_STATE_RUNNING, v1::JOB_STATE_RUNNING),
            "jobs/4f2k is being cancelled: the case that runs is stopped, 0 of 2 have their "
            "results\n");
  EXPECT_EQ(said(v1::JOB_STATE_FINISHED, v1::JOB_STATE_FINISHED),
            "jobs/4f2k had already ended: finished, PASSED\n");
}

TEST(Format, WhatOneCaseCannotBeHadAsIsRefused) {
  FakeService service;
  service.results = {MakeResult(0, v1::VERDICT_FAILED)};
  for (const char* format : {"csv", "markdown", "junit", "html"}) {
    const Output show = Assay(service, {"show", "4f2k", "0", "--format", format});
    EXPECT_EQ(show.code, 2) << format;
    EXPECT_EQ(show.out, "");
    EXPECT_EQ(show.err, "assay: format: one case can be had as table, json, jsonl\n");
    EXPECT_EQ(Assay(service, {"explain", "4f2k", "--format", format}).code, 2) << format;
    EXPECT_EQ(Assay(service, {"show", "4f2k", "--format", format}).code, 0) << format;
  }
}

TEST(Help, ListsThePatternsThatKernelsHave) {
  std::vector<std::pair<std::string_view, std::string_view>> theirs, ours;
  for (const PatternInfo& info : Patterns()) {
    if (!info.for_probes) theirs.emplace_back(info.name, info.help);
  }
  for (const PatternHelp& pattern : PatternHelps()) ours.emplace_back(pattern.name, pattern.help);
  EXPECT_EQ(ours, theirs);
  const std::vector<std::vector<std::string>> commands = {{"run", "--help"},
                                                          {"bench", "gemm", "--help"}};
  for (const std::vector<std::string>& command : commands) {
    const std::string help = Assay(command).out;
    EXPECT_THAT(help, HasSubstr("  normal         normal:sigma[:mean]\n"));
    EXPECT_THAT(help, HasSubstr("  denormal       subnormal numbers of the format"));
  }
}

}  // namespace
}  // namespace assay::client::testing
