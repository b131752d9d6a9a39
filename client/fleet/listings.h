// Reads what schedulers list: the nodes of Slurm's sinfo, and the pods of kubectl. All functions
// are pure.
#ifndef ASSAY_CLIENT_FLEET_LISTINGS_H_
#define ASSAY_CLIENT_FLEET_LISTINGS_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/fleet/missing.h"

namespace assay::client {

// The port of a daemon that no list says.
inline constexpr char kDefaultPort[] = "7575";

// The names of `sinfo -h -N -o %N` or `scontrol show hostnames`, one a line. A name may come twice.
std::vector<std::string> ReadHosts(std::string_view answer);

struct Pods {
  std::vector<std::string> addresses;  // of those that run: "10.0.0.1:7575"
  std::vector<MissingNode> missing;    // the others
};

// The pods of `kubectl get pods -o json`. The port is the one that a container names "grpc".
// UNAVAILABLE if the answer is no list of pods.
absl::StatusOr<Pods> ReadPods(std::string_view answer);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_FLEET_LISTINGS_H_
