// The comparison an element at a time on the host, and how partial results are put
// together; the rule itself is in kernels/runtime/compare_rule.h.
#ifndef ASSAY_KERNELS_RUNTIME_CPU_COMPARE_ELEMENT_H_
#define ASSAY_KERNELS_RUNTIME_CPU_COMPARE_ELEMENT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/runtime/compare.h"
#include "kernels/runtime/compare_rule.h"

namespace assay::internal {

// Adds element `index` to every statistic but the digests. Elements must come in
// ascending order.
void AddElement(const CompareRule& rule, std::int64_t index, std::uint64_t bits, double r, double e,
                CompareResult* result);

// Adds what came of the elements behind those of `into`, sums included.
void MergeCompare(const CompareResult& next, CompareResult* into);

// INVALID_ARGUMENT naming the field of the request that is wrong.
absl::Status CheckCompareRequest(const CompareRequest& request);

}  // namespace assay::internal

#endif  // ASSAY_KERNELS_RUNTIME_CPU_COMPARE_ELEMENT_H_
