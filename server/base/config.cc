#include "server/base/config.h"

#include <toml++/toml.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>

#include "kernels/text/cat.h"
#include "server/base/config_options.h"

namespace assay::server {
namespace {

constexpr std::string_view kDefaultFile = "/etc/assay/assayd.toml";

absl::Status Invalid(const std::string& message) { return absl::InvalidArgumentError(message); }

// "FILE:3:7: ".
std::string At(std::string_view file, const toml::source_region& where) {
  return Cat(file, ":", where.begin.line, ":", where.begin.column, ": ");
}

// A scalar of the file, as the text that a flag would have. Nothing for tables and arrays.
std::optional<std::string> Scalar(const toml::node& node) {
  if (const auto* s = node.as_string()) return s->get();
  if (const auto* i = node.as_integer()) return std::to_string(i->get());
  if (const auto* f = node.as_floating_point()) return Cat(f->get());
  if (const auto* b = node.as_boolean()) return b->get() ? "true" : "false";
  return std::nullopt;
}

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string DefaultStateDir() {
  // systemd's StateDirectory= may name several folders. The first is the main one.
  if (const std::string dirs = Environment("STATE_DIRECTORY"); !dirs.empty()) {
    return dirs.substr(0, dirs.find(':'));
  }
  if (geteuid() == 0) return "/var/lib/assay";
  if (const std::string state = Environment("XDG_STATE_HOME"); !state.empty()) {
    return state + "/assay";
  }
  const std::string home = Environment("HOME");
  return home.empty() ? "/var/lib/assay" : home + "/.local/state/assay";
}

absl::Status ReadFile(const std::string& path, bool required, Config& config) {
  std::error_code none;
  if (std::filesystem::is_directory(path, none)) {
    return absl::NotFoundError(
        Cat("cannot read the configuration file ", path, ": it is a folder"));
  }
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  if (!file.is_open() || !file) {
    if (!required && access(path.c_str(), F_OK) != 0) return absl::OkStatus();
    return absl::NotFoundError(Cat("cannot read the configuration file ", path));
  }
  config.config_file = path;
  return ReadToml(text.str(), path, config);
}

absl::Status CheckTogether(const Config& config) {
  if (config.tls_cert.empty() != config.tls_key.empty()) {
    return Invalid(Cat("--tls-cert and --tls-key belong together; --tls-",
                       config.tls_cert.empty() ? "cert" : "key", " is missing"));
  }
  if (config.tls_cert.empty() && !config.tls_client_ca.empty()) {
    return Invalid("--tls-client-ca needs --tls-cert and --tls-key");
  }
  if (config.tls_client_ca.empty() && !config.tls_client_crl.empty()) {
    return Invalid("--tls-client-crl needs --tls-client-ca");
  }
  if (config.require_containment && config.no_containment) {
    return Invalid("--require-containment and --no-containment contradict each other; remove one");
  }
  const bool takes_libraries = std::find(config.user_kernels.begin(), config.user_kernels.end(),
                                         "library") != config.user_kernels.end();
  if (!config.user_kernel_dirs.empty() && !takes_libraries) {
    return Invalid("--user-kernel-dirs needs library among --user-kernels");
  }
  if (config.tls_cert.empty() && config.metrics_tls) {
    return Invalid("--metrics-tls needs --tls-cert and --tls-key");
  }
  return absl::OkStatus();
}

// Refuses the first word that the app has not understood, with a suggestion.
absl::Status RefuseUnknownWords(const CLI::App& app) {
  const std::vector<std::string> rest = app.remaining();
  if (rest.empty()) return absl::OkStatus();
  const std::string word = rest.front().substr(0, rest.front().find('='));
  if (!word.starts_with("--")) {
    return Invalid(Cat("unknown word \"", word, "\"; see assayd --help"));
  }
  std::string near = options::Near(word.substr(2));
  if (near.empty()) near = "; see assayd --help";
  return Invalid(Cat("unknown option \"", word, "\"", near));
}

// Reads the options that a command line gives, each with its CLI11 option, into `config`.
absl::Status ReadGiven(
    const std::vector<std::pair<const options::Option*, const CLI::Option*>>& made,
    Config& config) {
  for (const auto& [option, cli] : made) {
    if (cli->count() == 0) continue;
    const options::Values values =
        option->kind == options::Kind::kSwitch ? options::Values{"true"} : cli->results();
    if (const absl::Status status = option->field.read(values, config); !status.ok()) {
      return Invalid(Cat("--", option->name, " ", std::string(status.message())));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadToml(std::string_view text, std::string_view name, Config& config) {
  toml::table table;
  try {
    table = toml::parse(text, name);
  } catch (const toml::parse_error& e) {
    return Invalid(Cat(At(name, e.source()), e.description()));
  }
  for (const auto& [toml_key, node] : table) {
    const std::string key(toml_key.str());
    const options::Option* option = options::Find(key);
    if (option == nullptr) {
      return Invalid(
          Cat(At(name, toml_key.source()), "unknown key \"", key, "\"", options::Near(key)));
    }
    options::Values values;
    bool readable = true;
    const auto add = [&](const toml::node& n) {
      const std::optional<std::string> scalar = Scalar(n);
      readable = readable && scalar.has_value();
      if (scalar) values.push_back(*scalar);
    };
    if (const toml::array* array = node.as_array(); array != nullptr) {
      readable = option->kind == options::Kind::kList;
      for (const toml::node& element : *array) add(element);
    } else {
      add(node);
    }
    if (!readable || (values.empty() && option->kind != options::Kind::kList)) {
      return Invalid(Cat(At(name, node.source()), key, " must be ",
                         option->kind == options::Kind::kList
                             ? "a string or an array of strings"
                             : "one value, not a table or an array"));
    }
    if (const absl::Status status = option->field.read(values, config); !status.ok()) {
      return Invalid(Cat(At(name, node.source()), key, " ", std::string(status.message())));
    }
  }
  return absl::OkStatus();
}

ConfigChanges ChangesTo(const Config& read, Config& now) {
  ConfigChanges changes;
  for (const options::Option& option : options::Table()) {
    if (option.field.same(read, now)) continue;
    if (option.reloadable) option.field.copy(read, now);
    (option.reloadable ? changes.taken : changes.need_restart).emplace_back(option.name);
  }
  return changes;
}

std::vector<std::string_view> ReloadableOptions() {
  std::vector<std::string_view> names;
  for (const options::Option& option : options::Table()) {
    if (option.reloadable) names.push_back(option.name);
  }
  return names;
}

absl::StatusOr<ParsedArguments> ParseArguments(int argc, const char* const* argv,
                                               std::string_view version) {
  CLI::App app("Validates and benchmarks compute kernels on the devices of this node.", "assayd");
  app.set_version_flag("--version", Cat("assayd ", version));
  std::string file;
  const CLI::Option* const config =
      app.add_option("--config", file,
                     Cat("TOML file in which every option is a key without the dashes (default ",
                         kDefaultFile, " if it exists)"))
          ->type_name("FILE");
  // The elements must not move, because CLI11 writes into them.
  std::deque<std::pair<const options::Option*, options::Values>> given;
  std::deque<bool> switches;
  std::vector<std::pair<const options::Option*, const CLI::Option*>> made;
  for (const options::Option& option : options::Table()) {
    const std::string flag = Cat("--", option.name);
    if (option.kind == options::Kind::kSwitch) {
      switches.push_back(false);
      made.emplace_back(&option, app.add_flag(flag, switches.back(), std::string(option.help)));
    } else {
      given.emplace_back(&option, options::Values{});
      CLI::Option* o = app.add_option(flag, given.back().second, std::string(option.help));
      o->type_name(std::string(option.placeholder));
      if (option.kind == options::Kind::kList) {
        o->allow_extra_args(false);  // --listen A --listen B, never --listen A B
      } else {
        o->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
      }
      made.emplace_back(&option, o);
    }
  }
  ParsedArguments parsed;
  app.allow_extras();  // refused below, with a suggestion
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    parsed.print = app.help();
    return parsed;
  } catch (const CLI::CallForVersion& e) {
    parsed.print = Cat(e.what(), "\n");
    return parsed;
  } catch (const CLI::ParseError& e) {
    return Invalid(Cat(e.what(), "; see assayd --help"));
  }
  if (absl::Status status = RefuseUnknownWords(app); !status.ok()) return status;

  if (config->count() > 0 && file.empty()) {
    return Invalid("--config must not be empty; give it a value or leave it out");
  }
  if (absl::Status status =
          ReadFile(file.empty() ? std::string(kDefaultFile) : file, !file.empty(), parsed.config);
      !status.ok()) {
    return status;
  }
  if (absl::Status status = ReadGiven(made, parsed.config); !status.ok()) return status;
  if (parsed.config.state_dir.empty()) parsed.config.state_dir = DefaultStateDir();
  if (absl::Status status = CheckTogether(parsed.config); !status.ok()) return status;
  return parsed;
}

}  // namespace assay::server
