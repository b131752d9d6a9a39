#include "server/plan/job_terms.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "server/baselines/environment.h"

namespace assay::server {

JobTerms TermsOf(const v1::Job& job) {
  const v1::JobSpec& spec = job.spec();
  JobTerms terms;
  // A filter that is there and empty takes all.
  terms.filtered = spec.filter().ByteSizeLong() > 0;
  terms.suite_of_daemon = spec.source_case() == v1::JobSpec::kSuite;
  terms.as_written = spec.mode() == v1::MODE_UNSPECIFIED || spec.mode() == v1::MODE_VALIDATE;
  const auto callers = job.environment().find(std::string(kCallersTerms));
  if (callers == job.environment().end()) return terms;
  const std::vector<std::string> words = absl::StrSplit(callers->second, ',');
  const auto has = [&words](const char* word) {
    return std::find(words.begin(), words.end(), word) != words.end();
  };
  terms.callers_budget = has("budget") || has("case_deadline");
  terms.callers_baseline = has("baseline");
  return terms;
}

}  // namespace assay::server
