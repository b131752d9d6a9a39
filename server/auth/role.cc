#include "server/auth/role.h"

#include <algorithm>
#include <iterator>

namespace assay::server {
namespace {

constexpr std::string_view kWords[] = {"no role", "viewer", "operator", "admin"};

constexpr Needed kNeeded[] = {
    {"GetJob", Role::kViewer, false},
    {"ListJobs", Role::kViewer, false},
    {"WatchJob", Role::kViewer, false},
    {"ListCaseResults", Role::kViewer, false},
    {"ListDevices", Role::kViewer, false},
    {"ListKernels", Role::kViewer, false},
    {"ListSuites", Role::kViewer, false},
    {"GetServerInfo", Role::kViewer, false},
    {"GetBaseline", Role::kViewer, false},
    {"ListBaselines", Role::kViewer, false},
    {"CompareBaselines", Role::kViewer, false},
    {"GET /metrics", Role::kViewer, false},
    {"GET /health", Role::kViewer, false},
    {"CreateJob", Role::kOperator, true},
    {"CancelJob", Role::kOperator, true},
    {"CompareTensors", Role::kOperator, true},
    {"ValidateExternal", Role::kOperator, true},
    {"UploadKernel", Role::kOperator, true},
    {"ListDevices.measure_ceilings", Role::kOperator, true},
    {"ReleaseDevice", Role::kOperator, true},
    {"CreateBaseline", Role::kOperator, true},
    {"DeleteJob", Role::kAdmin, true},
    {"DeleteBaseline", Role::kAdmin, true},
    {"BackupStore", Role::kAdmin, true},
    {"ListAuditEvents", Role::kAdmin, true},
};

}  // namespace

std::string_view Word(Role role) { return kWords[static_cast<std::size_t>(role)]; }

std::optional<Role> ParseRole(std::string_view word) {
  for (const Role role : {Role::kViewer, Role::kOperator, Role::kAdmin}) {
    if (word == Word(role)) return role;
  }
  return std::nullopt;
}

std::span<const Needed> NeededRoles() { return kNeeded; }

const Needed* FindNeeded(std::string_view call) {
  const auto* found = std::find_if(std::begin(kNeeded), std::end(kNeeded),
                                   [&](const Needed& needed) { return needed.call == call; });
  return found == std::end(kNeeded) ? nullptr : found;
}

}  // namespace assay::server
