// Finds the nodes of a fleet from the words that people and schedulers use:
//
//     a07:7575, a08        addresses, or names of the targets file, with commas between
//     @racks/a.txt         a file with one of these words a line; # begins a comment
//     dns:assay.lab:7575   every address of the name
//     slurm:batch:7576     the nodes of a Slurm partition; slurm: is all nodes, slurm::7576 is all
//                          nodes at that port
//     k8s:app=assayd,lab   the pods with a label, in a namespace (default: kubectl's own)
#ifndef ASSAY_CLIENT_FLEET_TARGETS_H_
#define ASSAY_CLIENT_FLEET_TARGETS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/fleet/missing.h"
#include "client/lib/connection.h"

namespace assay::client {

struct FleetTargets {
  std::vector<Target> targets;          // each once
  std::vector<MissingNode> missing;     // names without an address, pods that do not run
  std::vector<std::string> duplicates;  // a line each
};

// The nodes that the words mean; none: ASSAY_TARGET, else 127.0.0.1:7575. `options` has
// the targets file and TLS. INVALID_ARGUMENT for what is malformed or a file that cannot be
// read; UNAVAILABLE where a scheduler's tool is missing, answers an error,
// or lists no node.
absl::StatusOr<FleetTargets> FindFleet(const std::vector<std::string>& words,
                                       const TargetOptions& options);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_FLEET_TARGETS_H_
