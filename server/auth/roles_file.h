// The file of --roles-file: who has which role. In TOML:
//
//     [[client]]
//     name = "ops.example"      # common name or alternative name of a certificate, or "uid:1000"
//     role = "operator"         # viewer, operator or admin
//
//     [[token]]
//     name = "nightly"          # as the log names its bearer; optional
//     sha256 = "9f86d081…"      # of the token's bytes, 64 hexadecimal digits
//     role = "viewer"
#ifndef ASSAY_SERVER_AUTH_ROLES_FILE_H_
#define ASSAY_SERVER_AUTH_ROLES_FILE_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/auth/role.h"

namespace assay::server {

// Before a user's number in the name of a client: "uid:1000", a user of a Unix socket.
inline constexpr std::string_view kUidPrefix = "uid:";

using Sha256 = std::array<std::uint8_t, 32>;
Sha256 Sha256Of(std::string_view bytes);

struct TokenRole {
  std::string name;
  Sha256 sha256{};
  Role role = Role::kNone;
};

struct Roles {
  std::map<std::string, Role, std::less<>> clients;
  std::vector<TokenRole> tokens;
};

// Reads the text of a file. INVALID_ARGUMENT with one line that says what is wrong and where;
// messages call the text `name`. A name or a hash that stands twice is an error.
absl::StatusOr<Roles> ParseRoles(std::string_view text, std::string_view name);

// Reads a file. NOT_FOUND if it cannot be read, INVALID_ARGUMENT if others than its owner and group
// may read it or others than its owner may write it, and as ParseRoles.
absl::StatusOr<Roles> ReadRolesFile(const std::string& path);

}  // namespace assay::server

#endif  // ASSAY_SERVER_AUTH_ROLES_FILE_H_
