// Provenance: finds out where the NaN and infinities of an output came from.
#ifndef ASSAY_KERNELS_JUDGE_PROVENANCE_H_
#define ASSAY_KERNELS_JUDGE_PROVENANCE_H_

#include <span>
#include <vector>

#include "kernels/judge/outcome.h"
#include "kernels/runtime/compare.h"

namespace assay::inline kernels {

// Whether NaN or infinities came out that an input or the kernel made, so that the
// inputs are worth a look.
bool HasNonFinite(const CompareResult& compare, std::int64_t unwritten);

// Sorts the non-finite outputs of `compare` by kind, origin and whether the
// reference has them too. A kind is input-borne where the inputs hold that kind;
// what arithmetic makes of an Inf (Inf − Inf) is the kernel's. `inputs` are read only
// where HasNonFinite.
std::vector<Provenance> TraceNonFinite(const CompareResult& compare, std::int64_t unwritten,
                                       std::span<const OperandStats> inputs);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_JUDGE_PROVENANCE_H_
