// Checks whether a view is valid. Every device calls this first.
#ifndef ASSAY_KERNELS_RUNTIME_TENSOR_CHECK_H_
#define ASSAY_KERNELS_RUNTIME_TENSOR_CHECK_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/runtime/tensor.h"

namespace assay::inline kernels {

// Requires a known format, extents >= 0, ld >= cols, batches that do not overlap, and data if there
// are elements. INVALID_ARGUMENT says what is wrong.
absl::Status CheckView(const TensorView& view);

// Requires two valid views of the same format and count.
absl::Status CheckCopy(const TensorView& src, const TensorView& dst);

// Requires that the logical elements [begin, begin + count) lie within the view.
absl::Status CheckRange(const TensorView& view, std::int64_t begin, std::int64_t count);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_RUNTIME_TENSOR_CHECK_H_
