// baseline: times to hold later runs against.
#include <memory>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/baseline_source.h"
#include "client/cli/context.h"
#include "client/cli/find.h"
#include "client/cli/listing.h"
#include "client/report/baseline.h"
#include "client/report/comparison.h"
#include "client/report/csv.h"
#include "client/report/units.h"

namespace assay::client {
namespace {

constexpr char kSourceHelp[] =
    "a stored one's name, jobs/4f2k, or a file: a baseline or a JSON report";

std::vector<std::string> BaselineRow(const v1::Baseline& baseline) {
  const std::string suite = absl::StrCat(
      baseline.suite(), baseline.suite_version().empty() ? "" : " ", baseline.suite_version());
  return {
      baseline.name(),
      absl::FormatTime("%Y-%m-%d %H:%M:%S", Time(baseline.create_time()), absl::LocalTimeZone()),
      absl::StrCat(baseline.case_count()),
      OrDash(suite),
      OrDash(baseline.device()),
      OrDash(baseline.model()),
      OrDash(baseline.driver_version()),
      OrDash(baseline.host()),
      OrDash(baseline.job())};
}

ExitCode ListBaselines(const Context& context) {
  return List(context, "baselines",
              {"BASELINE", "CREATED", "CASES", "SUITE", "DEVICE", "MODEL", "DRIVER", "HOST", "JOB"},
              [](Connection& connection, Listed& listed) {
                v1::ListBaselinesRequest request;
                request.set_page_size(1000);
                return AskPages(connection, &Stub::ListBaselines, request,
                                [&](const v1::ListBaselinesResponse& page) {
                                  for (const v1::Baseline& baseline : page.baselines()) {
                                    listed.rows.push_back(BaselineRow(baseline));
                                    listed.items.push_back(BaselineSummaryJson(baseline));
                                  }
                                  return true;
                                });
              });
}

// Runs `ask` on each target until one answers; says what the last one refused.
ExitCode OnAny(const Context& context, const std::function<grpc::Status(Connection&)>& ask) {
  auto connections = context.Connect();
  if (!connections.ok()) return context.Fail(connections.status());
  Failure failure;
  for (const auto& connection : *connections) {
    const grpc::Status status = ask(*connection);
    if (status.ok()) return ExitCode::kPassed;
    failure = Describe(AsMistake(status), connection->target());
  }
  return context.Fail(failure);
}

struct SaveOptions {
  std::string job;  // with --file: the name
  std::string name;
  std::string file;
};

// "baselines/nightly" -> "nightly".
std::string IdOf(const std::string& name) {
  return name.starts_with("baselines/") ? name.substr(name.find('/') + 1) : name;
}

ExitCode Save(const Context& context, const SaveOptions& options) {
  const bool of_job = options.file.empty();
  if (of_job ? options.job.empty() : !options.name.empty()) {
    return context.Fail(absl::InvalidArgumentError(
        of_job ? "baseline save: JOB is required, and NAME may follow; or --file REPORT and NAME"
               : "baseline save: --file REPORT takes one NAME"));
  }
  const std::string name = IdOf(of_job ? options.name : options.job);
  if (absl::Status s = CheckNewBaselineName(name); !s.ok()) return context.Fail(s);
  v1::CreateBaselineRequest request;
  request.set_baseline_id(name);
  v1::BaselineSource source;
  if (of_job) {
    source.set_name(JobName(options.job));
    request.mutable_baseline()->set_job(source.name());
  } else {
    auto baseline = ReadBaselineFile(options.file);
    if (!baseline.ok()) return context.Fail(baseline.status());
    if (name.empty() && context.globals.output.empty()) {
      return context.Fail(absl::InvalidArgumentError(
          "baseline save --file stores under a name: give it one, or --output FILE"));
    }
    *request.mutable_baseline() = *baseline;
    *source.mutable_inline_() = *std::move(baseline);
  }
  const bool to_file = !context.globals.output.empty();
  const bool to_store = !to_file || !name.empty();
  v1::Baseline saved;
  if (to_store || of_job) {
    const ExitCode code = OnAny(context, [&](Connection& connection) {
      if (!to_store) {
        // As the daemon itself would: only what has ended is worth keeping.
        v1::CompareBaselinesRequest probe;
        *probe.mutable_baseline() = source;
        *probe.mutable_current() = source;
        v1::CompareBaselinesResponse response;
        const auto status = Ask(connection, &Stub::CompareBaselines, probe, &response);
        return status.ok() ? FetchBaseline(connection, source, &saved) : status;
      }
      return Ask(connection, &Stub::CreateBaseline, request, &saved);
    });
    if (code != ExitCode::kPassed) return code;
  } else {
    saved = source.inline_();
  }
  if (!to_file) {
    context.streams.out << saved.name() << '\n' << std::flush;
    return ExitCode::kPassed;
  }
  return context.WithOutput([&](std::ostream& out) {
    out << Indented(BaselineJson(saved)) << '\n';
    return ExitCode::kPassed;
  });
}

std::vector<std::string> TimeRow(const v1::CaseResult& result) {
  const v1::BenchStats& bench = result.bench();
  std::string rate;
  if (bench.has_flops_per_second() && bench.roof() != "memory" && bench.roof() != "cache") {
    rate =
        RateText(bench.flops_per_second(), result.spec().dtype() == v1::DTYPE_INT8 ? "OP" : "FLOP");
  } else if (bench.has_bytes_per_second()) {
    rate = RateText(bench.bytes_per_second(), "B");
  }
  return {result.name(), SecondsText(bench.median_seconds()),
          bench.has_noise() ? "± " + PercentText(bench.noise()) : "–", OrDash(rate),
          bench.has_efficiency() ? PercentText(bench.efficiency()) : "–"};
}

ExitCode Show(const Context& context, const std::string& word) {
  const auto format = context.ChosenFormat("a baseline", {"table", "json", "jsonl", "csv"});
  if (!format.ok()) return context.Fail(format.status());
  const auto source = ParseBaselineSource(word);
  if (!source.ok()) return context.Fail(source.status());
  v1::Baseline baseline;
  if (source->has_inline_()) {
    baseline = source->inline_();
  } else {
    const ExitCode code = OnAny(context, [&](Connection& connection) {
      return FetchBaseline(connection, *source, &baseline);
    });
    if (code != ExitCode::kPassed) return code;
  }
  return context.WithOutput([&](std::ostream& out) {
    const std::vector<std::string> heading = {"CASE", "TIME", "NOISE", "RATE", "OF ROOF"};
    const Json document = BaselineJson(baseline);
    if (*format == Format::kJson) {
      out << Indented(document) << '\n';
    } else if (*format == Format::kJsonl) {
      for (const Json& test : document["tests"]) out << Compact(test) << '\n';
    } else if (*format == Format::kCsv) {
      out << "name,median_seconds,noise,samples\r\n";
      for (const v1::CaseResult& result : baseline.results()) {
        out << CsvField(result.name()) << ',' << Compact(Number(result.bench().median_seconds()))
            << ',' << (result.bench().has_noise() ? Compact(Number(result.bench().noise())) : "")
            << ',' << result.bench().samples() << "\r\n";
      }
    } else {
      const std::vector<std::string> about = BaselineRow(baseline);
      out << about[0] << " · " << absl::StrJoin({about[4], about[5], about[3], about[8]}, " · ")
          << "\n";
      std::vector<std::vector<std::string>> rows;
      for (const v1::CaseResult& result : baseline.results()) rows.push_back(TimeRow(result));
      PrintListing(out, heading, rows);
    }
    out << std::flush;
    return ExitCode::kPassed;
  });
}

// What became slower or fails now is a failure; where nothing can be told of a case that may be
// slower, or nothing is held against anything, there is no verdict.
ExitCode OutcomeOf(const Comparison& comparison) {
  bool untold = comparison.changes.empty();
  for (const v1::CaseResult& lost : comparison.lost) {
    if (lost.verdict() == v1::VERDICT_FAILED || lost.verdict() == v1::VERDICT_ERROR) {
      return ExitCode::kFailed;
    }
    untold = true;
  }
  for (const v1::BaselineChange& change : comparison.changes) {
    if (change.change() == v1::CHANGE_SLOWER) return ExitCode::kFailed;
    untold = untold || MayBeSlower(change);
  }
  return untold ? ExitCode::kNoVerdict : ExitCode::kPassed;
}

ExitCode Compare(const Context& context, const std::string& baseline, const std::string& current,
                 const std::string& threshold) {
  const auto format = context.ChosenFormat("a comparison of baselines",
                                           {"table", "json", "jsonl", "csv", "markdown"});
  if (!format.ok()) return context.Fail(format.status());
  v1::CompareBaselinesRequest request;
  for (const auto& [word, side] : {std::pair{&baseline, request.mutable_baseline()},
                                   std::pair{&current, request.mutable_current()}}) {
    auto source = ParseBaselineSource(*word);
    if (!source.ok()) return context.Fail(source.status());
    *side = *std::move(source);
  }
  if (!threshold.empty()) {
    const auto share = ParseThreshold(threshold);
    if (!share.ok()) return context.Fail(share.status());
    request.set_threshold(*share);
  }
  v1::CompareBaselinesResponse response;
  v1::Baseline was, is;
  const ExitCode code = OnAny(context, [&](Connection& connection) {
    grpc::Status status = Ask(connection, &Stub::CompareBaselines, request, &response);
    if (!status.ok()) return status;
    // What is said of versions adorns the comparison; without it, it is still one.
    if (!FetchBaseline(connection, request.baseline(), &was).ok()) was.Clear();
    if (!FetchBaseline(connection, request.current(), &is).ok()) is.Clear();
    return grpc::Status::OK;
  });
  if (code != ExitCode::kPassed) return code;
  for (const std::string& line : OtherVersions(was, is)) {
    context.Say(absl::StrCat("another version: ", line));
  }
  const auto name = [](const v1::BaselineSource& source) {
    return source.has_inline_() ? source.inline_().name() : source.name();
  };
  const Comparison comparison{name(request.baseline()),
                              name(request.current()),
                              {response.changes().begin(), response.changes().end()},
                              {response.missing().begin(), response.missing().end()},
                              {response.added().begin(), response.added().end()},
                              {response.lost().begin(), response.lost().end()}};
  return context.WithOutput([&](std::ostream& out) {
    WriteComparison(comparison, *format, out);
    return OutcomeOf(comparison);
  });
}

ExitCode Delete(const Context& context, const std::vector<std::string>& names) {
  ExitCode code = ExitCode::kPassed;
  for (const std::string& name : names) {
    const ExitCode one = OnAny(context, [&](Connection& connection) {
      v1::DeleteBaselineRequest request;
      request.set_name(BaselineName(name));
      google::protobuf::Empty nothing;
      return Ask(connection, &Stub::DeleteBaseline, request, &nothing);
    });
    if (one == ExitCode::kPassed) {
      context.streams.out << "deleted " << BaselineName(name) << '\n' << std::flush;
    } else {
      code = one;
    }
  }
  return code;
}

}  // namespace

void AddBaselineCommand(CLI::App& app, Context& context) {
  auto* baseline = app.add_subcommand("baseline", "keep times and hold later runs against them");
  baseline->require_subcommand(1);

  auto* save = baseline->add_subcommand(
      "save", "store the times of a finished job in the daemon, or with --output in a file");
  auto options = std::make_shared<SaveOptions>();
  save->add_option("job", options->job, "jobs/4f2k, or 4f2k; with --file the baseline's name");
  save->add_option("name", options->name, "the baseline's name (default: the job's)");
  save->add_option("--file", options->file, "in place of a job: a JSON report or a baseline file")
      ->type_name("FILE");
  context.OnRun(save, [options](const Context& of) { return Save(of, *options); });

  auto* list = baseline->add_subcommand("list", "list the stored baselines, newest first");
  context.OnRun(list, [](const Context& of) { return ListBaselines(of); });

  auto name = std::make_shared<std::string>();
  auto* show = baseline->add_subcommand(
      "show", "show the times of a baseline; --format json prints the document");
  show->add_option("baseline", *name, kSourceHelp)->required();
  context.OnRun(show, [name](const Context& of) { return Show(of, *name); });

  auto current = std::make_shared<std::string>();
  auto threshold = std::make_shared<std::string>();
  auto* compare = baseline->add_subcommand(
      "compare",
      "hold times against a baseline, case by case: faster, same, slower or ambiguous; exit 1 if a "
      "case is slower or fails now, 4 if a case that may be slower is too noisy, or has no time "
      "now");
  compare->add_option("baseline", *name, absl::StrCat("the earlier times: ", kSourceHelp))
      ->required();
  compare->add_option("current", *current, absl::StrCat("the times now: ", kSourceHelp))
      ->required();
  compare
      ->add_option("--threshold", *threshold,
                   absl::StrCat("the change that counts (default ", kThresholdHelp, ")"))
      ->type_name("SHARE");
  compare->callback([&context, name, current, threshold] {
    context.action = [&context, name, current, threshold] {
      return Compare(context, *name, *current, *threshold);
    };
  });

  auto names = std::make_shared<std::vector<std::string>>();
  auto* erase = baseline->add_subcommand("delete", "delete stored baselines");
  erase->add_option("name", *names, "baselines/nightly, or nightly")->required();
  context.OnRun(erase, [names](const Context& of) { return Delete(of, *names); });
}

}  // namespace assay::client
