#include "client/cli/find.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/cli/session.h"
#include "client/lib/words.h"

namespace assay::client {

std::string JobName(const std::string& name) {
  return name.starts_with("jobs/") ? name : "jobs/" + name;
}

absl::StatusOr<FoundJob> FindJob(const Context& context, const std::string& name,
                                 Failure* failure) {
  auto connections = context.Connect();
  if (!connections.ok()) {
    *failure = Usage(connections.status());
    return connections.status();
  }
  for (auto& connection : *connections) {
    FoundJob found;
    found.run.target = connection->target();
    v1::GetJobRequest request;
    request.set_name(JobName(name));
    const grpc::Status status = Ask(*connection, &Stub::GetJob, request, &found.run.job);
    if (status.ok()) {
      found.connection = std::move(connection);
      return found;
    }
    *failure = Describe(status, connection->target());
  }
  return absl::NotFoundError("no daemon has the job");
}

absl::StatusOr<FoundJob> FindResults(const Context& context, const std::string& name,
                                     Failure* failure) {
  auto found = FindJob(context, name, failure);
  if (!found.ok()) return found;
  const grpc::Status status =
      FetchResults(*found->connection, found->run.job.name(), &found->run.results);
  if (status.ok()) return found;
  *failure = Describe(status, found->run.target);
  return absl::UnavailableError("its results cannot be had");
}

absl::StatusOr<const v1::CaseResult*> FindCase(const Run& run, const std::string& which) {
  int index = 0;
  const bool by_index = absl::SimpleAtoi(which, &index);
  const v1::CaseResult* partial = nullptr;
  int partials = 0;
  std::vector<std::string> names;
  for (const auto& result : run.results) {
    if ((by_index && result.index() == index) || result.name() == which) return &result;
    names.push_back(result.name());
    if (!by_index && result.name().find(which) != std::string::npos) {
      partial = &result;
      ++partials;
    }
  }
  if (partials == 1) return partial;
  if (partials > 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", which, "\" is in the names of ", partials, " cases of ", run.job.name(), ", \"",
        partial->name(), "\" the last of them; give the whole name, or the case's number"));
  }
  const std::string near = DidYouMean(which, names);
  return absl::InvalidArgumentError(absl::StrCat(
      "no case \"", which, "\" in ", run.job.name(), near.empty() ? "." : near,
      run.results.empty()       ? " It has no results."
      : run.results.size() == 1 ? " It has one result, 0."
                                : absl::StrCat(" It has ", run.results.size(), " results, 0 to ",
                                               run.results.size() - 1, ".")));
}

}  // namespace assay::client
