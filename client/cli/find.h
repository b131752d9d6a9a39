// Finds the job or the case that a word on the command line names.
#ifndef ASSAY_CLIENT_CLI_FIND_H_
#define ASSAY_CLIENT_CLI_FIND_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/context.h"
#include "client/report/report.h"

namespace assay::client {

// "4f2k" -> "jobs/4f2k".
std::string JobName(const std::string& name);

// A job, and the daemon it lives on: of several targets the one that knows it.
struct FoundJob {
  std::unique_ptr<Connection> connection;
  Run run;  // the target and the job
};

// NOT_FOUND, and *failure what to say, where no daemon answers with the job.
absl::StatusOr<FoundJob> FindJob(const Context& context, const std::string& name, Failure* failure);

// The same with all results in run.results.
absl::StatusOr<FoundJob> FindResults(const Context& context, const std::string& name,
                                     Failure* failure);

// The result that `which` means: its index, its name, or a part that only one name
// has. INVALID_ARGUMENT says what there is.
absl::StatusOr<const v1::CaseResult*> FindCase(const Run& run, const std::string& which);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_CLI_FIND_H_
