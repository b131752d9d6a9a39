// lint: what can be told of a compiled GPU kernel before it runs. It needs no daemon.
#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "client/cli/context.h"
#include "client/lint/lint.h"
#include "client/lint/report.h"

namespace assay::client {
namespace {

struct LintOptions {
  std::string file;
  std::string arch;
};

ExitCode RunLint(const Context& context, const LintOptions& options) {
  const absl::StatusOr<Format> format = context.ChosenFormat("lint", {"table", "json"});
  if (!format.ok()) return context.Fail(format.status());
  const absl::StatusOr<LintReport> report = Lint(options.file, options.arch);
  if (!report.ok()) {
    const ExitCode code = context.Fail(report.status());
    // Nobody could look: that is no fault of the command line.
    return absl::IsInvalidArgument(report.status()) ? code : ExitCode::kNoVerdict;
  }
  return context.WithOutput([&](std::ostream& out) {
    if (*format == Format::kJson) {
      out << LintJson(*report).dump(2) << '\n';
    } else {
      out << LintText(*report);
    }
    return HasError(*report) ? ExitCode::kFailed : ExitCode::kPassed;
  });
}

}  // namespace

void AddLintCommand(CLI::App& app, Context& context) {
  CLI::App* const lint = app.add_subcommand(
      "lint", "check that a compiled GPU kernel uses no more than it is granted; needs no daemon");
  const auto options = std::make_shared<LintOptions>();
  lint->add_option("FILE", options->file,
                   ".hsaco, .cubin, .ptx, or what hipcc --genco writes; it stays on this machine")
      ->required();
  lint->add_option("--arch", options->arch,
                   "the card that the kernel is for, such as gfx942 or sm_90 (default: the file's)")
      ->type_name("WORD");
  lint->footer(
      "Exit codes: 0 no error, 1 errors, 2 the file cannot be read, 4 a program is missing.");
  context.OnRun(lint, [options](const Context& c) { return RunLint(c, *options); });
}

}  // namespace assay::client
