// An offload bundle: what hipcc --genco writes. It holds one code object for each target, and for
// the host none.
#ifndef ASSAY_CLIENT_LINT_OFFLOAD_BUNDLE_H_
#define ASSAY_CLIENT_LINT_OFFLOAD_BUNDLE_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace assay::client {

bool IsOffloadBundle(std::string_view bytes);

// The code objects for devices, in the order of the bundle. INVALID_ARGUMENT: it is cut off.
// The format is that of clang-offload-bundler.
absl::StatusOr<std::vector<std::string>> UnpackOffloadBundle(std::string_view bytes);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_LINT_OFFLOAD_BUNDLE_H_
