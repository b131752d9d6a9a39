// Diagnosis: names the likely cause of a result and the next step.
//
// It is a pure function over the evidence, made of a table of rules, the most specific
// first. A rule applies only if the figures support it. If no rule applies, nothing is
// said: a wrong cause costs more than none. The symptoms are those that precision
// guides list (overflow of exp, unordered reductions, underflow of a denominator,
// accumulators that are not FP32, variances that cancel, slow kernels) and the usual
// faults of indexing.
#ifndef ASSAY_KERNELS_DIAGNOSE_DIAGNOSE_H_
#define ASSAY_KERNELS_DIAGNOSE_DIAGNOSE_H_

#include <optional>
#include <string>

#include "kernels/diagnose/anatomy.h"
#include "kernels/diagnose/suspects.h"
#include "kernels/judge/outcome.h"
#include "kernels/ops/case.h"

namespace assay::inline kernels {

// All must outlive the call. `outcome` is whole but for its diagnosis.
struct Symptoms {
  const Case& c;
  const Plan& plan;
  const CaseOutcome& outcome;
  const Anatomy* anatomy = nullptr;        // where elements are wrong
  const Conviction* conviction = nullptr;  // where a suspect's test held
  bool received = false;                   // the output came from a user: nothing was launched
};

struct Diagnosis {
  std::string_view rule;  // its name in the table; empty where none spoke
  std::string reads_as;
  std::string next_step;
};

Diagnosis Diagnose(const Symptoms& s);

// A passed kernel below this share of the roof is called slow, if its launch is longer
// than launching. If memory bounds an operator that reads its data in several passes
// (OpTraits::several_passes), less is usual.
inline constexpr double kSlowEfficiency = 0.4;
inline constexpr double kSlowPassesEfficiency = 0.3;
inline constexpr double kLeastTimed = 50e-6;  // [seconds]

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_DIAGNOSE_DIAGNOSE_H_
