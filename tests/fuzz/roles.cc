#include "server/auth/roles_file.h"
#include "tests/fuzz/fuzz.h"

void assay::fuzz::FuzzRoles(std::string_view bytes) {
  const auto roles = server::ParseRoles(bytes, "roles.toml");
  if (!roles.ok()) {
    Require(absl::IsInvalidArgument(roles.status()), roles.status().ToString());
    return;
  }
  for (const auto& [name, role] : roles->clients) {
    Require(!name.empty() && role != server::Role::kNone, "a client without a name or a role");
  }
  for (const server::TokenRole& token : roles->tokens) {
    Require(token.role != server::Role::kNone, "a token without a role");
  }
}
