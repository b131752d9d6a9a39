// Multiplies two matrices. In one of them each line has at most one element that is not 0, as in
// the data of significand probes (numerics/unit_places.h). So each element of the result is a
// single product, and only that one is computed. ExactProduct would sum all the products with 0.
#ifndef ASSAY_KERNELS_OPS_COMMON_UNIT_PRODUCT_H_
#define ASSAY_KERNELS_OPS_COMMON_UNIT_PRODUCT_H_

#include <cstdint>

#include "kernels/ops/common/product_residuals.h"

namespace assay::inline kernels {

// value[i·n + j] = Σ_k a(i, k)·b(j, k), on all cores, in FP64. Returns false if neither matrix is
// such a one, if the other one has an Inf or NaN (0 times these is not 0), or if the other one's
// elements do not lie behind one another as they are needed. Then value may hold anything.
bool UnitProduct(const StridedMatrix& a, std::int64_t m, const StridedMatrix& b, std::int64_t n,
                 std::int64_t k, double* value);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_COMMON_UNIT_PRODUCT_H_
