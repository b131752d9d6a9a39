#include "client/lib/targets_file.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/lib/connection.h"
#include "client/lib/parse.h"
#include "client/lib/words.h"

// Errors come back as values: no exception leaves this file.
#define TOML_EXCEPTIONS 0
// In toml++ an assertion of what foreign text decides ("[%" breaks it) stands before the code that
// reports the same as an error. Without the assertion the error is reported.
#define TOML_ASSERT(expr) static_cast<void>(0)
#include "toml++/toml.h"

namespace assay::client {
namespace {

absl::Status At(const std::string& path, const toml::source_region& where,
                const std::string& message) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, ":", where.begin.line, ":", where.begin.column, ": ", message));
}

absl::StatusOr<std::vector<Target>> ReadTarget(const std::string& path, const toml::table& table) {
  static const std::vector<std::string> kKeys = {"address", "tls-ca",          "tls-cert",
                                                 "tls-key", "tls-server-name", "token-file"};
  TlsOptions tls;
  std::string token_file;
  std::vector<std::string> addresses;
  for (const auto& [key, value] : table) {
    const std::string name(key.str());
    const std::optional<std::string> text = value.value<std::string>();
    if (name == "address") {
      if (text) addresses.push_back(*text);
      if (const toml::array* list = value.as_array()) {
        for (const toml::node& node : *list) {
          if (auto one = node.value<std::string>()) addresses.push_back(*one);
        }
      }
      continue;
    }
    std::string* field = name == "tls-ca"            ? &tls.ca
                         : name == "tls-cert"        ? &tls.cert
                         : name == "tls-key"         ? &tls.key
                         : name == "tls-server-name" ? &tls.server_name
                         : name == "token-file"      ? &token_file
                                                     : nullptr;
    if (field == nullptr) {
      return At(path, value.source(),
                absl::StrCat("unknown key \"", name, "\"", DidYouMean(name, kKeys)));
    }
    if (!text) return At(path, value.source(), absl::StrCat(name, " must be a string"));
    *field = *text;
  }
  if (addresses.empty()) {
    return At(path, table.source(), "a target needs address = \"HOST:PORT\", or a list of them");
  }
  std::vector<Target> targets;
  targets.reserve(addresses.size());
  for (std::string& address : addresses) targets.push_back({std::move(address), tls, token_file});
  return targets;
}

absl::StatusOr<TargetsFile> Read(const toml::parse_result& parsed, const std::string& path) {
  if (!parsed) {
    return At(path, parsed.error().source(), std::string(parsed.error().description()));
  }
  TargetsFile file;
  const toml::table* targets = parsed.table()["targets"].as_table();
  if (targets == nullptr) return file;
  for (const auto& [key, value] : *targets) {
    const std::string name(key.str());
    if (const std::optional<std::string> text = value.value<std::string>()) {
      file[name] = {{*text, {}, {}}};
      continue;
    }
    const toml::table* table = value.as_table();
    if (table == nullptr) {
      return At(path, value.source(),
                absl::StrCat("targets.", name, " must be an address or a table"));
    }
    auto read = ReadTarget(path, *table);
    if (!read.ok()) return read.status();
    file[name] = *std::move(read);
  }
  return file;
}

}  // namespace

absl::StatusOr<TargetsFile> ParseTargetsFile(std::string_view text, const std::string& path) {
  return Read(toml::parse(text), path);
}

absl::StatusOr<TargetsFile> ReadTargetsFile(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("targets-file: ", text.status().message()));
  }
  return ParseTargetsFile(*text, path);
}

}  // namespace assay::client
