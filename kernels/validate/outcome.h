// What came of a case, as plain values.
#ifndef ASSAY_KERNELS_VALIDATE_OUTCOME_H_
#define ASSAY_KERNELS_VALIDATE_OUTCOME_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/bench/roofline.h"
#include "kernels/ops/case.h"
#include "kernels/ops/op.h"
#include "kernels/runtime/compare.h"
#include "kernels/runtime/device.h"

namespace assay {

// Values equal assay.v1.Verdict's; a test holds them together.
enum class Verdict : std::uint8_t {
  kUnspecified = 0,
  kPassed = 1,
  kFailed = 2,
  kInconclusive = 3,
  kUnsupported = 4,
  kError = 5,
  kSkipped = 6,
};

// A reason for a verdict. `reason` is one of the stable words of assay.v1.Finding.
struct Finding {
  std::string reason;
  std::string message;
};

// Non-finite outputs of one kind and origin.
struct Provenance {
  std::string_view kind;    // "nan", "inf"
  std::string_view origin;  // "input", "kernel", "unwritten"
  bool expected = false;
  std::int64_t count = 0;
  std::int64_t first = -1;  // logical index
};

struct PhaseTime {
  std::string_view phase;
  double seconds = 0;
};

struct CaseOutcome {
  Verdict verdict = Verdict::kUnspecified;
  std::vector<Finding> findings;  // most important first
  std::optional<CompareResult> compare;
  std::optional<Plan> plan;
  std::int64_t guard_hits = 0;
  std::optional<std::int64_t> unwritten;  // of either poison method
  std::optional<double> bias_z;
  std::optional<double> max_abs_score;
  std::optional<bool> deterministic;
  std::optional<double> atol;  // tolerances that gated, where any did
  std::optional<double> rtol;
  std::vector<Provenance> provenance;
  std::optional<BenchStats> bench;
  std::string implementation;
  std::vector<PhaseTime> phases;
  bool reports_ulp = false;  // the criterion asked for units in the last place
};

}  // namespace assay

#endif  // ASSAY_KERNELS_VALIDATE_OUTCOME_H_
