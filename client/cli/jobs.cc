// watch, jobs, show, cancel, report: what came of jobs.
#include <memory>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/context.h"
#include "client/cli/find.h"
#include "client/cli/listing.h"
#include "client/cli/session.h"
#include "client/cli/slices.h"
#include "client/lib/parse.h"
#include "client/lib/text.h"
#include "client/lib/words.h"
#include "client/report/row.h"
#include "client/report/table.h"
#include "client/report/units.h"

namespace assay::client {
namespace {

ExitCode WatchJob(const Context& context, const std::string& name) {
  Failure failure;
  auto found = FindJob(context, name, &failure);
  if (!found.ok()) return context.Fail(failure);
  std::vector<std::unique_ptr<Connection>> connections;
  connections.push_back(std::move(found->connection));
  return WatchJobs(context, std::move(connections), [&](Connection&, Run* run) {
    run->job = found->run.job;
    return grpc::Status::OK;
  });
}

// Writes a job and its results, in the format asked for, as a finished run would.
ExitCode ReportJob(const Context& context, const std::string& name, bool numbered) {
  auto format = context.ChosenFormat();
  if (!format.ok()) return context.Fail(format.status());
  Failure failure;
  auto found = FindJob(context, name, &failure);
  if (!found.ok()) return context.Fail(failure);
  Run& run = found->run;
  Connection& connection = *found->connection;
  grpc::Status status = FetchResults(connection, run.job.name(), &run.results);
  if (!status.ok()) return context.Fail(Describe(status, connection.target()));
  if (*format != Format::kCsv && *format != Format::kJsonl) {
    v1::ListDevicesResponse devices;
    // Names and versions adorn the report; without them it is still one.
    if (Ask(connection, &Stub::ListDevices, {}, &devices).ok()) {
      run.devices.assign(devices.devices().begin(), devices.devices().end());
    }
    if (!Ask(connection, &Stub::GetServerInfo, {}, &run.server).ok()) run.server.Clear();
  }
  run.total = run.job.counts().total();
  return context.WithOutput([&](std::ostream& out) {
    Surface surface = context.SurfaceOn(out);
    surface.every_row = true;
    surface.numbered = numbered;
    const auto sink = MakeSink(*format, surface);
    sink->OnStart(run);
    for (const auto& result : run.results) sink->OnResult(run, result);
    Report report{absl::Now(), {}};
    report.runs.push_back(std::move(run));
    sink->OnEnd(report);
    return ExitCode::kPassed;
  });
}

void PrintJson(const Json& value, const std::string& indent, std::ostream& out) {
  for (const auto& [key, entry] : value.items()) {
    if (entry.is_string() && entry.get_ref<const std::string&>().empty()) continue;
    if (entry.is_object()) {
      out << indent << key << '\n';
      PrintJson(entry, indent + "  ", out);
    } else if (entry.is_array() && !entry.empty() && entry.front().is_object()) {
      out << indent << key << '\n';
      for (const auto& element : entry) {
        std::vector<std::string> words;
        for (const auto& [name, word] : element.items()) {
          words.push_back(
              absl::StrCat(name, " ", word.is_string() ? word.get<std::string>() : Compact(word)));
        }
        out << indent << "  " << Visible(absl::StrJoin(words, "  ")) << '\n';
      }
    } else {
      out << indent << PadRight(key, 22) << ' '
          << Visible(entry.is_string() ? entry.get<std::string>() : Compact(entry)) << '\n';
    }
  }
}

ExitCode ShowCase(const Context& context, const std::string& name, const std::string& which) {
  auto format = context.ChosenFormat("one case", {"table", "json", "jsonl"});
  if (!format.ok()) return context.Fail(format.status());
  Failure failure;
  auto found = FindResults(context, name, &failure);
  if (!found.ok()) return context.Fail(failure);
  const auto result = FindCase(found->run, which);
  if (!result.ok()) return context.Fail(result.status());
  return context.WithOutput([&](std::ostream& out) {
    const Json test = TestJson(found->run, **result);
    if (*format == Format::kTable) {
      out << RowLayout(0, &out == &context.streams.out && context.streams.colour).Block(**result);
      PrintJson(test, "    ", out);
    } else if (*format == Format::kJsonl) {
      out << Compact(test) << '\n';
    } else {
      out << Indented(test) << '\n';
    }
    return ExitCode::kPassed;
  });
}

std::vector<std::string> JobRow(const v1::Job& job) {
  std::vector<std::string> labels;
  for (const auto& [key, value] :
       std::map<std::string, std::string>(job.spec().labels().begin(), job.spec().labels().end())) {
    labels.push_back(absl::StrCat(key, "=", value));
  }
  std::vector<std::string> devices;
  for (const std::string& device : job.devices())
    devices.push_back(device.substr(device.rfind('/') + 1));
  const v1::VerdictCounts& counts = job.counts();
  return {job.name(),
          absl::AsciiStrToLower(Word(job.state())),
          job.verdict() == 0 ? "–" : Word(job.verdict()),
          absl::StrCat(counts.passed(), "/", counts.total()),
          absl::FormatTime("%Y-%m-%d %H:%M:%S", Time(job.create_time()), absl::LocalTimeZone()),
          OrDash(job.suite()),
          absl::StrJoin(devices, ","),
          absl::StrJoin(labels, " ")};
}

ExitCode ListJobs(const Context& context, const std::string& filter, const std::string& most) {
  const auto limit = ParseInt("limit", most);
  if (!limit.ok() || *limit < 1) {
    return context.Fail(absl::InvalidArgumentError(
        absl::StrCat("limit: must be a whole number of at least 1, got \"", most, "\"")));
  }
  return List(
      context, "jobs",
      {"JOB", "STATE", "VERDICT", "PASSED", "CREATED", "SUITE", "DEVICE", "LABELS"},
      [&](Connection& connection, Listed& listed) {
        v1::ListJobsRequest request;
        request.set_filter(filter);
        request.set_page_size(static_cast<std::int32_t>(std::min<std::int64_t>(*limit, 1000)));
        std::int64_t left = *limit;
        bool more = false;
        const auto take = [&](const v1::ListJobsResponse& page) {
          for (const v1::Job& job : page.jobs()) {
            more = left == 0;
            if (more) return false;
            listed.rows.push_back(JobRow(job));
            listed.items.push_back(JobJson(job));
            --left;
          }
          more = left == 0 && !page.next_page_token().empty();
          return left > 0;
        };
        auto status = AskPages(connection, &Stub::ListJobs, request, take);
        if (more) {
          context.streams.err << "assay: there are more than the newest " << *limit
                              << " (--limit, --filter)\n";
        }
        return status;
      });
}

bool Ended(const v1::Job& job) {
  return job.state() != v1::JOB_STATE_QUEUED && job.state() != v1::JOB_STATE_RUNNING;
}

// What a cancellation did to the job that was `before` and is `after`.
std::string Cancelled(const v1::Job& before, const v1::Job& after) {
  const std::string state = absl::AsciiStrToLower(Word(after.state()));
  if (Ended(before)) {
    return absl::StrCat(after.name(), " had already ended: ", state,
                        after.verdict() == 0 ? "" : ", ",
                        after.verdict() == 0 ? "" : Word(after.verdict()));
  }
  const v1::VerdictCounts& counts = after.counts();
  const int done = counts.passed() + counts.failed() + counts.inconclusive() +
                   counts.unsupported() + counts.errors();
  if (!Ended(after)) {
    return absl::StrCat(after.name(), " is being cancelled: the case that runs is stopped, ", done,
                        " of ", counts.total(),
                        counts.total() == 1 ? " has its result" : " have their results");
  }
  return absl::StrCat(after.name(), " ", state, ": ", done, " of ", counts.total(),
                      counts.total() == 1 ? " case has its result" : " cases have their results");
}

ExitCode Cancel(const Context& context, const std::vector<std::string>& names) {
  ExitCode code = ExitCode::kPassed;
  for (const std::string& name : names) {
    Failure failure;
    auto found = FindJob(context, name, &failure);
    if (!found.ok()) {
      code = context.Fail(failure);
      continue;
    }
    v1::CancelJobRequest request;
    request.set_name(found->run.job.name());
    v1::Job job;
    const auto status = Ask(*found->connection, &Stub::CancelJob, request, &job);
    if (!status.ok()) {
      code = context.Fail(Describe(status, found->run.target));
      continue;
    }
    context.streams.out << Cancelled(found->run.job, job) << '\n' << std::flush;
  }
  return code;
}

void AddShow(CLI::App& app, Context& context) {
  auto name = std::make_shared<std::string>();
  auto which = std::make_shared<std::string>();
  auto* show = app.add_subcommand(
      "show", "show a job's results with their numbers, or everything about one case");
  show->add_option("job", *name, "jobs/4f2k, or 4f2k")->required();
  show->add_option(
      "case", *which,
      "the case: its number from 0, as the table shows it, its name, or a part of the name that no "
      "other case has");
  auto slices = std::make_shared<std::vector<std::string>>();
  auto bits = std::make_shared<bool>(false);
  auto* const slice =
      show->add_option("--slice", *slices,
                       "run the case again and show elements: actual[0:8,0:8], expected[3], bound, "
                       "or an input by its name; may repeat")
          ->type_name("TENSOR[RANGES]")
          ->allow_extra_args(false);
  show->add_flag("--bits", *bits, "with --slice: show raw bits in place of values");
  auto debug = std::make_shared<std::string>("0:256");
  auto as = std::make_shared<std::vector<std::string>>(std::vector<std::string>{"u32", "f32"});
  auto* const buffer =
      show->add_option(
              "--debug-buffer", *debug,
              "run the case again and show bytes that your kernel wrote into its debug buffer "
              "(assay_launch.debug, 65,536 bytes; default 0:256, at most 4,096 at a time)")
          ->type_name("BEGIN:END")
          ->expected(0, 1)
          ->excludes(slice);
  show->add_option("--as", *as,
                   "with --debug-buffer: the types that words are shown as: u8 to u64, i8 to i64, "
                   "f16, bf16, f32, f64 (default u32,f32)")
      ->type_name("TYPE,TYPE")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->needs(buffer);
  show->callback([&context, show, name, which, slices, bits, debug, as] {
    const bool of_buffer = show->count("--debug-buffer") > 0;
    context.action = [&context, name, which, slices, bits, debug, as, of_buffer] {
      if (of_buffer) {
        return ShowSlices(context, *name, *which,
                          {absl::StrCat("debug[", debug->empty() ? "0:256" : *debug, "]")},
                          {.bits = false, .words = *as});
      }
      if (!slices->empty()) {
        return ShowSlices(context, *name, *which, *slices, {.bits = *bits, .words = {}});
      }
      return which->empty() ? ReportJob(context, *name, true) : ShowCase(context, *name, *which);
    };
  });
}

}  // namespace

void AddJobCommands(CLI::App& app, Context& context) {
  auto name = std::make_shared<std::string>();
  auto* watch =
      app.add_subcommand("watch", "follow a job to its end; the exit code tells its verdict");
  watch->add_option("job", *name, "jobs/4f2k, or 4f2k")->required();
  context.OnRun(watch, [name](const Context& of) { return WatchJob(of, *name); });

  auto* jobs = app.add_subcommand("jobs", "list the jobs, newest first");
  auto filter = std::make_shared<std::string>();
  auto limit = std::make_shared<std::string>("100");
  jobs->add_option("--filter", *filter,
                   "state=RUNNING, verdict=FAILED, suite=NAME, label.KEY=VALUE; several with AND "
                   "between them")
      ->type_name("TEXT");
  jobs->add_option("--limit", *limit, "how many jobs to list (default 100)")->type_name("N");
  context.OnRun(jobs, [filter, limit](const Context& of) { return ListJobs(of, *filter, *limit); });

  AddShow(app, context);

  auto* report = app.add_subcommand("report", "print a job's report, in any --format");
  report->add_option("job", *name, "jobs/4f2k, or 4f2k")->required();
  context.OnRun(report, [name](const Context& of) { return ReportJob(of, *name, false); });

  auto names = std::make_shared<std::vector<std::string>>();
  auto* cancel = app.add_subcommand("cancel", "end jobs; results of finished cases stay");
  cancel->add_option("job", *names, "jobs/4f2k, or 4f2k")->required();
  context.OnRun(cancel, [names](const Context& of) { return Cancel(of, *names); });
}

}  // namespace assay::client
