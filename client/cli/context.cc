#include "client/cli/context.h"

#include <utility>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/lib/parse.h"
#include "client/lib/text.h"
#include "client/report/output.h"

namespace assay::client {

void Context::OnRun(CLI::App* command, std::function<ExitCode(const Context&)> run) {
  command->callback([this, run = std::move(run)] { action = [this, run] { return run(*this); }; });
}

void Context::Say(std::string_view line) const {
  streams.err << "assay: " << VisibleLines(line) << '\n' << std::flush;
}

ExitCode Context::Fail(const Failure& failure) const {
  for (const std::string& line : failure.lines) Say(line);
  return failure.code;
}

absl::StatusOr<std::vector<std::unique_ptr<Connection>>> Context::Connect() const {
  auto targets = ResolveTargets(globals.targets);
  if (!targets.ok()) return targets.status();
  std::vector<std::unique_ptr<Connection>> connections;
  for (const Target& target : *targets) {
    auto connection = Connection::Open(target);
    if (!connection.ok()) return connection.status();
    connections.push_back(*std::move(connection));
  }
  return connections;
}

absl::StatusOr<Format> Context::ChosenFormat() const {
  return globals.format.empty() ? FormatOfFile(globals.output) : ParseFormat(globals.format);
}

absl::StatusOr<Format> Context::ChosenFormat(std::string_view what,
                                             const std::vector<std::string_view>& known) const {
  auto format = ChosenFormat();
  if (!format.ok()) return format;
  std::vector<std::string> words;
  for (const std::string_view word : known) {
    if (*ParseFormat(word) == *format) return format;
    words.emplace_back(word);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("format: ", View(what), " can be had as ", absl::StrJoin(words, ", ")));
}

absl::StatusOr<FollowOptions> Context::Reconnecting() const {
  auto reconnect = ParseDuration("reconnect", globals.reconnect);
  if (!reconnect.ok()) return reconnect.status();
  if (reconnect->seconds() < 0 || reconnect->nanos() < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "reconnect: must be 0 (not at all) or more, such as 30s, got \"", globals.reconnect, "\""));
  }
  FollowOptions options;
  options.reconnect = absl::Seconds(Seconds(*reconnect));
  return options;
}

ExitCode Context::WithOutput(const std::function<ExitCode(std::ostream&)>& write) const {
  if (globals.output.empty() || globals.output == "-") return write(streams.out);
  auto file = OutputFile::Create(globals.output);
  if (!file.ok()) return Fail(file.status());
  const ExitCode code = write((*file)->stream());
  // What was seen is kept, whatever it ended with; where nothing was written, a
  // report from before stays. Only a success may be empty: a list without entries.
  if (!(*file)->written() && code != ExitCode::kPassed) return code;
  if (absl::Status status = (*file)->Commit(); !status.ok()) return Fail(status);
  return code;
}

Surface Context::SurfaceOn(std::ostream& out) const {
  const bool terminal = &out == &streams.out;
  return {out,
          streams.err,
          terminal && streams.live,
          terminal && streams.colour,
          terminal ? streams.width : 0,
          globals.every_row};
}

}  // namespace assay::client
