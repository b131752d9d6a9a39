// CaseOutcome: the result of a case, as plain values.
#ifndef ASSAY_KERNELS_JUDGE_OUTCOME_H_
#define ASSAY_KERNELS_JUDGE_OUTCOME_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/bench/roofline.h"
#include "kernels/judge/finding.h"
#include "kernels/judge/phase.h"
#include "kernels/ops/case.h"
#include "kernels/ops/operand_stats.h"
#include "kernels/ops/plan.h"
#include "kernels/runtime/compare.h"
#include "kernels/runtime/device.h"

namespace assay::inline kernels {

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

// Non-finite outputs of one kind and origin.
struct Provenance {
  std::string_view kind;    // "nan", "inf"
  std::string_view origin;  // "input", "kernel", "unwritten"
  bool expected = false;
  std::int64_t count = 0;
  std::int64_t first = -1;  // logical index
};

// An exact case or an identity: see Op::Probes.
struct ProbeOutcome {
  std::string name;
  Verdict verdict = Verdict::kUnspecified;  // PASSED, FAILED, or SKIPPED with the reason
  std::string message;
  bool refused = false;  // SKIPPED by the kernel or for want of memory, not by design
  std::int64_t count = 0;
  std::int64_t mismatches = 0;
  std::string digest;          // canonical, hexadecimal; empty for identities
  std::optional<bool> golden;  // whether it is the golden digest, where there is one
  std::optional<ElementSample> first;
};

// What a criterion makes of the output, whichever gated.
struct CriterionOutcome {
  Criterion criterion = Criterion::kUnspecified;
  bool passed = false;
  std::optional<std::int64_t> mismatches;
  std::optional<double> atol;
  std::optional<double> rtol;
};

struct ChecksumOutcome {
  int probes = 0;
  std::optional<double> max_row_ratio;  // |residual| / rigorous threshold
  std::optional<double> max_column_ratio;
  std::int64_t screened_rows = 0;
  std::int64_t wrong_elements = 0;
  std::vector<std::int64_t> located;  // where row and column checksums meet
};

// Elements that were asked for: "actual[0:8,0:8]".
struct Slice {
  std::string name;
  std::vector<std::int64_t> begin;  // coordinates of the first element
  std::vector<std::int64_t> shape;
  std::vector<double> values;
  std::vector<std::string> bits;  // of stored tensors
};

// How exactly a kernel computed; assay.v1.Precision says what each field means.
struct Precision {
  double bits = 0;
  double declared_bits = 0;
  double rms = 0;
  std::optional<double> gain;
  std::optional<double> gain_error;
  std::optional<double> offset;
  std::string looks_like;
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
  int launches = 1;            // that had to agree
  int odd_launches = 0;        // whose output is not the most frequent one
  std::optional<double> atol;  // tolerances that gated, where any did
  std::optional<double> rtol;
  std::vector<Provenance> provenance;
  std::optional<BenchStats> bench;
  std::string implementation;
  std::vector<PhaseTime> phases;
  Phase last_phase = Phase::kPlan;  // the step that the case came to; exact cases are none
  bool reports_ulp = false;         // the criterion asked for units in the last place
  std::vector<ProbeOutcome> probes;
  std::vector<CriterionOutcome> criteria;
  std::vector<OperandStats> inputs;
  std::optional<ChecksumOutcome> checksum;
  std::string pattern_of_errors;  // how the errors lie; empty where nothing is wrong
  std::string reads_as;           // the likely cause; empty where none is known
  std::string next_step;
  std::vector<Slice> slices;
  std::optional<Precision> precision;
  std::vector<std::string> loaded_libraries;  // by a kernel in a process of its own
  std::optional<std::uint64_t> seed;          // of the data that the verdict is of
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_JUDGE_OUTCOME_H_
