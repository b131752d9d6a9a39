// rope for GPUs: rotary position embedding of rows x [batch, seq, heads, dim].
//
// Inputs are fp16, bf16 or fp32; the arithmetic is FP32, with one rounding to the output's format.
// The angle is position·2^(−2i/dim·log2 θ) in FP32: its relative error is the roundings of the
// exponent (3·s·ln θ·u with s = 2i/dim), 2 ulp of the power, and a product. Cosine and sine are
// within 2 ulp of that angle's. All are within the bound of the rope operator.
//
// Each pair has a thread, and each row whole blocks.
#include "kernels/providers/builtin/rope_builtin_gpu.h"

#include <cmath>

#include "kernels/ops/rope/rope_bound.h"
#include "kernels/providers/builtin/store_gpu.h"
#include "kernels/runtime/gpu/element.h"
#include "kernels/runtime/gpu/port.h"

namespace assay::inline kernels::gpu {
namespace {

template <class In>
ASSAY_GLOBAL void TurnPairs(RopeJob r, std::int64_t blocks_of_a_row) {
  const std::int64_t row = Block().x / blocks_of_a_row;
  const std::int64_t pair = Block().x % blocks_of_a_row * kRopeThreads + Thread().x;
  if (pair >= r.dim / 2) return;
  const RopePlace at = PlaceOfPair(pair, r.dim, r.interleaved);
  const auto position = static_cast<float>(r.start + row / r.heads % r.seq);
  const float share = static_cast<float>(2 * pair) / static_cast<float>(r.dim);
  const float angle = position * Exp2(-share * r.log2_theta);
  const float cosine = std::cos(angle), sine = std::sin(angle);
  const auto* x = static_cast<const typename In::Store*>(r.x) + row * r.x_ld + at.first;
  const float x1 = In::Load(x[0]), x2 = In::Load(x[at.distance]);
  const std::int64_t to = row * r.y_ld + at.first;
  StoreAs(r.out, r.y, to, x1 * cosine - x2 * sine);
  StoreAs(r.out, r.y, to + at.distance, x2 * cosine + x1 * sine);
}

template <class In>
ErrorCode LaunchFor(const RopeJob& r, Stream stream) {
  const std::int64_t across = (r.dim / 2 + kRopeThreads - 1) / kRopeThreads;
  return Launch(TurnPairs<In>, Extent{static_cast<unsigned>(across * r.rows), 1, 1},
                Extent{kRopeThreads, 1, 1}, 0, stream, r, across);
}

}  // namespace

ErrorCode LaunchRope(const RopeJob& r, Stream stream) {
  switch (r.in) {
    case DType::kF16:
      return LaunchFor<Half>(r, stream);
    case DType::kBF16:
      return LaunchFor<BFloat>(r, stream);
    default:
      return LaunchFor<Float32>(r, stream);
  }
}

}  // namespace assay::kernels::gpu
