// Reads golden digests: the digests that the exact cases of a suite must give on every device,
// provider and tiling. The file golden/<suite>.tsv beside the suites has one line for each exact
// case of each case: the case without its provider, the name of the exact case, and the canonical
// digest.
#ifndef ASSAY_KERNELS_SUITES_GOLDEN_H_
#define ASSAY_KERNELS_SUITES_GOLDEN_H_

#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "kernels/ops/case.h"
#include "kernels/suites/suite.h"

namespace assay::inline kernels {

// Case -> probe -> digest in hexadecimal.
using Golden = std::map<std::string, std::map<std::string, std::string>>;

// The key of a case, such as "gemm 64x64x64 bf16": its problem and formats. Nothing else affects a
// probe's output.
std::string GoldenKey(const Case& c);

// Parses the text of a file. INVALID_ARGUMENT names file and line.
absl::StatusOr<Golden> ParseGolden(std::string_view text, std::string_view file_name);

// Writes the text that ParseGolden reads, sorted.
std::string GoldenText(const Golden& golden);

// Reads folder/golden/name.tsv. Returns an empty table if the suite has no such file.
absl::StatusOr<Golden> ReadGolden(const std::string& folder, std::string_view name);

// Gives each case of the suite its digests. Cases that fill a budget get theirs, too.
void ApplyGolden(const Golden& golden, Suite& suite);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_SUITES_GOLDEN_H_
