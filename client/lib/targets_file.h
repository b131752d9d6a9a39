// Reads the file of named targets. connection.h shows its form.
#ifndef ASSAY_CLIENT_LIB_TARGETS_FILE_H_
#define ASSAY_CLIENT_LIB_TARGETS_FILE_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace assay::client {

struct Target;

// Name -> the daemons it stands for.
using TargetsFile = std::map<std::string, std::vector<Target>>;

// Reads the text of a file. INVALID_ARGUMENT names file, line and what is wrong; messages call the
// file `path`.
absl::StatusOr<TargetsFile> ParseTargetsFile(std::string_view text, const std::string& path);

// Reads a file. INVALID_ARGUMENT if it cannot be read, and as ParseTargetsFile.
absl::StatusOr<TargetsFile> ReadTargetsFile(const std::string& path);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_LIB_TARGETS_FILE_H_
