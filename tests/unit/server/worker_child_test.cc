// The worker's own parts: ceilings that are kept for as long as they hold, and what a device
// tells between launches.
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "server/worker/conditions_reader.h"
#include "server/worker/kept_ceilings.h"
#include "server/worker/processor_wait.h"
#include "server/worker/worker_service.h"

namespace assay::server {
namespace {

namespace fs = std::filesystem;

class CountedCeilings : public Ceilings {
 public:
  explicit CountedCeilings(int& measured) : measured_(measured) {}
  std::optional<Ceiling> Find(CeilingKind kind, DType dtype) override {
    if (kind == CeilingKind::kCopy) return ++measured_, Ceiling{kind, dtype, copy, noise};
    if (kind == CeilingKind::kFma && dtype == DType::kF32) {
      return ++measured_, Ceiling{kind, dtype, 2e11 / 7};
    }
    return std::nullopt;
  }
  std::int64_t CacheBytes() const override { return 77; }

  // What the copy reaches now.
  static inline double copy = 1e10 / 3, noise = 0.01;

 private:
  int& measured_;
};

// Sends the text of each change at once.
class SentCeilings : public KnownCeilings {
 public:
  SentCeilings(std::unique_ptr<KnownCeilings> kept, std::string* text)
      : kept_(std::move(kept)), text_(text) {}
  std::optional<Ceiling> Find(CeilingKind kind, DType dtype) override {
    const std::optional<Ceiling> found = kept_->Find(kind, dtype);
    Send();
    return found;
  }
  void Forget(CeilingKind kind, DType dtype) override {
    kept_->Forget(kind, dtype);
    Send();
  }
  void Doubt(CeilingKind kind, DType dtype) override {
    kept_->Doubt(kind, dtype);
    Send();
  }
  void MeasureDoubtful() override {
    kept_->MeasureDoubtful();
    Send();
  }
  std::int64_t CacheBytes() const override { return kept_->CacheBytes(); }
  std::vector<Ceiling> Known() const override { return kept_->Known(); }
  void Restore(std::string_view text) override { kept_->Restore(text); }
  std::string TakeText() override { return kept_->TakeText(); }

 private:
  void Send() {
    if (std::string text = kept_->TakeText(); !text.empty()) *text_ = std::move(text);
  }

  const std::unique_ptr<KnownCeilings> kept_;
  std::string* const text_;
};

class KeptCeilingsTest : public ::testing::Test {
 protected:
  KeptCeilingsTest()
      : folder_(fs::path(::testing::TempDir()) /
                ::testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    CountedCeilings::copy = 1e10 / 3;
    CountedCeilings::noise = 0.01;
  }
  ~KeptCeilingsTest() override { fs::remove_all(folder_); }

  // The ceilings of a new worker. The text of every change is kept, as the daemon keeps it.
  std::unique_ptr<KnownCeilings> Open(const std::string& key) {
    auto ceilings = std::make_unique<SentCeilings>(
        KeepCeilings(std::make_unique<CountedCeilings>(measured_), key), &text_);
    ceilings->Restore(text_);
    return ceilings;
  }

  std::string text_;

  fs::path folder_;
  int measured_ = 0;
};

TEST_F(KeptCeilingsTest, ANewWorkerMeasuresNothingAgain) {
  const std::vector<Ceiling> first = Open("a")->All();
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(measured_, 2);
  const std::unique_ptr<Ceilings> second = Open("a");
  EXPECT_EQ(second->All(), first) << "to the last bit";
  EXPECT_EQ(measured_, 2);
  EXPECT_EQ(second->CacheBytes(), 77);
}

TEST_F(KeptCeilingsTest, WhatIsKnownIsToldWithoutMeasuring) {
  const std::unique_ptr<KnownCeilings> ceilings = Open("a");
  EXPECT_TRUE(ceilings->Known().empty());
  ceilings->BytesPerSecond();
  ceilings->Doubt(CeilingKind::kCopy, DType::kF32);
  const std::vector<Ceiling> known = ceilings->Known();
  ASSERT_EQ(known.size(), 1u);
  EXPECT_EQ(known[0].per_second, 1e10 / 3);
  EXPECT_TRUE(known[0].suspect);
  EXPECT_EQ(measured_, 1);
  EXPECT_EQ(Open("a")->Known(), known);
  EXPECT_EQ(measured_, 1);
}

TEST_F(KeptCeilingsTest, AnotherKeyMeasuresAgain) {
  Open("boot one")->BytesPerSecond();
  Open("boot two")->BytesPerSecond();
  EXPECT_EQ(measured_, 2);
  Open("boot two")->BytesPerSecond();
  EXPECT_EQ(measured_, 2);
}

TEST_F(KeptCeilingsTest, WhatIsDamagedIsMeasuredAgain) {
  for (const char* text : {"", "a", "a\n1 0 -5 0 0 0\n", "a\n1 0 nan 0 0 0\n", "a\n1 0 5\n",
                           "a\n9 0 5 0 0 0\n", "a\n1 77 5 0 0 0\n", "a\n1 0 5 0 0 0\nrubbish\n",
                           "b\n1 0 5 0 0 0\n", "a\n1 0 5 nan 0 0\n"}) {
    text_ = text;
    measured_ = 0;
    EXPECT_EQ(Open("a")->BytesPerSecond(), 1e10 / 3) << text;
    EXPECT_EQ(measured_, 1) << text;
    EXPECT_EQ(Open("a")->BytesPerSecond(), 1e10 / 3) << text;
    EXPECT_EQ(measured_, 1) << "and mended: " << text;
  }
}

TEST_F(KeptCeilingsTest, OnlyAChangeIsSentAndNoneWithoutAKey) {
  const auto kept = KeepCeilings(std::make_unique<CountedCeilings>(measured_), "a");
  EXPECT_EQ(kept->TakeText(), "");
  kept->BytesPerSecond();
  EXPECT_NE(kept->TakeText(), "");
  kept->BytesPerSecond();
  EXPECT_EQ(kept->TakeText(), "") << "nothing new";
  const auto nameless = KeepCeilings(std::make_unique<CountedCeilings>(measured_), "");
  nameless->BytesPerSecond();
  EXPECT_EQ(nameless->TakeText(), "");
}

// One measured beside other work is too low: kernels are found to be faster.
TEST_F(KeptCeilingsTest, ADoubtedOneIsMeasuredOnceMore) {
  std::unique_ptr<Ceilings> ceilings = Open("a");
  EXPECT_EQ(ceilings->BytesPerSecond(), 1e10 / 3);
  ceilings->Doubt(CeilingKind::kCopy, DType::kF32);
  EXPECT_EQ(measured_, 1) << "not at once";
  CountedCeilings::copy = 2e10;
  ceilings = Open("a");  // which a new worker does as well
  const std::optional<Ceiling> again = ceilings->Memory();
  EXPECT_EQ(again->per_second, 2e10);
  EXPECT_FALSE(again->suspect);
  EXPECT_EQ(measured_, 2);
  // Again beyond: it was no accident of that moment, and is not measured for ever.
  ceilings->Doubt(CeilingKind::kCopy, DType::kF32);
  for (int n = 0; n < 3; ++n) EXPECT_TRUE(ceilings->Memory()->suspect);
  EXPECT_TRUE(Open("a")->Memory()->suspect);
  EXPECT_EQ(measured_, 2);
  // But whenever somebody asks for it.
  CountedCeilings::copy = 3e10;
  ceilings->MeasureDoubtful();
  EXPECT_EQ(ceilings->Memory(), (Ceiling{CeilingKind::kCopy, DType::kUnspecified, 3e10, 0.01}));
  EXPECT_EQ(measured_, 3);
}

TEST_F(KeptCeilingsTest, TheFasterOfBothCounts) {
  const std::unique_ptr<Ceilings> ceilings = Open("a");
  CountedCeilings::noise = 0.2;
  EXPECT_EQ(ceilings->Memory()->noise, 0.2);
  EXPECT_EQ(Open("a")->Memory()->noise, 0.2) << "kept, too";
  CountedCeilings::copy = 1e10 / 4;
  CountedCeilings::noise = 0.001;
  ceilings->MeasureDoubtful();
  EXPECT_EQ(measured_, 2) << "noisy";
  EXPECT_EQ(ceilings->Memory()->per_second, 1e10 / 3);
  EXPECT_EQ(ceilings->Memory()->noise, 0.2) << "of the runs it is the fastest of";
  CountedCeilings::copy = 1e10;
  ceilings->MeasureDoubtful();
  EXPECT_EQ(ceilings->Memory()->per_second, 1e10);
  ceilings->MeasureDoubtful();
  EXPECT_EQ(measured_, 3) << "quiet now";
  ceilings->Forget(CeilingKind::kCopy, DType::kF32);
  CountedCeilings::copy = 1e9;
  EXPECT_EQ(Open("a")->BytesPerSecond(), 1e9) << "forgotten for the next worker, too";
}

TEST_F(KeptCeilingsTest, TheKeyIsWhatTheyDependOn) {
  DeviceInfo info;
  info.id = "cuda:0";
  info.model = "NVIDIA H200";
  info.properties["driver"] = "13.0";
  const std::string key = CeilingsKey(info, "1.0", "boot");
  EXPECT_EQ(key, CeilingsKey(info, "1.0", "boot"));
  EXPECT_NE(key, CeilingsKey(info, "1.1", "boot"));
  EXPECT_NE(key, CeilingsKey(info, "1.0", "another boot"));
  DeviceInfo other = info;
  other.properties["driver"] = "13.1";
  EXPECT_NE(key, CeilingsKey(other, "1.0", "boot"));
  other = info;
  other.id = "cuda:1";
  EXPECT_NE(key, CeilingsKey(other, "1.0", "boot"));
  EXPECT_EQ(CeilingsKey(info, "1.0", ""), "") << "without a boot id nothing is kept";
  EXPECT_FALSE(BootId().empty());
}

TEST(MeasureCeilings, GivesTheArenaBackAndNamesKinds) {
  const std::unique_ptr<Device> device =
      MakeCpuDevice(0, ArenaOptions{.max_bytes = std::int64_t{16} << 20});
  int measured = 0;
  class Greedy : public CountedCeilings {
   public:
    Greedy(Device& device, int& count) : CountedCeilings(count), device_(device) {}
    std::optional<Ceiling> Find(CeilingKind kind, DType dtype) override {
      EXPECT_TRUE(device_.arena().Allocate(1 << 16, false).ok());
      return CountedCeilings::Find(kind, dtype);
    }

   private:
    Device& device_;
  } ceilings(*device, measured);
  worker::v1::MeasureCeilingsResponse response;
  MeasureCeilings(*device, ceilings, &response);
  EXPECT_EQ(device->arena().leased_bytes(), 0) << "as it was";
  ASSERT_EQ(response.ceilings_size(), 2);
  EXPECT_EQ(response.ceilings(0).kind(), v1::CEILING_KIND_COPY);
  EXPECT_EQ(response.ceilings(0).bytes_per_second(), 1e10 / 3);
  EXPECT_EQ(response.ceilings(0).noise(), 0.01);
  EXPECT_FALSE(response.ceilings(1).has_noise()) << "not known";
  EXPECT_FALSE(response.ceilings(0).has_flops_per_second());
  EXPECT_FALSE(response.ceilings(0).has_data_sheet_per_second()) << "no model of the table";
  EXPECT_EQ(response.ceilings(1).kind(), v1::CEILING_KIND_FMA);
  EXPECT_EQ(response.ceilings(1).dtype(), v1::DTYPE_FP32);
  // What a case holds stays held.
  ASSERT_TRUE(device->arena().Allocate(1 << 16, false).ok());
  const std::int64_t held = device->arena().leased_bytes();
  MeasureCeilings(*device, ceilings, &response);
  EXPECT_EQ(device->arena().leased_bytes(), held);
}

// A result that is not yet told is lost if a later case of the call ends the worker.
TEST(RunInTurn, EndsAfterACaseThatDidNotPass) {
  worker::v1::RunCaseRequest request;
  for (int i = 0; i < 3; ++i) request.add_following();
  for (const v1::Verdict second :
       {v1::VERDICT_PASSED, v1::VERDICT_UNSUPPORTED, v1::VERDICT_FAILED, v1::VERDICT_INCONCLUSIVE,
        v1::VERDICT_ERROR, v1::VERDICT_SKIPPED}) {
    const bool goes_on = second == v1::VERDICT_PASSED || second == v1::VERDICT_UNSUPPORTED;
    // A busy machine may take the whole time that cases in turn have.
    for (int attempt = 0; attempt < 100; ++attempt) {
      worker::v1::RunCaseResponse response;
      int runs = 0;
      RunInTurn(
          request, nullptr,
          [&](const v1::CaseSpec&) {
            v1::CaseResult result;
            result.set_verdict(++runs == 2 ? second : v1::VERDICT_PASSED);
            return result;
          },
          response);
      if (runs < (goes_on ? 4 : 2) && attempt < 99) continue;
      EXPECT_EQ(runs, goes_on ? 4 : 2) << v1::Verdict_Name(second);
      EXPECT_EQ(response.following_size(), runs - 1);
      break;
    }
  }
}

// Values equal the wire's, by which they are cast.
TEST(MeasureCeilings, KindsAreTheWires) {
  EXPECT_EQ(static_cast<int>(CeilingKind::kCopy), v1::CEILING_KIND_COPY);
  EXPECT_EQ(static_cast<int>(CeilingKind::kTriad), v1::CEILING_KIND_TRIAD);
  EXPECT_EQ(static_cast<int>(CeilingKind::kRead), v1::CEILING_KIND_READ);
  EXPECT_EQ(static_cast<int>(CeilingKind::kFma), v1::CEILING_KIND_FMA);
  EXPECT_EQ(static_cast<int>(CeilingKind::kMatrix), v1::CEILING_KIND_MATRIX);
}

class Conditions : public KeptCeilingsTest {
 protected:
  void Write(const std::string& path, const std::string& text) {
    const fs::path file = folder_ / "sys" / path;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text << '\n';
  }
  // `library` is the one of its maker.
  std::unique_ptr<ConditionsReader> Probe(const std::string& id, const std::string& library = "") {
    DeviceInfo device;
    device.id = id;
    device.backend = id.substr(0, id.find(':'));
    device.properties = {{"uuid", "GPU-1"}, {"pci_id", "0001:3b:00.0"}};
    TelemetrySamplerOptions options;
    options.root = folder_;
    options.nvml = options.rocm_smi = library;
    options.daemon_pid = getpid();
    return MakeConditionsReader(device, options);
  }
};

TEST_F(Conditions, AreWhatLinuxTells) {
  Write("devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "3000000");
  Write("devices/system/cpu/cpu0/thermal_throttle/core_throttle_total_time_ms", "5000");
  Write("class/hwmon/hwmon0/name", "k10temp");
  Write("class/hwmon/hwmon0/temp1_input", "61500");
  const std::unique_ptr<ConditionsReader> probe = Probe("cpu:0");
  ConditionsReading reading = probe->Read();
  EXPECT_EQ(reading.clock_hertz, 3e9);
  EXPECT_EQ(reading.temperature_celsius, 61.5);
  EXPECT_FALSE(reading.power_watts.has_value());
  EXPECT_TRUE(reading.throttle_reasons.empty()) << "what was before the first reading";
  Write("devices/system/cpu/cpu0/thermal_throttle/core_throttle_total_time_ms", "5100");
  EXPECT_EQ(probe->Read().throttle_reasons, std::vector<std::string>{"thermal"});
  EXPECT_TRUE(probe->Read().throttle_reasons.empty()) << "over";
}

// Four threads compute on one processor all the while, so most of them wait, however many
// processors the machine has.
TEST_F(Conditions, OfACpuTellWhatItsThreadsWaitedForOthers) {
  const std::unique_ptr<ConditionsReader> probe = Probe("cpu:0");
  if (!probe->WaitedSeconds()) GTEST_SKIP() << "this kernel does not account for it";
  std::atomic<bool> stop = false;
  std::vector<std::thread> busy;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  for (int i = 0; i < 4; ++i) {
    busy.emplace_back([&stop, &one] {
      sched_setaffinity(0, sizeof one, &one);  // this thread's
      while (!stop) {
      }
    });
  }
  double waited = 0;
  const absl::Time begin = absl::Now();
  while (waited < 0.2 && absl::Now() - begin < absl::Minutes(2)) {
    absl::SleepFor(absl::Milliseconds(20));
    waited += probe->WaitedSeconds().value_or(0);
  }
  stop = true;
  for (std::thread& thread : busy) thread.join();
  EXPECT_GE(waited, 0.2);
  const std::unique_ptr<ConditionsReader> gpu = Probe("cuda:0", "/nowhere/lib.so");
  EXPECT_FALSE(gpu->WaitedSeconds().has_value());
  EXPECT_FALSE(gpu->Read().stolen_seconds.has_value());
}

class ProcessorWaits : public KeptCeilingsTest {
 protected:
  void Thread(const std::string& id, const std::string& schedstat) {
    fs::create_directories(folder_ / "self/task" / id);
    std::ofstream(folder_ / "self/task" / id / "schedstat") << schedstat << '\n';
  }
  void Stat(int steal0, int steal1) {
    std::ofstream(folder_ / "stat")
        << "cpu  1 1 1 1 1 1 1 " << steal0 + steal1 << " 0 0\ncpu0 1 1 1 1 1 1 1 " << steal0
        << " 0 0\ncpu1 1 1 1 1 1 1 1 " << steal1 << " 0 0\nintr 5\n";
  }
};

TEST_F(ProcessorWaits, AreOfAllThreadsAndOfTheProcessorsItMayUse) {
  const double tick = 1.0 / static_cast<double>(sysconf(_SC_CLK_TCK));
  Thread("10", "99 1000000000 0");
  Stat(7, 7);
  ProcessorWait wait(folder_, {0});
  EXPECT_DOUBLE_EQ(wait.ThreadSeconds().value_or(-1), 1) << "since it began";
  EXPECT_DOUBLE_EQ(wait.StolenSeconds(), 0) << "the first";
  Thread("10", "99 1500000000 0");
  Thread("11", "99 250000000 0");
  EXPECT_DOUBLE_EQ(wait.ThreadSeconds().value_or(-1), 0.75) << "a new one since it began";
  Stat(9, 70);
  EXPECT_DOUBLE_EQ(wait.StolenSeconds(), 2 * tick);
  Thread("10", "99 1501900000 100");
  Thread("11", "99 253000000 100");
  EXPECT_DOUBLE_EQ(wait.ThreadSeconds().value_or(-1), 3e-3) << "the other only to be woken";
  fs::remove_all(folder_ / "self/task/11");
  Thread("10", "1 100000000 0");
  EXPECT_DOUBLE_EQ(wait.ThreadSeconds().value_or(-1), 0.1) << "another thread of that id";
  Stat(3, 3);
  EXPECT_DOUBLE_EQ(wait.StolenSeconds(), 0) << "a counter that goes backwards";
}

// It makes way for a user's kernel, which is no other program.
TEST_F(ProcessorWaits, AreNotOfTheThreadThatWakesTheRunner) {
  Thread("10", "99 1000000000 0");
  Thread("11", "99 1000000000 0");
  std::ofstream(folder_ / "self/task/11/comm") << "assay-waker\n";
  ProcessorWait wait(folder_, {0});
  EXPECT_DOUBLE_EQ(wait.ThreadSeconds().value_or(-1), 1);
}

TEST_F(ProcessorWaits, AreNotKnownWhereLinuxDoesNotAccountForThem) {
  ProcessorWait wait(folder_, {0});
  EXPECT_FALSE(wait.ThreadSeconds().has_value());
  Thread("10", "");
  EXPECT_FALSE(wait.ThreadSeconds().has_value());
}

TEST_F(Conditions, AreAbsentWhereNothingIsTold) {
  for (const char* device : {"cpu:0", "cuda:0", "hip:0"}) {
    const ConditionsReading nothing = Probe(device, "/nowhere/lib.so")->Read();
    EXPECT_FALSE(nothing.clock_hertz || nothing.temperature_celsius || nothing.power_watts ||
                 nothing.others_bytes);
    EXPECT_TRUE(nothing.throttle_reasons.empty());
  }
}

// The stand-ins of telemetry's tests: no card was read.
TEST_F(Conditions, OfAnNvidiaGpuAreNvmlsForItsUuid) {
  const auto gpu = [&](const std::string& lines) {
    std::ofstream(folder_ / "gpu") << "uuid GPU-1\n" << lines;
  };
  setenv("ASSAY_FAKE_NVML", (folder_ / "gpu").c_str(), 1);
  gpu("temperature 61\npower 412500\nclock_sm 1980\nviolation_0 2500000000\nreasons 0\nprocess 1\n"
      "xid 79\nxid_serial 1\n");
  const std::unique_ptr<ConditionsReader> probe = Probe("cuda:0", FAKE_NVML_PATH);
  ConditionsReading reading = probe->Read();
  EXPECT_EQ(reading.clock_hertz, 1.98e9);
  EXPECT_EQ(reading.temperature_celsius, 61);
  EXPECT_EQ(reading.power_watts, 412.5);
  EXPECT_EQ(reading.others_bytes, 1000);
  EXPECT_TRUE(reading.throttle_reasons.empty()) << "what was before the first reading";
  // The driver counts the time of one; of the other it tells no more than that it is so.
  gpu("violation_0 2600000000\nreasons 8\n");
  EXPECT_EQ(probe->Read().throttle_reasons, std::vector<std::string>{"power"});
  EXPECT_EQ(probe->Read().throttle_reasons, std::vector<std::string>{"hw_slowdown"});
  gpu("lost 15\n");
  reading = probe->Read();
  EXPECT_FALSE(reading.clock_hertz || reading.temperature_celsius);
  unsetenv("ASSAY_FAKE_NVML");
}

TEST_F(Conditions, OfAnAmdGpuAreRocmSmisForItsPciId) {
  Write("bus/pci/devices/0001:3b:00.0/hwmon/hwmon7/freq1_input", "1700000000");
  setenv("ASSAY_FAKE_ROCM", (folder_ / "gpu").c_str(), 1);
  std::ofstream(folder_ / "gpu") << "throttle " << (1ULL << 36 | 1ULL << 47) << '\n';
  const std::unique_ptr<ConditionsReader> probe = Probe("hip:0", FAKE_ROCM_PATH);
  ConditionsReading reading = probe->Read();
  EXPECT_EQ(reading.clock_hertz, 1.7e9);
  EXPECT_EQ(reading.temperature_celsius, 54.5);
  EXPECT_EQ(reading.power_watts, 305.25);
  EXPECT_TRUE(reading.throttle_reasons.empty()) << "one reading is no time";
  const std::vector<std::string> reasons = probe->Read().throttle_reasons;  // in no order
  EXPECT_EQ(std::set<std::string>(reasons.begin(), reasons.end()),
            (std::set<std::string>{"hw_slowdown", "thermal"}));
  std::ofstream(folder_ / "gpu") << "throttle 0\n";
  EXPECT_TRUE(probe->Read().throttle_reasons.empty());
  unsetenv("ASSAY_FAKE_ROCM");
}

}  // namespace
}  // namespace assay::server
