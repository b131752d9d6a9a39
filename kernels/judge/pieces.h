// Reads elements of tensors on a device, as values and as raw bits.
#ifndef ASSAY_KERNELS_JUDGE_PIECES_H_
#define ASSAY_KERNELS_JUDGE_PIECES_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "kernels/numerics/convert.h"
#include "kernels/runtime/device.h"

namespace assay::inline kernels {

// Elements read at a time where a whole tensor is.
inline constexpr std::int64_t kPiece = std::int64_t{1} << 16;

// A dense tensor of doubles: a reference, an allowance.
inline TensorView DoublesView(double* data, std::int64_t count) {
  return TensorView{data, DType::kF64, Extents::Dense(1, 1, count)};
}

// Raw codes of elements [begin, begin + count) of the logical order. The device's own
// errors.
inline absl::Status ReadBits(Device& device, const TensorView& view, std::int64_t begin,
                             std::int64_t count, std::vector<std::uint64_t>& bits) {
  // A byte more, for two e2m1 elements share one.
  std::vector<unsigned char> raw(static_cast<std::size_t>(StorageBytes(view.dtype, count)) +
                                 sizeof(std::uint64_t));
  if (absl::Status s = device.ToHost(view, begin, count, raw.data()); !s.ok()) return s;
  bits.resize(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    bits[static_cast<std::size_t>(i)] = LoadBits(view.dtype, raw.data(), i);
  }
  return absl::OkStatus();
}

// Values of the same.
inline absl::Status ReadValues(Device& device, const TensorView& view, std::int64_t begin,
                               std::int64_t count, std::vector<double>& values) {
  values.resize(static_cast<std::size_t>(count));
  if (view.dtype == DType::kF64) return device.ToHost(view, begin, count, values.data());
  std::vector<unsigned char> raw(static_cast<std::size_t>(StorageBytes(view.dtype, count)) +
                                 sizeof(std::uint64_t));
  if (absl::Status s = device.ToHost(view, begin, count, raw.data()); !s.ok()) return s;
  for (std::int64_t i = 0; i < count; ++i) {
    values[static_cast<std::size_t>(i)] = LoadDouble(view.dtype, raw.data(), i);
  }
  return absl::OkStatus();
}

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_JUDGE_PIECES_H_
