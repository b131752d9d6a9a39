// The limits and defaults that the API's comments state are those of the code.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <string>

#include "kernels/bench/ceilings.h"
#include "kernels/judge/phase.h"
#include "kernels/numerics/change.h"
#include "kernels/ops/comparison.h"
#include "kernels/text/cat.h"
#include "server/base/compare_header.h"
#include "server/base/config.h"
#include "server/base/wire.h"
#include "server/baselines/baseline_times.h"
#include "server/plan/elsewhere_check.h"
#include "server/plan/selftest.h"
#include "server/plan/spec_check.h"
#include "server/rpc/compare_stream.h"
#include "server/rpc/request_parsing.h"
#include "server/rpc/upload_stream.h"
#include "server/telemetry/monitor.h"
#include "tests/unit/api_comments.h"
#include "tests/unit/server/jobs_fixture.h"

namespace assay::server {
namespace {

using testing::HasSubstr;

bool Names(const std::vector<FieldError>& errors, std::string_view field) {
  for (const FieldError& error : errors) {
    if (error.field.starts_with(field)) return true;
  }
  return false;
}

bool Names(const absl::Status& status, const std::string& field) {
  return Violations(status).contains(field);
}

class LimitsTest : public JobsTest {
 protected:
  // Whether a value, or so many of something, is taken. For a default: whether it is that one.
  using Takes = std::function<bool(double value)>;

  // Of a job's spec that `set` has changed; `field` as a refusal names it.
  static Takes OfJob(std::string field, std::function<void(v1::JobSpec&, int)> set) {
    return [field = std::move(field), set = std::move(set)](double value) {
      v1::JobSpec spec = Copies(1);
      set(spec, static_cast<int>(value));
      std::vector<FieldError> errors;
      CheckJob(spec, {"builtin"}, JobOptions(), errors);
      return !Names(errors, field);
    };
  }
  static Takes OfCase(std::string field, std::function<void(v1::CaseSpec&, double)> set) {
    return [field = std::move(field), set = std::move(set)](double value) {
      v1::CaseSpec spec;
      spec.mutable_gemm()->set_m(8192);
      spec.mutable_gemm()->set_n(8);
      spec.mutable_gemm()->set_k(8);
      spec.set_dtype(v1::DTYPE_FP32);
      set(spec, value);
      std::vector<FieldError> errors;
      FromProto(spec, errors);
      return !Names(errors, field);
    };
  }
  static Takes Is(double value) {
    return [=](double stated) { return stated == value; };
  }
  static Takes UpTo(double value) {
    return [=](double stated) { return stated <= value; };
  }

  std::map<std::string, Takes> OfTheJob();
  std::map<std::string, Takes> OfTheCase();
  std::map<std::string, Takes> OfBaselines();
  static std::map<std::string, Takes> OfRequests();
};

std::string Text(double bytes) { return std::string(static_cast<std::size_t>(bytes), 'x'); }

std::map<std::string, LimitsTest::Takes> LimitsTest::OfTheJob() {
  const auto ran = [this] {
    Finish(Create(Copies(1)));
    return cpu_->executed().back();
  };
  return {
      {"CaseList.cases cases",
       OfJob("spec.cases", [](v1::JobSpec& spec, int n) { spec = Copies(n); })},
      {"CaseFilter.ops operators", OfJob("spec.filter.ops",
                                         [](v1::JobSpec& spec, int n) {
                                           for (int i = 0; i < n; ++i) {
                                             spec.mutable_filter()->add_ops("gemm");
                                           }
                                         })},
      {"CaseFilter.providers providers", OfJob("spec.filter.providers",
                                               [](v1::JobSpec& spec, int n) {
                                                 for (int i = 0; i < n; ++i) {
                                                   spec.mutable_filter()->add_providers("builtin");
                                                 }
                                               })},
      {"CaseFilter.dtypes formats", OfJob("spec.filter.dtypes",
                                          [](v1::JobSpec& spec, int n) {
                                            for (int i = 0; i < n; ++i) {
                                              spec.mutable_filter()->add_dtypes(v1::DTYPE_FP16);
                                            }
                                          })},
      {"JobSpec.repeats",
       OfJob("spec.repeats", [](v1::JobSpec& spec, int n) { spec.set_repeats(n); })},
      {"JobSpec.repeats default", [=](double stated) { return ran().repeats() == stated; }},
      {"JobSpec.seed default",
       [=](double stated) { return static_cast<double>(ran().seed()) == stated; }},
      {"JobSpec.budget seconds",
       OfJob("spec.budget",
             [](v1::JobSpec& spec, int n) { spec.mutable_budget()->set_seconds(n); })},
      {"JobSpec.priority",
       OfJob("spec.priority", [](v1::JobSpec& spec, int n) { spec.set_priority(n); })},
      {"JobSpec.priority default", Is(v1::JobSpec().priority())},
      {"JobSpec.trials", OfJob("spec.trials",
                               [](v1::JobSpec& spec, int n) {
                                 spec.set_suite(std::string(kSelftestSuite));
                                 spec.set_trials(n);
                               })},
      {"JobSpec.trials default", Is(kSelftestTrials)},
      {"JobSpec.labels labels", OfJob("spec.labels",
                                      [](v1::JobSpec& spec, int n) {
                                        for (int i = 0; i < n; ++i) {
                                          (*spec.mutable_labels())[Cat("label", i)] = "x";
                                        }
                                      })},
      {"JobSpec.labels bytes",
       OfJob("spec.labels",
             [](v1::JobSpec& spec, int n) { (*spec.mutable_labels())[Text(n)] = Text(n); })},
      {"CreateJobRequest.request_id bytes",
       [this](double n) {
         return !Names(manager_->Create(Copies(1), Text(n)).status(), "request_id");
       }},
  };
}

std::map<std::string, LimitsTest::Takes> LimitsTest::OfTheCase() {
  return {
      {"CaseSpec.name bytes",
       [this](double n) {
         v1::JobSpec spec = Copies(1);
         spec.mutable_cases()->mutable_cases(0)->set_name(Text(n));
         return !Names(manager_->Create(spec, "").status(), "spec.cases[0].name");
       }},
      {"CaseSpec.min_efficiency",
       OfCase("min_efficiency", [](v1::CaseSpec& c, double v) { c.set_min_efficiency(v); })},
      {"CaseSpec.repeats",
       OfCase("repeats", [](v1::CaseSpec& c, double v) { c.set_repeats(static_cast<int>(v)); })},
      {"CaseSpec.split_k default",
       [](double stated) {
         // The line that repeats a case leaves defaults out.
         v1::CaseSpec spec;
         spec.mutable_gemm()->set_m(8);
         spec.set_split_k(static_cast<int>(stated));
         return ReproLine(spec, "").find("--split-k") == std::string::npos;
       }},
      {"CaseSpec.slices slices", OfCase("slices",
                                        [](v1::CaseSpec& c, double n) {
                                          for (int i = 0; i < n; ++i) c.add_slices("actual[0,0]");
                                        })},
      {"CaseSpec.slices elements", OfCase("slices",
                                          [](v1::CaseSpec& c, double n) {
                                            c.add_slices(
                                                Cat("actual[0:", static_cast<int>(n), ",0]"));
                                          })},
      {"CaseSpec.checksum_probes", OfCase("checksum_probes",
                                          [](v1::CaseSpec& c, double v) {
                                            c.set_verify(v1::VERIFICATION_CHECKSUM);
                                            c.set_checksum_probes(static_cast<int>(v));
                                          })},
      {"CaseSpec.checksum_probes default", Is(kDefaultChecksumProbes)},
      {"ReduceProblem.extents",
       [](double n) {
         const ReduceProblem p = {.extents = IntList(static_cast<std::size_t>(n), 2),
                                  .kind = "sum"};
         return p.Check().empty();
       }},
      {"CustomProblem.input",
       [](double n) {
         CustomProblem p = {.input = {}, .out = {"y=4"}, .scalar = {}};
         for (int i = 0; i < n; ++i) p.input.push_back(Cat("x", i, "=4"));
         return p.Check().empty();
       }},
      {"CustomProblem.scalar",
       [](double n) {
         CustomProblem p = {.input = {"x=4"}, .out = {"y=4"}, .scalar = {}};
         for (int i = 0; i < n; ++i) p.scalar.push_back(Cat("s", i, "=1"));
         return p.Check().empty();
       }},
  };
}

std::map<std::string, LimitsTest::Takes> LimitsTest::OfBaselines() {
  const auto create = [this](const v1::CreateBaselineRequest& request) {
    return manager_->baselines().Create(request).status();
  };
  const Takes threshold = [this](double value) {
    v1::CompareBaselinesRequest request;
    request.set_threshold(value);
    return !Names(manager_->baselines().Compare(request).status(), "threshold");
  };
  return {
      {"Baseline.name bytes",
       OfJob("spec.inline_baseline.name",
             [](v1::JobSpec& spec, int n) { spec.mutable_inline_baseline()->set_name(Text(n)); })},
      {"Baseline.results results",
       [=](double n) {
         v1::CreateBaselineRequest request;
         request.set_baseline_id("x");
         for (int i = 0; i < n; ++i) request.mutable_baseline()->add_results();
         return !Names(create(request), "baseline.results");
       }},
      {"CreateBaselineRequest.baseline_id bytes",
       [=](double n) {
         v1::CreateBaselineRequest request;
         request.set_baseline_id(Text(n));
         return !Names(create(request), "baseline_id");
       }},
      {"JobSpec.baseline_threshold",
       [](double value) {
         v1::JobSpec spec = Copies(1);
         spec.set_baseline("baselines/x");
         spec.set_baseline_threshold(value);
         std::vector<FieldError> errors;
         CheckJob(spec, {"builtin"}, JobOptions(), errors);
         return !Names(errors, "spec.baseline_threshold");
       }},
      {"JobSpec.baseline_threshold default", Is(kDefaultChangeThreshold)},
      {"CompareBaselinesRequest.threshold", threshold},
      {"CompareBaselinesRequest.threshold default", Is(kDefaultChangeThreshold)},
  };
}

std::map<std::string, LimitsTest::Takes> LimitsTest::OfRequests() {
  const Takes page = [](double n) { return *ParsePageSize(static_cast<int>(n)) == n; };
  const Takes default_page = Is(*ParsePageSize(0));
  std::map<std::string, Takes> rules = {
      {"ListJobsRequest.filter labels",
       [](double n) {
         std::string filter = "suite=x";
         for (int i = 0; i < n; ++i) filter += Cat(" AND label.k", i, "=v");
         return ParseJobFilter(filter).ok();
       }},
      {"TensorHeader.shape extents",
       [](double n) {
         v1::CompareHeader header;
         for (int i = 0; i < n; ++i) header.mutable_actual()->add_shape(1);
         std::vector<FieldError> errors;
         FromProto(header, errors);
         return !Names(errors, "actual.shape");
       }},
      {"CompareHeader.inputs tensors", UpTo(kMostInputs)},
      {"CompareHeader.split_k default", Is(1)},
      {"TensorChunk.data bytes", UpTo(kMostPieceBytes)},
      {"ExternalJob.launch_deadline seconds",
       [](double n) {
         v1::ExternalJob job;
         job.mutable_launch_deadline()->set_seconds(static_cast<std::int64_t>(n));
         std::vector<FieldError> errors;
         SpecElsewhere(job, errors);
         return !Names(errors, "launch_deadline");
       }},
      {"KernelHeader.file_name bytes", UpTo(kMostKernelNameBytes)},
      {"KernelHeader.launch bytes", UpTo(kMostLaunchBytes)},
      {"KernelHeader.entry bytes", UpTo(kMostEntryBytes)},
      {"UploadKernelRequest.chunk bytes", UpTo(kMostChunkBytes)},
      {"Device.telemetry seconds", UpTo(absl::ToDoubleSeconds(TelemetryOptions().stale))},
  };
  for (const char* request : {"ListJobsRequest", "ListCaseResultsRequest", "ListBaselinesRequest",
                              "ListAuditEventsRequest"}) {
    rules.emplace(Cat(request, ".page_size"), page);
    rules.emplace(Cat(request, ".page_size default"), default_page);
  }
  return rules;
}

TEST_F(LimitsTest, WhatTheCommentsStateHolds) {
  Start();
  std::map<std::string, Takes> rules = OfTheJob();
  rules.merge(OfTheCase());
  rules.merge(OfBaselines());
  rules.merge(OfRequests());
  std::map<std::string, int> stated;
  for (const auto& [field, comment] : ApiComments(ASSAY_API_COMMENTS)) {
    for (const Statement& s : StatementsIn(comment)) {
      std::string key = Cat(field, s.unit.empty() ? "" : " ", s.unit);
      if (s.kind == Statement::kDefault) key = field + " default";
      const auto rule = rules.find(key);
      ASSERT_NE(rule, rules.end()) << key << " is stated and not tested: " << comment;
      ++stated[key];
      EXPECT_TRUE(rule->second(s.value)) << key << " refuses " << s.value;
      if (s.kind == Statement::kDefault) continue;
      const double beyond = s.value + (s.kind == Statement::kMost ? 1 : -1);
      EXPECT_FALSE(rule->second(beyond)) << key << " takes " << beyond;
    }
  }
  for (const auto& [key, rule] : rules) {
    EXPECT_TRUE(stated.contains(key)) << key << " is tested and not stated";
  }
}

TEST_F(LimitsTest, OtherFiguresOfCommentsAreThoseOfTheCode) {
  const std::map<std::string, std::string> comments = ApiComments(ASSAY_API_COMMENTS);
  const UploadLimit upload;
  EXPECT_THAT(comments.at("CompareHeader"),
              HasSubstr(Cat("within ", absl::ToInt64Seconds(upload.base), " s, plus 1 s for every ",
                            upload.bytes_per_second / 1'000'000, " MB")));
  EXPECT_THAT(comments.at("BenchStats.noisy"),
              HasSubstr(Cat("more than ", std::lround(100 * kMostWaiting), " %")));
  EXPECT_THAT(comments.at("Ceiling.suspect"), HasSubstr("more than 2 %"));
  EXPECT_FALSE(IsBeyond(1.0199, std::nullopt));
  EXPECT_TRUE(IsBeyond(1.0201, std::nullopt));
  for (int i = 1; i <= static_cast<int>(Phase::kBench); ++i) {
    EXPECT_THAT(comments.at("PhaseTime.phase"),
                HasSubstr(std::string(PhaseName(static_cast<Phase>(i)))));
  }
  v1::Baseline there, here;
  there.set_host("a");
  here.set_host("b");
  for (const char* field : {"JobSpec.baseline_threshold", "CompareBaselinesRequest.threshold"}) {
    EXPECT_THAT(comments.at(field), HasSubstr("the default is 0.10"));
  }
  EXPECT_EQ(DefaultThreshold(there, here), 0.10);
  EXPECT_EQ(Config().max_cases, JobOptions().max_cases);
  EXPECT_EQ(Config().max_waiting_jobs, JobOptions().max_waiting_jobs);
  EXPECT_EQ(Config().case_deadline, JobOptions().case_deadline);
}

}  // namespace
}  // namespace assay::server
