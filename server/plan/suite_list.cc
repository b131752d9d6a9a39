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
#include "kernels/suites/golden.h"
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

// What the plan of a suite depends on, beside its files and the kernels of users.
std::string NodeKey(const DeviceSet& devices) {
  std::string key;
  if (!devices.executors.empty()) {
    const v1::Device first = devices.executors.front()->Describe();
    key = Cat(first.backend(), " ", first.memory_bytes(), " ", first.arena_bytes());
  }
  for (const auto& executor : devices.executors) {
    Append(&key, "\n", executor->device_id(), " ", executor->Kernels().size());
  }
  return key;
}

bool NamesUserKernel(const std::vector<Case>& cases) {
  return std::any_of(cases.begin(), cases.end(), [](const Case& c) {
    return IsUserKernel(c.provider) || IsUserKernel(c.reference);
  });
}

bool NamesUserKernel(const DevicePlan& plan) {
  return std::any_of(plan.cases.begin(), plan.cases.end(), [](const v1::CaseSpec& c) {
    return IsUserKernel(c.provider()) || IsUserKernel(c.reference());
  });
}

// A suite by itself is sound or not; what this node makes of it is the plan's. Returns whether it
// is the same as long as the suite's files and the node are.
bool Describe(v1::Suite& suite, const std::string& text, const DeviceSet& devices,
              const PlanOptions& options) {
  const std::string backend =
      devices.executors.empty() ? "cpu" : devices.executors.front()->Describe().backend();
  const absl::StatusOr<Suite> read = ParseSuite(text, Cat(suite.name(), ".toml"), backend);
  if (!read.ok()) {
    suite.set_error(absl::StrReplaceAll(read.status().message(), {{"\n", "; "}}));
    return true;
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
  return plan.ok() && !NamesUserKernel(read->cases);
}

struct OwnSuite {
  std::string name;
  std::string_view title, text;
};

// The suites that are no files.
std::vector<OwnSuite> OwnSuites() {
  return {{std::string(kSelftestSuite), kSelftestTitle,
           "# made by the daemon of its planted kernels (assay kernels --planted)\n"},
          {std::string(kAdversarialSuite), kAdversarialTitle,
           "# made by the daemon of its cheats (assay selftest --adversarial)\n"}};
}

// Returns what Describe returns.
bool DescribeOwn(v1::Suite& suite, std::string_view title, const DeviceSet& devices,
                 const PlanOptions& options) {
  suite.set_title(std::string(title));
  v1::JobSpec spec;
  spec.set_suite(suite.name());
  const absl::StatusOr<JobPlan> plan = PlanJob(spec, devices, options);
  if (!plan.ok()) return false;
  suite.set_case_count(plan->total);
  return !NamesUserKernel(plan->devices.front());
}

}  // namespace

template <class Find>
v1::Suite SuiteList::Known(const std::string& name, const std::string& key, KeptSuites& keep,
                           Find find) {
  if (const auto kept = kept_.find(name); kept != kept_.end() && kept->second.key == key) {
    v1::Suite suite = kept->second.suite;
    keep.insert(kept_.extract(kept));
    return suite;
  }
  v1::Suite suite;
  suite.set_name(name);
  if (find(suite)) keep.emplace(name, Kept{key, suite});
  return suite;
}

std::vector<v1::Suite> SuiteList::Describe(bool with_text) {
  std::vector<v1::Suite> suites;
  KeptSuites keep;
  const std::string node = NodeKey(devices_);
  for (const std::string& name : ListSuiteNames(options_.suites_folder)) {
    absl::StatusOr<std::string> text = ReadSuiteText(options_.suites_folder, name);
    if (!text.ok()) {
      suites.emplace_back().set_name(name);
      suites.back().set_error(std::string(text.status().message()));
      continue;
    }
    const auto key = [&](const std::string& read) {
      // Of the golden digests a plan only needs that they can be read.
      return Cat(ReadGolden(options_.suites_folder, name).ok(), "\n", node, "\n", read);
    };
    const std::string before = key(*text);
    suites.push_back(Known(name, before, keep, [&](v1::Suite& suite) {
      if (!server::Describe(suite, *text, devices_, options_)) return false;
      // The plan has read the files itself: what it found of others must not be kept.
      const absl::StatusOr<std::string> again = ReadSuiteText(options_.suites_folder, name);
      return again.ok() && key(*again) == before;
    }));
    if (with_text) suites.back().set_text(*std::move(text));
  }
  for (const OwnSuite& own : OwnSuites()) {
    v1::Suite suite = Known(own.name, node, keep, [&](v1::Suite& found) {
      return DescribeOwn(found, own.title, devices_, options_);
    });
    if (suite.case_count() == 0) continue;
    if (with_text) suite.set_text(std::string(own.text));
    suites.push_back(std::move(suite));
  }
  kept_ = std::move(keep);
  std::sort(suites.begin(), suites.end(),
            [](const v1::Suite& a, const v1::Suite& b) { return a.name() < b.name(); });
  return suites;
}

}  // namespace assay::server
