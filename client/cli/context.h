// Context: the things that every command needs, such as the global options, the output streams and
// the connections to the daemons.
#ifndef ASSAY_CLIENT_CLI_CONTEXT_H_
#define ASSAY_CLIENT_CLI_CONTEXT_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/app.h"
#include "client/lib/connection.h"
#include "client/lib/errors.h"
#include "client/lib/follow.h"
#include "client/report/report.h"

namespace CLI {
class App;
}

namespace assay::client {

// Options that stand before or after any command.
struct GlobalOptions {
  TargetOptions targets;
  std::string format;  // empty: by the output file's name, else table
  std::string output;  // empty: standard output
  std::string reconnect = "30s";
  bool every_row = false;
};

// One command's run. The command sets `action` while the line is parsed; it is
// called once afterwards.
struct Context {
  const Streams& streams;
  GlobalOptions globals;
  std::function<ExitCode()> action;

  // Makes `run` the action if the line names this command.
  void OnRun(CLI::App* command, std::function<ExitCode(const Context&)> run);

  // Prints a line for people, after "assay: ". It may have words of strangers.
  void Say(std::string_view line) const;

  // Says the lines, and gives the code.
  ExitCode Fail(const Failure& failure) const;
  ExitCode Fail(const absl::Status& usage) const { return Fail(Usage(usage)); }

  // Connections to all targets. INVALID_ARGUMENT as ResolveTargets and Open.
  absl::StatusOr<std::vector<std::unique_ptr<Connection>>> Connect() const;

  // The format asked for. INVALID_ARGUMENT for an unknown one.
  absl::StatusOr<Format> ChosenFormat() const;

  // The same where only these can be had. INVALID_ARGUMENT names them for the others.
  absl::StatusOr<Format> ChosenFormat(std::string_view what,
                                      const std::vector<std::string_view>& known) const;

  // What to do about lost connections. INVALID_ARGUMENT for a bad duration.
  absl::StatusOr<FollowOptions> Reconnecting() const;

  // Runs `write` with the stream results go to: standard output, or --output's
  // file, which is put in place afterwards if anything was written to it.
  ExitCode WithOutput(const std::function<ExitCode(std::ostream&)>& write) const;

  // A surface for results written to `out`.
  Surface SurfaceOn(std::ostream& out) const;
};

// The command families; each adds its commands to the application.
void AddSelftestCommand(CLI::App& app, Context& context);    // selftest
void AddRunCommands(CLI::App& app, Context& context);        // run, bench, submit
void AddJobCommands(CLI::App& app, Context& context);        // watch, jobs, show, cancel, report
void AddExplainCommand(CLI::App& app, Context& context);     // explain
void AddCompareCommand(CLI::App& app, Context& context);     // compare
void AddBaselineCommand(CLI::App& app, Context& context);    // baseline
void AddQualifyCommand(CLI::App& app, Context& context);     // qualify
void AddFleetCommand(CLI::App& app, Context& context);       // fleet
void AddLintCommand(CLI::App& app, Context& context);        // lint
void AddAdminCommand(CLI::App& app, Context& context);       // admin
void AddInventoryCommands(CLI::App& app, Context& context);  // devices, kernels, suites, version

}  // namespace assay::client

#endif  // ASSAY_CLIENT_CLI_CONTEXT_H_
