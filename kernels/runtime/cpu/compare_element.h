// Compares element by element on the host, and merges partial results. The rule for one element is
// in kernels/runtime/compare_rule.h.
#ifndef ASSAY_KERNELS_RUNTIME_CPU_COMPARE_ELEMENT_H_
#define ASSAY_KERNELS_RUNTIME_CPU_COMPARE_ELEMENT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/runtime/compare.h"
#include "kernels/runtime/compare_rule.h"

namespace assay::inline kernels::internal {

// Adds element `index` to every statistic but the digests. Elements must come in ascending order.
void AddElement(const CompareRule& rule, std::int64_t index, std::uint64_t bits, double r, double e,
                CompareResult* result);

// Adds the result of the elements that follow those of `into`. Sums are added, too.
void MergeCompare(const CompareResult& next, CompareResult* into);

// Checks a request. INVALID_ARGUMENT names the field that is wrong.
absl::Status CheckCompareRequest(const CompareRequest& request);

}  // namespace assay::kernels::internal

#endif  // ASSAY_KERNELS_RUNTIME_CPU_COMPARE_ELEMENT_H_
