// Reads suites. A suite is a TOML file of cases; suites/README.md describes its schema.
#ifndef ASSAY_KERNELS_SUITES_SUITE_H_
#define ASSAY_KERNELS_SUITES_SUITE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/ops/case.h"

namespace assay::inline kernels {

// A kernel that a suite requires. If it is UNSUPPORTED, the run of the suite is not a pass.
struct Requirement {
  std::string op;
  std::string provider;
  std::vector<DType> dtypes;
  std::string backend;
};

struct Suite {
  std::string name;
  std::string title;
  std::string version;
  std::vector<Requirement> requirements;
  std::vector<Case> cases;  // expanded for one backend; a provider may be "all"
  // Cases that are repeated, with new seeds, while the budget lasts. Empty if there is no budget.
  std::vector<Case> fill;
  std::optional<double> budget_seconds;  // [seconds] for the cases on one device
  std::string text;                      // the text of the file
};

// The most cases that a suite may expand to. Cases of other backends count, too.
inline constexpr std::int64_t kMaxSuiteCases = 100'000;
inline constexpr int kMaxBudgetSeconds = 7 * 24 * 3600;

// Reads a suite for a backend ("cpu", "cuda", "hip"). INVALID_ARGUMENT has one line for each
// mistake, with file, line and column: "kernel-lab.toml:12:7: unknown key \"dtyp\"; did you mean
// \"dtype\"?". The reader reports the first mistake of each table, and all mistakes of the first
// case in it that is not possible.
absl::StatusOr<Suite> ParseSuite(std::string_view text, std::string_view file_name,
                                 std::string_view backend);

// The names of the suites (*.toml) in a folder, sorted. Empty if there is no such folder.
std::vector<std::string> ListSuiteNames(const std::string& folder);

// Reads the text of folder/name.toml. If there is no such suite, NOT_FOUND suggests a similar name.
absl::StatusOr<std::string> ReadSuiteText(const std::string& folder, std::string_view name);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_SUITES_SUITE_H_
