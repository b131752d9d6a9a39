#include "server/plan/elsewhere_check.h"

#include <string>

#include "kernels/text/cat.h"
#include "server/base/case_spec.h"
#include "server/base/job_events.h"
#include "server/plan/spec_check.h"

namespace assay::server {
namespace {

bool OnlyValidates(v1::Mode mode) {
  return mode == v1::MODE_UNSPECIFIED || mode == v1::MODE_VALIDATE;
}

constexpr std::string_view kNoTimes =
    "must be validate: no times are taken of a function that runs in another process";

void CheckCase(const std::string& path, const v1::CaseSpec& spec, std::vector<FieldError>& errors) {
  if (!spec.provider().empty()) {
    errors.push_back(
        {Cat(path, ".provider"),
         Cat("must be empty: the kernel is the caller's, got \"", spec.provider(), "\"")});
  }
  if (!OnlyValidates(spec.mode())) errors.push_back({Cat(path, ".mode"), std::string(kNoTimes)});
  if (spec.has_min_efficiency()) {
    errors.push_back(
        {Cat(path, ".min_efficiency"),
         Cat("needs a time, and none is taken here: leave it out, got ", spec.min_efficiency())});
  }
}

}  // namespace

v1::JobSpec SpecElsewhere(const v1::ExternalJob& job, std::vector<FieldError>& errors) {
  v1::JobSpec spec = job.spec();
  const auto refuse = [&errors](bool there, std::string_view field, std::string_view why) {
    if (there) errors.push_back({Cat("spec.", field), std::string(why)});
  };
  CheckPositive("launch_deadline", job.has_launch_deadline(), job.launch_deadline(), errors);
  if (job.has_launch_deadline() && ToDuration(job.launch_deadline()) > kMostLaunchDeadline) {
    errors.push_back({"launch_deadline",
                      Cat("must be at most ", absl::FormatDuration(kMostLaunchDeadline), ", got ",
                          absl::FormatDuration(ToDuration(job.launch_deadline())))});
  }
  refuse(!spec.has_cases(), "cases", "is required: a caller's function takes listed cases only");
  refuse(!OnlyValidates(spec.mode()), "mode", kNoTimes);
  refuse(spec.resume(), "resume", "must be false: the function is gone when the daemon is");
  refuse(spec.has_budget(), "budget",
         "is a suite's, and a caller's function takes listed cases: leave it out");
  constexpr std::string_view kHeldAgainst =
      "has times to hold others against, and none are taken here: leave it out";
  refuse(!spec.baseline().empty(), "baseline", kHeldAgainst);
  refuse(spec.has_inline_baseline(), "inline_baseline", kHeldAgainst);
  refuse(!spec.profiler().empty(), "profiler",
         "measures kernels of this machine, and the function runs in your process: leave it out");
  if (!spec.has_cases()) return spec;
  int n = 0;
  for (v1::CaseSpec& c : *spec.mutable_cases()->mutable_cases()) {
    if (Enough(errors)) break;
    CheckCase(Cat("spec.cases[", n++, "]"), c, errors);
    c.set_provider(std::string(ExternalProvider()));
  }
  return spec;
}

}  // namespace assay::server
