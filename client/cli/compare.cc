// compare: a user's own tensors, one under test and what it is held against.
#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "client/cli/compare_request.h"
#include "client/cli/context.h"
#include "client/lib/case_options.h"
#include "client/lib/compare.h"
#include "client/lib/operators.h"
#include "client/lib/text.h"
#include "client/lib/words.h"

namespace assay::client {
namespace {

constexpr char kOperationGroup[] = "Of the operation (--op)";

struct OwnOption {
  const char* flag;
  const char* type;
  const char* help;
};
constexpr OwnOption kOwnOptions[] = {
    {"dtype", "WORD",
     "format in files of uint8 (e4m3fn, e4m3fnuz, e5m2, e5m2fnuz, e2m1) and uint16 (bf16, fp16), "
     "or tf32 for float32; files of another type keep theirs"},
    {"actual-dtype", "WORD", "the same, for ACTUAL only"},
    {"expected-dtype", "WORD", "the same, for EXPECTED only"},
    {"criterion", "WORD",
     "derived, allclose, ulp, bitwise, legacy; bound with --inputs (default: bitwise with a "
     "digest, else allclose with a tolerance, else ulp with --max-ulp, else bound with --inputs, "
     "else bitwise for integers, else derived)"},
    {"accumulations", "K",
     "products that are summed in each element, for the derived rule (default 1)"},
    {"split-k", "N",
     "partial sums that the kernel adds up at the end, for the derived rule (default 1)"},
    {"atol", "X", "absolute tolerance of allclose and legacy; 0 is exact"},
    {"rtol", "X", "relative tolerance of allclose and legacy; 0 is exact"},
    {"max-ulp", "X",
     "largest distance from EXPECTED rounded to ACTUAL's format, in units in the last place"},
    {"expected-digest", "HEX",
     "compare ACTUAL with the digest of a result (digest or digest_raw), instead of EXPECTED"},
    {"inputs", "LIST",
     "A.npy,B.npy: operands of --op; the reference and its error bound are computed from them"},
    {"inputs-dtype", "WORD", "the same as --dtype, for --inputs only"},
    {"op", "WORD", "the operation that made ACTUAL from --inputs"},
    {"device", "ID", "cpu:0, cuda:0, … (default: the daemon's first)"},
    {"deadline", "TIME", "with --op: longest time to compute reference and comparison: 10s, 2m"},
};

// The command line itself, with the device it ran on.
std::string ReproLine(const CompareOptions& options, const std::string& device) {
  std::string line = absl::StrCat("assay compare ", ShellWord(options.actual));
  if (!options.expected.empty()) absl::StrAppend(&line, " ", ShellWord(options.expected));
  for (const std::string& flag : options.given) {
    if (flag == "device") continue;
    const auto own = options.own.find(flag);
    const std::string& text = own != options.own.end() ? own->second : options.operation.at(flag);
    absl::StrAppend(&line, " --", flag, text.empty() ? "" : " ",
                    text.empty() ? "" : ShellWord(text));
  }
  if (!device.empty()) absl::StrAppend(&line, " --device ", device);
  return line;
}

std::string BaseName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// "out.npy against ref.npy, derived".
std::string NameOf(const CompareOptions& options, const PreparedComparison& prepared,
                   v1::Criterion criterion) {
  const std::string reference = !options.expected.empty()         ? BaseName(options.expected)
                                : prepared.header.has_operation() ? options.own.at("op")
                                                                  : "a digest";
  return absl::StrCat(BaseName(options.actual), " against ", reference, ", ", Word(criterion));
}

// Names the files of the tensors that a refusal is about.
grpc::Status NamingFiles(const CompareOptions& options, const PreparedComparison& prepared,
                         const grpc::Status& status) {
  std::vector<std::pair<std::string, std::string>> names = {{"actual.", options.actual},
                                                            {"expected.", options.expected}};
  for (std::size_t i = 0; i < prepared.inputs.size(); ++i) {
    names.emplace_back(absl::StrCat("inputs[", i, "]."), prepared.inputs[i].file->path());
  }
  // The operation's formats are those of its first operand and of its result.
  if (!prepared.inputs.empty()) names.emplace_back("dtype", prepared.inputs[0].file->path());
  names.emplace_back("out_dtype", options.actual);
  return WithFields(status, [&](BadField& bad) {
    for (const auto& [field, path] : names) {
      const bool of_tensor = field.ends_with('.');
      if (of_tensor ? !bad.option.starts_with(field) : bad.option != field) continue;
      const std::string rest = bad.option.substr(field.size());
      bad.description = absl::StrCat(path, ": ", rest, rest.empty() ? "" : ": ", bad.description);
      bad.option.clear();
      return;
    }
  });
}

google::protobuf::Timestamp Now() {
  google::protobuf::Timestamp time;
  const absl::Time now = absl::Now();
  time.set_seconds(absl::ToUnixSeconds(now));
  time.set_nanos(static_cast<std::int32_t>(
      absl::ToInt64Nanoseconds(now - absl::FromUnixSeconds(time.seconds()))));
  return time;
}

ExitCode Compare(const Context& context, const CompareOptions& options) {
  auto format = context.ChosenFormat();
  if (!format.ok()) return context.Fail(format.status());
  auto prepared = Prepare(options);
  if (!prepared.ok()) return context.Fail(prepared.status());
  auto connections = context.Connect();
  if (!connections.ok()) return context.Fail(connections.status());
  if (connections->size() != 1) {
    return context.Fail(absl::InvalidArgumentError(
        absl::StrCat("compare asks one daemon, and --target names ", connections->size())));
  }
  Connection& connection = *connections->front();
  std::vector<const CompareTensor*> tensors = {&prepared->actual,
                                               prepared->expected ? &*prepared->expected : nullptr};
  for (const CompareTensor& input : prepared->inputs) tensors.push_back(&input);

  Run run;
  run.target = connection.target();
  run.total = 1;
  *run.job.mutable_create_time() = Now();
  v1::CaseResult result;
  const grpc::Status status = CompareTensors(connection, prepared->header, tensors, &result);
  if (!status.ok()) {
    return context.Fail(Describe(NamingFiles(options, *prepared, status), connection.target()));
  }
  result.set_name(NameOf(options, *prepared, result.criterion()));
  result.set_repro(ReproLine(options, result.device()));
  const bool failed =
      result.verdict() == v1::VERDICT_FAILED || result.verdict() == v1::VERDICT_ERROR;
  const bool passed = result.verdict() == v1::VERDICT_PASSED;
  run.job.set_verdict(failed   ? v1::VERDICT_FAILED
                      : passed ? v1::VERDICT_PASSED
                               : v1::VERDICT_INCONCLUSIVE);
  run.job.set_state(v1::JOB_STATE_FINISHED);
  run.job.add_devices(result.device());
  *run.job.mutable_end_time() = Now();
  run.results.push_back(std::move(result));
  return context.WithOutput([&](std::ostream& out) {
    const std::unique_ptr<Sink> sink = MakeSink(*format, context.SurfaceOn(out));
    Report report;
    report.generated_at = absl::Now();
    report.runs.push_back(std::move(run));
    sink->OnResult(report.runs.front(), report.runs.front().results.front());
    sink->OnEnd(report);
    return ExitCodeOf(report.runs.front().job);
  });
}

// Adds the options of every operator's problem, each once, and returns them in their order.
// Operators share words: the help says what each means by one.
std::vector<std::string> AddOperationOptions(CLI::App& compare, CompareOptions& options) {
  struct Meaning {
    std::string operators;
    std::string help;
  };
  std::map<std::string, std::vector<Meaning>> meanings;
  std::map<std::string, CaseOption> first;
  std::vector<std::string> order;
  for (const std::string& op : OperatorNames()) {
    // Without operands of its own it cannot be compared by them.
    if (InfoOf(op).operands().empty()) continue;
    for (const CaseOption& option : ProblemOptions(op)) {
      std::vector<Meaning>& of = meanings[option.flag];
      const auto same = std::find_if(of.begin(), of.end(), [&option](const Meaning& meaning) {
        return meaning.help == option.help;
      });
      if (same == of.end()) {
        of.push_back({op, option.help});
      } else {
        absl::StrAppend(&same->operators, ", ", op);
      }
      if (first.emplace(option.flag, option).second) order.push_back(option.flag);
    }
  }
  for (const std::string& flag : order) {
    const CaseOption& option = first.at(flag);
    const std::string help =
        absl::StrJoin(meanings[flag], "; ", [](std::string* out, const Meaning& meaning) {
          absl::StrAppend(out, meaning.operators, ": ", meaning.help);
        });
    auto* added = compare.add_option("--" + flag, options.operation[flag], help);
    added->group(kOperationGroup);
    if (option.value.empty()) {
      added->expected(0, 1)->type_name("")->default_str("");
    } else {
      added->type_name(option.value);
    }
  }
  return order;
}

}  // namespace

void AddCompareCommand(CLI::App& app, Context& context) {
  CLI::App* compare = app.add_subcommand(
      "compare",
      "compare tensors of your own (.npy) with others, with a digest, or with a reference");
  auto options = std::make_shared<CompareOptions>();
  compare->add_option("ACTUAL", options->actual, "the .npy file under test")->type_name("FILE");
  compare
      ->add_option(
          "EXPECTED", options->expected,
          "the .npy file that ACTUAL is compared with, of any type; not with --expected-digest; "
          "with --inputs it is checked too")
      ->type_name("FILE");
  for (const OwnOption& own : kOwnOptions) {
    compare->add_option(absl::StrCat("--", own.flag), options->own[own.flag], own.help)
        ->type_name(own.type);
  }
  const std::vector<std::string> order = AddOperationOptions(*compare, *options);
  compare->footer(
      "Both files may be of different types: a kernel's float16 against a reference of float64.\n"
      "Extents of the operation follow from the shapes of its inputs.\n"
      "  assay compare out.npy ref.npy --accumulations 4096\n"
      "  assay compare out_bf16.npy ref.npy --dtype bf16 --atol 0.1 --rtol 0.01\n"
      "  assay compare out.npy --inputs a.npy,b.npy --op gemm --trans-b\n"
      "  assay compare out.npy --expected-digest 5c0f…");
  compare->callback([&context, compare, options, order] {
    for (const OwnOption& own : kOwnOptions) {
      if (compare->count(absl::StrCat("--", own.flag)) > 0) options->given.emplace_back(own.flag);
    }
    for (const std::string& flag : order) {
      if (compare->count("--" + flag) > 0) options->given.push_back(flag);
    }
    context.action = [&context, options] { return Compare(context, *options); };
  });
}

}  // namespace assay::client
