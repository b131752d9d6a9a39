// run, bench, submit: make a job of the command line.
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/cli/baseline_source.h"
#include "client/cli/context.h"
#include "client/cli/help_format.h"
#include "client/cli/session.h"
#include "client/lib/case_options.h"
#include "client/lib/parse.h"
#include "client/lib/patterns.h"
#include "client/lib/text.h"
#include "client/lib/words.h"
#include "client/report/baseline.h"
#include "client/report/json.h"

namespace assay {
namespace {

// Everything a run can say, as typed. One string an option of a case, by flag.
struct RunOptions {
  std::map<std::string, std::string> common;                          // "dtype" -> "bf16,fp16"
  std::map<std::string, std::map<std::string, std::string>> problem;  // op -> flag -> text
  std::map<std::string, CLI::App*> operators;
  std::string suite;
  std::string suite_file;
  std::string ops;
  std::string name;
  std::string device;
  std::string mode;
  v1::Mode default_mode = v1::MODE_UNSPECIFIED;  // the command's own
  bool bench = false;
  std::string job_deadline;
  std::string case_deadline;
  int priority = 0;
  std::vector<std::string> labels;
  bool resume = false;
  std::string compare;
  std::string threshold;
  std::string profile;
};

// A flag may be said bare (--causal), with a word (--causal false), or swept.
void AddCaseOption(CLI::App& app, const CaseOption& option, std::string& text) {
  std::string names = "--" + option.flag;
  if (option.flag == "repeat") names += ",--repeats";
  auto* added = app.add_option(names, text, option.help);
  if (option.value.empty()) {
    added->expected(0, 1)->type_name("")->default_str("");
  } else {
    added->type_name(option.value)->join(',');
  }
}

void AddOptions(CLI::App& run, int width, const std::shared_ptr<RunOptions>& options) {
  const bool bench = options->default_mode == v1::MODE_BENCHMARK;
  for (const CaseOption& option : CommonCaseOptions()) {
    AddCaseOption(run, option, options->common[option.flag]);
  }
  const auto text = [&run](const char* names, std::string& value, const char* type,
                           const char* help) {
    return run.add_option(names, value, help)->type_name(type);
  };
  text("--suite", options->suite, "NAME", "run a suite the daemon has (assay suites)");
  text("--suite-file", options->suite_file, "FILE", "run a suite of your own, TOML");
  text("--op", options->ops, "LIST", "of a suite, only these operators");
  text("--name", options->name, "TEXT", "only cases whose name contains this");
  text("--device", options->device, "ID", "cpu:0, cuda:*, … (default: the daemon's first)");
  text("--mode", options->mode, "WORD",
       bench ? "validate, benchmark or both (default benchmark)"
             : "validate, benchmark or both (default validate)");
  // Of a benchmark it says nothing new, and is understood all the same.
  run.add_flag("--bench", options->bench, "as --mode benchmark")->group(bench ? "" : "Options");
  text("--case-deadline", options->case_deadline, "TIME",
       "longest time for a case that does not say");
  text("--job-deadline", options->job_deadline, "TIME", "longest time for everything");
  run.add_option("--priority", options->priority, "-100 to 100, higher runs first")->type_name("N");
  run.add_option("--label", options->labels, "a word of your own kept with the job; may repeat")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  run.add_flag("--resume", options->resume, "after the daemon's death, run what is left");
  text("--compare", options->compare, "BASELINE",
       "hold each time against a stored baseline, jobs/4f2k, or a file; a slower case fails");
  text("--threshold", options->threshold, "SHARE", "with --compare: the change that counts (5%)");
  text("--profile", options->profile, "TOOL",
       "what a profiler counts beside each time: perf (cpu), ncu (cuda) or rocprof (hip)");
  for (const std::string& op : OperatorNames()) {
    CLI::App* sub = run.add_subcommand(op, "one or many " + op + " cases");
    options->operators[op] = sub;
    sub->fallthrough();
    const std::string dashed = absl::StrReplaceAll(op, {{"_", "-"}});
    if (dashed != op) sub->alias(dashed);
    if (op == "conv") sub->alias("convolution");
    for (const CaseOption& option : ProblemOptions(op)) {
      AddCaseOption(*sub, option, options->problem[op][option.flag]);
    }
    sub->footer([&run, width] {
      return "Options of every case and of the job\n" +
             HelpFormat(width).make_groups(&run, CLI::AppFormatMode::Sub) + "\n" + PatternsText();
    });
  }
  run.footer(PatternsText());
  run.require_subcommand(0, 1);
}

absl::StatusOr<std::string> ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) return absl::InvalidArgumentError(absl::StrCat("suite-file: cannot read ", path));
  if (!IsUtf8(text.str())) {
    return absl::InvalidArgumentError(
        absl::StrCat("suite-file: ", path, " is no suite: not UTF-8 text"));
  }
  return text.str();
}

// Collects what is wrong, so that it is all said at once.
class Problems {
 public:
  void Add(const absl::Status& status) {
    if (!status.ok()) lines_.emplace_back(status.message());
  }
  template <class T>
  bool Take(const absl::StatusOr<T>& value, T& out) {
    Add(value.status());
    if (value.ok()) out = *value;
    return value.ok();
  }
  absl::Status Status() const {
    return lines_.empty() ? absl::OkStatus()
                          : absl::InvalidArgumentError(absl::StrJoin(lines_, "\n"));
  }

 private:
  std::vector<std::string> lines_;
};

// What holds for explicit cases and suites alike.
void FillJob(const RunOptions& options, v1::JobSpec& spec, Problems& problems) {
  spec.set_device(options.device);
  spec.set_priority(options.priority);
  spec.set_resume(options.resume);
  spec.set_profiler(options.profile);
  spec.set_mode(options.default_mode);
  if (options.bench) spec.set_mode(v1::MODE_BENCHMARK);
  if (!options.mode.empty()) {
    v1::Mode mode = v1::MODE_UNSPECIFIED;
    if (problems.Take(ParseWord<v1::Mode>("mode", options.mode), mode)) spec.set_mode(mode);
  }
  google::protobuf::Duration duration;
  if (!options.job_deadline.empty() &&
      problems.Take(ParseDuration("job-deadline", options.job_deadline), duration)) {
    *spec.mutable_deadline() = duration;
  }
  if (!options.case_deadline.empty() &&
      problems.Take(ParseDuration("case-deadline", options.case_deadline), duration)) {
    *spec.mutable_case_deadline() = duration;
  }
  if (!options.threshold.empty()) {
    double threshold = 0;
    if (options.compare.empty()) {
      problems.Add(absl::InvalidArgumentError("threshold: belongs to --compare"));
    } else if (problems.Take(ParseThreshold(options.threshold), threshold)) {
      spec.set_baseline_threshold(threshold);
    }
  }
  for (const std::string& label : options.labels) {
    const std::size_t equals = label.find('=');
    if (equals == std::string::npos || equals == 0) {
      problems.Add(absl::InvalidArgumentError(
          absl::StrCat("label: must be KEY=VALUE, got \"", label, "\"")));
    } else {
      (*spec.mutable_labels())[label.substr(0, equals)] = label.substr(equals + 1);
    }
  }
}

// The options given to a suite: filters, and defaults of cases that do not say.
void FillSuite(const RunOptions& options, const std::map<std::string, bool>& given,
               v1::JobSpec& spec, Problems& problems) {
  if (!options.suite.empty()) {
    spec.set_suite(options.suite);
  } else {
    problems.Take(ReadText(options.suite_file), *spec.mutable_suite_text());
  }
  v1::CaseFilter& filter = *spec.mutable_filter();
  for (const auto& [flag, was_given] : given) {
    if (!was_given) continue;
    const std::string& text = options.common.at(flag);
    if (flag == "provider") {
      for (std::string& word : SplitList(text)) {
        if (word.empty()) {
          problems.Add(absl::InvalidArgumentError("provider: an entry of the list is empty"));
        } else if (word != "all")
          filter.add_providers(std::move(word));
      }
    } else if (flag == "dtype") {
      for (const std::string& word : SplitList(text)) {
        v1::DType dtype = v1::DTYPE_UNSPECIFIED;
        if (problems.Take(ParseWord<v1::DType>("dtype", word), dtype)) filter.add_dtypes(dtype);
      }
    } else if (flag == "seed") {
      std::uint64_t seed = 0;
      if (problems.Take(ParseSeed("seed", text), seed)) spec.set_seed(seed);
    } else if (flag == "repeat") {
      std::int64_t repeats = 0;
      if (problems.Take(ParseInt("repeat", text), repeats)) {
        spec.set_repeats(
            static_cast<std::int32_t>(std::clamp<std::int64_t>(repeats, INT32_MIN, INT32_MAX)));
      }
    } else if (flag == "deadline") {
      google::protobuf::Duration duration;
      if (problems.Take(ParseDuration("deadline", text), duration)) {
        *spec.mutable_case_deadline() = duration;
      }
    } else {
      problems.Add(absl::InvalidArgumentError(
          absl::StrCat("--", flag,
                       " belongs to the cases a suite lists; a suite takes --op, "
                       "--provider, --dtype and --name as filters, --seed, --repeat and "
                       "deadlines")));
    }
  }
  const std::vector<std::string> known = OperatorNames();
  for (std::string& op : SplitList(options.ops)) {
    const std::string name = absl::StrReplaceAll(op, {{"-", "_"}});
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      problems.Add(absl::InvalidArgumentError(
          absl::StrCat("op: unknown operator \"", op, "\"", KnownWords(op, known))));
    }
    filter.add_ops(name);
  }
  filter.set_name(options.name);
}

void FillCases(const RunOptions& options, const CLI::App& run, const std::string& op,
               v1::JobSpec& spec, Problems& problems) {
  if (!options.ops.empty()) {
    problems.Add(absl::InvalidArgumentError("--op is a filter for suites"));
  }
  std::vector<GivenOption> given;
  for (const CaseOption& option : ProblemOptions(op)) {
    if (options.operators.at(op)->count("--" + option.flag) > 0) {
      given.emplace_back(option, options.problem.at(op).at(option.flag));
    }
  }
  for (const CaseOption& option : CommonCaseOptions()) {
    if (run.count("--" + option.flag) == 0) continue;
    const std::string& text = options.common.at(option.flag);
    // One seed is the whole job's; several are an axis of the sweep.
    if (option.flag == "seed" && SplitList(text).size() == 1) {
      std::uint64_t seed = 0;
      if (problems.Take(ParseSeed("seed", text), seed)) spec.set_seed(seed);
      continue;
    }
    given.emplace_back(option, text);
  }
  if (!options.name.empty()) spec.mutable_filter()->set_name(options.name);
  auto cases = Expand(op, given);
  problems.Add(cases.status());
  if (!cases.ok()) return;
  for (v1::CaseSpec& one : *cases) *spec.mutable_cases()->add_cases() = std::move(one);
}

absl::StatusOr<v1::JobSpec> MakeSpec(const RunOptions& options, const CLI::App& run) {
  std::string op;
  for (const auto& [name, sub] : options.operators) {
    if (sub->parsed()) op = name;
  }
  const int sources =
      (op.empty() ? 0 : 1) + (options.suite.empty() ? 0 : 1) + (options.suite_file.empty() ? 0 : 1);
  if (sources != 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        sources == 0 ? "nothing to run: name" : "too much to run: name one of", " an operator (",
        absl::StrJoin(OperatorNames(), ", "), "), --suite or --suite-file"));
  }
  v1::JobSpec spec;
  Problems problems;
  FillJob(options, spec, problems);
  if (op.empty()) {
    std::map<std::string, bool> given;
    for (const auto& [flag, text] : options.common) given[flag] = run.count("--" + flag) > 0;
    FillSuite(options, given, spec, problems);
  } else {
    FillCases(options, run, op, spec, problems);
  }
  if (absl::Status status = problems.Status(); !status.ok()) return status;
  return spec;
}

// What a run was asked to be held against; no source where it was not.
absl::StatusOr<v1::BaselineSource> SourceOf(const RunOptions& options) {
  return options.compare.empty() ? v1::BaselineSource() : ParseBaselineSource(options.compare);
}

// CreateJob; where the daemon has no such suite, its answer with the near one.
grpc::Status Create(Connection& connection, const v1::JobSpec& plain,
                    const v1::BaselineSource& baseline, const FollowOptions& options,
                    v1::Job* job) {
  v1::JobSpec spec = plain;
  if (baseline.source_case() != v1::BaselineSource::SOURCE_NOT_SET) {
    if (grpc::Status status = SetBaseline(connection, baseline, &spec); !status.ok()) return status;
  }
  grpc::Status status = CreateJob(connection, spec, options, job);
  if (baseline.source_case() != v1::BaselineSource::SOURCE_NOT_SET) status = AsMistake(status);
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

ExitCode Submit(const Context& context, const v1::JobSpec& spec,
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
      v1::Job job;
      const grpc::Status status = Create(*connection, spec, baseline, *options, &job);
      if (!status.ok()) {
        code = context.Fail(Describe(status, connection->target()));
      } else if (*format == Format::kJson || *format == Format::kJsonl) {
        out << Compact(JobJson(job)) << '\n';
      } else {
        out << job.name() << '\n';
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
    context.streams.err << "assay: another version: " << line << '\n' << std::flush;
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
  AddOptions(*run, context.streams.width, options);
  run->callback([&context, run, options, watch, side_by_side] {
    context.action = [&context, run, options, watch, side_by_side] {
      auto spec = MakeSpec(*options, *run);
      if (!spec.ok()) return context.Fail(spec.status());
      const auto baseline = SourceOf(*options);
      if (!baseline.ok()) return context.Fail(baseline.status());
      if (!watch) return Submit(context, *spec, *baseline);
      auto connections = context.Connect();
      if (!connections.ok()) return context.Fail(connections.status());
      auto reconnecting = context.Reconnecting();
      if (!reconnecting.ok()) return context.Fail(reconnecting.status());
      const auto obtain = [&](Connection& connection, v1::Job* job) {
        const auto status = Create(connection, *spec, *baseline, *reconnecting, job);
        if (status.ok()) SayOtherVersions(context, connection, *baseline, *job);
        return status;
      };
      return WatchJobs(context, *std::move(connections), obtain,
                       side_by_side ? &MakeBenchSink : &MakeSink);
    };
  });
}

}  // namespace

void AddRunCommands(CLI::App& app, Context& context) {
  AddRunCommand(app, context, "run", "run cases or a suite and watch the results come", true);
  AddRunCommand(app, context, "bench",
                "time cases, providers side by side; the last launch is verified", true,
                v1::MODE_BENCHMARK);
  AddRunCommand(app, context, "submit", "as run, but only print the job's name", false);
}

}  // namespace assay
