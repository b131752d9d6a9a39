// Ceilings as a scraper reads them, and what efficiencies are worth against them.
#include "server/metrics/ceiling_series.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "tests/unit/server/metrics_fixture.h"

namespace assay::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(MetricsTest, TheCeilingIsTheCopysAndTheFastestArithmetic) {
  v1::Device device = Cpu();
  const auto bytes = [&](v1::CeilingKind kind, double value) {
    v1::Ceiling& c = *device.add_ceilings();
    c.set_kind(kind);
    c.set_bytes_per_second(value);
  };
  bytes(v1::CEILING_KIND_COPY, 10);
  bytes(v1::CEILING_KIND_READ, 30);
  for (const auto& [kind, value] :
       {std::pair(v1::CEILING_KIND_MATRIX, 900), std::pair(v1::CEILING_KIND_FMA, 100)}) {
    v1::Ceiling& c = *device.add_ceilings();
    c.set_kind(kind);
    c.set_dtype(v1::DTYPE_BF16);
    c.set_flops_per_second(value);
  }
  metrics_->DeviceChanged(device);
  ExpectLine(R"(assay_ceiling_bytes_per_second{device="cpu:0"} 10)");
  ExpectLine(R"(assay_ceiling_flops_per_second{device="cpu:0",dtype="bf16"} 900)");
}

// A CPU whose copy reaches 10 and whose bf16 reaches 4e9.
v1::Device Measured() {
  v1::Device device = Cpu();
  v1::Ceiling& copy = *device.add_ceilings();
  copy.set_kind(v1::CEILING_KIND_COPY);
  copy.set_bytes_per_second(10);
  v1::Ceiling& fma = *device.add_ceilings();
  fma.set_kind(v1::CEILING_KIND_FMA);
  fma.set_dtype(v1::DTYPE_BF16);
  fma.set_flops_per_second(4e9);
  fma.set_noise(0.05);
  return device;
}

// Half of that peak.
v1::CaseResult Half() {
  v1::CaseResult result = Result("onednn", v1::VERDICT_PASSED);
  result.mutable_spec()->set_mode(v1::MODE_BENCHMARK);
  v1::BenchStats& bench = *result.mutable_bench();
  bench.set_samples(10);
  bench.set_flops_per_second(2e9);
  bench.set_efficiency(0.5);
  bench.set_roof("compute");
  bench.set_ceiling_flops_per_second(4e9);
  return result;
}

TEST_F(MetricsTest, ACeilingThatIsSuspectOrNoisyHasNoSeriesUntilItIsMeasuredAnew) {
  const std::string flops = "assay_ceiling_flops_per_second{", bytes = "assay_ceiling_bytes";
  for (const bool noisy : {false, true}) {
    metrics_->DeviceChanged(Measured());
    ExpectLine(R"(assay_ceiling_bytes_per_second{device="cpu:0"} 10)");
    ExpectLine(R"(assay_ceiling_flops_per_second{device="cpu:0",dtype="bf16"} 4000000000)");
    v1::Device device = Measured();
    if (noisy) device.mutable_ceilings(1)->set_noise(0.2);
    if (!noisy) device.mutable_ceilings(0)->set_suspect(true);
    metrics_->DeviceChanged(device);
    metrics_->CaseFinished(Half());
    EXPECT_EQ(Text().find("\n" + flops) == std::string::npos, noisy);
    EXPECT_EQ(Text().find("\n" + bytes) == std::string::npos, !noisy);
  }
}

TEST_F(MetricsTest, TheFastestArithmeticCountsThoughAnotherWayWasNoisy) {
  v1::Device device = Measured();
  v1::Ceiling& matrix = *device.add_ceilings();
  matrix = device.ceilings(1);
  matrix.set_kind(v1::CEILING_KIND_MATRIX);
  matrix.set_flops_per_second(9e9);
  device.mutable_ceilings(1)->set_noise(0.5);
  metrics_->DeviceChanged(device);
  ExpectLine(R"(assay_ceiling_flops_per_second{device="cpu:0",dtype="bf16"} 9000000000)");
  matrix.set_noise(0.5);
  device.mutable_ceilings(1)->set_noise(0);
  metrics_->DeviceChanged(device);
  EXPECT_THAT(Text(), Not(HasSubstr("assay_ceiling_flops_per_second{"))) << "which is too low";
}

TEST_F(MetricsTest, AnEfficiencyAgainstACeilingInDoubtIsNone) {
  const char* const begin = "assay_kernel_efficiency_ratio{";
  for (const char* why : {"suspect", "noisy", "measured anew"}) {
    metrics_->DeviceChanged(Measured());
    metrics_->CaseFinished(Half());
    EXPECT_THAT(Text(), HasSubstr(begin)) << why;
    v1::Device device = Measured();
    v1::Ceiling& fma = *device.mutable_ceilings(1);
    if (why == std::string("suspect")) fma.set_suspect(true);
    if (why == std::string("noisy")) fma.set_noise(0.11);
    if (why == std::string("measured anew")) fma.set_flops_per_second(5e9);
    metrics_->DeviceChanged(device);
    metrics_->CaseFinished(Half());
    EXPECT_THAT(Text(), Not(HasSubstr(begin))) << why;
  }
}

// Half of the copy's, of another format and provider.
v1::CaseResult HalfOfTheCopy() {
  v1::CaseResult result = Half();
  result.mutable_spec()->set_provider("openblas");
  result.mutable_spec()->set_dtype(v1::DTYPE_FP32);
  result.mutable_bench()->set_bytes_per_second(5);
  result.mutable_bench()->set_roof("memory");
  result.mutable_bench()->set_ceiling_bytes_per_second(10);
  return result;
}

// The device's ceilings as they are worth nothing: of bf16's arithmetic, or of the copy.
v1::Device Doubted(int ceiling, std::string_view why) {
  v1::Device device = Measured();
  v1::Ceiling& roof = *device.mutable_ceilings(ceiling);
  if (why == "suspect") roof.set_suspect(true);
  if (why == "noisy") roof.set_noise(0.11);
  if (why == "measured anew") roof.set_flops_per_second(5e9);
  if (why == "measured anew" && ceiling == 0) roof.set_bytes_per_second(12);
  return device;
}

TEST_F(MetricsTest, EfficienciesAreGoneAsSoonAsTheirCeilingIsInDoubt) {
  const std::string family = "assay_kernel_efficiency_ratio{device=\"cpu:0\",dtype=\"";
  for (const char* why : {"suspect", "noisy", "measured anew"}) {
    for (const int doubted : {0, 1}) {
      metrics_->DeviceChanged(Measured());
      metrics_->CaseFinished(Half());
      metrics_->CaseFinished(HalfOfTheCopy());
      metrics_->DeviceChanged(Measured());
      EXPECT_THAT(Text(), HasSubstr(family + "bf16"));
      EXPECT_THAT(Text(), HasSubstr(family + "fp32"));
      metrics_->DeviceChanged(Doubted(doubted, why));
      const char* const gone = doubted == 1 ? "bf16" : "fp32";
      const char* const stays = doubted == 1 ? "fp32" : "bf16";
      EXPECT_THAT(Text(), Not(HasSubstr(family + gone))) << why;
      EXPECT_THAT(Text(), HasSubstr(family + stays)) << why << ", which is of another roof";
      ExpectLine(std::string("assay_kernel_flops_per_second{") + kBf16 + "} 2000000000");
      metrics_->DeviceChanged(Measured());
      EXPECT_THAT(Text(), Not(HasSubstr(family + gone))) << "until it is timed again";
    }
  }
}

TEST_F(MetricsTest, ADoubtOfOneDeviceIsNoneOfAnother) {
  v1::Device other = Measured();
  other.set_id("cpu:1");
  metrics_->AddDevice(other, Kernels());
  v1::CaseResult result = Half();
  result.set_device("cpu:1");
  metrics_->CaseFinished(result);
  metrics_->DeviceChanged(Doubted(1, "suspect"));
  EXPECT_THAT(Text(), HasSubstr("assay_kernel_efficiency_ratio{device=\"cpu:1\""));
}

TEST_F(MetricsTest, EfficienciesOfASuiteAreGoneAsSoonAsTheirCeilingIsInDoubt) {
  const std::string family = "assay_suite_efficiency_ratio{device=\"cpu:0\",dtype=\"";
  for (const char* why : {"suspect", "noisy", "measured anew"}) {
    metrics_->DeviceChanged(Measured());
    SuiteTally tally({Measured()});
    tally.Add(Half());
    tally.Add(HalfOfTheCopy());
    metrics_->SuiteFinished("nightly", "1", tally);
    metrics_->DeviceChanged(Measured());
    EXPECT_THAT(Text(), HasSubstr(family + "bf16"));
    EXPECT_THAT(Text(), HasSubstr(family + "fp32"));
    metrics_->DeviceChanged(Doubted(1, why));
    EXPECT_THAT(Text(), Not(HasSubstr(family + "bf16"))) << why;
    EXPECT_THAT(Text(), HasSubstr(family + "fp32")) << why << ", which is of another roof";
    ExpectLine(std::string("assay_suite_flops_per_second{") + kBf16 +
               R"(,suite="nightly",version="1"} 2000000000)");
    // It was added up before its last ceiling came.
    metrics_->SuiteFinished("nightly", "1", tally);
    EXPECT_THAT(Text(), Not(HasSubstr(family + "bf16"))) << why;
    EXPECT_THAT(Text(), HasSubstr(family + "fp32")) << why;
  }
}

TEST_F(MetricsTest, AnEfficiencyOfTheOtherRoofIsGoneWithTheNextBenchmark) {
  v1::CaseResult result = Result("onednn", v1::VERDICT_PASSED);
  result.mutable_spec()->set_mode(v1::MODE_BENCHMARK);
  result.mutable_bench()->set_samples(10);
  result.mutable_bench()->set_efficiency(0.25);
  result.mutable_bench()->set_roof("compute");
  metrics_->CaseFinished(result);
  EXPECT_THAT(Text(), HasSubstr("roof=\"compute\""));
  result.mutable_bench()->set_roof("memory");
  metrics_->CaseFinished(result);
  EXPECT_THAT(Text(), HasSubstr("roof=\"memory\""));
  EXPECT_THAT(Text(), Not(HasSubstr("roof=\"compute\"")));
}

TEST_F(MetricsTest, AnEfficiencyIsGoneWhereTheNextBenchmarkHasNone) {
  metrics_->CaseFinished(Half());
  EXPECT_THAT(Text(), HasSubstr("assay_kernel_efficiency_ratio{"));
  v1::CaseResult cached = Half();
  cached.mutable_bench()->set_roof("cache");
  cached.mutable_bench()->clear_efficiency();
  metrics_->CaseFinished(cached);
  EXPECT_THAT(Text(), Not(HasSubstr("assay_kernel_efficiency_ratio{")));
  ExpectLine(std::string("assay_kernel_flops_per_second{") + kBf16 + "} 2000000000");
}

TEST_F(MetricsTest, ProcessorsOfDifferentNumbersOfCoresAreDifferentModels) {
  for (const auto& [id, cores, name] :
       {std::tuple("cpu:1", 1, "X (1 core)"), std::tuple("cpu:64", 64, "X (64 cores)")}) {
    v1::Device device = Cpu();
    device.set_id(id);
    device.set_model("X");
    device.set_compute_units(cores);
    metrics_->AddDevice(device, Kernels());
    ExpectLine(std::string(R"(assay_device_info{device=")") + id + R"(",model_name=")" + name +
               R"("} 1)");
  }
  v1::Device gpu = Cpu();
  gpu.set_id("cuda:0");
  gpu.set_backend("cuda");
  gpu.set_model("NVIDIA H200");
  gpu.set_compute_units(132);
  metrics_->AddDevice(gpu, Kernels());
  ExpectLine(R"(assay_device_info{device="cuda:0",model_name="NVIDIA H200"} 1)");
}

}  // namespace
}  // namespace assay::server
