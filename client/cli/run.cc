// run, bench, submit: make a job of the command line.
#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/baseline_source.h"
#include "client/cli/context.h"
#include "client/cli/kernel_upload.h"
#include "client/cli/on_change.h"
#include "client/cli/run_options.h"
#include "client/cli/session.h"
#include "client/lib/held_out.h"
#include "client/lib/words.h"
#include "client/report/baseline.h"
#include "client/report/json.h"

namespace assay::client {
namespace {

// What a run was asked to be held against; no source where it was not.
absl::StatusOr<v1::BaselineSource> SourceOf(const RunOptions& options) {
  return options.compare.empty() ? v1::BaselineSource() : ParseBaselineSource(options.compare);
}

// If the user did not say an extent, the daemon saw a 0. What it says first of each such field is
// that 0 is too small. What else it says of the field stays.
grpc::Status NamingMissing(const grpc::Status& status, const std::vector<std::string>& missing) {
  std::set<std::string> named;
  return WithFields(status, [&](BadField& field) {
    if (std::find(missing.begin(), missing.end(), field.option) == missing.end()) return;
    if (named.insert(field.path).second) field.description = "is required";
  });
}

// What is wrong with the baseline is wrong with --compare.
grpc::Status NamingCompare(const grpc::Status& status, const Connection& connection) {
  grpc::Status named = WithFields(status, [](BadField& field) {
    if (field.option == "baseline") field.option = "compare";
  });
  const v1::ErrorReason reason = ReasonOf(status);
  if (reason != v1::ERROR_REASON_BASELINE_NOT_FOUND && reason != v1::ERROR_REASON_JOB_NOT_FOUND) {
    return named;
  }
  std::vector<std::string> lines = Describe(named, connection.target()).lines;
  for (std::string& line : lines) line.insert(0, "compare: ");
  return {grpc::StatusCode::INVALID_ARGUMENT, absl::StrJoin(lines, "\n")};
}

// CreateJob, with `each` shapes drawn near each of the job's.
grpc::Status CreateWithHeldOut(const Context& context, Connection& connection,
                               const v1::JobSpec& spec, int each, const FollowOptions& options,
                               Run* run) {
  HeldOut held_out(spec, each);
  grpc::Status status = CreateJob(connection, held_out.Job(), options, &run->job);
  while (!status.ok() && held_out.DrawAgain(status)) {
    status = CreateJob(connection, held_out.Job(), options, &run->job);
  }
  std::vector<std::string> lacking = held_out.Lacking();
  if (status.ok() && !lacking.empty()) {
    const std::string more =
        lacking.size() > 1 ? absl::StrCat(" (and ", lacking.size() - 1, " more)") : "";
    context.streams.err << "assay: held-out: fewer shapes than asked for were drawn near "
                        << lacking.front() << more
                        << ": extents below 16 are kept, and the daemon has to take the shape\n"
                        << std::flush;
    run->held_out_lacking = std::move(lacking);
  }
  return status;
}

// CreateJob; where the daemon has no such suite, its answer with the near one.
// The kernels of --kernel and --reference are sent first.
grpc::Status Create(const Context& context, Connection& connection, const v1::JobSpec& plain,
                    const RunOptions& said, const v1::BaselineSource& baseline,
                    const FollowOptions& options, Run* run) {
  v1::JobSpec spec = plain;
  std::string kernel, reference;
  for (const auto& [choice, name] :
       {std::pair{KernelOf(said), &kernel}, {ReferenceOf(said), &reference}}) {
    if (!choice.ok() || !*choice) continue;
    grpc::Status status = SendKernel(context, connection, **choice, name);
    if (!status.ok()) return status;
  }
  if (spec.has_cases()) {
    for (v1::CaseSpec& one : *spec.mutable_cases()->mutable_cases()) {
      if (one.provider() == kKernelToCome) one.set_provider(kernel);
      if (one.reference() == kKernelToCome) one.set_reference(reference);
    }
  }
  if (baseline.source_case() != v1::BaselineSource::SOURCE_NOT_SET) {
    grpc::Status status = SetBaseline(connection, baseline, &spec);
    if (!status.ok()) return NamingCompare(AsMistake(status), connection);
  }
  grpc::Status status = CreateWithHeldOut(context, connection, spec, said.held_out, options, run);
  status = NamingMissing(status, ExtentsNotSaid(said));
  if (baseline.source_case() != v1::BaselineSource::SOURCE_NOT_SET &&
      (status.error_code() != grpc::StatusCode::NOT_FOUND ||
       ReasonOf(status) == v1::ERROR_REASON_BASELINE_NOT_FOUND)) {
    status = NamingCompare(AsMistake(status), connection);
  }
  if (status.error_code() != grpc::StatusCode::NOT_FOUND || spec.suite().empty()) return status;
  grpc::ClientContext call;
  SetDeadline(call);
  v1::ListSuitesResponse response;
  if (!connection.stub().ListSuites(&call, {}, &response).ok()) return status;
  std::vector<std::string> known;
  for (const v1::Suite& suite : response.suites()) {
    if (suite.name() == spec.suite()) return status;  // it is something else that is missing
    known.push_back(suite.name());
  }
  return {status.error_code(),
          absl::StrCat("no suite \"", spec.suite(), "\" on ", connection.target(),
                       DidYouMean(spec.suite(), known), " (assay suites)")};
}

ExitCode Submit(const Context& context, const v1::JobSpec& spec, const RunOptions& said,
                const v1::BaselineSource& baseline) {
  auto format = context.ChosenFormat();
  if (!format.ok()) return context.Fail(format.status());
  auto options = context.Reconnecting();
  if (!options.ok()) return context.Fail(options.status());
  auto connections = context.Connect();
  if (!connections.ok()) return context.Fail(connections.status());
  return context.WithOutput([&](std::ostream& out) {
    ExitCode code = ExitCode::kPassed;
    for (const auto& connection : *connections) {
      Run run;
      const grpc::Status status =
          Create(context, *connection, spec, said, baseline, *options, &run);
      if (!status.ok()) {
        code = context.Fail(Describe(status, connection->target()));
      } else if (*format == Format::kJson || *format == Format::kJsonl) {
        Json json = JobJson(run.job);
        if (!run.held_out_lacking.empty()) json["held_out_lacking"] = run.held_out_lacking;
        out << Compact(json) << '\n';
      } else {
        out << run.job.name() << '\n';
      }
      out << std::flush;
    }
    return code;
  });
}

// Other libraries than the baseline's are what a comparison may be for: said, not refused.
void SayOtherVersions(const Context& context, Connection& connection,
                      const v1::BaselineSource& source, const v1::Job& job) {
  if (source.source_case() == v1::BaselineSource::SOURCE_NOT_SET) return;
  v1::Baseline baseline;
  if (!FetchBaseline(connection, source, &baseline).ok()) return;
  Run run;
  run.job = job;
  for (const std::string& line : OtherVersions(baseline, DescribeRun(run))) {
    context.Say(absl::StrCat("another version: ", line));
  }
}

std::unique_ptr<Sink> MakeBenchSink(Format format, const Surface& surface) {
  Surface times = surface;
  times.side_by_side = true;
  return MakeSink(format, times);
}

void AddRunCommand(CLI::App& app, Context& context, const char* name, const char* help, bool watch,
                   v1::Mode mode = v1::MODE_UNSPECIFIED) {
  const bool side_by_side = mode == v1::MODE_BENCHMARK;
  CLI::App* run = app.add_subcommand(name, help);
  auto options = std::make_shared<RunOptions>();
  options->default_mode = mode;
  AddRunOptions(*run, context.streams.width, options);
  run->callback([&context, run, options, watch, side_by_side] {
    const auto once = [&context, run, options, watch, side_by_side] {
      auto spec = MakeSpec(*options, *run);
      if (!spec.ok()) return context.Fail(spec.status());
      const auto baseline = SourceOf(*options);
      if (!baseline.ok()) return context.Fail(baseline.status());
      if (side_by_side && run->count("--slice") > 0) {
        const auto format = context.ChosenFormat();
        if (format.ok() && (*format != Format::kJson && *format != Format::kJsonl)) {
          return context.Fail(absl::InvalidArgumentError(
              "slice: the table of times shows no elements; assay run --slice does, and so does "
              "--format json"));
        }
      }
      if (!watch) return Submit(context, *spec, *options, *baseline);
      auto connections = context.Connect();
      if (!connections.ok()) return context.Fail(connections.status());
      auto reconnecting = context.Reconnecting();
      if (!reconnecting.ok()) return context.Fail(reconnecting.status());
      const auto obtain = [&](Connection& connection, Run* made) {
        auto status = Create(context, connection, *spec, *options, *baseline, *reconnecting, made);
        if (status.ok()) SayOtherVersions(context, connection, *baseline, made->job);
        return status;
      };
      return WatchJobs(context, *std::move(connections), obtain,
                       side_by_side ? &MakeBenchSink : &MakeSink);
    };
    context.action = [&context, run, options, once] {
      // A wrong command line ends at once.
      if (!options->on_change || !MakeSpec(*options, *run).ok()) return once();
      return RunOnChange(context, FilesOf(*options), once);
    };
  });
}

}  // namespace

void AddRunCommands(CLI::App& app, Context& context) {
  AddRunCommand(app, context, "run", "run cases or a suite and watch the results as they come",
                true);
  AddRunCommand(app, context, "bench",
                "time cases, with the providers side by side; the last launch is verified", true,
                v1::MODE_BENCHMARK);
  AddRunCommand(app, context, "submit", "the same as run, but only print the job's name", false);
}

}  // namespace assay::client
