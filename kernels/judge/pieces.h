// Reads elements of tensors on a device, as values and as raw bits, and what they were compared
// with.
#ifndef ASSAY_KERNELS_JUDGE_PIECES_H_
#define ASSAY_KERNELS_JUDGE_PIECES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "kernels/numerics/convert.h"
#include "kernels/runtime/compare.h"
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

// each(bits, reference, allowance) for every element of a comparison that has allowances. The
// device's own errors.
template <typename Each>
absl::Status ForEachCompared(Device& device, const CompareRequest& request, const Each& each) {
  const std::int64_t count = request.output.count();
  // A view has no constant data, for a device writes through others. These are only read.
  const TensorView reference = DoublesView(const_cast<double*>(request.reference), count);
  const TensorView allowance = DoublesView(const_cast<double*>(request.allowance), count);
  std::vector<std::uint64_t> bits;
  std::vector<double> r, e;
  for (std::int64_t begin = 0; begin < count; begin += kPiece) {
    const std::int64_t n = std::min(kPiece, count - begin);
    absl::Status s = ReadBits(device, request.output, begin, n, bits);
    if (s.ok()) s = ReadValues(device, reference, begin, n, r);
    if (s.ok()) s = ReadValues(device, allowance, begin, n, e);
    if (!s.ok()) return s;
    for (std::size_t i = 0; i < bits.size(); ++i) each(bits[i], r[i], e[i]);
  }
  return absl::OkStatus();
}

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_JUDGE_PIECES_H_
