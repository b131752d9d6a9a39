// selftest: proves that this daemon's checks find what is wrong and nothing else.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "client/cli/context.h"
#include "client/cli/session.h"
#include "client/cli/whole_number.h"
#include "client/lib/case_options.h"
#include "client/lib/errors.h"
#include "client/lib/operators.h"
#include "client/lib/parse.h"
#include "client/lib/words.h"
#include "client/report/cheats.h"
#include "client/report/selftest.h"

namespace assay::client {
namespace {

struct SelftestOptions {
  int trials = 0;
  bool quick = false;
  bool adversarial = false;
  std::string device;
  std::string seed;
  std::string ops;
  std::string dtypes;
  std::string defects;
};

absl::StatusOr<v1::JobSpec> MakeSpec(const SelftestOptions& options) {
  v1::JobSpec spec;
  spec.set_suite(options.adversarial ? "adversarial" : "selftest");
  // Users' kernels, and so cheats, run on the CPU.
  spec.set_device(options.adversarial && options.device.empty() ? "cpu:0" : options.device);
  if (options.adversarial && (options.quick || options.trials > 0)) {
    return absl::InvalidArgumentError(
        "adversarial: each cheat runs once; leave out --quick and --trials");
  }
  if (options.quick && options.trials > 0) {
    return absl::InvalidArgumentError("quick: means one trial; say --quick or --trials, not both");
  }
  spec.set_trials(options.quick ? 1 : options.trials);
  if (!options.seed.empty()) {
    const absl::StatusOr<std::uint64_t> seed = ParseSeed("seed", options.seed);
    if (!seed.ok()) return seed.status();
    spec.set_seed(*seed);
  }
  const std::vector<std::string> known = OperatorNames();
  for (const std::string& word : SplitList(options.ops)) {
    const std::string op = absl::StrReplaceAll(word, {{"-", "_"}});
    if (std::find(known.begin(), known.end(), op) == known.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("op: unknown operator \"", word, "\"", KnownWords(word, known)));
    }
    spec.mutable_filter()->add_ops(op);
  }
  for (const std::string& word : SplitList(options.dtypes)) {
    const absl::StatusOr<v1::DType> dtype = ParseWord<v1::DType>("dtype", word);
    if (!dtype.ok()) return dtype.status();
    spec.mutable_filter()->add_dtypes(*dtype);
  }
  for (const std::string& word : SplitList(options.defects)) {
    if (options.adversarial) {
      for (const char* twin : {"", "-twin"}) {
        spec.mutable_filter()->add_providers(absl::StrCat("cheat/", word, twin));
      }
      continue;
    }
    spec.mutable_filter()->add_providers(
        word.starts_with("planted/") ? word : absl::StrCat("planted/", word));
  }
  return spec;
}

// A defect is a provider, "planted/…" or "cheat/…", to the daemon alone: the only ones that are
// asked for here.
grpc::Status NamingDefects(const grpc::Status& status, bool adversarial) {
  return WithFields(status, [adversarial](BadField& field) {
    if (field.option != "provider") return;
    field.option = "defect";
    if (adversarial) return;
    field.description = absl::StrCat(
        absl::StrReplaceAll(field.description,
                            {{"unknown provider", "unknown defect"}, {"planted/", ""}}),
        " (assay kernels --planted)");
  });
}

ExitCode Selftest(const Context& context, const SelftestOptions& options) {
  const auto spec = MakeSpec(options);
  if (!spec.ok()) return context.Fail(spec.status());
  const auto format = context.ChosenFormat();
  if (!format.ok()) return context.Fail(format.status());
  if (*format != Format::kTable && *format != Format::kJson && *format != Format::kMarkdown) {
    return context.Fail(absl::InvalidArgumentError(absl::StrCat(
        "format: a self-test can be had as table, json or markdown; assay run --suite ",
        spec->suite(), " gives its cases in the others")));
  }
  auto connections = context.Connect();
  if (!connections.ok()) return context.Fail(connections.status());
  const auto reconnecting = context.Reconnecting();
  if (!reconnecting.ok()) return context.Fail(reconnecting.status());
  return WatchJobs(
      context, *std::move(connections),
      [&](Connection& connection, Run* run) {
        return NamingDefects(CreateJob(connection, *spec, *reconnecting, &run->job),
                             options.adversarial);
      },
      options.adversarial ? &MakeCheatsSink : &MakeSelftestSink);
}

}  // namespace

void AddSelftestCommand(CLI::App& app, Context& context) {
  CLI::App* selftest = app.add_subcommand(
      "selftest", "prove that the checks find planted defects and pass right kernels");
  auto options = std::make_shared<SelftestOptions>();
  AddWholeNumber(*selftest, "trials", options->trials,
                 "seeds that each defect is run with, at most 100 (default 2)", {1, 100});
  selftest->add_flag("--quick", options->quick, "run each defect with one seed");
  selftest->add_flag("--adversarial", options->adversarial,
                     "run kernels that cheat and their honest twins: each cheat must be stopped or "
                     "shown, and each twin must pass");
  const auto text = [selftest](const char* name, std::string& value, const char* type,
                               const char* help) {
    selftest->add_option(name, value, help)->type_name(type);
  };
  text("--device", options->device, "ID", "cpu:0, cuda:*, … (default: the daemon's first)");
  text("--seed", options->seed, "N",
       "the first seed; seeds decide the data and where a defect lies (default 1)");
  text("--op", options->ops, "LIST", "only these operators");
  text("--dtype", options->dtypes, "LIST", "only these formats of the inputs");
  text("--defect", options->defects, "LIST",
       "only these defects: wrong-tile, race, …; with --adversarial only these cheats");
  context.OnRun(selftest, [options](const Context& of) { return Selftest(of, *options); });
}

}  // namespace assay::client
