// What profilers write, read back; and one that is run, whatever it does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/worker/profile_run.h"
#include "server/worker/profiler.h"
#include "server/worker/profiler_output.h"

namespace assay::server {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

TEST(Profiler, EachHasItsBackendAndNoOtherNameIsOne) {
  for (const Profiler profiler : kProfilers) EXPECT_EQ(ParseProfiler(Name(profiler)), profiler);
  EXPECT_EQ(BackendOf(Profiler::kPerf), "cpu");
  EXPECT_EQ(BackendOf(Profiler::kNcu), "cuda");
  EXPECT_EQ(BackendOf(Profiler::kRocprof), "hip");
  for (const char* name : {"", "Perf", "/bin/perf", "../perf", "rocprofv3", "perf stat"}) {
    EXPECT_EQ(ParseProfiler(name), std::nullopt) << name;
  }
}

// ncu saves all memory before each pass: it looks at the range alone that the worker tells of.
TEST(Profiler, NcuWaitsForTheRange) {
  const std::vector<std::string> args =
      ProfilerArgs(Profiler::kNcu, "/usr/bin/ncu", "/tmp/f", {"assay-worker", "--once=case"});
  const auto from = std::find(args.begin(), args.end(), "--profile-from-start");
  ASSERT_LT(from + 1, args.end());
  EXPECT_EQ(from[1], "off");
  EXPECT_EQ(std::vector(args.end() - 2, args.end()),
            (std::vector<std::string>{"assay-worker", "--once=case"}));
}

// perf 6.1 on a virtual machine, but for the counters' values.
constexpr char kPerf[] =
    "# started on Sun Nov 22 04:35:56 2026\n"
    "\n"
    "18234567,,cycles,4102331,100.00,,\n"
    "<not supported>,,instructions,0,100.00,,\n"
    "81234,,cache-misses,4102331,100.00,12.50,of all cache refs\n"
    "<not counted>,,branch-misses,0,0.00,,\n"
    "7.24,msec,task-clock,7244373,100.00,0.478,CPUs utilized\n";

TEST(PerfOutput, WhatWasCountedIsThereAndWhatWasNotIsNamedAndAbsent) {
  const Profile profile = ReadProfile(Profiler::kPerf, kPerf);
  EXPECT_THAT(profile.counters,
              UnorderedElementsAre(Pair("cycles", 18234567), Pair("cache-misses", 81234),
                                   Pair("task-clock", 7.24)));
  EXPECT_EQ(profile.note, "counter instructions not supported; counter branch-misses not counted");
}

TEST(PerfOutput, EventsKeepPerfsNamesAndAnEstimateIsSaidToBeOne) {
  const Profile profile = ReadProfile(
      Profiler::kPerf, "123,,cycles:u,4102331,100.00,,\n456,,cpu_core/instructions/,11,62.51,,\n");
  EXPECT_THAT(profile.counters,
              UnorderedElementsAre(Pair("cycles:u", 123), Pair("cpu_core/instructions/", 456)));
  EXPECT_EQ(profile.note,
            "counter cpu_core/instructions/ is an estimate: it counted 62.51 % of the time");
}

TEST(PerfOutput, NothingUsableIsNoCounterAndSaysSo) {
  for (const char* text : {"", "\n", "# only this\n", "nan,,cycles,1,100.00,,\n", ",,,,\n",
                           "perf: Segmentation fault\n", "inf,,cycles\n"}) {
    const Profile profile = ReadProfile(Profiler::kPerf, text);
    EXPECT_THAT(profile.counters, IsEmpty()) << text;
    EXPECT_EQ(profile.note, "perf counted nothing") << text;
  }
}

// Nsight Compute's raw page: names, units, a row a kernel. By the documented format; no card
// has written it.
constexpr char kNcuHead[] =
    "==PROF== Connected to process 4711 (/opt/assay/libexec/assay/assay-worker)\n"
    "==PROF== Profiling \"FillDense\" - 0: 0%....50%....100% - 3 passes\n"
    "==PROF== Disconnected from process 4711\n"
    "\"ID\",\"Process ID\",\"Process Name\",\"Host Name\",\"Kernel Name\",\"Context\",\"Stream\","
    "\"Block Size\",\"Grid Size\",\"Device\",\"CC\","
    "\"dram__throughput.avg.pct_of_peak_sustained_elapsed\",\"gpu__time_duration.sum\","
    "\"smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio\"\n"
    "\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"%\",\"ns\",\"inst\"\n";
constexpr char kNcuFill[] =
    "\"0\",\"4711\",\"assay-worker\",\"127.0.0.1\",\"FillDense\",\"1\",\"7\",\"(256, 1, 1)\","
    "\"(64, 1, 1)\",\"0\",\"9.0\",\"88.10\",\"9,999,999\",\"0.01\"\n";
constexpr char kNcuSoftmax[] =
    "\"1\",\"4711\",\"assay-worker\",\"127.0.0.1\",\"SoftmaxHeld\",\"1\",\"7\",\"(256, 1, 1)\","
    "\"(4096, 1, 1)\",\"0\",\"9.0\",\"34.70\",\"12,345\",\"1.25\"\n"
    "\"2\",\"4711\",\"assay-worker\",\"127.0.0.1\",\"void split<float, 4>(float *, int)\",\"1\","
    "\"7\",\"(256, 1, 1)\",\"(8, 1, 1)\",\"0\",\"9.0\",\"3.10\",\"900\",\"0.50\"\n";

TEST(NcuOutput, TheLongestKernelUnderTestIsToldOfAndAbsentMetricsAreNamed) {
  const Profile profile =
      ReadProfile(Profiler::kNcu, std::string(kNcuHead) + kNcuFill + kNcuSoftmax);
  EXPECT_THAT(profile.counters,
              UnorderedElementsAre(
                  Pair("dram__throughput.avg.pct_of_peak_sustained_elapsed", 34.7),
                  Pair("gpu__time_duration.sum", 12345),
                  Pair("smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio", 1.25)));
  EXPECT_THAT(profile.note, AllOf(HasSubstr("smsp__average_warps_issue_stalled_lg_throttle"),
                                  HasSubstr("not supported"), Not(HasSubstr("dram__"))));
}

TEST(NcuOutput, WithoutAKernelUnderTestThereIsNothing) {
  for (const std::string& text :
       {std::string("==WARNING== No kernels were profiled.\n"), std::string(),
        std::string(kNcuHead), std::string(kNcuHead) + kNcuFill,
        std::string(kNcuHead) + "\"1\",\"4711\",\"cut"}) {
    const Profile profile = ReadProfile(Profiler::kNcu, text);
    EXPECT_THAT(profile.counters, IsEmpty()) << text;
    EXPECT_EQ(profile.note, "ncu saw no kernel under test") << text;
  }
}

TEST(NcuOutput, AMetricThatIsNotANumberIsAbsent) {
  const Profile profile = ReadProfile(
      Profiler::kNcu,
      std::string(kNcuHead) +
          "\"1\",\"1\",\"w\",\"h\",\"FmaGemm\",\"1\",\"7\",\"b\",\"g\",\"0\",\"9.0\",\"n/a\","
          "\"5\",\"nan\"\n");
  EXPECT_THAT(profile.counters, UnorderedElementsAre(Pair("gpu__time_duration.sum", 5)));
  EXPECT_THAT(profile.note, HasSubstr("dram__throughput.avg.pct_of_peak_sustained_elapsed"));
}

// rocprof's results.csv, by the documented format.
TEST(RocprofOutput, ARowAKernel) {
  const Profile profile = ReadProfile(
      Profiler::kRocprof,
      "Index,KernelName,gpu-id,queue-id,queue-index,pid,tid,grd,wgr,lds,scr,arch_vgpr,accum_vgpr,"
      "sgpr,wave_size,sig,obj,SQ_INSTS_VALU,GRBM_COUNT,MemUnitBusy,DispatchNs,BeginNs,EndNs,"
      "CompleteNs\n"
      "0,\"void assay::gpu::(anonymous namespace)::FillDense<float, 4>(float*, int) [clone .kd]\","
      "0,0,0,1,1,64,64,0,0,8,0,16,64,0x0,0x7f,1,2,3,10,20,9000,9100\n"
      "1,\"void assay::gpu::(anonymous namespace)::SoftmaxHeld<float>(float*, int) [clone .kd]\","
      "0,0,2,1,1,64,64,0,0,8,0,16,64,0x0,0x7f,123456,7890,61.5,10,20,900,910\n");
  EXPECT_THAT(profile.counters,
              UnorderedElementsAre(Pair("SQ_INSTS_VALU", 123456), Pair("GRBM_COUNT", 7890),
                                   Pair("MemUnitBusy", 61.5)));
  EXPECT_EQ(profile.note, "");
}

// rocprofv3's counter_collection.csv, by the documented format.
TEST(RocprofOutput, ARowACounter) {
  const std::string head =
      "\"Correlation_Id\",\"Dispatch_Id\",\"Agent_Id\",\"Queue_Id\",\"Process_Id\",\"Thread_Id\","
      "\"Grid_Size\",\"Kernel_Id\",\"Kernel_Name\",\"Workgroup_Size\",\"LDS_Block_Size\","
      "\"Scratch_Size\",\"VGPR_Count\",\"Accum_VGPR_Count\",\"SGPR_Count\",\"Counter_Name\","
      "\"Counter_Value\",\"Start_Timestamp\",\"End_Timestamp\"\n";
  const auto row = [](int dispatch, const std::string& kernel, const std::string& counter,
                      const std::string& value, int end) {
    return "1," + std::to_string(dispatch) + ",4,1,9,9,64,2,\"" + kernel + "\",64,0,0,8,0,16,\"" +
           counter + "\"," + value + ",1000," + std::to_string(end) + "\n";
  };
  const Profile profile =
      ReadProfile(Profiler::kRocprof,
                  head + row(1, "GemmTiles(double*)", "SQ_INSTS_VALU", "9", 99999) +
                      row(2, "Cijk_Ailk_Bljk_HHS_MT64x64", "SQ_INSTS_VALU", "400.000000", 1500) +
                      row(2, "Cijk_Ailk_Bljk_HHS_MT64x64", "GRBM_COUNT", "77.000000", 1500) +
                      row(3, "reduce", "SQ_INSTS_VALU", "5.000000", 1100));
  EXPECT_THAT(profile.counters,
              UnorderedElementsAre(Pair("SQ_INSTS_VALU", 400), Pair("GRBM_COUNT", 77)));
  EXPECT_EQ(profile.note, "counter MemUnitBusy not supported");
}

TEST(RocprofOutput, NothingUsableSaysSo) {
  for (const char* text : {"", "Index,KernelName\n", "a,b,c\n1,2,3\n", "\"", "\n\n"}) {
    EXPECT_EQ(ReadProfile(Profiler::kRocprof, text).note, "rocprof saw no kernel under test")
        << text;
  }
}

TEST(Refusals, APermissionIsNamedWithWhatWithholdsIt) {
  EXPECT_EQ(Refusal(Profiler::kPerf,
                    "Error:\nAccess to performance monitoring and observability operations is "
                    "limited.\nConsider adjusting /proc/sys/kernel/perf_event_paranoid setting\n",
                    "4"),
            "perf: no permission: kernel.perf_event_paranoid is 4");
  EXPECT_EQ(Refusal(Profiler::kPerf, "Permission denied", ""), "perf: no permission to count");
  EXPECT_EQ(Refusal(Profiler::kPerf, "Operation not permitted", "2"),
            "perf: no permission to count, though kernel.perf_event_paranoid is 2: a container or "
            "a system call filter may forbid perf_event_open");
  EXPECT_THAT(Refusal(Profiler::kNcu,
                      "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access "
                      "NVIDIA GPU Performance Counters on the target device 0.\n",
                      "4"),
              HasSubstr("ncu: no permission"));
  EXPECT_EQ(Refusal(Profiler::kPerf, kPerf, "4"), "");
}

TEST(KernelNames, TheFunctionIsFoundInEveryWayItIsWritten) {
  EXPECT_EQ(FunctionName("FillDense"), "FillDense");
  EXPECT_EQ(FunctionName("void assay::gpu::(anonymous namespace)::FillDense<float, 4>(float*)"),
            "FillDense");
  EXPECT_EQ(FunctionName("void assay::gpu::<unnamed>::GemmTiles<(int)4>(Shape, double *)"),
            "GemmTiles");
  EXPECT_EQ(FunctionName("SoftmaxHeld(float*, int) [clone .kd]"), "SoftmaxHeld");
  EXPECT_EQ(FunctionName("sm90_xmma_gemm_bf16bf16"), "sm90_xmma_gemm_bf16bf16");
  EXPECT_EQ(FunctionName(""), "");
}

// A kernel that checks must be left out of a profile, and one under test must not be.
TEST(KernelNames, ThoseOfTheSourcesAreOnTheRightSide) {
  const std::regex global(R"(ASSAY_GLOBAL\s+void\s+(?:ASSAY_BOUNDS\([^)]*\)\s*)?(\w+)\()");
  std::set<std::string> checking, tested;
  for (const fs::directory_entry& entry :
       fs::recursive_directory_iterator(fs::path(SOURCE_DIR) / "kernels")) {
    const std::string extension = entry.path().extension();
    if ((extension != ".cu" && extension != ".h") || entry.path().filename() == "port.h") continue;
    std::ifstream file(entry.path());
    std::stringstream stream;
    stream << file.rdbuf();
    const std::string text = stream.str();
    const bool provider = entry.path().string().find("/kernels/providers/") != std::string::npos;
    for (std::sregex_iterator it(text.begin(), text.end(), global), end; it != end; ++it) {
      const std::string name = (*it)[1].str();
      if (!provider && name.ends_with("Reference")) {
        EXPECT_TRUE(IsCheckingKernel(name)) << name;
      } else {
        (provider ? tested : checking).insert(name);
      }
    }
  }
  const std::set<std::string> listed(CheckingKernels().begin(), CheckingKernels().end());
  EXPECT_EQ(listed, checking);
  EXPECT_GE(tested.size(), 8u);
  for (const std::string& name : tested) EXPECT_FALSE(IsCheckingKernel(name)) << name;
}

class ProfileRunTest : public ::testing::Test {
 protected:
  ProfileRunTest()
      : folder_(fs::path(::testing::TempDir()) /
                (std::string("profile-") +
                 ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "bin");
    fs::create_directories(folder_ / "tmp");
    setenv("TMPDIR", (folder_ / "tmp").c_str(), 1);
    run_.path = (folder_ / "bin").string();
    run_.worker_path = "/bin/true";
    run_.limit = absl::Seconds(120);
  }
  ~ProfileRunTest() override {
    unsetenv("TMPDIR");
    fs::remove_all(folder_);
  }

  // A program of that name which does what the shell's `script` says.
  void Install(const std::string& name, const std::string& script) {
    const fs::path path = folder_ / "bin" / name;
    std::ofstream(path) << "#!/bin/sh\n" << script << "\n";
    chmod(path.c_str(), 0755);
  }
  // Runs it and sees that nothing stays behind.
  Profile Run() {
    Profile profile = RunUnderProfiler(run_);
    EXPECT_TRUE(fs::is_empty(folder_ / "tmp"));
    return profile;
  }

  const fs::path folder_;
  ProfileRun run_;
};

// Finds the file that follows -o.
constexpr char kOut[] = "while [ \"$1\" != -o ]; do shift; done; out=$2; ";

TEST_F(ProfileRunTest, CountersComeFromTheFileThatTheProfilerWrote) {
  Install("perf", std::string(kOut) + "printf '12,,cycles,1,100.00,,\\n' > $out");
  const Profile profile = Run();
  EXPECT_THAT(profile.counters, UnorderedElementsAre(Pair("cycles", 12)));
  EXPECT_EQ(profile.note, "");
}

TEST_F(ProfileRunTest, AProgramThatIsNotThereIsNamed) {
  for (const Profiler profiler : kProfilers) {
    run_.profiler = profiler;
    EXPECT_EQ(Run().note, std::string(Name(profiler)) + " is not installed on this host");
  }
}

TEST_F(ProfileRunTest, OnlyProgramsInAbsoluteFoldersOfThePathAreTaken) {
  fs::create_directories(folder_ / "bin" / "ncu");               // a folder
  std::ofstream(folder_ / "bin" / "perf") << "not to be run\n";  // not executable
  EXPECT_EQ(FindProfiler(Profiler::kNcu, run_.path), "");
  EXPECT_EQ(FindProfiler(Profiler::kPerf, run_.path), "");
  Install("rocprof", "");
  EXPECT_EQ(FindProfiler(Profiler::kRocprof, ".::/nowhere:" + run_.path), run_.path + "/rocprof");
  Install("rocprofv3", "");
  EXPECT_EQ(FindProfiler(Profiler::kRocprof, run_.path), run_.path + "/rocprofv3");
  fs::current_path(run_.path);
  EXPECT_EQ(FindProfiler(Profiler::kRocprof, ".:"), "");
}

TEST_F(ProfileRunTest, AFailureGivesItsLastWordsAndNoCounters) {
  Install("perf", std::string(kOut) +
                      "printf '12,,cycles,1,100.00,,\\n' > $out; echo first >&2; "
                      "printf 'event syntax \\033[1merror\\n\\n' >&2; exit 129");
  const Profile profile = Run();
  EXPECT_THAT(profile.counters, IsEmpty());
  EXPECT_EQ(profile.note, "perf exited with status 129: event syntax [1merror");
  Install("perf", "kill -SEGV $$");
  EXPECT_THAT(Run().note, HasSubstr("perf killed by SIGSEGV"));
}

TEST_F(ProfileRunTest, WhatHangsIsKilledAtTheDeadlineWithWhatItStarted) {
  const fs::path pid = folder_ / "pid";
  Install("perf", "sleep 600 & echo $! > " + pid.string() + "; wait");
  std::string child;
  for (const int seconds : {2, 10, 50}) {  // a busy machine is slow to start what hangs
    run_.limit = absl::Seconds(seconds);
    EXPECT_EQ(Run().note, absl::StrCat("perf did not end within ", seconds, "s and was killed"));
    std::ifstream(pid) >> child;
    if (!child.empty()) break;
  }
  ASSERT_FALSE(child.empty());
  // Nobody but init waits for it: gone, or dead and not yet waited for.
  const auto runs = [&child] {
    std::string ignored, state;
    std::ifstream stat("/proc/" + child + "/stat");
    return stat >> ignored >> ignored >> state && state != "Z";
  };
  const absl::Time end = absl::Now() + absl::Seconds(120);
  while (runs() && absl::Now() < end) std::this_thread::yield();
  EXPECT_FALSE(runs());
}

TEST_F(ProfileRunTest, ACancelledOneEndsSoon) {
  Install("perf", "sleep 600");
  CancelToken cancel;
  cancel.Cancel();
  run_.cancel = &cancel;
  EXPECT_EQ(Run().note, "perf: cancelled");
}

TEST_F(ProfileRunTest, HoweverMuchItSaysItsEndIsKept) {
  Install("perf", "yes aaaaaaaaaaaaaaaaaaaaaaaaaaaaa | head -n 60000 >&2; echo last >&2; exit 1");
  EXPECT_EQ(Run().note, "perf exited with status 1: last");
}

TEST_F(ProfileRunTest, AFileThatIsTooLargeIsNotReadInPart) {
  Install("perf", std::string(kOut) +
                      "printf '12,,cycles,1,100.00,,\\n' > $out; "
                      "yes aaaaaaaaaaaaaaaaaaaaaaaaaaaaa | head -n 200000 >> $out");
  const Profile profile = Run();
  EXPECT_EQ(profile.note, "perf wrote more than 4 MiB");
  EXPECT_TRUE(profile.counters.empty());
}

// Nothing that a client writes is in the command but through the case's file.
TEST_F(ProfileRunTest, TheWorkerIsGivenTheCaseAloneForItsKernel) {
  Install("perf", std::string("printf '%s\\n' \"$@\" > ") + (folder_ / "args").string() +
                      "; for a in \"$@\"; do case $a in --once=*) cp ${a#--once=} " +
                      (folder_ / "case").string() + ";; esac; done");
  run_.spec.mutable_copy()->set_count(64);
  run_.spec.set_name("$(touch /tmp/never)");
  run_.spec.set_mode(v1::MODE_BOTH);
  run_.spec.set_repeats(5);
  run_.spec.set_min_efficiency(0.9);
  run_.worker_args = {"--device=cpu:0"};
  Run();
  std::stringstream args, spec;
  args << std::ifstream(folder_ / "args").rdbuf();
  spec << std::ifstream(folder_ / "case").rdbuf();
  EXPECT_THAT(args.str(), AllOf(HasSubstr("stat\n-x,\n"), HasSubstr("\n--\n/bin/true\n"),
                                HasSubstr("\n--device=cpu:0\n"), HasSubstr("\n-D\n-1\n"),
                                Not(HasSubstr("never"))));
  EXPECT_THAT(spec.str(), AllOf(HasSubstr("MODE_VALIDATE"), HasSubstr("\"repeats\":1"),
                                HasSubstr("\"probes\":false"), Not(HasSubstr("minEfficiency"))));
}

}  // namespace
}  // namespace assay::server
