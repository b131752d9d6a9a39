// Opens a file on the node that a client names, if it lies in a folder that the operator approved.
#ifndef ASSAY_SERVER_KERNELS_NODE_FILE_H_
#define ASSAY_SERVER_KERNELS_NODE_FILE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace assay::server {

// Opens the plain file `path` for reading, and returns its descriptor, which the caller owns. The
// system resolves the path below the approved folder, so neither ".." nor a link leads out of it,
// whoever changes files meanwhile. INVALID_ARGUMENT: not absolute, or no plain file.
// PERMISSION_DENIED: outside every folder. NOT_FOUND: there is no such file in the folder.
absl::StatusOr<int> OpenNodeFile(const std::string& path, const std::vector<std::string>& folders);

}  // namespace assay::server

#endif  // ASSAY_SERVER_KERNELS_NODE_FILE_H_
