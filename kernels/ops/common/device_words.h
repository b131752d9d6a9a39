// Helps the host around the launches of a reference: statuses, and words of device memory.
#ifndef ASSAY_KERNELS_OPS_COMMON_DEVICE_WORDS_H_
#define ASSAY_KERNELS_OPS_COMMON_DEVICE_WORDS_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/runtime/device.h"
#include "kernels/runtime/gpu/handles.h"
#include "kernels/runtime/tensor.h"

namespace assay::inline kernels {

// OK, or that the reference of this operator did not launch.
absl::Status Launched(std::string_view op, gpu::ErrorCode code);

// Whole words of device memory, once all before is done.
template <class Words>
absl::Status ReadWords(Device& device, void* from, Words* words) {
  constexpr std::int64_t kCount = sizeof(Words) / sizeof(std::uint64_t);
  const TensorView view = {from, DType::kF64, Extents::Dense(1, 1, kCount)};
  return device.ToHost(view, 0, kCount, words);
}

// `count` elements from `begin` of the logical order, as doubles.
absl::StatusOr<std::vector<double>> ReadDoubles(Device& device, const TensorView& view,
                                                std::int64_t begin, std::int64_t count);

// A view of a buffer of a reference, for an output of these extents.
TensorView BufferView(const double* data, const Extents& like);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_COMMON_DEVICE_WORDS_H_
