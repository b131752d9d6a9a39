// Suites: files of cases. A suite is TOML; docs of the schema are in suites/README.md.
#ifndef ASSAY_KERNELS_SUITES_SUITE_H_
#define ASSAY_KERNELS_SUITES_SUITE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/ops/case.h"

namespace assay {

// A kernel without which a suite's run is not a pass.
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
  std::vector<Case> cases;  // expanded for one backend; provider may be "all"
  // Cases that are repeated, with new seeds, while the budget lasts; none without one.
  std::vector<Case> fill;
  std::optional<double> budget_seconds;  // for the cases on one device
  std::string text;                      // as read
};

// Most cases a suite expands to, those of other backends included.
inline constexpr std::int64_t kMaxSuiteCases = 100'000;
inline constexpr int kMaxBudgetSeconds = 7 * 24 * 3600;

// Reads a suite for a backend ("cpu", "cuda", "hip"). INVALID_ARGUMENT names
// file, line and column: "kernel-lab.toml:12:7: unknown key \"dtyp\"; did you mean \"dtype\"?",
// a line for each mistake, one a table but for those of a case that cannot be.
absl::StatusOr<Suite> ParseSuite(std::string_view text, std::string_view file_name,
                                 std::string_view backend);

// Names of the suites (*.toml) in a folder, sorted; empty where there is none.
std::vector<std::string> ListSuiteNames(const std::string& folder);

// The text of folder/name.toml. NOT_FOUND with a near name where there is none.
absl::StatusOr<std::string> ReadSuiteText(const std::string& folder, std::string_view name);

}  // namespace assay

#endif  // ASSAY_KERNELS_SUITES_SUITE_H_
