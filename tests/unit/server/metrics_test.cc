// What the daemon counts, as a scraper reads it.
#include "server/metrics/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "server/auth/credentials.h"
#include "server/metrics/http_server.h"
#include "tests/unit/server/test_certificates.h"

namespace assay {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

v1::Device Cpu() {
  v1::Device device;
  device.set_id("cpu:0");
  device.set_model("A \"quoted\" model");
  device.set_memory_bytes(1000);
  device.set_arena_bytes(500);
  device.set_state(v1::DEVICE_STATE_READY);
  return device;
}

std::vector<v1::Kernel> Kernels() {
  std::vector<v1::Kernel> kernels;
  for (const char* provider : {"onednn", "openblas", "planted/nan"}) {
    v1::Kernel kernel;
    kernel.set_op("gemm");
    kernel.set_provider(provider);
    kernel.set_available(true);
    kernel.add_dtypes(v1::DTYPE_FP32);
    kernel.add_dtypes(v1::DTYPE_BF16);
    kernels.push_back(kernel);
  }
  return kernels;
}

v1::CaseResult Result(const std::string& provider, v1::Verdict verdict) {
  v1::CaseResult result;
  result.set_device("cpu:0");
  result.mutable_spec()->mutable_gemm()->set_m(1);
  result.mutable_spec()->set_provider(provider);
  result.mutable_spec()->set_dtype(v1::DTYPE_BF16);
  result.set_verdict(verdict);
  return result;
}

class MetricsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    metrics_ = MakeMetrics("1.2.3");
    metrics_->AddDevice(Cpu(), Kernels());
  }
  std::string Text() { return metrics_->Exposition(); }
  void ExpectLine(const std::string& line) {
    EXPECT_THAT("\n" + Text(), HasSubstr("\n" + line + "\n"));
  }

  std::unique_ptr<Metrics> metrics_;
};

constexpr char kBf16[] = R"(device="cpu:0",dtype="bf16",op="gemm",provider="onednn")";

TEST_F(MetricsTest, CountersOfKnownKernelsBeginAtZero) {
  ExpectLine(std::string("assay_cases_total{") + kBf16 + R"(,verdict="FAILED"} 0)");
  ExpectLine(std::string("assay_guard_violations_total{") + kBf16 + "} 0");
  ExpectLine(R"(assay_worker_restarts_total{device="cpu:0",reason="crash"} 0)");
  ExpectLine(R"(assay_jobs_total{verdict="FAILED"} 0)");
  ExpectLine(R"(assay_rpc_requests_total{code="OK",method="CreateJob"} 0)");
  ExpectLine(R"(assay_device_quarantined{device="cpu:0"} 0)");
  ExpectLine(R"(assay_build_info{backends="cpu",version="1.2.3"} 1)");
  ExpectLine(R"(assay_device_info{device="cpu:0",model_name="A \"quoted\" model"} 1)");
}

TEST_F(MetricsTest, WhatIsUnknownIsLeftOut) {
  for (const char* family : {"assay_kernel_flops_per_second{", "assay_error_bound_ratio_max{",
                             "assay_ceiling_bytes_per_second{", "assay_selftest_detected_ratio{"}) {
    EXPECT_THAT(Text(), Not(HasSubstr(family)));
  }
}

TEST_F(MetricsTest, AFailureIsCountedOnceAndByItsKernel) {
  v1::CaseResult result = Result("onednn", v1::VERDICT_FAILED);
  result.mutable_duration()->set_nanos(20'000'000);
  result.mutable_stats()->set_rho(7.5);
  result.mutable_stats()->set_unwritten(12);
  result.mutable_stats()->set_guard_hits(64);
  result.set_deterministic(false);
  v1::Provenance* nan = result.add_provenance();
  nan->set_kind("nan");
  nan->set_origin("kernel");
  nan->set_count(3);
  metrics_->CaseFinished(result);
  ExpectLine(std::string("assay_cases_total{") + kBf16 + R"(,verdict="FAILED"} 1)");
  ExpectLine(
      R"(assay_nan_total{device="cpu:0",dtype="bf16",expected="false",op="gemm",origin="kernel",provider="onednn"} 3)");
  ExpectLine(std::string("assay_unwritten_elements_total{") + kBf16 + "} 12");
  ExpectLine(std::string("assay_guard_violations_total{") + kBf16 + "} 1");
  ExpectLine(std::string("assay_nondeterministic_total{") + kBf16 + "} 1");
  ExpectLine(std::string("assay_error_bound_ratio_max{") + kBf16 + "} 7.5");
  ExpectLine(R"(assay_error_bound_ratio_bucket{device="cpu:0",op="gemm",le="2"} 0)");
  ExpectLine(R"(assay_error_bound_ratio_bucket{device="cpu:0",op="gemm",le="10"} 1)");
  ExpectLine(R"(assay_case_duration_seconds_sum{op="gemm"} 0.02)");
}

TEST_F(MetricsTest, ARatioThatIsNotFiniteSpoilsNoSum) {
  v1::CaseResult result = Result("onednn", v1::VERDICT_FAILED);
  result.mutable_stats()->set_rho(std::numeric_limits<double>::quiet_NaN());
  metrics_->CaseFinished(result);
  result.mutable_stats()->set_rho(0.5);
  metrics_->CaseFinished(result);
  ExpectLine(std::string("assay_error_bound_ratio_max{") + kBf16 + "} +Inf");
  EXPECT_THAT(Text(),
              Not(HasSubstr("assay_error_bound_ratio_sum{device=\"cpu:0\",op=\"gemm\"} Nan")));
  EXPECT_THAT(Text(),
              Not(HasSubstr("assay_error_bound_ratio_sum{device=\"cpu:0\",op=\"gemm\"} +Inf")));
}

TEST_F(MetricsTest, SpeedIsThatOfRightBenchmarksOnly) {
  v1::CaseResult result = Result("onednn", v1::VERDICT_PASSED);
  result.mutable_bench()->set_samples(1);
  result.mutable_bench()->set_flops_per_second(1e9);
  metrics_->CaseFinished(result);
  EXPECT_THAT(Text(), Not(HasSubstr("assay_kernel_flops_per_second{"))) << "one cold launch";
  result.mutable_bench()->set_samples(10);
  result.set_verdict(v1::VERDICT_FAILED);
  metrics_->CaseFinished(result);
  EXPECT_THAT(Text(), Not(HasSubstr("assay_kernel_flops_per_second{"))) << "of a wrong kernel";
  result.set_verdict(v1::VERDICT_PASSED);
  result.mutable_bench()->set_efficiency(0.25);
  result.mutable_bench()->set_roof("compute");
  result.mutable_bench()->set_ceiling_flops_per_second(4e9);
  metrics_->CaseFinished(result);
  ExpectLine(R"(assay_ceiling_flops_per_second{device="cpu:0",dtype="bf16"} 4000000000)");
  ExpectLine(std::string("assay_kernel_flops_per_second{") + kBf16 + "} 1000000000");
  ExpectLine(
      R"(assay_kernel_efficiency_ratio{device="cpu:0",dtype="bf16",op="gemm",provider="onednn",roof="compute"} 0.25)");
}

TEST_F(MetricsTest, PlantedKernelsCountNowhereAndSelftestsByTheirScore) {
  metrics_->CaseFinished(Result("planted/nan", v1::VERDICT_FAILED));
  metrics_->CaseFinished(Result("planted/correct", v1::VERDICT_FAILED));
  metrics_->SelftestFinished({});
  ExpectLine(R"(assay_selftest_false_alarms_total{device="cpu:0"} 0)");
  EXPECT_THAT(Text(), Not(HasSubstr("assay_selftest_detected_ratio{"))) << "not known yet";
  v1::SelftestReport report;
  for (const bool caught : {true, true, true, false}) {
    v1::SelftestRow& row = *report.add_rows();
    row.set_device("cpu:0");
    row.set_caught(caught);
  }
  v1::SelftestCorrect& correct = *report.add_correct();
  correct.set_device("cpu:0");
  correct.set_runs(10);
  correct.set_false_alarms(2);
  metrics_->SelftestFinished(report);
  ExpectLine(R"(assay_selftest_detected_ratio{device="cpu:0"} 0.75)");
  ExpectLine(R"(assay_selftest_false_alarms_total{device="cpu:0"} 2)");
  metrics_->SelftestFinished(report);
  ExpectLine(R"(assay_selftest_detected_ratio{device="cpu:0"} 0.75)");
  ExpectLine(R"(assay_selftest_false_alarms_total{device="cpu:0"} 4)");
  EXPECT_THAT(Text(), Not(HasSubstr("planted/")));
  EXPECT_THAT(Text(), Not(HasSubstr(R"(verdict="FAILED"} 1)")));
}

TEST_F(MetricsTest, NamesAClientCouldChooseBecomeOther) {
  v1::CaseResult result = Result("made-up", v1::VERDICT_PASSED);
  metrics_->CaseFinished(result);
  result.set_device("nowhere");
  metrics_->CaseFinished(result);
  metrics_->RpcFinished("Nonsense", "UNIMPLEMENTED", 0.1);
  metrics_->WorkerRestarted("cpu:0", "boredom");
  EXPECT_THAT(Text(), Not(HasSubstr("made-up")));
  EXPECT_THAT(Text(), Not(HasSubstr("nowhere")));
  EXPECT_THAT(Text(), Not(HasSubstr("Nonsense")));
  ExpectLine(
      R"(assay_cases_total{device="cpu:0",dtype="other",op="other",provider="other",verdict="PASSED"} 1)");
  ExpectLine(R"(assay_worker_restarts_total{device="cpu:0",reason="other"} 1)");
}

TEST_F(MetricsTest, WhatSharesANameStartsAtZeroToo) {
  ExpectLine(
      R"(assay_cases_total{device="cpu:0",dtype="other",op="other",provider="other",verdict="FAILED"} 0)");
  ExpectLine(
      R"(assay_guard_violations_total{device="cpu:0",dtype="other",op="other",provider="other"} 0)");
  ExpectLine(R"(assay_worker_restarts_total{device="cpu:0",reason="other"} 0)");
}

TEST_F(MetricsTest, UnsupportedIsCountedUnderItsOwnNames) {
  v1::CaseResult result = Result("openblas", v1::VERDICT_UNSUPPORTED);
  result.mutable_spec()->set_dtype(v1::DTYPE_INT8);
  metrics_->CaseFinished(result);
  ExpectLine(
      R"(assay_cases_total{device="cpu:0",dtype="int8",op="gemm",provider="openblas",verdict="UNSUPPORTED"} 1)");
  result.mutable_spec()->set_provider("made-up");
  metrics_->CaseFinished(result);
  EXPECT_THAT(Text(), Not(HasSubstr("made-up")));
}

// Series of a device in the text.
int SeriesOf(const std::string& text, const std::string& device) {
  int series = 0;
  for (std::size_t at = text.find(device); at != text.npos; at = text.find(device, at + 1)) {
    ++series;
  }
  return series;
}

TEST_F(MetricsTest, ADeviceHasLessThanTwoThousandSeriesHoweverManyKernelsThereAre) {
  std::vector<v1::Kernel> many;
  for (int i = 0; i < 500; ++i) {
    v1::Kernel kernel = Kernels()[0];
    kernel.set_provider("p" + std::to_string(i));
    many.push_back(kernel);
  }
  v1::Device device = Cpu();
  device.set_id("cuda:0");
  metrics_->AddDevice(device, many);
  for (int i = 0; i < 500; ++i) {
    v1::CaseResult result = Result("p" + std::to_string(i), v1::VERDICT_PASSED);
    result.set_device("cuda:0");
    result.mutable_stats()->set_rho(0.1);
    metrics_->CaseFinished(result);
  }
  for (int i = 0; i < 500; ++i) {
    v1::CaseResult result = Result("p" + std::to_string(i), v1::VERDICT_UNSUPPORTED);
    result.set_device("cuda:0");
    for (int dtype = v1::DType_MIN; dtype <= v1::DType_MAX; ++dtype) {
      result.mutable_spec()->set_dtype(static_cast<v1::DType>(dtype));
      metrics_->CaseFinished(result);
    }
  }
  EXPECT_GT(SeriesOf(Text(), "cuda:0"), 1000);
  EXPECT_LT(SeriesOf(Text(), "cuda:0"), 2000);
}

// Feeds everything once, so that every family is in the text.
void FeedAll(Metrics& metrics) {
  v1::CaseResult result = Result("onednn", v1::VERDICT_PASSED);
  result.mutable_stats()->set_rho(0.5);
  result.mutable_bench()->set_samples(5);
  result.mutable_bench()->set_flops_per_second(1);
  result.mutable_bench()->set_bytes_per_second(1);
  result.mutable_bench()->set_efficiency(0.5);
  result.mutable_bench()->set_roof("memory");
  metrics.CaseFinished(result);
  metrics.CaseFinished(Result("planted/nan", v1::VERDICT_FAILED));
  v1::Device device = Cpu();
  device.add_ceilings()->set_bytes_per_second(1);
  v1::Ceiling* flops = device.add_ceilings();
  flops->set_dtype(v1::DTYPE_BF16);
  flops->set_flops_per_second(1);
  metrics.DeviceChanged(device);
  metrics.RpcFinished("CreateJob", "OK", 0.001);
}

TEST_F(MetricsTest, PromtoolFindsNothing) {
  if (std::system("command -v promtool >/dev/null") != 0) GTEST_SKIP() << "no promtool here";
  FeedAll(*metrics_);
  const std::string path = ::testing::TempDir() + "metrics_test.prom";
  std::ofstream(path) << Text();
  std::FILE* pipe = popen(("promtool check metrics <" + path + " 2>&1").c_str(), "r");
  std::string said;
  char buffer[4096];
  while (const std::size_t n = fread(buffer, 1, sizeof buffer, pipe)) said.append(buffer, n);
  EXPECT_EQ(pclose(pipe), 0) << said;
  EXPECT_EQ(said, "");
}

TEST_F(MetricsTest, ThePortServesMetricsAndHealth) {
  bool healthy = true;
  MetricsServerOptions options;
  options.healthy = [&] { return healthy; };
  auto server = StartMetricsServer(*metrics_, options);
  ASSERT_TRUE(server.ok()) << server.status();
  httplib::Client client("127.0.0.1", (*server)->port());
  const auto metrics = client.Get("/metrics");
  ASSERT_TRUE(metrics);
  EXPECT_EQ(metrics->status, 200);
  EXPECT_THAT(metrics->body, HasSubstr("assay_build_info"));
  EXPECT_THAT(metrics->get_header_value("Content-Type"), HasSubstr("version=0.0.4"));
  EXPECT_EQ(client.Get("/healthz")->status, 200);
  healthy = false;
  EXPECT_EQ(client.Get("/healthz")->status, 503);
  EXPECT_EQ(client.Get("/else")->status, 404);
}

TEST_F(MetricsTest, APortInUseIsAnError) {
  auto first = StartMetricsServer(*metrics_, {});
  ASSERT_TRUE(first.ok()) << first.status();
  MetricsServerOptions options;
  options.port = (*first)->port();
  const auto second = StartMetricsServer(*metrics_, options);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("Address already in use"));
}

TEST_F(MetricsTest, ScrapersThatSayNothingDoNotStopTheOthers) {
  auto server = StartMetricsServer(*metrics_, {});
  ASSERT_TRUE(server.ok()) << server.status();
  std::vector<int> silent;
  for (int i = 0; i < 8; ++i) {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(static_cast<std::uint16_t>((*server)->port()));
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
    silent.push_back(fd);
  }
  httplib::Client client("127.0.0.1", (*server)->port());
  client.set_read_timeout(30);
  const auto metrics = client.Get("/metrics");
  ASSERT_TRUE(metrics) << "blocked by silent connections";
  EXPECT_EQ(metrics->status, 200);
  for (const int fd : silent) close(fd);
}

TEST_F(MetricsTest, ThePortServesTlsAndAsksForTheClientsCertificate) {
  const TestAuthority authority;
  const PemPair own = authority.Issue(1);
  const PemPair other = authority.Issue(2);
  const std::string base = ::testing::TempDir() + "metrics_tls_";
  std::ofstream(base + "cert") << own.cert;
  std::ofstream(base + "key") << own.key;
  std::ofstream(base + "ca") << authority.cert();
  std::ofstream(base + "client.cert") << other.cert;
  std::ofstream(base + "client.key") << other.key;
  auto store = CertificateStore::Open({base + "cert", base + "key", base + "ca"});
  ASSERT_TRUE(store.ok()) << store.status();
  MetricsServerOptions options;
  options.setup_tls = [&](SSL_CTX* context) { return UseCertificates(**store, context); };
  auto server = StartMetricsServer(*metrics_, options);
  ASSERT_TRUE(server.ok()) << server.status();

  httplib::SSLClient stranger("127.0.0.1", (*server)->port());
  stranger.set_ca_cert_path((base + "ca").c_str());
  EXPECT_FALSE(stranger.Get("/metrics")) << "a client without a certificate was let in";
  httplib::SSLClient client("127.0.0.1", (*server)->port(), base + "client.cert",
                            base + "client.key");
  client.set_ca_cert_path((base + "ca").c_str());
  const auto metrics = client.Get("/metrics");
  ASSERT_TRUE(metrics) << httplib::to_string(metrics.error());
  EXPECT_EQ(metrics->status, 200);
}

}  // namespace
}  // namespace assay
