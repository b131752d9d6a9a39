// The verdict: from what was measured to what it means. Pure functions, no device.
//
// The policy (a correct kernel never fails, a broken one never passes):
//   beyond the proven bound            → FAILED (subnormal inputs: INCONCLUSIVE, for
//                                        whether they are flushed is a property; where
//                                        a user sent them, if flushing explains it)
//   beyond the probabilistic bound     → FAILED on zero-mean random data that this
//                                        product generated, else INCONCLUSIVE (suspect)
//   wrong class, guard, unwritten      → FAILED, always (INCONCLUSIVE where every wrong
//                                        class, and what is beyond the proven bound, may
//                                        be an overflow inside a right kernel)
//   a biased rounding error            → FAILED on zero-mean random data; where a user sent
//                                        the output, INCONCLUSIVE if it looks like truncation.
//                                        Under the criteria bound and derived: if the user
//                                        names another tolerance, a bias does not count
//   bits of fp64 against an FP64 reference, which rounds as well → INCONCLUSIVE, either way
//   errors larger than the arithmetic's, or with a pattern (precision.h) → FAILED on random data
//                                        that this product generated. Under the criterion bound
//   launches that differ bit by bit    → FAILED
//   nothing proven (all zeros, empty, all below what may be flushed, bounds as large as the
//                                        results) → INCONCLUSIVE
//   host and device reference disagree → ERROR, the device's fault and not a kernel's
//                                        (INCONCLUSIVE if sums that overflow FP64 explain it)
#ifndef ASSAY_KERNELS_JUDGE_VERDICT_H_
#define ASSAY_KERNELS_JUDGE_VERDICT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/judge/gating.h"
#include "kernels/judge/outcome.h"
#include "kernels/judge/overflow.h"
#include "kernels/judge/precision.h"
#include "kernels/numerics/grouped.h"
#include "kernels/ops/case.h"
#include "kernels/ops/op.h"
#include "kernels/runtime/compare.h"

namespace assay::inline kernels {

// Everything a verdict rests on.
struct Evidence {
  const CompareResult* compare = nullptr;
  Gating gating;
  std::int64_t guard_hits = 0;  // [bytes]
  std::int64_t unwritten = 0;   // [elements]
  int launches = 1;
  int variants = 1;                         // distinct digests among the launches
  std::string deviation;                    // how the first odd one differs; empty: not known
  std::int64_t rechecked = 0;               // [elements] recomputed on the host
  std::int64_t unbounded = 0;               // of them, as Recheck says
  std::int64_t all_unbounded = 0;           // of all elements, as CountUnbounded says
  double unproven = 0;                      // as Recheck says
  std::string recheck_fault;                // not empty: host and device disagree, and how
  std::string recheck_excuse;               // as Recheck says
  std::vector<std::string> changed_inputs;  // operands the kernel wrote into
  // Of operands that no pattern made: whether a kernel that takes their subnormal
  // elements for 0 explains what is beyond the bound.
  std::optional<bool> flushing_explains;
  // Elements that no overflow inside a right kernel explains; none where that is not known of
  // single elements.
  std::optional<Unexplained> unexplained;
  // What has no agreed result in the operands (Op::Undecided), if an element is of a wrong class.
  std::string undecided;
  bool computed = true;   // the reference is this product's own; else a user sent it
  bool received = false;  // a user sent the output, of data that nothing is known of
  bool flushed = false;   // within the bound only as a kernel may be that flushes subnormals
  std::optional<double> efficiency;
  // Of a noisy time, what the kernel may reach where nothing disturbs it.
  std::optional<double> undisturbed_efficiency;
  bool in_cache = false;                    // all bytes fit the cache, so that memory is no roof
  bool efficiency_due = true;               // false while the timed launches are still to come
  std::vector<PrecisionFinding> precision;  // what the errors of all elements together say
  bool right_is_biased = false;             // the right output looks biased, too
  bool transform_explains = false;          // declared or in double: see TransformExplains
};

// Whether the reason is a limit that the caller set, or outputs that differ.
bool IsLimit(Reason reason);

struct Judgement {
  Verdict verdict = Verdict::kUnspecified;
  std::vector<Finding> findings;  // most important first
  // FAILED for a limit that the caller set, or for outputs that differ. What explains a bound's
  // excess does not excuse that.
  bool beyond_limit = false;
  std::optional<double> bias_z;
};

Judgement Judge(const Case& c, const Plan& plan, const Evidence& evidence);

// Of an output and a reference that are 0 everywhere.
Finding AllZeros();

// Whether something was proven of a case that has passed. Indices that are all 0 say as much as any
// others, but it takes a probe that has passed to show that they are not simply never written.
bool ProbesShow(const Plan& plan, const CaseOutcome& outcome);

// Whether the signed errors of a comparison are those of a rounding that is not to nearest.
bool LooksBiased(const CompareResult& compared);

// "[0,7,1983,12]" of a logical index.
std::string Coordinates(std::int64_t index, const std::vector<std::int64_t>& dims);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_JUDGE_VERDICT_H_
