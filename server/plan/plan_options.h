// PlanOptions: the settings of the daemon's operator for the planning of jobs.
#ifndef ASSAY_SERVER_PLAN_PLAN_OPTIONS_H_
#define ASSAY_SERVER_PLAN_PLAN_OPTIONS_H_

#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace assay::server {

struct PlanOptions {
  std::string suites_folder;                         // *.toml; empty: no suites
  absl::Duration case_deadline = absl::Seconds(60);  // of a case that does not say
  int max_cases = 10'000;                            // in a job, after expansion
  // Whether a case may name the user's kernel "user/…" or the cheat "cheat/…". NOT_FOUND if the
  // daemon does not have it; the message is in words for the field. May be empty: none may.
  std::function<absl::Status(std::string_view provider)> check_kernel;
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_PLAN_PLAN_OPTIONS_H_
