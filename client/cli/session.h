// Session: follows one job on each daemon to its end and reports the results.
#ifndef ASSAY_CLIENT_CLI_SESSION_H_
#define ASSAY_CLIENT_CLI_SESSION_H_

#include <functional>
#include <memory>
#include <vector>

#include "client/cli/context.h"
#include "client/lib/connection.h"
#include "client/report/report.h"

namespace assay::client {

// Finds or makes the job on a daemon, and fills in what of the run is known by then.
using ObtainJob = std::function<grpc::Status(Connection&, Run*)>;

// Makes the sink that a job's results go to.
using SinkFactory = std::function<std::unique_ptr<Sink>(Format, const Surface&)>;

// Obtains a job on each daemon, watches all of them to their ends and writes the
// report in the chosen format. Ctrl-C leaves the jobs running and says how to
// come back; a second one cancels them. Returns the worst of: a daemon's
// refusal, the jobs' verdicts, kNoVerdict where the user left.
ExitCode WatchJobs(const Context& context, std::vector<std::unique_ptr<Connection>> connections,
                   const ObtainJob& obtain, const SinkFactory& make_sink = &MakeSink);

// All results of a job that may still be running, page by page.
grpc::Status FetchResults(Connection& connection, const std::string& job,
                          std::vector<v1::CaseResult>* results);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_CLI_SESSION_H_
