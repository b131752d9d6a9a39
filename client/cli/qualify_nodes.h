// Finds the nodes that `assay qualify` asks, and joins their answers.
#ifndef ASSAY_CLIENT_CLI_QUALIFY_NODES_H_
#define ASSAY_CLIENT_CLI_QUALIFY_NODES_H_

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/context.h"
#include "client/qualify/report.h"

namespace assay::client {

// The daemons that --target names, in the ways a fleet's nodes are named, each once. Says which
// is named again; names that lead to none are missing. Errors as FindFleet's.
absl::StatusOr<std::vector<std::unique_ptr<Connection>>> ConnectNodes(const Context& context,
                                                                      QualificationReport& report);

// Keeps one of the devices that were asked at two addresses, the heaviest where they are sorted,
// and says so.
void CountOnce(const Context& context, QualificationReport& report);

// Says which of the devices that --ignore names are none of those `seen` on the nodes.
void TellIgnoredNowhere(const Context& context, const std::set<std::string>& ignored,
                        const std::set<std::string>& seen);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_CLI_QUALIFY_NODES_H_
