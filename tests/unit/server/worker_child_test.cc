// The worker's own parts: ceilings that are kept for as long as they hold, and what Linux
// tells between launches.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "server/worker/conditions_probe.h"
#include "server/worker/kept_ceilings.h"
#include "server/worker/worker_service.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

class CountedCeilings : public Ceilings {
 public:
  explicit CountedCeilings(int& measured) : measured_(measured) {}
  std::optional<double> PerSecond(CeilingKind kind, DType dtype) override {
    if (kind == CeilingKind::kTriad || kind == CeilingKind::kRead) return std::nullopt;
    if (kind == CeilingKind::kCopy) return ++measured_, 1e10 / 3;
    if (kind == CeilingKind::kFma && dtype == DType::kF32) return ++measured_, 2e11 / 7;
    return std::nullopt;
  }
  std::int64_t CacheBytes() const override { return 77; }

 private:
  int& measured_;
};

class KeptCeilingsTest : public ::testing::Test {
 protected:
  KeptCeilingsTest()
      : folder_(fs::path(::testing::TempDir()) /
                ::testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~KeptCeilingsTest() override { fs::remove_all(folder_); }

  std::string file() const { return folder_ / "ceilings-cpu:0"; }
  std::unique_ptr<Ceilings> Open(const std::string& key) {
    return KeepCeilings(std::make_unique<CountedCeilings>(measured_), file(), key);
  }

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
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1) << "nothing left behind";
}

TEST_F(KeptCeilingsTest, AnotherKeyMeasuresAgain) {
  Open("boot one")->BytesPerSecond();
  Open("boot two")->BytesPerSecond();
  EXPECT_EQ(measured_, 2);
  Open("boot two")->BytesPerSecond();
  EXPECT_EQ(measured_, 2);
}

TEST_F(KeptCeilingsTest, WhatIsDamagedIsMeasuredAgain) {
  for (const char* text : {"", "a", "a\n1 0 -5\n", "a\n1 0 nan\n", "a\n1 0\n", "a\n9 0 5\n",
                           "a\n1 77 5\n", "a\n1 0 5\nrubbish\n", "b\n1 0 5\n"}) {
    std::ofstream(file()) << text;
    measured_ = 0;
    EXPECT_EQ(Open("a")->BytesPerSecond(), 1e10 / 3) << text;
    EXPECT_EQ(measured_, 1) << text;
    EXPECT_EQ(Open("a")->BytesPerSecond(), 1e10 / 3) << text;
    EXPECT_EQ(measured_, 1) << "and mended: " << text;
  }
}

TEST_F(KeptCeilingsTest, AFolderThatTakesNoFileCostsOnlyTheMeasuring) {
  const auto lost = [&] {
    return KeepCeilings(std::make_unique<CountedCeilings>(measured_), "/nowhere/at/all", "a");
  };
  EXPECT_EQ(lost()->BytesPerSecond(), 1e10 / 3);
  EXPECT_EQ(lost()->BytesPerSecond(), 1e10 / 3);
  EXPECT_EQ(measured_, 2);
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
    std::optional<double> PerSecond(CeilingKind kind, DType dtype) override {
      EXPECT_TRUE(device_.arena().Allocate(1 << 16, false).ok());
      return CountedCeilings::PerSecond(kind, dtype);
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
};

TEST_F(Conditions, AreWhatLinuxTells) {
  Write("devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "3000000");
  Write("devices/system/cpu/cpu0/thermal_throttle/core_throttle_total_time_ms", "5000");
  Write("class/hwmon/hwmon0/name", "k10temp");
  Write("class/hwmon/hwmon0/temp1_input", "61500");
  const std::unique_ptr<ConditionsProbe> probe = MakeConditionsProbe("cpu", folder_);
  ASSERT_NE(probe, nullptr);
  ConditionsReading reading = probe->Read();
  EXPECT_EQ(reading.clock_hertz, 3e9);
  EXPECT_EQ(reading.temperature_celsius, 61.5);
  EXPECT_FALSE(reading.power_watts.has_value());
  EXPECT_TRUE(reading.throttle_reasons.empty()) << "what was before the first reading";
  Write("devices/system/cpu/cpu0/thermal_throttle/core_throttle_total_time_ms", "5100");
  EXPECT_EQ(probe->Read().throttle_reasons, std::vector<std::string>{"thermal"});
  EXPECT_TRUE(probe->Read().throttle_reasons.empty()) << "over";
}

TEST_F(Conditions, AreAbsentWhereNothingIsTold) {
  const ConditionsReading nothing = MakeConditionsProbe("cpu", folder_)->Read();
  EXPECT_FALSE(nothing.clock_hertz || nothing.temperature_celsius || nothing.power_watts);
  EXPECT_EQ(MakeConditionsProbe("cuda"), nullptr);
}

}  // namespace
}  // namespace assay
