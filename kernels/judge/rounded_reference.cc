#include "kernels/judge/rounded_reference.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/judge/verdict.h"
#include "kernels/numerics/convert.h"

namespace assay::inline kernels {

absl::StatusOr<TensorView> MakeRoundedReference(Device& device, const TensorView& output,
                                                const double* reference) {
  const Extents& x = output.extents;
  TensorView right{nullptr, output.dtype, Extents::Dense(x.batch, x.rows, x.cols)};
  const absl::StatusOr<Block> block = device.arena().Allocate(right.bytes(), /*guarded=*/false);
  if (!block.ok()) return block.status();
  right.data = block->data;
  const TensorView exact{const_cast<double*>(reference), DType::kF64,
                         Extents::Dense(1, 1, x.count())};
  // An even number of elements, so that no byte is shared by two runs.
  constexpr std::int64_t kRun = std::int64_t{1} << 16;
  std::vector<double> values(static_cast<std::size_t>(std::min(kRun, x.count())));
  std::vector<std::byte> words(values.size() * sizeof(double));
  for (std::int64_t begin = 0; begin < x.count(); begin += kRun) {
    const std::int64_t n = std::min(kRun, x.count() - begin);
    absl::Status status = device.ToHost(exact, begin, n, values.data());
    if (!status.ok()) return status;
    for (std::int64_t i = 0; i < n; ++i) {
      StoreBits(right.dtype, words.data(), i,
                RoundToFormat(values[static_cast<std::size_t>(i)], right.dtype));
    }
    status =
        device.FromHost(words.data(), StorageBytes(right.dtype, n),
                        static_cast<std::byte*>(right.data) + StorageBytes(right.dtype, begin));
    if (!status.ok()) return status;
  }
  return right;
}

bool CannotHaveOne(const absl::Status& status) {
  return absl::IsResourceExhausted(status) || absl::IsUnimplemented(status);
}

absl::StatusOr<bool> RightOutputIsBiased(Device& device, const CompareRequest& request,
                                         const CompareResult& found) {
  if (!LooksBiased(found)) return false;
  const ArenaMark mark(device.arena());
  const absl::StatusOr<TensorView> right =
      MakeRoundedReference(device, request.output, request.reference);
  if (CannotHaveOne(right.status())) return false;
  if (!right.ok()) return right.status();
  CompareRequest same = request;
  same.output = *right;
  same.digests = false;
  same.poisoned = false;
  const absl::StatusOr<CompareResult> compared = device.Compare(same);
  if (!compared.ok()) return compared.status();
  return LooksBiased(*compared) && (compared->bias_sum > 0) == (found.bias_sum > 0);
}

}  // namespace assay::kernels
