// Whether a view can be walked at all: what every device checks first.
#ifndef ASSAY_KERNELS_RUNTIME_TENSOR_CHECK_H_
#define ASSAY_KERNELS_RUNTIME_TENSOR_CHECK_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/runtime/tensor.h"

namespace assay {

// A known format, extents >= 0, ld >= cols, batches that do not overlap, and data where
// there are elements. INVALID_ARGUMENT names what is wrong.
absl::Status CheckView(const TensorView& view);

// Two views that a copy takes: the same format and count.
absl::Status CheckCopy(const TensorView& src, const TensorView& dst);

// Logical elements [begin, begin + count) lie within the view.
absl::Status CheckRange(const TensorView& view, std::int64_t begin, std::int64_t count);

}  // namespace assay

#endif  // ASSAY_KERNELS_RUNTIME_TENSOR_CHECK_H_
