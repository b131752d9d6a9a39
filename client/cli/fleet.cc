// fleet run, fleet status, fleet compare: many nodes at once.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>
#include <system_error>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/cli/context.h"
#include "client/cli/fleet_status.h"
#include "client/cli/interrupt.h"
#include "client/cli/whole_number.h"
#include "client/fleet/reader.h"
#include "client/fleet/report.h"
#include "client/fleet/run.h"
#include "client/fleet/screen.h"
#include "client/lib/parse.h"
#include "client/lib/words.h"
#include "client/report/output.h"
#include "client/report/units.h"

namespace assay::client {
namespace {

// How long a second Ctrl-C has to cancel the jobs.
constexpr absl::Duration kPatience = absl::Seconds(2);
// Clocks that are kept differ by less.
constexpr absl::Duration kClockTolerance = absl::Minutes(5);

constexpr char kTargetsHelp[] =
    "TARGETS, and --target: addresses or names from the targets file, with commas between, or\n"
    "  @FILE            a file with one of them a line; # begins a comment\n"
    "  dns:NAME[:PORT]  every address of this name\n"
    "  slurm:[PART][:PORT]  the nodes of a Slurm partition, or all (sinfo)\n"
    "  k8s:LABEL=VALUE[,NAMESPACE]  the pods with a label (kubectl)\n"
    "Default: ASSAY_TARGET, else 127.0.0.1:7575. The port is 7575 if none is given.\n";

constexpr char kLimitHelp[] = "nodes that are asked at the same time (default 256)";
constexpr WholeRange kLimits{1, 65536};

struct RunOptions {
  std::vector<std::string> targets;
  std::string suite, suite_file, device, mode, seed, ops, providers, dtypes, name, job_deadline,
      reports;
  int limit = 256;
  int reruns = 3;
  bool bench = false;
};

ExitCode WriteFleet(const Context& context, const FleetReport& report, Format format,
                    std::ostream& out) {
  switch (format) {
    case Format::kJson:
      out << Indented(FleetJson(report)) << '\n';
      break;
    case Format::kHtml:
      WriteFleetHtml(report, out);
      break;
    default: {
      const Surface surface = context.SurfaceOn(out);
      WriteFleetTable(report, surface.colour, surface.every_row, out);
    }
  }
  out << std::flush;
  return ExitCodeOf(report);
}

absl::StatusOr<FleetTargets> Targets(const Context& context,
                                     const std::vector<std::string>& words) {
  std::vector<std::string> all = words;
  if (!context.globals.targets.targets.empty()) all.push_back(context.globals.targets.targets);
  return FindFleet(all, context.globals.targets);
}

// What no target could be found by is the scheduler's refusal, or the user's mistake.
ExitCode FailToFind(const Context& context, const absl::Status& status) {
  Failure failure = Usage(status);
  if (absl::IsUnavailable(status)) failure.code = ExitCode::kRefused;
  return context.Fail(failure);
}

absl::StatusOr<v1::JobSpec> SpecOf(const RunOptions& options) {
  v1::JobSpec spec;
  if (options.suite.empty() == options.suite_file.empty()) {
    return absl::InvalidArgumentError(options.suite.empty()
                                          ? "nothing to run: name --suite or --suite-file"
                                          : "name one of --suite and --suite-file");
  }
  if (!options.suite.empty()) {
    spec.set_suite(options.suite);
  } else {
    absl::StatusOr<std::string> text = ReadSuiteFile(options.suite_file);
    if (!text.ok()) return text.status();
    spec.set_suite_text(*std::move(text));
  }
  spec.set_device(options.device);
  v1::CaseFilter& filter = *spec.mutable_filter();
  for (std::string& op : SplitList(options.ops)) filter.add_ops(std::move(op));
  for (std::string& provider : SplitList(options.providers)) {
    filter.add_providers(std::move(provider));
  }
  for (const std::string& word : SplitList(options.dtypes)) {
    auto dtype = ParseWord<v1::DType>("dtype", word);
    if (!dtype.ok()) return dtype.status();
    filter.add_dtypes(*dtype);
  }
  filter.set_name(options.name);
  if (options.bench) spec.set_mode(v1::MODE_BENCHMARK);
  if (!options.mode.empty()) {
    auto mode = ParseWord<v1::Mode>("mode", options.mode);
    if (!mode.ok()) return mode.status();
    spec.set_mode(*mode);
  }
  if (!options.seed.empty()) {
    auto seed = ParseSeed("seed", options.seed);
    if (!seed.ok()) return seed.status();
    spec.set_seed(*seed);
  }
  if (!options.job_deadline.empty()) {
    auto deadline = ParseDuration("job-deadline", options.job_deadline);
    if (!deadline.ok()) return deadline.status();
    *spec.mutable_deadline() = *deadline;
  }
  return spec;
}

// What the fleet lacks of its own reports; a node is named once.
void TakeMissing(FleetReport& report) {
  std::set<std::string> named;
  for (const MissingNode& missing : report.missing) named.insert(missing.target);
  for (const MissingNode& missing : report.fleet.missing) {
    if (!named.contains(missing.target)) report.missing.push_back(missing);
  }
}

// The nodes' runs as a report, with the judgement.
void Merge(const std::vector<NodeRun>& nodes, FleetReport& report) {
  report.generated_at = absl::Now();
  for (const NodeRun& node : nodes) {
    if (node.state != NodeRun::State::kFinished) {
      report.missing.push_back(
          {node.target.address, node.problem, static_cast<std::int64_t>(node.run.results.size())});
    }
    if (node.run.results.empty()) {
      if (node.state == NodeRun::State::kFinished) {
        report.missing.push_back({node.target.address, absl::StrCat("ended without a result (",
                                                                    node.run.job.name(), ")")});
      }
      if (node.run.job.findings().empty()) continue;
    }
    Report one{report.generated_at, {node.run}};
    // One way to read reports, whether they were stored or have just come.
    const auto rows = ReadReport(Compact(ReportJson(one)), node.target.address);
    if (rows.ok()) {
      report.fleet.Add(*rows);
    } else {
      report.unread.emplace_back(rows.status().message());
    }
  }
  TakeMissing(report);
  report.fleet.NameNodes();
  report.judgement = JudgeFleet(report.fleet, report.generated_at);
  for (const NodeRun& node : nodes) {
    if (!node.clock || absl::AbsDuration(*node.clock) < kClockTolerance) continue;
    report.judgement.differences.push_back(absl::StrCat(
        "clock: that of ", node.target.address, " is ",
        SecondsText(absl::ToDoubleSeconds(absl::AbsDuration(*node.clock))),
        *node.clock > absl::ZeroDuration() ? " ahead of" : " behind", " this machine's"));
  }
}

// The folder of --reports. It is made before a job is sent: without it the run is for nothing.
absl::Status MakeFolder(const std::string& folder) {
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  if (!error) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("reports: cannot make ", folder, ": ", error.message()));
}

// Keeps each node's own report as a file named for it. INVALID_ARGUMENT where it cannot.
absl::Status KeepReports(const std::vector<NodeRun>& nodes, const std::string& folder) {
  for (const NodeRun& node : nodes) {
    if (node.run.results.empty()) continue;
    std::string name = node.target.address;
    for (char& c : name) {
      if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '.') c = '-';
    }
    auto file = OutputFile::Create((std::filesystem::path(folder) / (name + ".json")).string());
    if (!file.ok()) return file.status();
    WriteJson({absl::Now(), {node.run}}, (*file)->stream());
    if (absl::Status status = (*file)->Commit(); !status.ok()) return status;
  }
  return absl::OkStatus();
}

ExitCode Run(const Context& context, const RunOptions& options) {
  const auto format = context.ChosenFormat("a fleet", {"table", "json", "html"});
  if (!format.ok()) return context.Fail(format.status());
  auto follow = context.Reconnecting();
  if (!follow.ok()) return context.Fail(follow.status());
  auto spec = SpecOf(options);
  if (!spec.ok()) return context.Fail(spec.status());
  auto targets = Targets(context, options.targets);
  if (!targets.ok()) return FailToFind(context, targets.status());
  if (absl::Status made = MakeFolder(options.reports); !made.ok()) return context.Fail(made);
  return context.WithOutput([&](std::ostream& out) {
    // Progress goes where results go only if these are for people too.
    const bool table = *format == Format::kTable;
    const Surface surface = context.SurfaceOn(out);
    FleetScreen screen(table ? out : context.streams.err, context.streams.err,
                       table && surface.live, surface.width);
    FleetReport report;
    report.missing = std::move(targets->missing);
    report.duplicates = std::move(targets->duplicates);
    FleetRun run(std::move(targets->targets),
                 {*spec, *follow, static_cast<std::size_t>(options.limit)}, screen);
    bool left = false;
    {
      Interrupt interrupt(
          {.first = [&] { run.Say("assay: leaving the jobs running; Ctrl-C again cancels them"); },
           .second = [&] { run.Cancel(); },
           .none =
               [&] {
                 left = true;
                 run.Leave();
               }},
          kPatience);
      if (absl::Status status = run.Run(); !status.ok()) return context.Fail(status);
    }
    screen.Clear();
    if (auto mistakes = run.RequestMistakes(); !mistakes.empty()) {
      return context.Fail(Failure{std::move(mistakes), ExitCode::kUsage});
    }
    Merge(run.nodes(), report);
    if (options.reruns > 0 && !left) {
      RerunAccused(report.fleet, run.nodes(), *follow, static_cast<std::size_t>(options.limit),
                   static_cast<std::size_t>(options.reruns), report.judgement);
    }
    ExitCode code = WriteFleet(context, report, *format, out);
    if (!options.reports.empty()) {
      if (absl::Status status = KeepReports(run.nodes(), options.reports); !status.ok()) {
        const ExitCode kept = context.Fail(status);
        if (code == ExitCode::kPassed) code = kept;
      }
    }
    return code;
  });
}

ExitCode Status(const Context& context, const std::vector<std::string>& words, int limit) {
  const auto format = context.ChosenFormat("the state of a fleet", {"table", "json"});
  if (!format.ok()) return context.Fail(format.status());
  auto targets = Targets(context, words);
  if (!targets.ok()) return FailToFind(context, targets.status());
  return context.WithOutput([&](std::ostream& out) {
    return FleetStatus(context, *std::move(targets), static_cast<std::size_t>(limit), *format, out);
  });
}

ExitCode Compare(const Context& context, const std::vector<std::string>& files) {
  const auto format = context.ChosenFormat("a fleet", {"table", "json", "html"});
  if (!format.ok()) return context.Fail(format.status());
  FleetReport report;
  report.unread = ReadReports(files, report.fleet);
  if (report.unread.size() == files.size()) {
    return context.Fail(Failure{report.unread, ExitCode::kUsage});
  }
  if (*format != Format::kTable) {  // which has them
    for (const std::string& line : report.unread) context.Say(line);
  }
  TakeMissing(report);
  report.fleet.NameNodes();
  report.generated_at = absl::Now();
  report.judgement = JudgeFleet(report.fleet, report.generated_at);
  return context.WithOutput(
      [&](std::ostream& out) { return WriteFleet(context, report, *format, out); });
}

void AddTargets(CLI::App& command, std::vector<std::string>& targets) {
  command.add_option("TARGETS", targets, "the nodes; see below")->type_name("WORD");
}

void AddRun(CLI::App& fleet, Context& context) {
  CLI::App* run = fleet.add_subcommand(
      "run", "run one suite on every node at once and find the nodes that deviate");
  auto options = std::make_shared<RunOptions>();
  AddTargets(*run, options->targets);
  const auto text = [&](const char* name, std::string& value, const char* type, const char* help) {
    run->add_option(name, value, help)->type_name(type);
  };
  text("--suite", options->suite, "NAME", "run a suite that the daemons have");
  text("--suite-file", options->suite_file, "FILE", "run a suite of your own, a TOML file");
  text("--device", options->device, "ID", "cpu:0, cuda:*, … (default: each daemon's first)");
  text("--op", options->ops, "LIST", "only these operators");
  text("--provider", options->providers, "LIST", "only these providers");
  text("--dtype", options->dtypes, "LIST", "only these formats of the inputs");
  text("--name", options->name, "TEXT", "only cases whose name contains this");
  text("--mode", options->mode, "WORD", "validate, benchmark or both (default: the suite's)");
  run->add_flag("--bench", options->bench, "the same as --mode benchmark");
  text("--seed", options->seed, "N", "seed of cases that have none");
  text("--job-deadline", options->job_deadline, "TIME", "longest time for the job of each node");
  AddWholeNumber(*run, "limit", options->limit, kLimitHelp, kLimits);
  text("--reports", options->reports, "DIR",
       "also write each node's report there, for fleet compare");
  AddWholeNumber(
      *run, "reruns", options->reruns,
      "cases of an accused device that run once more, there and on a sibling (default 3)",
      {0, 1000});
  run->footer(absl::StrCat(
      kTargetsHelp,
      "Exit codes: 1 a device is accused, a job failed or a case fails on every device,\n"
      "2 the request is wrong, 3 a scheduler cannot be asked, 4 nothing was compared, "
      "digests\ndiffer and accuse no device, a device could not be judged, a job proves "
      "less than was asked\nfor, or a node is missing, unread or incomplete, else 0. "
      "--format table, json\n(assay.fleet/v1) or html."));
  context.OnRun(run, [options](const Context& of) { return Run(of, *options); });
}

}  // namespace

void AddFleetCommand(CLI::App& app, Context& context) {
  CLI::App* fleet = app.add_subcommand(
      "fleet", "run on many nodes at once and find those that are wrong or slow");
  fleet->require_subcommand(1);
  AddRun(*fleet, context);

  CLI::App* status =
      fleet->add_subcommand("status", "show every device of every node, one line each");
  auto words = std::make_shared<std::vector<std::string>>();
  auto limit = std::make_shared<int>(256);
  AddTargets(*status, *words);
  AddWholeNumber(*status, "limit", *limit, kLimitHelp, kLimits);
  status->footer(absl::StrCat(
      kTargetsHelp,
      "Exit codes: 0 every node answered, 2 the request is wrong, 3 a scheduler cannot be asked,\n"
      "4 a node is missing. --format table or json (assay.fleet.status/v1)."));
  context.OnRun(status, [words, limit](const Context& of) { return Status(of, *words, *limit); });

  CLI::App* compare = fleet->add_subcommand(
      "compare", "compare stored reports with one another: digests, failures, times");
  auto files = std::make_shared<std::vector<std::string>>();
  compare->add_option("REPORT", *files, "JSON reports (assay run --format json)")
      ->type_name("FILE")
      ->required();
  context.OnRun(compare, [files](const Context& of) { return Compare(of, *files); });
  compare->footer(
      "Exit codes: 1 a device is accused, a job failed or a case fails on every device, 2 no file\n"
      "could be read, 4 nothing could be compared, digests differ and accuse no device, a device\n"
      "could not be judged, a job proves less than was asked for, or a report is missing, unread\n"
      "or incomplete, else 0. --format table, json (assay.fleet/v1) or html.");
}

}  // namespace assay::client
