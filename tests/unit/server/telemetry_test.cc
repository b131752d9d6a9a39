// Telemetry: what sources read, how counters add up, and what becomes of the process that
// asks. The GPU's side asks a library of the tests' own (fake_nvml.c): no card was read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "kernels/text/cat.h"
#include "server/telemetry/linux_source.h"
#include "server/telemetry/monitor.h"
#include "server/telemetry/sampler.h"

namespace assay::server {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

absl::Time At(double seconds) { return absl::UnixEpoch() + absl::Seconds(1000 + seconds); }

// A folder of its own, gone afterwards.
class Folder {
 public:
  Folder() {
    std::string path = ::testing::TempDir() + "telemetry_XXXXXX";
    path_ = mkdtemp(path.data());
  }
  ~Folder() { fs::remove_all(path_); }
  const fs::path& path() const { return path_; }
  void Write(const std::string& file, const std::string& text) const {
    fs::create_directories((path_ / file).parent_path());
    // Whoever reads meanwhile sees the old or the new.
    std::ofstream(path_ / "new") << text;
    fs::rename(path_ / "new", path_ / file);
  }

 private:
  fs::path path_;
};

class LinuxTest : public ::testing::Test {
 protected:
  v1::Telemetry Sample(double seconds = 0) {
    if (source_ == nullptr) source_ = MakeLinuxSource(root_.path());
    v1::Device device;
    EXPECT_TRUE(source_->Sample(At(seconds), &device).ok());
    return device.telemetry();
  }
  void Write(const std::string& file, const std::string& text) { root_.Write("sys/" + file, text); }

  Folder root_;
  std::unique_ptr<TelemetrySource> source_;
};

TEST_F(LinuxTest, OfNothingThereIsNothingButTheReason) {
  fs::create_directories(root_.path() / "sys/devices/system/cpu/cpu0");
  const v1::Telemetry t = Sample();
  EXPECT_THAT(t.unavailable_reason(), HasSubstr("hwmon"));
  EXPECT_FALSE(t.has_temperature_celsius());
  EXPECT_FALSE(t.has_power_watts());
  EXPECT_THAT(t.clock_hertz(), IsEmpty());
  EXPECT_THAT(t.throttle_seconds(), IsEmpty());
  EXPECT_THAT(t.ecc_errors(), IsEmpty());
}

TEST_F(LinuxTest, TheHottestSensorOfTheProcessorCountsAndNoOther) {
  Write("class/hwmon/hwmon0/name", "nvme\n");
  Write("class/hwmon/hwmon0/temp1_input", "99000\n");
  Write("class/hwmon/hwmon1/name", "coretemp\n");
  Write("class/hwmon/hwmon1/temp1_input", "61000\n");
  Write("class/hwmon/hwmon1/temp2_input", "63500\n");
  Write("class/hwmon/hwmon1/temp2_max", "100000\n");
  Write("class/hwmon/hwmon1/temp3_input", "-128000\n");  // unplugged
  Write("class/hwmon/hwmon1/temp4_input", "garbage\n");
  EXPECT_EQ(Sample().temperature_celsius(), 63.5);
  EXPECT_EQ(Sample().unavailable_reason(), "");
}

TEST_F(LinuxTest, AThermalZoneServesWhereThereIsNoChip) {
  Write("class/thermal/thermal_zone0/type", "acpitz\n");
  Write("class/thermal/thermal_zone0/temp", "20000\n");
  Write("class/thermal/thermal_zone1/type", "x86_pkg_temp\n");
  Write("class/thermal/thermal_zone1/temp", "47000\n");
  EXPECT_EQ(Sample().temperature_celsius(), 47);
}

TEST_F(LinuxTest, TheClockIsTheMeanOfProcessorsThatTell) {
  Write("devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "2000000\n");
  Write("devices/system/cpu/cpu1/cpufreq/scaling_cur_freq", "3000000\n");
  Write("devices/system/cpu/cpu2/cpufreq/scaling_cur_freq", "<unknown>\n");
  Write("devices/system/cpu/cpufreq/boost", "1\n");
  EXPECT_THAT(Sample().clock_hertz(), UnorderedElementsAre(Pair("core", 2.5e9)));
}

TEST_F(LinuxTest, PowerIsTheEnergyOfAllPackagesBetweenTwoSamples) {
  const auto energies = [&](const char* first, const char* second) {
    Write("class/powercap/intel-rapl:0/energy_uj", first);
    Write("class/powercap/intel-rapl:1/energy_uj", second);
  };
  for (const char* package : {"intel-rapl:0", "intel-rapl:1", "intel-rapl:0:0"}) {
    Write(Cat("class/powercap/", package, "/name"),
          package[12] == 0 ? Cat("package-", package[11]) : "core");
    Write(Cat("class/powercap/", package, "/max_energy_range_uj"), "1000000000");
    Write(Cat("class/powercap/", package, "/energy_uj"), "0");
  }
  energies("100000000", "990000000");
  EXPECT_FALSE(Sample(0).has_power_watts()) << "one reading is no power";
  energies("300000000", "90000000");  // the second began again at 0
  EXPECT_NEAR(Sample(2).power_watts(), (200 + 100) / 2.0, 1e-9);
  fs::remove_all(root_.path() / "sys/class/powercap/intel-rapl:1");
  EXPECT_FALSE(Sample(3).has_power_watts()) << "a package that is gone";
}

TEST_F(LinuxTest, ThrottledAsTheWorstCoreOrPackageOfEachSampleWhateverCameBefore) {
  const auto throttled = [&](int cpu0, int package, int cpu1) {
    const std::string folder = "devices/system/cpu/cpu";
    Write(folder + "0/thermal_throttle/core_throttle_total_time_ms", Cat(cpu0));
    Write(folder + "0/thermal_throttle/package_throttle_total_time_ms", Cat(package));
    Write(folder + "1/thermal_throttle/core_throttle_total_time_ms", Cat(cpu1));
    const v1::Telemetry t = Sample();
    EXPECT_EQ(t.throttle_seconds().size(), 1u);
    return t.throttle_seconds().at("thermal");
  };
  EXPECT_EQ(throttled(100, 1'000'000, 600'000), 0);
  EXPECT_EQ(throttled(100, 1'000'000, 601'000), 1) << "a total below another's";
  EXPECT_EQ(throttled(600, 1'000'900, 601'400), 1.9) << "at once, not one after the other";
  EXPECT_EQ(throttled(600, 1'000'900, 601'400), 1.9);
}

TEST_F(LinuxTest, EccOfAllControllersAlsoOfOneThatCannotBeReadForAWhile) {
  Write("devices/system/edac/mc/mc0/ce_count", "400");
  Write("devices/system/edac/mc/mc0/ue_count", "0");
  Write("devices/system/edac/mc/mc1/ce_count", "100");
  EXPECT_THAT(Sample().ecc_errors(),
              UnorderedElementsAre(Pair("corrected", 500), Pair("uncorrected", 0)));
  const auto corrected = [&] { return Sample().ecc_errors().at("corrected"); };
  Write("devices/system/edac/mc/mc0/ce_count", "busy");
  Write("devices/system/edac/mc/mc1/ce_count", "101");
  for (int n = 0; n < 5; ++n) EXPECT_EQ(corrected(), 501);
  Write("devices/system/edac/mc/mc0/ce_count", "402");
  EXPECT_EQ(corrected(), 503);
  Write("devices/system/edac/mc/mc2/ce_count", "7000");
  EXPECT_EQ(corrected(), 503) << "what another had when it came is no news";
  fs::remove_all(root_.path() / "sys/devices/system/edac");
  EXPECT_THAT(Sample().ecc_errors(), IsEmpty());
}

// The fake library in this process.
class NvmlTest : public ::testing::Test {
 protected:
  void SetUp() override { setenv("ASSAY_FAKE_NVML", (folder_.path() / "gpu").c_str(), 1); }
  void Gpu(const std::string& lines) { folder_.Write("gpu", lines); }
  TelemetrySampler Make() {
    TelemetrySamplerOptions options;
    options.devices.push_back({"cuda:0", "GPU-1", "0000:01:00.0"});
    options.nvml = FAKE_NVML_PATH;
    options.daemon_pid = getppid();
    return TelemetrySampler(std::move(options));
  }

  Folder folder_;
};

TEST_F(NvmlTest, AllThatTheLibraryTellsInBaseUnits) {
  Gpu(Cat("uuid GPU-1\ntemperature 61\npower 412500\nclock_sm 1980\nclock_mem 2619\n",
          "violation_0 2500000000\nviolation_1 0\nreasons 0\necc_corrected 3\n",
          "ecc_uncorrected 0\nprocess ", getpid(), "\n"));
  TelemetrySampler sampler = Make();
  const v1::Device device = sampler.Sample(0, At(0));
  EXPECT_EQ(device.id(), "cuda:0");
  EXPECT_EQ(device.properties().at("gpu"), "3");
  EXPECT_EQ(device.properties().at("UUID"), "GPU-1");
  EXPECT_EQ(device.properties().at("driver_version"), "999.1");
  const v1::Telemetry& t = device.telemetry();
  EXPECT_EQ(t.source(), "nvml 13.999.1");
  EXPECT_EQ(t.unavailable_reason(), "");
  EXPECT_GT(t.sample_time().seconds(), 0);
  EXPECT_EQ(t.temperature_celsius(), 61);
  EXPECT_EQ(t.power_watts(), 412.5);
  EXPECT_THAT(t.clock_hertz(), UnorderedElementsAre(Pair("core", 1.98e9), Pair("memory", 2.619e9)));
  EXPECT_EQ(t.throttle_seconds().at("power"), 2.5);
  EXPECT_EQ(t.throttle_seconds().at("thermal"), 0);
  EXPECT_FALSE(t.throttle_seconds().contains("board_limit")) << "not supported, so not known";
  EXPECT_THAT(t.ecc_errors(), UnorderedElementsAre(Pair("corrected", 3), Pair("uncorrected", 0)));
  EXPECT_EQ(t.faults().at("xid-79"), 0);
  EXPECT_EQ(t.others_bytes(), 0) << "our own worker's";
}

TEST_F(NvmlTest, WhatFailsIsAbsent) {
  Gpu("uuid GPU-1\nno_events 1\n");
  TelemetrySampler sampler = Make();
  const v1::Telemetry t = sampler.Sample(0, At(0)).telemetry();
  EXPECT_EQ(t.unavailable_reason(), "");
  EXPECT_FALSE(t.has_temperature_celsius());
  EXPECT_FALSE(t.has_power_watts());
  EXPECT_FALSE(t.has_others_bytes());
  EXPECT_THAT(t.clock_hertz(), IsEmpty());
  EXPECT_THAT(t.throttle_seconds(), IsEmpty());
  EXPECT_THAT(t.ecc_errors(), IsEmpty());
  EXPECT_THAT(t.faults(), IsEmpty());
}

TEST_F(NvmlTest, ReasonsBecomeTimeWhereTheDriverCountsNone) {
  constexpr int kSlowdownAndPower = 0x8 | 0x4;
  Gpu(Cat("uuid GPU-1\nreasons ", kSlowdownAndPower, "\nviolation_0 7000000000\n"));
  TelemetrySampler sampler = Make();
  EXPECT_EQ(sampler.Sample(0, At(0)).telemetry().throttle_seconds().at("hw_slowdown"), 0);
  EXPECT_EQ(sampler.Sample(0, At(1)).telemetry().throttle_seconds().at("hw_slowdown"), 1);
  Gpu("uuid GPU-1\nreasons 0\nviolation_0 7000000000\n");
  const v1::Telemetry t = sampler.Sample(0, At(2)).telemetry();
  EXPECT_EQ(t.throttle_seconds().at("hw_slowdown"), 1) << "not in the second that ended it";
  EXPECT_EQ(t.throttle_seconds().at("power"), 7) << "the driver's own count comes first";
  EXPECT_EQ(t.throttle_seconds().at("thermal"), 0);
}

TEST_F(NvmlTest, ADeviceIsFoundByItsPciIdWhereItHasNoUuid) {
  Gpu("uuid GPU-2\npci 0000:01:00.0\ntemperature 40\n");
  EXPECT_EQ(Make().Sample(0, At(0)).telemetry().temperature_celsius(), 40);
  Gpu("uuid GPU-2\npci 0000:02:00.0\ntemperature 40\n");
  EXPECT_THAT(Make().Sample(0, At(0)).telemetry().unavailable_reason(),
              HasSubstr("NVML finds no cuda:0"));
}

TEST_F(NvmlTest, OthersAreWhoIsNotTheDaemonsAndUnknownProcessesHideThem) {
  Gpu("uuid GPU-1\nprocess 1\n");
  EXPECT_EQ(Make().Sample(0, At(0)).telemetry().others_bytes(), getppid() == 0 ? 0 : 1000);
  Gpu("uuid GPU-1\nprocess 999999999\n");
  EXPECT_FALSE(Make().Sample(0, At(0)).telemetry().has_others_bytes());
}

TEST_F(NvmlTest, ALostDeviceIsToldOfAndTriedAgain) {
  Gpu("uuid GPU-1\ntemperature 61\n");
  TelemetrySampler sampler = Make();
  EXPECT_TRUE(sampler.Sample(0, At(0)).telemetry().has_temperature_celsius());
  Gpu("uuid GPU-1\ntemperature 61\nlost 15\n");
  const v1::Telemetry lost = sampler.Sample(0, At(1)).telemetry();
  EXPECT_EQ(lost.unavailable_reason(), "GPU is lost");
  EXPECT_FALSE(lost.has_temperature_celsius());
  Gpu("uuid GPU-1\ntemperature 62\n");
  EXPECT_EQ(sampler.Sample(0, At(2)).telemetry().unavailable_reason(), "GPU is lost")
      << "not asked again at once";
  EXPECT_EQ(sampler.Sample(0, At(12)).telemetry().temperature_celsius(), 62);
}

TEST_F(NvmlTest, TheFaultOfALostDeviceIsToldWithTheReasonAndStays) {
  Gpu("uuid GPU-1\ntemperature 61\n");
  TelemetrySampler sampler = Make();
  EXPECT_EQ(sampler.Sample(0, At(0)).telemetry().faults().at("xid-79"), 0);
  // The calls fail at once; the event comes when its thread is woken.
  Gpu("uuid GPU-1\nlost 15\nxid 79\nxid_serial 9001\n");
  const auto faults = [&](double seconds) {
    const v1::Telemetry t = sampler.Sample(0, At(seconds)).telemetry();
    EXPECT_THAT(t.unavailable_reason(), HasSubstr("GPU is lost"));
    return t.faults().at("xid-79");
  };
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  while (faults(1) == 0 && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_EQ(faults(2), 1);
  EXPECT_EQ(faults(12), 1) << "tried again, in vain";
  Gpu("uuid GPU-1\ntemperature 62\nxid 79\nxid_serial 9001\n");
  const v1::Telemetry back = sampler.Sample(0, At(30)).telemetry();
  EXPECT_EQ(back.temperature_celsius(), 62);
  EXPECT_EQ(back.faults().at("xid-79"), 1) << "a source of its own begins at 0, the count does not";
}

TEST_F(NvmlTest, ADriverThatIsNotThereIsAReason) {
  Gpu("init 9\n");
  EXPECT_EQ(Make().Sample(0, At(0)).telemetry().unavailable_reason(),
            "nvmlInit: Driver Not Loaded");
  TelemetrySamplerOptions options;
  options.devices = {{"cuda:0", "GPU-1", ""}, {"hip:0", "", "0000:01:00.0"}};
  options.nvml = options.rocm_smi = "/nowhere/lib.so";
  TelemetrySampler sampler(std::move(options));
  EXPECT_THAT(sampler.Sample(0, At(0)).telemetry().unavailable_reason(), HasSubstr("/nowhere"));
  EXPECT_THAT(sampler.Sample(1, At(0)).telemetry().unavailable_reason(), HasSubstr("/nowhere"));
}

TEST(Rocm, WhatTheLibraryAndTheDriversFilesTellInBaseUnits) {
  const Folder folder;
  folder.Write("sys/bus/pci/devices/0001:3b:00.0/hwmon/hwmon7/freq1_input", "1700000000\n");
  folder.Write("sys/bus/pci/devices/0001:3b:00.0/hwmon/hwmon7/freq2_input", "1300000000\n");
  TelemetrySamplerOptions options;
  options.devices = {
      {"hip:0", "", "0001:3b:00.0"}, {"hip:1", "", "0001:3c:00.0"}, {"hip:2", "", ""}};
  options.root = folder.path();
  options.rocm_smi = FAKE_ROCM_PATH;
  TelemetrySampler sampler(std::move(options));
  const v1::Device device = sampler.Sample(0, At(0));
  const v1::Telemetry& t = device.telemetry();
  EXPECT_EQ(t.source(), "rocm-smi");
  EXPECT_EQ(t.temperature_celsius(), 54.5) << "of the edge, where there is no junction";
  EXPECT_EQ(t.power_watts(), 305.25) << "averaged, where there is none of the socket";
  EXPECT_THAT(t.clock_hertz(), UnorderedElementsAre(Pair("core", 1.7e9), Pair("memory", 1.3e9)));
  EXPECT_THAT(t.ecc_errors(),
              UnorderedElementsAre(Pair("corrected", 1 + 4 + 0x80), Pair("uncorrected", 21)));
  EXPECT_THAT(t.throttle_seconds(), IsEmpty()) << "where the library does not tell";
  EXPECT_THAT(t.faults(), UnorderedElementsAre(Pair("gpu-reset", 0), Pair("vm-fault", 0)));
  EXPECT_EQ(device.properties().at("driver_version"), "6.8.5");
  EXPECT_EQ(device.properties().at("gpu"), "1");
  EXPECT_THAT(sampler.Sample(1, At(0)).telemetry().unavailable_reason(), HasSubstr("0001:3c:00.0"));
  EXPECT_THAT(sampler.Sample(2, At(0)).telemetry().unavailable_reason(), HasSubstr("no PCI id"));
  fs::remove_all(folder.path() / "sys");
  folder.Write("gpu", "lost 1");
  setenv("ASSAY_FAKE_ROCM", (folder.path() / "gpu").c_str(), 1);
  EXPECT_THAT(sampler.Sample(0, At(1)).telemetry().unavailable_reason(), HasSubstr("any more"));
  unsetenv("ASSAY_FAKE_ROCM");
  EXPECT_EQ(sampler.Sample(0, At(60)).telemetry().temperature_celsius(), 54.5);
}

TEST(Rocm, ALibraryThatHasItsVersionsNameAloneIsFound) {
  const Folder folder;
  fs::create_symlink(FAKE_ROCM_PATH, folder.path() / "librocm_smi64.so.1");
  TelemetrySamplerOptions options;
  options.devices = {{"hip:0", "", "0001:3b:00.0"}};
  options.rocm_smi = folder.path() / "librocm_smi64.so";
  EXPECT_EQ(TelemetrySampler(std::move(options)).Sample(0, At(0)).telemetry().source(), "rocm-smi");
}

TEST(Rocm, ReasonsBecomeTimeAndFaultsAreCountedAsTheyCome) {
  const Folder folder;
  setenv("ASSAY_FAKE_ROCM", (folder.path() / "gpu").c_str(), 1);
  const auto throttled = [&](std::uint64_t bits, const char* event) {
    folder.Write("gpu", Cat("throttle ", bits, "\n", event));
  };
  TelemetrySamplerOptions options;
  options.devices = {{"hip:0", "", "0001:3b:00.0"}};
  options.root = folder.path();
  options.rocm_smi = FAKE_ROCM_PATH;
  TelemetrySampler sampler(options);
  constexpr std::uint64_t kPpt0 = 1, kTdcGfx = 1 << 16, kHotspot = 1ULL << 36,
                          kProchot = 1ULL << 47, kFit = 1ULL << 57;
  throttled(kPpt0 | kTdcGfx | kHotspot | kProchot, "");
  v1::Telemetry t = sampler.Sample(0, At(0)).telemetry();
  EXPECT_THAT(t.throttle_seconds(),
              UnorderedElementsAre(Pair("power", 0), Pair("board_limit", 0), Pair("thermal", 0),
                                   Pair("hw_slowdown", 0), Pair("reliability", 0)));
  throttled(kPpt0 | kHotspot << 1 | kFit, "event 1\nserial 1\n");
  t = sampler.Sample(0, At(2)).telemetry();
  EXPECT_EQ(t.throttle_seconds().at("power"), 2);
  EXPECT_EQ(t.throttle_seconds().at("thermal"), 2) << "another sensor, but the same reason";
  EXPECT_EQ(t.throttle_seconds().at("reliability"), 0);
  EXPECT_THAT(t.faults(), UnorderedElementsAre(Pair("gpu-reset", 0), Pair("vm-fault", 1)));
  throttled(~std::uint64_t{0}, "event 3\nserial 2\n");
  t = sampler.Sample(0, At(3)).telemetry();
  EXPECT_THAT(t.throttle_seconds(), IsEmpty()) << "all ones: not told";
  EXPECT_THAT(t.faults(), UnorderedElementsAre(Pair("gpu-reset", 1), Pair("vm-fault", 1)));
  throttled(kFit, "event 2\nserial 3\n");
  EXPECT_EQ(sampler.Sample(0, At(4)).telemetry().throttle_seconds().at("power"), 2);
  throttled(kFit, "");
  t = sampler.Sample(0, At(5)).telemetry();
  EXPECT_EQ(t.throttle_seconds().at("reliability"), 1);
  EXPECT_THAT(t.faults(), UnorderedElementsAre(Pair("gpu-reset", 1), Pair("vm-fault", 1)))
      << "being throttled is no fault";

  options.scope = TelemetryScope::kConditions;
  TelemetrySampler conditions(options);
  t = conditions.Sample(0, At(0)).telemetry();
  EXPECT_EQ(t.temperature_celsius(), 54.5);
  EXPECT_THAT(t.ecc_errors(), IsEmpty());
  EXPECT_THAT(t.faults(), IsEmpty()) << "events are the telemetry process's";

  folder.Write("gpu", "no_events 1");
  options.scope = TelemetryScope::kAll;
  TelemetrySampler silent(options);
  EXPECT_THAT(silent.Sample(0, At(0)).telemetry().faults(), IsEmpty());
  unsetenv("ASSAY_FAKE_ROCM");
}

// The real assay-telemetry under the real monitor, asking the fake library.
class MonitorTest : public NvmlTest {
 protected:
  void Start(absl::Duration stale = absl::Seconds(30)) {
    TelemetryOptions options;
    options.path = TELEMETRY_PATH;
    options.devices = {{"cpu:0", "", ""}, {"cuda:0", "GPU-1", ""}};
    options.environment = {Cat("ASSAY_NVML=", FAKE_NVML_PATH),
                           Cat("ASSAY_FAKE_NVML=", (folder_.path() / "gpu").string()),
                           Cat("ASSAY_HOST_ROOT=", folder_.path().string())};
    options.period = absl::Milliseconds(10);
    options.stale = stale;
    options.least_backoff = absl::Milliseconds(10);
    options.on_sample = [this](const v1::Device& device) {
      const std::lock_guard lock(mutex_);
      told_[device.id()].push_back(device.telemetry());
      changed_.notify_all();
    };
    monitor_ = TelemetryMonitor::Start(std::move(options));
  }
  void TearDown() override { monitor_ = nullptr; }

  // Waits until what was told last of the device is as wanted.
  template <class Condition>
  bool Await(const std::string& device, Condition condition,
             absl::Duration patience = absl::Seconds(120)) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, absl::ToChronoSeconds(patience), [&] {
      return !told_[device].empty() && condition(told_[device].back());
    });
  }
  // Waits until such was told at some time: it may be over in a moment.
  template <class Condition>
  bool AwaitOnce(const std::string& device, Condition condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(120), [&] {
      return std::any_of(told_[device].begin(), told_[device].end(), condition);
    });
  }
  bool AwaitTemperature(double celsius, absl::Duration patience = absl::Seconds(120)) {
    const auto told = [=](const v1::Telemetry& t) {
      return t.has_temperature_celsius() && t.temperature_celsius() == celsius;
    };
    return Await("cuda:0", told, patience);
  }

  // The only child of this process.
  static pid_t Child() {
    std::ifstream children(Cat("/proc/self/task/", getpid(), "/children"));
    pid_t pid = 0;
    for (const auto& task : fs::directory_iterator("/proc/self/task")) {
      std::ifstream list(task.path() / "children");
      if (list >> pid) return pid;
    }
    return 0;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::vector<v1::Telemetry>> told_;
  std::unique_ptr<TelemetryMonitor> monitor_;
};

TEST_F(MonitorTest, SamplesComeAndTheNewestIsServed) {
  Gpu("uuid GPU-1\ntemperature 61\n");
  folder_.Write("sys/class/hwmon/hwmon0/name", "k10temp");
  folder_.Write("sys/class/hwmon/hwmon0/temp1_input", "50000");
  Start();
  ASSERT_TRUE(AwaitTemperature(61));
  ASSERT_TRUE(Await("cpu:0", [](const v1::Telemetry& t) { return t.temperature_celsius() == 50; }));
  Gpu("uuid GPU-1\ntemperature 75\n");
  ASSERT_TRUE(AwaitTemperature(75));
  EXPECT_EQ(monitor_->Latest("cuda:0").temperature_celsius(), 75);
  EXPECT_EQ(monitor_->Latest("cpu:0").source(), "linux");
  EXPECT_FALSE(monitor_->Latest("nobody").has_temperature_celsius());
}

TEST_F(MonitorTest, XidsAreCountedAsTheyComeAndSurviveTheProcess) {
  Gpu("uuid GPU-1\ntemperature 1\n");
  Start();
  ASSERT_TRUE(AwaitTemperature(1));
  const auto faults = [&](std::int64_t count) {
    return Await("cuda:0", [=](const v1::Telemetry& t) {
      const auto it = t.faults().find("xid-79");
      return it != t.faults().end() && it->second == count;
    });
  };
  ASSERT_TRUE(faults(0)) << "it exists before the first";
  Gpu("uuid GPU-1\ntemperature 1\nxid 79\nxid_serial 1\n");
  ASSERT_TRUE(faults(1));
  Gpu("uuid GPU-1\ntemperature 1\nxid 79\nxid_serial 2\n");
  ASSERT_TRUE(faults(2));
  Gpu("uuid GPU-1\ntemperature 2\n");
  kill(Child(), SIGKILL);
  ASSERT_TRUE(AwaitTemperature(2));
  ASSERT_TRUE(faults(2));
}

TEST_F(MonitorTest, OfAProcessThatDiedNothingIsServedUntilTheNext) {
  Gpu("uuid GPU-1\ntemperature 61\n");
  Start();
  ASSERT_TRUE(AwaitTemperature(61));
  Gpu("uuid GPU-1\ntemperature 62\n");
  kill(Child(), SIGKILL);
  ASSERT_TRUE(AwaitOnce("cuda:0", [](const v1::Telemetry& t) {
    return t.unavailable_reason().find("SIGKILL") != std::string::npos &&
           !t.has_temperature_celsius();
  })) << monitor_->Latest("cuda:0").ShortDebugString();
  ASSERT_TRUE(AwaitTemperature(62));
}

TEST_F(MonitorTest, AHungLibraryIsGivenUpAndAskedAgain) {
  Gpu("uuid GPU-1\ntemperature 61\n");
  // The process must begin within this time, and a busy machine is slow to start one.
  bool begun = false;
  for (const int seconds : {3, 15, 50}) {
    Start(absl::Seconds(seconds));
    begun = AwaitTemperature(61, absl::Seconds(2 * seconds));
    if (begun) break;
  }
  ASSERT_TRUE(begun);
  const pid_t first = Child();
  Gpu("uuid GPU-1\ntemperature 61\nhang 1\n");
  ASSERT_TRUE(Await("cuda:0", [](const v1::Telemetry& t) {
    return t.unavailable_reason().find("said nothing") != std::string::npos;
  }));
  EXPECT_FALSE(monitor_->Latest("cuda:0").has_temperature_celsius());
  Gpu("uuid GPU-1\ntemperature 63\n");
  ASSERT_TRUE(AwaitTemperature(63));
  EXPECT_NE(Child(), first);
}

TEST_F(MonitorTest, AProgramThatIsNotThereOrWritesNonsenseIsNoReasonToEnd) {
  folder_.Write("nonsense",
                "#!/bin/sh\nprintf '\\377\\377\\377\\377\\377\\377\\377'\nexec sleep 600\n");
  fs::permissions(folder_.path() / "nonsense", fs::perms::owner_all);
  for (const std::string& path : std::vector<std::string>{"/nowhere/assay-telemetry", "/bin/false",
                                                          folder_.path() / "nonsense", ""}) {
    TelemetryOptions options;
    options.path = path;
    options.devices = {{"cpu:0", "", ""}};
    options.least_backoff = absl::Milliseconds(10);
    std::mutex mutex;
    std::condition_variable changed;
    int told = 0;
    options.on_sample = [&](const v1::Device& device) {
      EXPECT_NE(device.telemetry().unavailable_reason(), "");
      const std::lock_guard lock(mutex);
      ++told;
      changed.notify_all();
    };
    const auto monitor = TelemetryMonitor::Start(std::move(options));
    std::unique_lock lock(mutex);
    ASSERT_TRUE(changed.wait_for(lock, std::chrono::seconds(120), [&] {
      return told >= (path.empty() ? 1 : 2);
    })) << path;
    EXPECT_NE(monitor->Latest("cpu:0").unavailable_reason(), "");
  }
}

}  // namespace
}  // namespace assay::server
