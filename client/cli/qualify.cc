// qualify: is this device fit for work?
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/blame/blame.h"
#include "client/cli/baseline_source.h"
#include "client/cli/context.h"
#include "client/cli/hook.h"
#include "client/cli/interrupt.h"
#include "client/cli/qualify_nodes.h"
#include "client/cli/whole_number.h"
#include "client/fleet/fan_out.h"
#include "client/lib/parse.h"
#include "client/lib/text.h"
#include "client/qualify/conduct.h"
#include "client/qualify/report.h"
#include "client/report/columns.h"
#include "client/report/output.h"

namespace assay::client {
namespace {

struct Words {
  std::string level;
  std::string device;
  std::optional<std::string> expect_devices;  // empty is wrong, and nothing is not
  std::string seed;
  std::string budget;
  std::string case_deadline;
  std::string job_deadline;
  std::string baseline;
  std::string threshold;
  std::string ignore;
  std::string reports;
  std::string hook;
  std::string hook_deadline = "60s";
  int at_once = 256;
  bool no_selftest = false;
  bool no_retry = false;
  bool no_siblings = false;
  bool fail_early = false;
};

absl::StatusOr<absl::Duration> ParseDeadline(const char* name, const std::string& text) {
  const auto span = ParsePositiveDuration(name, text);
  if (!span.ok()) return span.status();
  return absl::Seconds(span->seconds()) + absl::Nanoseconds(span->nanos());
}

absl::Status TakeDeadlines(const Words& words, QualifyOptions& options) {
  for (const auto& [name, text, taken] :
       {std::tuple("case-deadline", words.case_deadline, &options.case_deadline),
        std::tuple("job-deadline", words.job_deadline, &options.job_deadline)}) {
    if (text.empty()) continue;
    const auto deadline = ParsePositiveDuration(name, text);
    if (!deadline.ok()) return deadline.status();
    *taken = *deadline;
  }
  return absl::OkStatus();
}

absl::Status TakeBaseline(const Words& words, QualifyOptions& options) {
  if (!words.baseline.empty()) {
    auto source = ParseBaselineSource(words.baseline);
    if (!source.ok()) return source.status();
    options.hold_against = [source = *std::move(source)](Connection& connection, v1::JobSpec* spec,
                                                         v1::Baseline* of) {
      if (source.name().starts_with("baselines/")) {
        if (auto s = FetchBaseline(connection, source, of); !s.ok()) return s;
      }
      grpc::Status status = AsMistake(SetBaseline(connection, source, spec));
      if (spec->has_inline_baseline()) *of = spec->inline_baseline();
      of->clear_results();
      return status;
    };
  }
  if (!words.threshold.empty()) {
    if (words.baseline.empty()) {
      return absl::InvalidArgumentError("threshold: belongs to --baseline");
    }
    const auto threshold = ParseThreshold(words.threshold);
    if (!threshold.ok()) return threshold.status();
    options.baseline_threshold = *threshold;
  }
  return absl::OkStatus();
}

absl::Status TakeIgnored(const Words& words, QualifyOptions& options) {
  for (const std::string& word : SplitList(words.ignore)) {
    const QualifyCode* const code = FindCode(word);
    if (code != nullptr && !IsIgnorable(*code)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "ignore: ", word, " cannot be ignored (", std::string(code->meaning),
          "): nothing is proven then; leave it out, and ", std::string(code->next_step)));
    }
    if (code == nullptr && word.find(':') == std::string::npos) {
      return absl::InvalidArgumentError(
          absl::StrCat("ignore: \"", word, "\" is no code (assay qualify --codes) and no device"));
    }
    options.ignored.insert(word);
  }
  return absl::OkStatus();
}

absl::StatusOr<QualifyOptions> OptionsOf(const Words& words) {
  QualifyOptions options;
  const auto level = ParseLevel(words.level);
  if (!level.ok()) return level.status();
  options.level = *level;
  options.device = words.device;
  if (words.expect_devices) {
    auto expected = ParseExpectedDevices(*words.expect_devices);
    if (!expected.ok()) return expected.status();
    options.expect_devices = *std::move(expected);
  }
  if (!words.seed.empty()) {
    const auto seed = ParseSeed("seed", words.seed);
    if (!seed.ok()) return seed.status();
    options.seed = *seed;
  }
  if (!words.budget.empty()) {
    const auto budget = ParseDeadline("budget", words.budget);
    if (!budget.ok()) return budget.status();
    options.budget = *budget;
  }
  if (absl::Status s = TakeDeadlines(words, options); !s.ok()) return s;
  if (absl::Status s = TakeBaseline(words, options); !s.ok()) return s;
  if (absl::Status s = TakeIgnored(words, options); !s.ok()) return s;
  options.selftest = !words.no_selftest;
  options.retry = !words.no_retry;
  options.siblings = !words.no_siblings;
  options.fail_early = words.fail_early;
  options.keep_results = !words.reports.empty();
  return options;
}

ExitCode CodeOf(const QualificationReport& report) {
  switch (FitnessOf(report)) {
    case Fitness::kQualified:
      return ExitCode::kPassed;
    case Fitness::kDegraded:
    case Fitness::kFailed:
      return ExitCode::kFailed;
    case Fitness::kInconclusive:
      break;
  }
  // Nothing but what every node refused, or has not, is the request's fault.
  const bool mistaken =
      std::all_of(report.devices.begin(), report.devices.end(),
                  [](const DeviceFit& d) { return d.fit.code().code == "A902"; }) &&
      std::all_of(report.missing.begin(), report.missing.end(),
                  [](const Missing& m) { return m.none_asked_for; });
  if (mistaken && !(report.devices.empty() && report.missing.empty())) return ExitCode::kUsage;
  const bool counted = std::any_of(report.missing.begin(), report.missing.end(),
                                   [](const Missing& m) { return m.expected.has_value(); });
  return report.devices.empty() && !counted ? ExitCode::kRefused : ExitCode::kNoVerdict;
}

// A file's name of what is no word of one.
std::string FileWord(std::string text) {
  std::replace_if(
      text.begin(), text.end(),
      [](char c) { return !absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '.'; }, '-');
  return text;
}

// DIR/a07-7575_cuda-0.json, an assay.report/v1 each.
absl::Status WriteReports(const std::string& folder, QualificationReport& report) {
  std::set<std::string> taken;  // "a:1" and "a-1" are one word to a file's name
  for (const DeviceFit& device : report.devices) {
    if (device.run.job.name().empty()) continue;
    const std::string stem =
        absl::StrCat(folder, "/", FileWord(device.target), "_", FileWord(device.device));
    std::string path = absl::StrCat(stem, ".json");
    for (int n = 2; !taken.insert(path).second; ++n) path = absl::StrCat(stem, "-", n, ".json");
    auto file = OutputFile::Create(path);
    if (!file.ok()) return file.status();
    WriteJson(Report{report.generated_at, {device.run}}, (*file)->stream());
    if (absl::Status s = (*file)->Commit(); !s.ok()) return s;
    report.files[{device.target, device.device}] = path;
  }
  return absl::OkStatus();
}

ExitCode PrintCodes(const Context& context) {
  const auto format = context.ChosenFormat("the codes", {"table"});
  if (!format.ok()) return context.Fail(format.status());
  return context.WithOutput([](std::ostream& out) {
    for (const QualifyCode& c : QualifyCodes()) {
      out << c.code << "  " << Word(c.fitness) << "  " << c.severity << "  " << c.meaning << '\n';
      if (!c.next_step.empty()) out << "      next: " << c.next_step << '\n';
    }
    out << "\nThe code of a case that failed and was run again. The first row that fits decides.\n"
           "What the reruns say: again, the same trouble; right, no trouble; both, some the one "
           "and some the other; nothing, none came to its end.\n";
    WriteAligned(BlameRows(), "", NoFigures, out);
    out << "\nThe code of a case that was not run again. The first row that fits decides.\n";
    WriteAligned(BlameWithoutRerunRows(), "", NoFigures, out);
    return ExitCode::kPassed;
  });
}

absl::Status MakeFolder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error && access(folder.c_str(), W_OK) != 0) error = {errno, std::generic_category()};
  if (!error) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("reports: cannot write to ", folder, ": ", error.message()));
}

// All targets side by side.
void QualifyAll(const Context& context, const QualifyOptions& options,
                const FollowOptions& reconnecting, std::size_t at_once,
                std::vector<std::unique_ptr<Connection>>& connections,
                QualificationReport& report) {
  std::mutex mutex;  // guards report and seen
  std::set<std::string> seen;
  FanOut(connections.size(), at_once, [&](std::size_t i) {
    Connection& connection = *connections[i];
    const auto progress = [&](std::string_view device, std::string_view what) {
      const std::lock_guard lock(mutex);
      context.Say(absl::StrCat(connection.target(), " ", View(device), ": ", View(what)));
    };
    TargetFit fit = client::Qualify(connection, options, reconnecting, progress);
    const std::lock_guard lock(mutex);
    for (DeviceFit& d : fit.devices) report.devices.push_back(std::move(d));
    for (Missing& m : fit.missing) report.missing.push_back(std::move(m));
    seen.insert(fit.listed.begin(), fit.listed.end());
  });
  std::erase_if(report.missing, [&](const Missing& m) {
    return options.ignored.contains(std::string(CodeOf(m).code));
  });
  TellIgnoredNowhere(context, options.ignored, seen);
  Sort(report);
  CountOnce(context, report);
}

void WriteQualification(const Context& context, const QualificationReport& report, Format format,
                        std::ostream& out) {
  switch (format) {
    case Format::kJson:
      out << Indented(QualificationJson(report)) << '\n';
      break;
    case Format::kMarkdown:
      WriteQualificationMarkdown(report, out);
      break;
    default:
      WriteQualificationTable(report, context.SurfaceOn(out).colour, context.globals.every_row,
                              out);
  }
}

// Each device's verdict and each thing that is missing, one after another.
void TellHook(const Context& context, const std::string& hook, absl::Duration deadline,
              const QualificationReport& report) {
  const auto tell = [&](const std::string& whom, const Json& json) {
    const absl::Status told = RunHook(hook, absl::StrCat(Compact(json), "\n"), deadline);
    if (!told.ok()) {
      context.Say(absl::StrCat("the hook for ", whom, ": ", told.message()));
    }
  };
  for (const DeviceFit& device : report.devices) {
    const auto file = report.files.find({device.target, device.device});
    tell(absl::StrCat(device.target, " ", device.device),
         DeviceFitJson(device, file != report.files.end() ? file->second : device.run.job.name()));
  }
  for (const Missing& missing : report.missing) tell(missing.target, MissingJson(missing));
}

ExitCode Qualify(const Context& context, const Words& words) {
  auto options = OptionsOf(words);
  if (!options.ok()) return context.Fail(options.status());
  const auto format = context.ChosenFormat("a qualification", {"table", "json", "markdown"});
  if (!format.ok()) return context.Fail(format.status());
  const auto hook_deadline = ParseDeadline("hook-deadline", words.hook_deadline);
  if (!hook_deadline.ok()) return context.Fail(hook_deadline.status());
  const auto reconnecting = context.Reconnecting();
  if (!reconnecting.ok()) return context.Fail(reconnecting.status());
  if (!words.reports.empty()) {
    if (absl::Status s = MakeFolder(words.reports); !s.ok()) return context.Fail(s);
  }
  QualificationReport report{absl::Now(), options->level, {}, {}, {}};
  auto connections = ConnectNodes(context, report);
  if (!connections.ok()) {
    Failure failure = Usage(connections.status());
    // A scheduler that cannot be asked.
    if (absl::IsUnavailable(connections.status())) failure.code = ExitCode::kRefused;
    return context.Fail(failure);
  }
  bool qualified = false;  // else --output's file cannot be written
  absl::Status written;
  StopSwitch stop;
  options->stop = &stop;
  const ExitCode code = context.WithOutput([&](std::ostream& out) {
    {
      const Interrupt interrupt({.first =
                                     [&] {
                                       context.streams.err << "assay: cancelling the jobs\n"
                                                           << std::flush;
                                       stop.Stop();
                                     },
                                 .second = [] {},
                                 .none = [] {}},
                                absl::ZeroDuration());
      QualifyAll(context, *options, *reconnecting, static_cast<std::size_t>(words.at_once),
                 *connections, report);
    }
    report.generated_at = absl::Now();
    // What cannot be written keeps no verdict from being told.
    if (!words.reports.empty()) written = WriteReports(words.reports, report);
    WriteQualification(context, report, *format, out);
    qualified = true;
    return CodeOf(report);
  });
  if (!qualified) return code;
  context.streams.err << QualificationSummary(report) << '\n' << std::flush;
  if (!written.ok()) {
    context.Say(absl::StrCat("the reports: ", written.message()));
  }
  if (!words.hook.empty()) {
    TellHook(context, words.hook, *hook_deadline, report);
  }
  return code;
}

void AddOptions(CLI::App& qualify, const std::shared_ptr<Words>& words) {
  const auto text = [&qualify](const char* name, std::string& value, const char* type,
                               const std::string& help) {
    qualify.add_option(name, value, help)->type_name(type);
  };
  text("--device", words->device, "ID",
       "cuda:0, cuda:*, all (default: the accelerators, or the CPU if there are none)");
  qualify
      .add_option_function<std::string>(
          "--expect-devices", [words](const std::string& given) { words->expect_devices = given; },
          "how many devices a node must have, 8 or cuda:8; with fewer it fails, with more it is "
          "inconclusive")
      ->type_name("[BACKEND:]N");
  text("--ignore", words->ignore, "LIST",
       "codes that do not count (A306 and A307 always count), and devices that may be there but "
       "are not judged: A203,cuda:3");
  text("--baseline", words->baseline, "BASELINE",
       "hold times against a stored baseline of each daemon, a job (jobs/4f2k) or a file");
  text("--threshold", words->threshold, "SHARE",
       absl::StrCat("with --baseline: the change that counts (default ", kThresholdHelp, ")"));
  text("--seed", words->seed, "N",
       "seed of the data (default: made from the day, the node and the device)");
  text("--budget", words->budget, "TIME", "time for the level's cases (default: the level's)");
  text("--case-deadline", words->case_deadline, "TIME",
       "longest time for a case (default: the daemon's)");
  text("--job-deadline", words->job_deadline, "TIME",
       "longest time for each job: the self-test, the level, and cases that run again");
  text("--reports", words->reports, "DIR",
       "write each device's report there, as assay.report/v1; the folder is made if needed");
  text(
      "--on-verdict", words->hook, "COMMAND",
      "run this for each device, and for each MISSING one; it gets the verdict as JSON on standard "
      "input");
  text(
      "--hook-deadline", words->hook_deadline, "TIME",
      "longest time for the command of --on-verdict; after it the command is killed (default 60s)");
  AddWholeNumber(qualify, "at-once", words->at_once,
                 "nodes that are asked at the same time (default 256)", {1, 1024});
  qualify.add_flag("--fail-early", words->fail_early,
                   "end a device's job at its first wrong result");
  qualify.add_flag("--no-retry", words->no_retry,
                   "do not run failed cases again to find out who is to blame");
  qualify.add_flag("--no-siblings", words->no_siblings,
                   "run failed cases again only on their own device");
  qualify.add_flag("--no-selftest", words->no_selftest, "do not run the self-test first");
}

}  // namespace

void AddQualifyCommand(CLI::App& app, Context& context) {
  CLI::App* qualify = app.add_subcommand(
      "qualify", "find out whether devices are fit for work: the self-test, then a level's suite");
  auto words = std::make_shared<Words>();
  auto codes = std::make_shared<bool>(false);
  qualify->add_option("level", words->level, absl::StrCat(LevelsText(), "; names or numbers"))
      ->type_name("LEVEL");
  AddOptions(*qualify, words);
  qualify->add_flag("--codes", *codes, "list the codes: what each means and what to do");
  qualify->footer(
      "Verdicts: QUALIFIED, DEGRADED, FAILED, INCONCLUSIVE; MISSING for a node or a device that\n"
      "could not be qualified because it is not there. Ctrl-C and SIGTERM cancel the jobs.\n"
      "Exit codes: 0 every device is qualified, 1 one failed, is degraded or is missing, 2 usage,\n"
      "a malformed request or a device that no node has, 3 no node could be reached, 4 something\n"
      "is not proven: a device is inconclusive, one of several nodes could not be reached, or a\n"
      "node has more devices than expected.");
  qualify->callback([&context, words, codes] {
    context.action = [&context, words, codes] {
      if (*codes) return PrintCodes(context);
      if (words->level.empty()) {
        return context.Fail(
            absl::InvalidArgumentError(absl::StrCat("level: is required: ", LevelsText())));
      }
      return Qualify(context, *words);
    };
  });
}

}  // namespace assay::client
