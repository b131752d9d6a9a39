// The names under which a kernel's cases count, and which of them have a speed.
#ifndef ASSAY_SERVER_METRICS_KERNEL_ID_H_
#define ASSAY_SERVER_METRICS_KERNEL_ID_H_

#include <compare>
#include <string>

#include "assay/v1/case.pb.h"
#include "assay/v1/types.pb.h"

namespace assay {

// "PASSED"; "bf16", as the command line has it.
std::string VerdictLabel(v1::Verdict verdict);
std::string DTypeLabel(v1::DType dtype);

struct KernelId {
  std::string op, provider, dtype;
  friend auto operator<=>(const KernelId&, const KernelId&) = default;
};

// The names that a case has, known to the daemon or not.
KernelId NamesOf(const v1::CaseSpec& spec);

// The few timed launches of a validation are no benchmark.
bool IsBenchmark(const v1::CaseResult& result);
// Whether its speed is one of a right output.
bool HasSpeed(const v1::CaseResult& result);

}  // namespace assay

#endif  // ASSAY_SERVER_METRICS_KERNEL_ID_H_
