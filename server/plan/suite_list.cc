#include "server/plan/suite_list.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "google/protobuf/util/time_util.h"
#include "kernels/suites/suite.h"
#include "kernels/text/cat.h"
#include "server/base/case_spec.h"
#include "server/plan/job_plan.h"
#include "server/plan/selftest.h"

namespace assay::server {
namespace {

std::string RequirementLine(const Requirement& requirement) {
  const std::string dtypes = absl::StrJoin(
      requirement.dtypes, ",", [](std::string* out, DType dtype) { Append(out, Name(dtype)); });
  return Cat(requirement.op, " ", requirement.provider, " ", dtypes,
             requirement.backend.empty() ? "" : " on ", requirement.backend);
}

// What the cases of one device cover, by operator.
void AddCoverage(const DevicePlan& plan, v1::Suite& suite) {
  struct Covered {
    std::set<std::string> providers, dtypes;
    int cases = 0, timed = 0;
    std::set<std::string> fills;  // problems that are repeated
  };
  std::map<std::string, Covered> by_op;
  for (const v1::CaseSpec& c : plan.cases) {
    Covered& covered = by_op[OpOf(c)];
    covered.providers.insert(c.provider());
    covered.dtypes.insert(std::string(Name(static_cast<DType>(c.dtype()))));
    if (c.fill()) {
      covered.fills.insert(c.name());
    } else {
      ++covered.cases;
      covered.timed += c.mode() == v1::MODE_BENCHMARK || c.mode() == v1::MODE_BOTH ? 1 : 0;
    }
  }
  for (const auto& [op, covered] : by_op) {
    std::string line = Cat(op, " ", absl::StrJoin(covered.providers, ","), " ",
                           absl::StrJoin(covered.dtypes, ","), ": ", covered.cases, " cases");
    if (covered.timed > 0) Append(&line, ", ", covered.timed, " timed");
    if (!covered.fills.empty()) Append(&line, ", ", covered.fills.size(), " that fill");
    suite.add_coverage(line);
  }
}

// A suite by itself is sound or not; what this node makes of it is the plan's.
void Describe(v1::Suite& suite, const std::string& text, const DeviceSet& devices,
              const PlanOptions& options) {
  const std::string backend =
      devices.executors.empty() ? "cpu" : devices.executors.front()->Describe().backend();
  const absl::StatusOr<Suite> read = ParseSuite(text, Cat(suite.name(), ".toml"), backend);
  if (!read.ok()) {
    suite.set_error(absl::StrReplaceAll(read.status().message(), {{"\n", "; "}}));
    return;
  }
  suite.set_title(read->title);
  suite.set_version(read->version);
  for (const Requirement& requirement : read->requirements) {
    suite.add_requirements(RequirementLine(requirement));
  }
  v1::JobSpec spec;
  spec.set_suite(suite.name());
  const absl::StatusOr<JobPlan> plan = PlanJob(spec, devices, options);
  suite.set_case_count(plan.ok() ? plan->total : static_cast<std::int32_t>(read->cases.size()));
  suite.set_fill_count(static_cast<std::int32_t>(read->fill.size()));
  if (read->budget_seconds) {
    *suite.mutable_budget() = google::protobuf::util::TimeUtil::NanosecondsToDuration(
        absl::ToInt64Nanoseconds(absl::Seconds(*read->budget_seconds)));
  }
  if (plan.ok()) AddCoverage(plan->devices.front(), suite);
}

// A suite that is no file.
v1::Suite DescribeOwn(std::string_view name, std::string_view title, std::string_view text,
                      const DeviceSet& devices, const PlanOptions& options) {
  v1::Suite suite;
  suite.set_name(std::string(name));
  suite.set_title(std::string(title));
  suite.set_text(std::string(text));
  v1::JobSpec spec;
  spec.set_suite(suite.name());
  const absl::StatusOr<JobPlan> plan = PlanJob(spec, devices, options);
  if (plan.ok()) suite.set_case_count(plan->total);
  return suite;
}

}  // namespace

std::vector<v1::Suite> DescribeSuites(const DeviceSet& devices, const PlanOptions& options,
                                      bool with_text) {
  std::vector<v1::Suite> suites;
  for (const std::string& name : ListSuiteNames(options.suites_folder)) {
    v1::Suite& suite = suites.emplace_back();
    suite.set_name(name);
    absl::StatusOr<std::string> text = ReadSuiteText(options.suites_folder, name);
    if (!text.ok()) {
      suite.set_error(std::string(text.status().message()));
      continue;
    }
    Describe(suite, *text, devices, options);
    if (with_text) suite.set_text(*std::move(text));
  }
  for (v1::Suite own :
       {DescribeOwn(kSelftestSuite, kSelftestTitle,
                    "# made by the daemon of its planted kernels (assay kernels --planted)\n",
                    devices, options),
        DescribeOwn(kAdversarialSuite, kAdversarialTitle,
                    "# made by the daemon of its cheats (assay selftest --adversarial)\n", devices,
                    options)}) {
    if (own.case_count() == 0) continue;
    if (!with_text) own.clear_text();
    suites.push_back(std::move(own));
  }
  std::sort(suites.begin(), suites.end(),
            [](const v1::Suite& a, const v1::Suite& b) { return a.name() < b.name(); });
  return suites;
}

}  // namespace assay::server
