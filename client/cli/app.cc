#include "client/cli/app.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <system_error>

#include "CLI/CLI.hpp"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/context.h"
#include "client/cli/help_format.h"
#include "client/lib/errors.h"
#include "client/lib/parse.h"
#include "client/lib/text.h"
#include "client/lib/words.h"

namespace assay::client {
namespace {

void AddGlobalOptions(CLI::App& app, GlobalOptions& globals) {
  const auto text = [&app](const char* names, std::string& value, const char* type,
                           const char* help) {
    app.add_option(names, value, help)->type_name(type)->group("Anywhere");
  };
  text("--target", globals.targets.targets, "LIST",
       "HOST:PORT[,…] or names from the targets file (default: ASSAY_TARGET, else 127.0.0.1:7575)");
  text("--targets-file", globals.targets.file, "FILE",
       "TOML file with named targets (default: ASSAY_TARGETS, else ~/.config/assay/targets.toml)");
  text("--tls-ca", globals.targets.tls.ca, "FILE",
       "certificate authorities to trust; any --tls option turns TLS on");
  text("--tls-cert", globals.targets.tls.cert, "FILE", "this client's certificate");
  text("--tls-key", globals.targets.tls.key, "FILE", "private key of that certificate");
  text("--tls-server-name", globals.targets.tls.server_name, "NAME",
       "the name in the daemon's certificate");
  text("--token-file", globals.targets.token_file, "FILE",
       "file with the bearer token to show, which only you may read (default: ASSAY_TOKEN_FILE)");
  text("--format", globals.format, "WORD",
       "table, jsonl, csv, json, junit, html, markdown (default: by --output's name, else table)");
  text("--output", globals.output, "FILE", "write results to this file instead of standard output");
  text("--reconnect", globals.reconnect, "TIME",
       "how long to try to resume a lost connection (default 30s)");
  app.add_flag("--all", globals.every_row, "show every case or device, however many there are")
      ->group("Anywhere");
}

// The innermost command that was parsed. The words were meant for it.
const CLI::App* Innermost(const CLI::App& app) {
  const CLI::App* inner = &app;
  while (!inner->get_subcommands().empty()) inner = inner->get_subcommands().front();
  return inner;
}

// The line for an unknown word. It suggests a known word that is near.
std::string UnknownWord(const CLI::App& app, const std::string& word) {
  std::vector<std::string> known;
  for (const CLI::App* at = Innermost(app); at != nullptr; at = at->get_parent()) {
    if (word.starts_with("-")) {
      for (const CLI::Option* option : at->get_options()) {
        for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
      }
    } else if (at == Innermost(app)) {
      for (const CLI::App* sub : at->get_subcommands({})) known.push_back(sub->get_name());
    }
  }
  const std::string flag = word.substr(0, word.find('='));
  std::string path;
  for (const CLI::App* at = Innermost(app); at != nullptr; at = at->get_parent()) {
    path = path.empty() ? at->get_name() : absl::StrCat(at->get_name(), " ", path);
  }
  return absl::StrCat(word.starts_with("-") ? "unknown option " : "unknown word ", "\"", flag, "\"",
                      DidYouMean(flag, known), " (", path, " --help)");
}

// The option that CLI11 refused, as the user would say it: "priority", or "job".
std::string SaidName(const CLI::Option& option) {
  return option.get_lnames().empty() ? option.get_name() : option.get_lnames().front();
}

// The options of the innermost command that was parsed, and of those around it.
std::vector<const CLI::Option*> OptionsInReach(const CLI::App& app) {
  std::vector<const CLI::Option*> all;
  for (const CLI::App* at = Innermost(app); at != nullptr; at = at->get_parent()) {
    const std::vector<const CLI::Option*> own = at->get_options();
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

bool IsFlag(const CLI::Option& option) { return option.get_items_expected_max() == 0; }

// The option of a word such as "--limit". nullptr if the word is none, or has a value of its own.
const CLI::Option* OptionOfWord(const CLI::App& app, std::string word) {
  if (!word.starts_with('-')) return nullptr;
  if (word.ends_with('=')) word.pop_back();
  for (const CLI::Option* option : OptionsInReach(app)) {
    if (option->check_name(word)) return option;
  }
  return nullptr;
}

// Whether CLI11 takes the text as the value of a flag.
bool IsFlagValue(const std::string& text) {
  try {
    CLI::detail::to_flag_value(text);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

// An option that was given an empty text, such as --device "$DEVICE" without that variable. It must
// not pass for one that was not given. Flags, and options that may be said bare, are no such
// options. nullptr if there is none.
const CLI::Option* EmptyOption(const CLI::App& app) {
  for (const CLI::Option* option : OptionsInReach(app)) {
    if (option->get_items_expected_min() == 0) continue;
    const std::vector<std::string>& given = option->results();
    if (std::find(given.begin(), given.end(), "") != given.end()) return option;
  }
  return nullptr;
}

// Whether the option may name a file that is read.
bool ReadsFile(const CLI::Option& option) {
  if (option.check_lname("output")) return false;
  if (absl::StrContains(option.get_type_name(), "FILE")) return true;
  // Lists of tensors, and baselines, which may be stored ones, too.
  return option.check_lname("inputs") || option.get_type_name() == "BASELINE" ||
         option.get_name() == "baseline" || option.get_name() == "current";
}

// Whether --output would replace a file that the command reads.
bool ReplacesInput(const CLI::App& app, const std::string& output) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!fs::is_regular_file(output, error)) return false;
  for (const CLI::Option* option : OptionsInReach(app)) {
    if (!ReadsFile(*option)) continue;
    for (const std::string& text : option->results()) {
      for (const std::string& path : SplitList(text)) {
        if (fs::equivalent(path, output, error)) return true;
      }
    }
  }
  return false;
}

// What is wrong with a command line that CLI11 took; "" if nothing is.
std::string WhatElseIsWrong(const CLI::App& app, const std::string& output) {
  if (const std::vector<std::string> rest = app.remaining(true); !rest.empty()) {
    return UnknownWord(app, rest.front());
  }
  if (const CLI::Option* empty = EmptyOption(app); empty != nullptr) {
    return absl::StrCat(SaidName(*empty), ": takes ", empty->get_type_name(),
                        ", got an empty text");
  }
  if (ReplacesInput(app, output)) {
    return absl::StrCat("output: this command reads ", output, "; name another file");
  }
  return "";
}

// CLI11's complaint about a command line, in the form of all other refusals: the option, what it
// takes, what the user wrote. `last` is the last word that CLI11 had taken.
std::string WhatIsWrong(const CLI::App& app, const CLI::ParseError& error,
                        const std::string& last) {
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    const CLI::App* at = Innermost(app);
    std::vector<std::string> commands;
    for (const CLI::App* sub : at->get_subcommands({})) commands.push_back(sub->get_name());
    if (!commands.empty()) {
      const std::vector<std::string> others = app.remaining(/*recurse=*/true);
      return absl::StrCat(at->get_name(), ": say which command: ", absl::StrJoin(commands, ", "),
                          others.empty() ? "" : absl::StrCat("; got \"", others.front(), "\""));
    }
    for (const CLI::Option* option : at->get_options()) {
      if (!option->get_required() || option->count() > 0) continue;
      return absl::StrCat(SaidName(*option), ": is required: ", option->get_description());
    }
  }
  // A value is missing, not one too many: then the last word is an option that takes one.
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    const CLI::Option* option = OptionOfWord(app, last);
    if (option != nullptr && !IsFlag(*option)) {
      return absl::StrCat(SaidName(*option), ": takes ", option->get_type_name(), ", got nothing");
    }
  }
  // Texts and whole numbers (whole_number.h) are never converted in vain.
  if (dynamic_cast<const CLI::ConversionError*>(&error) != nullptr) {
    for (const CLI::Option* option : OptionsInReach(app)) {
      if (!IsFlag(*option)) continue;
      for (const std::string& text : option->results()) {
        if (IsFlagValue(text)) continue;
        return absl::StrCat(SaidName(*option), ": must be true or false, got \"", text, "\"");
      }
    }
  }
  return error.what();
}

// In the order of the help text.
void AddCommands(CLI::App& app, Context& context) {
  AddRunCommands(app, context);
  AddSelftestCommand(app, context);
  AddQualifyCommand(app, context);
  AddJobCommands(app, context);
  AddExplainCommand(app, context);
  AddCompareCommand(app, context);
  AddLintCommand(app, context);
  AddBaselineCommand(app, context);
  AddFleetCommand(app, context);
  AddInventoryCommands(app, context);
  AddAdminCommand(app, context);
}

}  // namespace

int RunCommandLine(const std::vector<std::string>& args, const Streams& streams) {
  for (const std::string& argument : args) {
    if (IsUtf8(argument)) continue;
    streams.err << "assay: \"" << absl::CHexEscape(argument) << "\" is not UTF-8\n" << std::flush;
    return static_cast<int>(ExitCode::kUsage);
  }
  Context context{streams, {}, {}};
  CLI::App app("Validates and benchmarks compute kernels on the devices of a fleet.", "assay");
  app.allow_extras();  // told below, with what is near
  app.set_version_flag("--version", "assay " ASSAY_VERSION);
  app.require_subcommand(0, 1);
  app.fallthrough();
  // Those that are added below take it over.
  app.formatter(std::make_shared<HelpFormat>(streams.width));
  AddGlobalOptions(app, context.globals);
  AddCommands(app, context);
  app.footer(
      "Exit codes: 0 passed, 1 failed, 2 usage or a malformed request,\n"
      "3 the daemon cannot be reached, or it refused, 4 ended without a verdict.");
  for (CLI::App* sub : app.get_subcommands({})) {
    sub->fallthrough();
    for (CLI::App* inner : sub->get_subcommands({})) inner->fallthrough();
  }
  std::vector<std::string> reversed(args.rbegin(), args.rend());
  try {
    app.parse(reversed);  // takes words off its end
  } catch (const CLI::CallForHelp&) {
    streams.out << app.help() << std::flush;
    return static_cast<int>(ExitCode::kPassed);
  } catch (const CLI::CallForVersion& version) {
    streams.out << version.what() << '\n' << std::flush;
    return static_cast<int>(ExitCode::kPassed);
  } catch (const CLI::ParseError& error) {
    const std::size_t taken = args.size() - reversed.size();
    const std::string last = taken == 0 ? "" : args[taken - 1];
    return static_cast<int>(
        context.Fail(absl::InvalidArgumentError(WhatIsWrong(app, error, last))));
  }
  if (const std::string wrong = WhatElseIsWrong(app, context.globals.output); !wrong.empty()) {
    return static_cast<int>(context.Fail(absl::InvalidArgumentError(wrong)));
  }
  if (!context.action) {
    streams.err << app.help() << std::flush;
    return static_cast<int>(ExitCode::kUsage);
  }
  // Every command checks --reconnect, although few reconnect.
  if (const auto reconnecting = context.Reconnecting(); !reconnecting.ok()) {
    return static_cast<int>(context.Fail(reconnecting.status()));
  }
  return static_cast<int>(context.action());
}

}  // namespace assay::client
