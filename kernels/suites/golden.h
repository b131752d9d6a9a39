// Golden digests: what the exact probes of a suite's cases must give on every device,
// provider and tiling. A file golden/<suite>.tsv beside the suites holds one line a case
// and probe: the case without its provider, the probe, the canonical digest.
#ifndef ASSAY_KERNELS_SUITES_GOLDEN_H_
#define ASSAY_KERNELS_SUITES_GOLDEN_H_

#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "kernels/ops/case.h"
#include "kernels/suites/suite.h"

namespace assay {

// Case -> probe -> digest, hexadecimal.
using Golden = std::map<std::string, std::map<std::string, std::string>>;

// Problem and formats, which alone decide a probe's output: "gemm 64x64x64 bf16".
std::string GoldenKey(const Case& c);

// INVALID_ARGUMENT names file and line.
absl::StatusOr<Golden> ParseGolden(std::string_view text, std::string_view file_name);

// The text of what ParseGolden reads, sorted.
std::string GoldenText(const Golden& golden);

// Those of folder/golden/name.tsv; empty where the suite ships none.
absl::StatusOr<Golden> ReadGolden(const std::string& folder, std::string_view name);

// Gives each case its own, those that fill a budget too.
void ApplyGolden(const Golden& golden, Suite& suite);

}  // namespace assay

#endif  // ASSAY_KERNELS_SUITES_GOLDEN_H_
