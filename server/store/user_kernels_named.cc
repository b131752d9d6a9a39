#include "server/store/user_kernels_named.h"

#include <string_view>

#include "server/base/case_spec.h"

namespace assay::server {
namespace {

constexpr std::size_t kIdLength = 12;

// Adds every "user/" that 12 hexadecimal digits follow. The bytes are messages and TOML, in which
// a provider's name stands as it is.
void AddNamed(std::string_view bytes, std::set<std::string>& names) {
  constexpr std::size_t kLength = kUserKernelPrefix.size() + kIdLength;
  for (std::size_t at = bytes.find(kUserKernelPrefix); at != bytes.npos;
       at = bytes.find(kUserKernelPrefix, at + 1)) {
    const std::string_view name = bytes.substr(at, kLength);
    if (name.size() == kLength &&
        name.substr(kUserKernelPrefix.size()).find_first_not_of("0123456789abcdef") == name.npos) {
      names.emplace(name);
    }
  }
}

}  // namespace

absl::StatusOr<std::set<std::string>> ReadUserKernels(Database& database) {
  std::set<std::string> names;
  for (const char* sql : {"SELECT spec FROM jobs WHERE spec IS NOT NULL",
                          "SELECT summary FROM jobs", "SELECT cases FROM plans"}) {
    absl::StatusOr<Statement> rows = database.Prepare(sql);
    if (!rows.ok()) return rows.status();
    for (;;) {
      const absl::StatusOr<bool> row = rows->Step();
      if (!row.ok()) return row.status();
      if (!*row) break;
      AddNamed(rows->Bytes(0), names);
    }
  }
  return names;
}

}  // namespace assay::server
