#include "server/jobs/suite_list.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_join.h"
#include "kernels/numerics/cat.h"
#include "kernels/suites/suite.h"
#include "server/jobs/job_plan.h"
#include "server/jobs/selftest.h"

namespace assay {
namespace {

std::string RequirementLine(const Requirement& requirement) {
  const std::string dtypes = absl::StrJoin(
      requirement.dtypes, ",", [](std::string* out, DType dtype) { Append(out, Name(dtype)); });
  return Cat(requirement.op, " ", requirement.provider, " ", dtypes,
             requirement.backend.empty() ? "" : " on ", requirement.backend);
}

// A suite by itself is sound or not; what this node makes of it is the plan's.
void Describe(v1::Suite& suite, const std::string& text, const DeviceSet& devices,
              const JobOptions& options) {
  const std::string backend =
      devices.executors.empty() ? "cpu" : devices.executors.front()->Describe().backend();
  const absl::StatusOr<Suite> read = ParseSuite(text, Cat(suite.name(), ".toml"), backend);
  if (!read.ok()) {
    suite.set_error(std::string(read.status().message()));
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
}

// The one suite that is no file.
v1::Suite DescribeSelftest(const DeviceSet& devices, const JobOptions& options, bool with_text) {
  v1::Suite suite;
  suite.set_name(std::string(kSelftestSuite));
  suite.set_title(std::string(kSelftestTitle));
  if (with_text) {
    suite.set_text("# made by the daemon of its planted kernels (assay kernels --planted)\n");
  }
  v1::JobSpec spec;
  spec.set_suite(suite.name());
  const absl::StatusOr<JobPlan> plan = PlanJob(spec, devices, options);
  if (plan.ok()) suite.set_case_count(plan->total);
  return suite;
}

}  // namespace

std::vector<v1::Suite> DescribeSuites(const DeviceSet& devices, const JobOptions& options,
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
  v1::Suite selftest = DescribeSelftest(devices, options, with_text);
  if (selftest.case_count() > 0) suites.push_back(std::move(selftest));
  std::sort(suites.begin(), suites.end(),
            [](const v1::Suite& a, const v1::Suite& b) { return a.name() < b.name(); });
  return suites;
}

}  // namespace assay
