// What a whole run of a suite says, and what of single cases is held against a kernel.
#include "server/metrics/suite_series.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "kernels/numerics/dtype.h"
#include "kernels/ops/case.h"
#include "kernels/suites/suite.h"
#include "tests/unit/server/metrics_fixture.h"

namespace assay::server {
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
  for (const char* why : {"noise", "noisy", "wrong", "skipped", "cold"}) {
    SuiteTally tally;
    tally.Add(Timed("openblas", "compute", 0.5, 100));
    tally.Add(Timed("onednn", "compute", 0.5, 100));
    v1::CaseResult bad = Timed("onednn", "compute", 0.1, 20);
    if (why == std::string("noise")) bad.mutable_bench()->set_noise(0.3);
    if (why == std::string("noisy")) bad.set_verdict(v1::VERDICT_INCONCLUSIVE);
    if (why == std::string("wrong")) bad.set_verdict(v1::VERDICT_FAILED);
    if (why == std::string("cold")) bad.mutable_bench()->set_samples(1);
    if (why == std::string("skipped")) {  // for the budget's sake
      bad.set_verdict(v1::VERDICT_SKIPPED);
      bad.clear_bench();
      bad.clear_stats();
    }
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

TEST_F(MetricsTest, ACaseThatIsNeverSupportedTakesNoSpeedFromTheOthers) {
  SuiteTally tally;
  tally.Add(Timed("onednn", "compute", 0.5, 100));
  v1::CaseResult none = Timed("onednn", "compute", 0.5, 100);
  none.set_verdict(v1::VERDICT_UNSUPPORTED);
  none.clear_bench();
  tally.Add(none);
  v1::CaseResult untimed = none;  // skipped, but never to be timed
  untimed.set_verdict(v1::VERDICT_SKIPPED);
  untimed.mutable_spec()->set_mode(v1::MODE_VALIDATE);
  tally.Add(untimed);
  metrics_->SuiteFinished("nightly", "1", tally);
  ExpectLine(std::string("assay_suite_flops_per_second{") + kBf16 +
             R"(,suite="nightly",version="1"} 100)");
}

TEST_F(MetricsTest, AnEfficiencyOfASuiteIsNoneWhereOneOfItsRoofsIsInDoubt) {
  for (const char* why : {"suspect", "noisy", "measured anew", ""}) {
    v1::Device device = Cpu();
    v1::Ceiling& ceiling = *device.add_ceilings();
    ceiling.set_kind(v1::CEILING_KIND_FMA);
    ceiling.set_dtype(v1::DTYPE_BF16);
    ceiling.set_flops_per_second(200);
    ceiling.set_suspect(why == std::string("suspect"));
    ceiling.set_noise(why == std::string("noisy") ? 0.2 : 0.02);
    SuiteTally tally({device});
    for (const bool first : {true, false}) {
      v1::CaseResult result = Timed("onednn", "compute", 0.5, 100);
      result.mutable_bench()->set_ceiling_flops_per_second(
          first && why == std::string("measured anew") ? 150 : 200);
      tally.Add(result);
    }
    metrics_->SuiteFinished("nightly", "1", tally);
    EXPECT_THAT(Text(), HasSubstr("assay_suite_flops_per_second{")) << why;
    EXPECT_EQ(Text().find("\nassay_suite_efficiency_ratio{") == std::string::npos, *why != 0)
        << why;
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

// Cases by kernel, of which each of two providers has one where the suite names none.
using Cases = std::map<KernelId, int>;

Cases CasesOf(const std::vector<Case>& cases, bool timed) {
  Cases all;
  for (const Case& c : cases) {
    if (timed && c.mode != Mode::kBoth && c.mode != Mode::kBenchmark) continue;
    for (const char* provider : {"builtin", "vendor"}) {
      if (c.provider != "all" && c.provider != provider) continue;
      ++all[{std::string(OpName(c.problem)), provider, std::string(Name(c.dtype))}];
    }
  }
  return all;
}

// A run of the level in which every kernel has all that it may have; what speeds those are.
int RunLevel(Metrics& metrics, const std::string& level) {
  const absl::StatusOr<std::string> text = ReadSuiteText(ASSAY_SUITES_DIR, level);
  const absl::StatusOr<Suite> suite = ParseSuite(text.value(), level, "cuda");
  SuiteTally tally;
  int speeds = 0;
  const auto add = [&](const KernelId& id, const char* roof, bool timed) {
    v1::CaseResult result = Timed(id.provider.c_str(), roof, 0.5, 100);
    v1::CaseSpec& spec = *result.mutable_spec();
    spec.clear_gemm();
    const auto* problem = v1::CaseSpec::descriptor()->FindFieldByName(id.op);
    spec.GetReflection()->MutableMessage(&spec, problem);
    spec.set_dtype(static_cast<v1::DType>(ParseDType(id.dtype)));
    if (!timed) spec.set_mode(v1::MODE_VALIDATE);
    tally.Add(result);
    if (timed) speeds += 2;
  };
  for (const auto& [id, count] : CasesOf(suite->cases, false)) add(id, "compute", false);
  for (const auto& [id, count] : CasesOf(suite->cases, true)) {
    add(id, "compute", true);
    if (count > 1) add(id, "memory", true);  // the small ones
  }
  metrics.SuiteFinished(level, "1", tally);
  return speeds;
}

int CountOf(const std::string& text, const std::string& what) {
  int count = 0;
  for (std::size_t at = 0; (at = text.find(what, at)) != text.npos; ++at) ++count;
  return count;
}

TEST_F(MetricsTest, TheSpeedsOfAllFourLevelsStayAndErrorsGiveWay) {
  std::vector<v1::Kernel> kernels;
  const auto* problems = v1::CaseSpec::descriptor()->FindOneofByName("problem");
  for (int i = 0; i < problems->field_count(); ++i) {
    for (const char* provider : {"builtin", "vendor"}) {
      v1::Kernel& kernel = kernels.emplace_back();
      kernel.set_op(problems->field(i)->name());
      kernel.set_provider(provider);
      kernel.set_available(true);
      for (const auto dtype : {v1::DTYPE_FP32, v1::DTYPE_FP16, v1::DTYPE_BF16, v1::DTYPE_FP64,
                               v1::DTYPE_TF32, v1::DTYPE_INT8, v1::DTYPE_E4M3FN}) {
        kernel.add_dtypes(dtype);
      }
    }
  }
  metrics_->AddDevice(Cpu(), kernels);
  std::map<std::string, int> expected;
  for (const char* level : {"nightly", "extended", "quick", "medium", "nightly", "medium"}) {
    expected[level] = RunLevel(*metrics_, level);
  }
  const std::string text = Text();
  for (const auto& [level, speeds] : expected) {
    int found = 0;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      found += line.starts_with("assay_suite_") && !line.starts_with("assay_suite_error_") &&
               line.find("suite=\"" + level + "\"") != line.npos;
    }
    EXPECT_EQ(found, speeds) << level;
    EXPECT_EQ(speeds > 0, level != "quick");
  }
  EXPECT_LE(CountOf(text, "\nassay_suite_"), static_cast<int>(kMostSuiteSeries));
  // Of the newest there is room for errors.
  EXPECT_GT(CountOf(text, "\nassay_suite_error_bound_ratio_max{"), 10);
}

}  // namespace
}  // namespace assay::server
