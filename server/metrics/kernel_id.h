// The names under which metrics count a kernel's cases, and which results have a speed.
#ifndef ASSAY_SERVER_METRICS_KERNEL_ID_H_
#define ASSAY_SERVER_METRICS_KERNEL_ID_H_

#include <compare>
#include <string>

#include "assay/v1/case.pb.h"
#include "assay/v1/types.pb.h"

namespace assay::server {

// The labels of a verdict and of a format: "PASSED", "bf16".
std::string VerdictLabel(v1::Verdict verdict);
std::string DTypeLabel(v1::DType dtype);

struct KernelId {
  std::string op, provider, dtype;
  friend auto operator<=>(const KernelId&, const KernelId&) = default;
};

// The names of a case. The daemon may know them or not.
KernelId NamesOf(const v1::CaseSpec& spec);

// Whether the result has the times of a benchmark. Validation times a launch or two, which is no
// benchmark.
bool IsBenchmark(const v1::CaseResult& result);
// Whether the result has a speed and its output was right.
bool HasSpeed(const v1::CaseResult& result);

}  // namespace assay::server

#endif  // ASSAY_SERVER_METRICS_KERNEL_ID_H_
