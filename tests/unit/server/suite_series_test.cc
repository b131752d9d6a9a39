// What a whole run of a suite says, and what of single cases is held against a kernel.
#include "server/metrics/suite_series.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/unit/server/metrics_fixture.h"

namespace assay {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A result of a right kernel that gave infinities where the reference has numbers.
v1::CaseResult Suspect(v1::Verdict verdict) {
  v1::CaseResult result = Result("onednn", verdict);
  result.mutable_stats()->set_rho(1.5);
  result.add_findings()->set_reason("suspect");
  v1::Provenance* inf = result.add_provenance();
  inf->set_kind("inf");
  inf->set_origin("kernel");
  inf->set_count(1805);
  return result;
}

TEST_F(MetricsTest, WhatARightKernelMayDoIsHeldAgainstNobody) {
  const auto expect = [&](int unexpected, int expected, int exceeded) {
    const std::string inf = R"(assay_inf_total{device="cpu:0",dtype="bf16",expected=")";
    const std::string rest = R"(",op="gemm",origin="kernel",provider="onednn"} )";
    ExpectLine(inf + "false" + rest + std::to_string(unexpected));
    ExpectLine(inf + "true" + rest + std::to_string(expected));
    ExpectLine(R"(assay_error_bound_exceeded_total{device="cpu:0",op="gemm"} )" +
               std::to_string(exceeded));
  };
  metrics_->CaseFinished(Suspect(v1::VERDICT_INCONCLUSIVE));
  expect(0, 1805, 0);
  v1::CaseResult slow = Suspect(v1::VERDICT_FAILED);
  slow.add_findings()->set_reason("slower");
  metrics_->CaseFinished(slow);
  expect(0, 3610, 0);
  v1::CaseResult wrong = Suspect(v1::VERDICT_FAILED);
  wrong.add_findings()->set_reason("class");
  metrics_->CaseFinished(wrong);
  expect(1805, 3610, 1);
  wrong.mutable_stats()->set_rho(0.3);
  metrics_->CaseFinished(wrong);
  expect(3610, 3610, 1);
}

// A timed case of a suite.
v1::CaseResult Timed(const char* provider, const char* roof, double efficiency, double flops) {
  v1::CaseResult result = Result(provider, v1::VERDICT_PASSED);
  result.mutable_spec()->set_mode(v1::MODE_BOTH);
  result.mutable_stats()->set_rho(0.5);
  v1::BenchStats& bench = *result.mutable_bench();
  bench.set_samples(10);
  bench.set_roof(roof);
  bench.set_efficiency(efficiency);
  bench.set_flops_per_second(flops);
  bench.set_bytes_per_second(flops / 10);
  return result;
}

TEST_F(MetricsTest, ASuiteSpeaksOfAllOfItsCasesAndAnAdHocBenchmarkDoesNotChangeIt) {
  SuiteTally tally;
  tally.Add(Timed("onednn", "compute", 0.5, 100));
  tally.Add(Timed("onednn", "compute", 0.7, 300));
  tally.Add(Timed("onednn", "memory", 0.9, 60));
  v1::CaseResult fill = Timed("onednn", "compute", 0.1, 1);
  fill.mutable_spec()->set_fill(true);
  fill.mutable_stats()->set_rho(0.99);
  tally.Add(fill);
  metrics_->SuiteFinished("3", "3", tally);  // of the level nightly, as it is called, too
  const std::string labels =
      R"(device="cpu:0",dtype="bf16",op="gemm",provider="onednn",suite="nightly",version="3"} )";
  const std::string with_roof = R"(device="cpu:0",dtype="bf16",op="gemm",provider="onednn",roof=")";
  const auto expect = [&] {
    ExpectLine("assay_suite_flops_per_second{" + labels + "200");
    ExpectLine("assay_suite_bytes_per_second{" + labels + "6");
    ExpectLine("assay_suite_error_bound_ratio_max{" + labels + "0.5");
    ExpectLine("assay_suite_efficiency_ratio{" + with_roof +
               R"(compute",suite="nightly",version="3"} 0.6)");
    ExpectLine("assay_suite_efficiency_ratio{" + with_roof +
               R"(memory",suite="nightly",version="3"} 0.9)");
  };
  expect();
  metrics_->CaseFinished(Timed("onednn", "compute", 0.01, 1));
  expect();
}

TEST_F(MetricsTest, AKernelThatWasNotTimedWellHasNoSpeedInItsSuite) {
  for (const char* why : {"noise", "noisy", "wrong"}) {
    SuiteTally tally;
    tally.Add(Timed("openblas", "compute", 0.5, 100));
    tally.Add(Timed("onednn", "compute", 0.5, 100));
    v1::CaseResult bad = Timed("onednn", "compute", 0.1, 20);
    if (why == std::string("noise")) bad.mutable_bench()->set_noise(0.3);
    if (why == std::string("noisy")) bad.set_verdict(v1::VERDICT_INCONCLUSIVE);
    if (why == std::string("wrong")) bad.set_verdict(v1::VERDICT_FAILED);
    tally.Add(bad);
    metrics_->SuiteFinished("nightly", "1", tally);
    for (const char* family : {"efficiency_ratio", "flops_per_second"}) {
      const std::string begin = std::string("assay_suite_") + family +
                                R"({device="cpu:0",dtype="bf16",op="gemm",provider=")";
      EXPECT_THAT(Text(), HasSubstr(begin + "openblas")) << why;
      EXPECT_THAT(Text(), Not(HasSubstr(begin + "onednn"))) << why;
    }
  }
}

TEST_F(MetricsTest, ASuiteThatTimesNothingTakesNoSeries) {
  SuiteTally tally;
  v1::CaseResult result = Timed("onednn", "compute", 0.5, 100);
  result.mutable_spec()->set_mode(v1::MODE_VALIDATE);
  tally.Add(result);
  metrics_->SuiteFinished("quick", "1", tally);
  EXPECT_THAT(Text(), Not(HasSubstr("assay_suite_")));
}

TEST_F(MetricsTest, TheOldestSuitesGiveWayAndAWholeRunReplacesTheOneBefore) {
  SuiteTally tally;
  for (const char* provider : {"onednn", "openblas", "made-up"}) {
    tally.Add(Timed(provider, "compute", 0.5, 100));
  }
  for (int n = 0; n < 100; ++n) {
    metrics_->SuiteFinished("suite-" + std::to_string(n), "1", tally);
  }
  EXPECT_THAT(Text(), Not(HasSubstr("made-up")));
  EXPECT_THAT(Text(), Not(HasSubstr("suite-10\"")));
  EXPECT_THAT(Text(), HasSubstr("suite-99\""));
  metrics_->SuiteFinished("suite-99", "2", tally);
  EXPECT_THAT(Text(), Not(HasSubstr(R"(suite="suite-99",version="1")")));
  EXPECT_THAT(Text(), HasSubstr(R"(suite="suite-99",version="2")"));
}

}  // namespace
}  // namespace assay
