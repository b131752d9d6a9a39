#include "client/cli/run_options.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/cli/baseline_source.h"
#include "client/cli/help_format.h"
#include "client/cli/kernel_upload.h"
#include "client/cli/problems.h"
#include "client/cli/whole_number.h"
#include "client/lib/case_options.h"
#include "client/lib/held_out.h"
#include "client/lib/operators.h"
#include "client/lib/parse.h"
#include "client/lib/patterns.h"
#include "client/lib/words.h"

namespace assay::client {
namespace {

// A flag may be said bare (--causal), with a word (--causal false), or swept.
void AddCaseOption(CLI::App& app, const CaseOption& option, std::string& text) {
  std::string names = "--" + option.flag;
  if (option.flag == "repeat") names += ",--repeats";
  auto* added = app.add_option(names, text, option.help);
  if (option.value.empty()) {
    added->expected(0, 1)->type_name("")->default_str("");
  } else {
    // Said more than once it is one list; CLI11's own would drop an empty entry.
    added->type_name(option.value)->multi_option_policy(CLI::MultiOptionPolicy::Join);
  }
}

// The list of an option that may have been said more than once.
std::string OneList(const std::string& text) { return absl::StrReplaceAll(text, {{"\n", ","}}); }

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
    if (options.bench && mode != v1::MODE_BENCHMARK && mode != v1::MODE_UNSPECIFIED) {
      problems.Add(absl::StrCat("mode: --bench is --mode benchmark, got ", options.mode,
                                " too; say one of them"));
    }
    if (options.default_mode == v1::MODE_BENCHMARK && mode == v1::MODE_VALIDATE) {
      problems.Add(
          "mode: bench ranks by times, and validate takes none that count; say benchmark or both, "
          "or use assay run");
    }
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
  if (!options.wait_for_others.empty() &&
      problems.Take(ParseDuration("wait-for-others", options.wait_for_others), duration)) {
    *spec.mutable_wait_for_others() = duration;
  }
  if (!options.threshold.empty()) {
    double threshold = 0;
    if (options.compare.empty()) {
      problems.Add("threshold: belongs to --compare");
    } else if (problems.Take(ParseThreshold(options.threshold), threshold)) {
      spec.set_baseline_threshold(threshold);
    }
  }
  for (const std::string& label : options.labels) {
    const std::size_t equals = label.find('=');
    if (equals == std::string::npos || equals == 0) {
      problems.Add(absl::StrCat("label: must be KEY=VALUE, got \"", label, "\""));
    } else {
      (*spec.mutable_labels())[label.substr(0, equals)] = label.substr(equals + 1);
    }
  }
}

// A longer path of a suite's file is told without its folders.
constexpr std::size_t kLongestPath = 256;

// The options given to a suite: filters, and defaults of cases that do not say.
void FillSuite(const RunOptions& options, const std::map<std::string, bool>& given,
               v1::JobSpec& spec, Problems& problems) {
  if (!options.suite.empty()) {
    spec.set_suite(options.suite);
  } else {
    problems.Take(ReadSuiteFile(options.suite_file), *spec.mutable_suite_text());
    const std::string& path = options.suite_file;
    spec.set_suite_file(path.size() <= kLongestPath ? path : path.substr(path.rfind('/') + 1));
  }
  v1::CaseFilter& filter = *spec.mutable_filter();
  for (const auto& [flag, was_given] : given) {
    if (!was_given) continue;
    const std::string text = OneList(options.common.at(flag));
    if (flag == "provider") {
      for (std::string& word : SplitList(text)) {
        if (word.empty()) {
          problems.Add("provider: an entry of the list is empty");
        } else if (word != "all")
          filter.add_providers(std::move(word));
      }
    } else if (flag == "dtype") {
      for (const std::string& word : SplitList(text)) {
        v1::DType dtype = v1::DTYPE_UNSPECIFIED;
        if (word.empty()) {
          problems.Add("dtype: an entry of the list is empty");
        } else if (problems.Take(ParseWord<v1::DType>("dtype", word), dtype)) {
          filter.add_dtypes(dtype);
        }
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
      problems.Add(absl::StrCat("--", flag,
                                " belongs to the cases a suite lists; a suite takes --op, "
                                "--provider, --dtype and --name as filters, --seed, --repeat and "
                                "deadlines"));
    }
  }
  const std::vector<std::string> known = OperatorNames();
  for (std::string& op : SplitList(options.ops)) {
    const std::string name = absl::StrReplaceAll(op, {{"-", "_"}});
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      problems.Add(absl::StrCat("op: unknown operator \"", op, "\"", KnownWords(op, known)));
    }
    filter.add_ops(name);
  }
  filter.set_name(options.name);
}

void CheckOnChange(const RunOptions& options, Problems& problems) {
  if (!options.on_change) return;
  const auto kernel = KernelOf(options);
  if (!kernel.ok()) return;  // said elsewhere
  if (!*kernel || (*kernel)->file.empty()) {
    problems.Add("on-change: needs --kernel FILE, a file here");
  }
}

void CheckHeldOut(const RunOptions& options, const std::string& op, const v1::JobSpec& spec,
                  Problems& problems) {
  if (op.empty()) {
    if (options.held_out > 0) {
      problems.Add("held-out: belongs to an operator; a suite lists all shapes that it runs");
    }
    return;
  }
  if (options.held_out > 0 && !HasExtents(op)) {
    problems.Add(absl::StrCat("held-out: which extents of ", op,
                              " belong together is not known; name several shapes instead"));
  }
  if (options.held_out > 0 &&
      std::any_of(spec.cases().cases().begin(), spec.cases().cases().end(),
                  [](const auto& one) { return one.accumulations() > 0; })) {
    problems.Add(
        "held-out: accumulations belong to the shape that you name; name several shapes "
        "instead, each with its own");
  }
  const auto named = static_cast<std::size_t>(spec.cases().cases_size());
  const auto drawn = named * static_cast<std::size_t>(options.held_out);
  if (named <= kMostCases && named + drawn > kMostCases) {
    problems.Add(absl::StrCat("held-out: ", drawn, " cases beside ", named,
                              " are too many; at most ", kMostCases,
                              " may be asked for at once (--held-out 0)"));
  }
}

bool IsTimed(const v1::JobSpec& spec) {
  return spec.mode() == v1::MODE_BENCHMARK || spec.mode() == v1::MODE_BOTH;
}

void FillCases(const RunOptions& options, const CLI::App& run, const std::string& op,
               v1::JobSpec& spec, Problems& problems) {
  if (!options.ops.empty()) {
    problems.Add("--op is a filter for suites");
  }
  std::vector<GivenOption> given;
  for (const CaseOption& option : ProblemOptions(op)) {
    if (options.operators.at(op)->count("--" + option.flag) > 0) {
      given.emplace_back(option, OneList(options.problem.at(op).at(option.flag)));
    }
  }
  for (const CaseOption& option : CommonCaseOptions()) {
    const bool was_given = run.count("--" + option.flag) > 0;
    std::string text = OneList(options.common.at(option.flag));
    if (option.flag == "provider" && !options.kernel.empty()) {
      // The kernel stands beside the providers that were named, before them.
      const auto kernel = KernelOf(options);
      problems.Add(kernel.status());
      if (!kernel.ok()) continue;
      const std::string own = (*kernel)->provider.empty() ? kKernelToCome : (*kernel)->provider;
      text = was_given ? absl::StrCat(own, ",", text) : own;
    } else if (!was_given) {
      continue;
    }
    // One seed is the whole job's; several are an axis of the sweep.
    if (option.flag == "seed" && SplitList(text).size() == 1) {
      std::uint64_t seed = 0;
      if (problems.Take(ParseSeed("seed", text), seed)) spec.set_seed(seed);
      continue;
    }
    given.emplace_back(option, text);
  }
  if (!options.name.empty()) spec.mutable_filter()->set_name(options.name);
  if (run.count("--min-efficiency") > 0 && !IsTimed(spec)) {
    problems.Add("min-efficiency: needs times, and no case is timed; say --mode benchmark or both");
  }
  const auto reference = ReferenceOf(options);
  problems.Add(reference.status());
  auto cases = Expand(op, given);
  problems.Add(cases.status());
  if (!cases.ok() || !reference.ok()) return;
  if (!options.kernel.empty()) {
    // What is said of the kernel is not said of those beside it.
    for (v1::CaseSpec& one : *cases) {
      if (one.provider().starts_with(kKernelToCome)) continue;
      one.clear_operand_roundoff();
      one.clear_flushes_subnormals();
      one.clear_cuts_off_sums();
      one.clear_intermediate_dtype();
    }
  }
  if (*reference) {
    const std::string own = (*reference)->provider.empty() ? kKernelToCome : (*reference)->provider;
    for (v1::CaseSpec& one : *cases) one.set_reference(own);
  }
  for (v1::CaseSpec& one : *cases) *spec.mutable_cases()->add_cases() = std::move(one);
}

// The options of a kernel of the user's own.
void AddKernelOptions(CLI::App& run, RunOptions& options) {
  const auto text = [&run](const char* names, std::string& value, const char* type,
                           const char* help) {
    run.add_option(names, value, help)->type_name(type);
  };
  text("--kernel", options.kernel, "FILE",
       "a kernel of your own: a library (.so), C or C++ source (.c, .cc, .cpp), CUDA source (.cu) "
       "for a CUDA device or simt:0, PTX (.ptx) or a cubin (.cubin) for a CUDA device, HIP source "
       "(.hip) or a code object (.hsaco, .co) for a HIP device, node:/PATH/LIB.so on the daemon's "
       "node, or user/HASH that it has already; stands beside --provider");
  text("--kernel-launch", options.kernel_launch, "FILE",
       "of device code: a TOML file with grid, block, shared memory and arguments of the launch "
       "(default: my_gemm.toml beside my_gemm.cu)");
  text("--kernel-entry", options.kernel_entry, "NAME",
       "of device code: which kernel of the file (default: its only one)");
  text("--reference", options.reference, "FILE",
       "for an operator of your own: a kernel in FP64 that computes the right result, in the forms "
       "that --kernel takes");
  AddWholeNumber(
      run, "held-out", options.held_out,
      "shapes that the seed draws near each shape that you name: nobody tuned a kernel for "
      "them; extents below 16 stay (default 0)",
      {0, static_cast<int>(kMostCases)});
  run.add_flag("--on-change", options.on_change,
               "with --kernel: run again whenever a file of yours has changed, until Ctrl-C");
}

// A subcommand for each operator, with the fields of its problem.
void AddOperators(CLI::App& run, int width, RunOptions& options) {
  for (const std::string& op : OperatorNames()) {
    CLI::App* sub = run.add_subcommand(op, "one or many " + op + " cases");
    options.operators[op] = sub;
    sub->fallthrough();
    const std::string dashed = absl::StrReplaceAll(op, {{"_", "-"}});
    if (dashed != op) sub->alias(dashed);
    for (const std::string& alias : InfoOf(op).aliases()) sub->alias(alias);
    for (const CaseOption& option : ProblemOptions(op)) {
      AddCaseOption(*sub, option, options.problem[op][option.flag]);
    }
    if (CLI::Option* own = sub->get_option_no_throw("--kernel")) {
      own->description(absl::StrCat(own->get_description(),
                                    "; a kernel of yours is named before the operator: assay ",
                                    run.get_name(), " --kernel FILE ", op));
    }
    sub->footer([&run, width] {
      return "Options of every case and of the job\n" +
             HelpFormat(width).make_groups(&run, CLI::AppFormatMode::Sub) + "\n" + PatternsText();
    });
  }
}

}  // namespace

void AddRunOptions(CLI::App& run, int width, const std::shared_ptr<RunOptions>& options) {
  const bool bench = options->default_mode == v1::MODE_BENCHMARK;
  for (const CaseOption& option : CommonCaseOptions()) {
    AddCaseOption(run, option, options->common[option.flag]);
  }
  const auto text = [&run](const char* names, std::string& value, const char* type,
                           const std::string& help) {
    return run.add_option(names, value, help)->type_name(type);
  };
  text("--suite", options->suite, "NAME",
       "run a suite that the daemon has (assay suites lists them)");
  text("--suite-file", options->suite_file, "FILE", "run a suite of your own, a TOML file");
  text("--op", options->ops, "LIST", "with a suite: only these operators");
  text("--name", options->name, "TEXT", "only cases whose name contains this");
  text("--device", options->device, "ID", "cpu:0, cuda:*, … (default: the daemon's first)");
  text("--mode", options->mode, "WORD",
       bench ? "benchmark or both (default benchmark)"
             : "validate, benchmark or both (default validate)");
  // Of a benchmark it says nothing new, and is understood all the same.
  run.add_flag("--bench", options->bench, "the same as --mode benchmark")
      ->group(bench ? "" : "Options");
  text("--case-deadline", options->case_deadline, "TIME",
       "longest time for a case that has no deadline of its own");
  text("--wait-for-others", options->wait_for_others, "TIME",
       "on accelerators: how long to wait, before timing, for other processes to leave");
  text("--job-deadline", options->job_deadline, "TIME", "longest time for the whole job");
  AddWholeNumber(run, "priority", options->priority,
                 "from -100 to 100; jobs with a higher number run first (default 0)");
  run.add_option("--label", options->labels, "a word of your own, kept with the job; may repeat")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  run.add_flag("--resume", options->resume,
               "if the daemon dies, the next daemon runs what is left");
  text(
      "--compare", options->compare, "BASELINE",
      "hold each time against a stored baseline, a job (jobs/4f2k) or a file; a slower case fails");
  text("--threshold", options->threshold, "SHARE",
       absl::StrCat("with --compare: the change that counts (default ", kThresholdHelp, ")"));
  AddKernelOptions(run, *options);
  text("--profile", options->profile, "TOOL",
       "count each timed kernel with a profiler: perf (cpu), ncu (cuda) or rocprof (hip)");
  AddOperators(run, width, *options);
  run.footer(PatternsText());
  run.require_subcommand(0, 1);
}

namespace {

absl::StatusOr<std::optional<KernelChoice>> ChoiceOf(const char* option, const std::string& text) {
  if (text.empty()) return std::nullopt;
  absl::StatusOr<KernelChoice> kernel = ParseKernel(option, text);
  if (!kernel.ok()) return kernel.status();
  return *std::move(kernel);
}

// my_gemm.toml beside my_gemm.cu; empty if there is no such file.
std::string LaunchBeside(const std::string& file) {
  const auto path = std::filesystem::path(file).replace_extension(".toml");
  std::error_code error;
  return std::filesystem::is_regular_file(path, error) ? path.string() : "";
}

}  // namespace

absl::StatusOr<std::optional<KernelChoice>> KernelOf(const RunOptions& options) {
  auto kernel = ChoiceOf("kernel", options.kernel);
  if (!kernel.ok()) return kernel;
  const bool launched = *kernel && HasLaunch((*kernel)->form) && !(*kernel)->file.empty();
  for (const auto& [option, value] : {std::pair{"kernel-launch", &options.kernel_launch},
                                      std::pair{"kernel-entry", &options.kernel_entry}}) {
    if (launched || value->empty()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        option, ": belongs to device code, --kernel FILE.cu, .hip, .ptx, .cubin, .hsaco or .co"));
  }
  if (!launched) return kernel;
  std::string& launch = (*kernel)->launch_file;
  launch = options.kernel_launch.empty() ? LaunchBeside((*kernel)->file) : options.kernel_launch;
  if (launch.empty()) {
    return absl::InvalidArgumentError(
        "kernel-launch: is required with --kernel FILE.cu, .hip, .ptx, .cubin, .hsaco and .co, "
        "unless FILE.toml stands beside it: a TOML file with the keys grid, block and args");
  }
  (*kernel)->entry = options.kernel_entry;
  return kernel;
}

absl::StatusOr<std::optional<KernelChoice>> ReferenceOf(const RunOptions& options) {
  auto reference = ChoiceOf("reference", options.reference);
  if (!reference.ok() || !*reference || !HasLaunch((*reference)->form)) {
    return reference;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "reference: must be a library (.so), C or C++ source, got \"", options.reference, "\""));
}

std::vector<std::string> FilesOf(const RunOptions& options) {
  std::vector<std::string> files = {options.kernel, options.reference};
  const auto kernel = KernelOf(options);
  if (kernel.ok() && *kernel) files.push_back((*kernel)->launch_file);
  return files;
}

std::vector<std::string> ExtentsNotSaid(const RunOptions& options) {
  std::vector<std::string> paths;
  for (const auto& [op, sub] : options.operators) {
    if (!sub->parsed()) continue;
    for (const CaseOption& option : ProblemOptions(op)) {
      if (option.required() && sub->count("--" + option.flag) == 0) paths.push_back(option.path());
    }
  }
  return paths;
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
  CheckOnChange(options, problems);
  if (options.kernel.empty()) problems.Add(KernelOf(options).status());  // of a launch alone
  if (op.empty() && !options.kernel.empty()) {
    problems.Add(
        "kernel: belongs to an operator; a case of a suite names a kernel of yours as provider = "
        "\"user/HASH\"");
  }
  if (op.empty() && !options.reference.empty()) {
    problems.Add(
        "reference: belongs to an operator of your own; a case of a suite names a reference as "
        "reference = \"user/HASH\"");
  }
  if (op.empty()) {
    std::map<std::string, bool> given;
    for (const auto& [flag, text] : options.common) given[flag] = run.count("--" + flag) > 0;
    FillSuite(options, given, spec, problems);
  } else {
    FillCases(options, run, op, spec, problems);
  }
  CheckHeldOut(options, op, spec, problems);
  if (absl::Status status = problems.Status(); !status.ok()) return status;
  return spec;
}

}  // namespace assay::client
