// Roles of callers, and the one table that says which role a call needs.
#ifndef ASSAY_SERVER_AUTH_ROLE_H_
#define ASSAY_SERVER_AUTH_ROLE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace assay::server {

// Each role may do what those before it may.
enum class Role : std::uint8_t {
  kNone,
  kViewer,    // reads
  kOperator,  // uses devices: jobs, comparisons, baselines
  kAdmin,     // deletes what is stored
};

// "viewer", "operator", "admin"; "no role".
std::string_view Word(Role role);
std::optional<Role> ParseRole(std::string_view word);

// What a call of ValidationService needs. "ListDevices.measure_ceilings" is ListDevices with that
// field set, "GET /metrics" a request to the metrics port.
struct Needed {
  std::string_view call;
  Role role;
  // Whether it changes something or uses a device, so that the log has a line of it.
  bool audited;
};
std::span<const Needed> NeededRoles();

// Null: nobody may call it.
const Needed* FindNeeded(std::string_view call);

}  // namespace assay::server

#endif  // ASSAY_SERVER_AUTH_ROLE_H_
