#include "server/auth/roles_file.h"

#include <openssl/sha.h>
#include <toml++/toml.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "kernels/text/cat.h"
#include "proto/near_name.h"
#include "server/auth/plain_file.h"

namespace assay::server {
namespace {

// "FILE:3:7: ".
std::string At(std::string_view file, const toml::source_region& where) {
  return Cat(file, ":", where.begin.line, ":", where.begin.column, ": ");
}

// One [[client]] or [[token]].
class Entry {
 public:
  Entry(std::string_view file, const toml::table& table, std::vector<std::string_view> keys)
      : file_(file), table_(table), keys_(std::move(keys)) {}

  absl::Status CheckKeys() const {
    for (const auto& [key, node] : table_) {
      if (std::find(keys_.begin(), keys_.end(), key.str()) != keys_.end()) continue;
      const std::string_view near = NearestName(key.str(), keys_);
      return Invalid(key.source(), Cat("unknown key \"", key.str(), "\"",
                                       near.empty() ? "" : Cat("; did you mean \"", near, "\"?")));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> Text(std::string_view key) const {
    const toml::node* node = table_.get(key);
    if (node == nullptr) return Invalid(table_.source(), Cat(key, " is missing"));
    const auto* text = node->as_string();
    if (text == nullptr || text->get().empty()) {
      return Invalid(node->source(), Cat(key, " must be a text that is not empty"));
    }
    return text->get();
  }

  absl::StatusOr<Role> RoleOf() const {
    absl::StatusOr<std::string> word = Text("role");
    if (!word.ok()) return word.status();
    const std::optional<Role> role = ParseRole(*word);
    if (role) return *role;
    return Invalid(table_.get("role")->source(),
                   Cat("role must be viewer, operator or admin, got \"", *word, "\""));
  }

  absl::Status Invalid(const toml::source_region& where, std::string_view what) const {
    return absl::InvalidArgumentError(Cat(At(file_, where), what));
  }
  const toml::table& table() const { return table_; }

 private:
  std::string_view file_;
  const toml::table& table_;
  std::vector<std::string_view> keys_;
};

absl::Status TakeClient(const Entry& entry, Roles& roles) {
  if (absl::Status s = entry.CheckKeys(); !s.ok()) return s;
  absl::StatusOr<std::string> name = entry.Text("name");
  if (!name.ok()) return name.status();
  const toml::source_region& where = entry.table().get("name")->source();
  std::int64_t uid = 0;
  if (name->starts_with(kUidPrefix) &&
      (!absl::SimpleAtoi(name->substr(kUidPrefix.size()), &uid) || uid < 0 || uid > UINT32_MAX ||
       *name != Cat(kUidPrefix, uid))) {
    return entry.Invalid(where,
                         Cat("name must have a user's number after uid:, got \"", *name, "\""));
  }
  const absl::StatusOr<Role> role = entry.RoleOf();
  if (!role.ok()) return role.status();
  if (!roles.clients.emplace(*name, *role).second) {
    return entry.Invalid(where, Cat("name \"", *name, "\" stands twice"));
  }
  return absl::OkStatus();
}

absl::Status TakeToken(const Entry& entry, Roles& roles) {
  if (absl::Status s = entry.CheckKeys(); !s.ok()) return s;
  absl::StatusOr<std::string> hash = entry.Text("sha256");
  if (!hash.ok()) return hash.status();
  const toml::source_region& where = entry.table().get("sha256")->source();
  TokenRole token;
  const bool hexadecimal =
      hash->size() == 2 * token.sha256.size() &&
      std::all_of(hash->begin(), hash->end(), [](char c) { return absl::ascii_isxdigit(c); });
  if (!hexadecimal) {
    return entry.Invalid(where,
                         "sha256 must have 64 hexadecimal digits: printf %s TOKEN | "
                         "sha256sum");
  }
  const std::string bytes = absl::HexStringToBytes(*hash);
  std::copy(bytes.begin(), bytes.end(), token.sha256.begin());
  if (token.sha256 == Sha256Of("")) {
    return entry.Invalid(where, "this is the sha256 of an empty token");
  }
  const absl::StatusOr<Role> role = entry.RoleOf();
  if (!role.ok()) return role.status();
  token.role = *role;
  token.name = hash->substr(0, 8);
  if (entry.table().contains("name")) {
    absl::StatusOr<std::string> name = entry.Text("name");
    if (!name.ok()) return name.status();
    token.name = *std::move(name);
  }
  for (const TokenRole& other : roles.tokens) {
    if (other.sha256 == token.sha256) return entry.Invalid(where, "this sha256 stands twice");
  }
  roles.tokens.push_back(std::move(token));
  return absl::OkStatus();
}

}  // namespace

Sha256 Sha256Of(std::string_view bytes) {
  Sha256 hash{};
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), hash.data());
  return hash;
}

absl::StatusOr<Roles> ParseRoles(std::string_view text, std::string_view name) {
  toml::table file;
  try {
    file = toml::parse(text, name);
  } catch (const toml::parse_error& e) {
    return absl::InvalidArgumentError(Cat(At(name, e.source()), e.description()));
  }
  Roles roles;
  for (const auto& [key, node] : file) {
    const bool client = key.str() == "client";
    const toml::array* entries = node.as_array();
    const bool tables =
        entries != nullptr && std::all_of(entries->begin(), entries->end(),
                                          [](const toml::node& n) { return n.is_table(); });
    if ((!client && key.str() != "token") || !tables) {
      return absl::InvalidArgumentError(Cat(At(name, key.source()), "\"", key.str(),
                                            "\" is not known here; a file of roles has [[client]] "
                                            "and [[token]]"));
    }
    for (const toml::node& one : *entries) {
      const Entry entry(name, *one.as_table(),
                        client ? std::vector<std::string_view>{"name", "role"}
                               : std::vector<std::string_view>{"name", "sha256", "role"});
      if (absl::Status s = client ? TakeClient(entry, roles) : TakeToken(entry, roles); !s.ok()) {
        return s;
      }
    }
  }
  return roles;
}

absl::StatusOr<Roles> ReadRolesFile(const std::string& path) {
  constexpr std::string_view kFlag = "--roles-file";
  const absl::StatusOr<PlainFile> file = ReadPlainFile(path, kFlag);
  if (!file.ok()) return file.status();
  if (absl::Status s = CheckPrivate(*file, path, kFlag); !s.ok()) return s;
  if (const uid_t owner = file->about.st_uid; owner != 0 && owner != geteuid()) {
    return absl::InvalidArgumentError(Cat(
        kFlag, ": ", path, " belongs to the user ", owner,
        ", who could change it: it must belong to root or to the daemon's user (", geteuid(), ")"));
  }
  return ParseRoles(file->text, path);
}

}  // namespace assay::server
