// Verifies a case by checksums instead of element by element. It replaces reference, comparison and
// recheck. It works in this order:
//
//   1. The checksums of the whole output show rows and columns that are wrong or suspicious.
//   2. The host computes 1,024 sampled elements, because a device must not judge itself alone. If
//      an element is beyond its bound, its row is suspicious, too.
//   3. The device judges the elements of those rows (or else of those columns) by their bounds.
//   4. The host computes a few of these elements. If the two disagree, the device is at fault.
//
// It needs no buffer of the output's size beside the output.
#ifndef ASSAY_KERNELS_CHECKSUM_CHECKSUM_VERIFIER_H_
#define ASSAY_KERNELS_CHECKSUM_CHECKSUM_VERIFIER_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/checksum/checksum.h"
#include "kernels/checksum/checksum_recompute.h"
#include "kernels/judge/ended.h"
#include "kernels/judge/outcome.h"
#include "kernels/judge/phase_clock.h"
#include "kernels/judge/verdict.h"

namespace assay::inline kernels {

// What came of a verification.
struct ChecksumFindings {
  ChecksumOutcome outcome;
  // Of the elements compared: recomputed lines, else the sampled elements. Counts of
  // NaN, infinities, zeros and unwritten elements are the whole output's; digests unset.
  CompareResult compared;
  std::string wrong;           // not empty: lines beyond the rigorous threshold
  std::string suspicious;      // not empty: what no recomputation has cleared
  std::string fault;           // not empty: checksums, device and host disagree
  bool exact = false;          // the sums had to be exact
  std::int64_t rechecked = 0;  // elements on the host
  std::int64_t unbounded = 0;  // elements of recomputed lines of which the bound says nothing
};

class ChecksumVerifier {
 public:
  // All must outlive it.
  ChecksumVerifier(const Case& c, Device& device, PhaseClock& clock)
      : case_(c), device_(device), clock_(clock) {}

  // Ends a case that checksums cannot verify; takes room from the arena, after the
  // operands.
  End Prepare(const Op& op, const Plan& plan);

  // Views as the kernel got and left them. `flushes`: subnormal outputs may be 0.
  End Verify(std::span<const TensorView> inputs, const TensorView& output, const HostInputs& host,
             bool flushes, ChecksumFindings& out);

 private:
  struct Samples;

  absl::StatusOr<Samples> Sample(const TensorView& output, const HostInputs& host, bool flushes,
                                 bool exact);
  absl::Status Recompute(const ChecksumMeasures& m, const Samples& samples,
                         std::span<const TensorView> inputs, const TensorView& output,
                         const HostInputs& host, bool flushes, ChecksumFindings& out,
                         bool& clipped);  // elements saturated in lines that looked wrong

  const Case& case_;
  Device& device_;
  PhaseClock& clock_;
  const Op* op_ = nullptr;
  const Plan* plan_ = nullptr;
  std::optional<LineRecompute> lines_;
};

// The verdict: what Judge makes of the evidence, and of the checksums on top of it.
// `evidence` is completed with the findings' comparison and fault.
Judgement JudgeChecksums(const Case& c, const Plan& plan, const ChecksumFindings& findings,
                         Evidence evidence);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_CHECKSUM_CHECKSUM_VERIFIER_H_
