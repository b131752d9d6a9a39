#include "kernels/ops/common/device_words.h"

#include "kernels/numerics/convert.h"
#include "kernels/runtime/gpu/error_status.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {

absl::Status Launched(std::string_view op, gpu::ErrorCode code) {
  return gpu::StatusOf(code, Cat("the reference of ", op, " did not launch"));
}

absl::StatusOr<std::vector<double>> ReadDoubles(Device& device, const TensorView& view,
                                                std::int64_t begin, std::int64_t count) {
  std::vector<std::uint64_t> raw(static_cast<std::size_t>(count));  // no format is wider
  if (absl::Status s = device.ToHost(view, begin, count, raw.data()); !s.ok()) return s;
  std::vector<double> values(raw.size());
  for (std::int64_t i = 0; i < count; ++i) {
    values[static_cast<std::size_t>(i)] = LoadDouble(view.dtype, raw.data(), i);
  }
  return values;
}

TensorView BufferView(const double* data, const Extents& like) {
  return {const_cast<double*>(data), DType::kF64, Extents::Dense(like.batch, like.rows, like.cols)};
}

}  // namespace assay::kernels
