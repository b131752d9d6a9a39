// The right output of a convolution, and how far a right kernel may be from it.
//
//   r = Σ x·w over the taps inside the input
//   E = min(8·√K·u, γ_(K+8))·Σ|x||w| + K·η/2      K = channels/groups·Π kernel
// counted twice for fp64, and 0 where r is not finite.
#ifndef ASSAY_KERNELS_OPS_CONV_CONV_REFERENCE_H_
#define ASSAY_KERNELS_OPS_CONV_CONV_REFERENCE_H_

#include <cstdint>
#include <span>

#include "kernels/ops/conv/conv_shape.h"
#include "kernels/ops/conv/problem.h"
#include "kernels/ops/plan.h"
#include "kernels/ops/products.h"

namespace assay::inline kernels {

ConvShape MakeConvShape(const ConvProblem& problem);

// r and E of some output elements, by plain loops; allowance may be null, and is left alone for
// integers; accumulator: of MakeProductBound.
void ConvReferenceAt(const ConvProblem& problem, DType input, bool flushes_subnormals,
                     const HostInputs& inputs, std::span<const std::int64_t> indices, double* value,
                     double* allowance, const Accumulator& accumulator = {});

// The products behind some output elements. A tap in the padding is a 0 of x.
SampledProducts ConvProducts(const ConvProblem& problem, DType input, const HostInputs& inputs,
                             std::span<const std::int64_t> indices);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_CONV_CONV_REFERENCE_H_
