// Where the NaN and infinities of an output came from.
#ifndef ASSAY_KERNELS_VALIDATE_PROVENANCE_H_
#define ASSAY_KERNELS_VALIDATE_PROVENANCE_H_

#include <span>
#include <vector>

#include "kernels/ops/op.h"
#include "kernels/runtime/compare.h"
#include "kernels/validate/outcome.h"

namespace assay {

// Sorts the non-finite outputs of `compare` by kind, origin and whether the
// reference has them too. A kind is input-borne where the inputs hold that kind;
// what arithmetic makes of an Inf (Inf − Inf) is the kernel's. Empty where the
// output is finite: no input is then read.
std::vector<Provenance> TraceNonFinite(const Plan& plan, const HostInputs& inputs,
                                       const CompareResult& compare, std::int64_t unwritten);

}  // namespace assay

#endif  // ASSAY_KERNELS_VALIDATE_PROVENANCE_H_
