// elementwise for GPUs: y = a + b, silu(a)·b or GELU(a), with b as large as a or one row.
//
// Inputs are fp16, bf16 or fp32; the arithmetic is FP32, with one rounding to the output's format.
// silu(a) is a/(1 + exp(−a)) with exp of −|a| alone, so that nothing overflows. The GELUs are those
// of epilogue_gpu.h. Error: add is correctly rounded; silu·b is exp's 2 ulp, a sum, a quotient and
// two products; the GELUs are a few ulp of the result.
//
// Each element has a thread, and each row whole blocks.
#include "kernels/providers/builtin/elementwise_builtin_gpu.h"

#include "kernels/providers/builtin/epilogue_gpu.h"
#include "kernels/providers/builtin/store_gpu.h"
#include "kernels/runtime/gpu/element.h"
#include "kernels/runtime/gpu/port.h"

namespace assay::inline kernels::gpu {
namespace {

ASSAY_DEVICE float Silu(float a) {
  const float e = Exp(a < 0.0F ? a : -a);
  return a * ((a < 0.0F ? e : 1.0F) / (1.0F + e));
}

ASSAY_DEVICE float Of(ElementwiseKind kind, float a, float b) {
  switch (kind) {
    case ElementwiseKind::kAdd:
      return a + b;
    case ElementwiseKind::kSiluMul:
      return Silu(a) * b;
    case ElementwiseKind::kGelu:
      return Activated(Activation::kGelu, a);
    default:
      return Activated(Activation::kGeluTanh, a);
  }
}

template <class In>
ASSAY_GLOBAL void Elements(ElementwiseJob e, std::int64_t blocks_of_a_row) {
  const std::int64_t row = Block().x / blocks_of_a_row;
  const std::int64_t col = Block().x % blocks_of_a_row * kElementwiseThreads + Thread().x;
  if (col >= e.cols) return;
  using Store = typename In::Store;
  const float a = In::Load(static_cast<const Store*>(e.a)[row * e.a_ld + col]);
  float b = 0.0F;
  if (e.b != nullptr) b = In::Load(static_cast<const Store*>(e.b)[row * e.b_ld + col]);
  StoreAs(e.out, e.y, row * e.y_ld + col, Of(e.kind, a, b));
}

template <class In>
ErrorCode LaunchFor(const ElementwiseJob& e, Stream stream) {
  const std::int64_t across = (e.cols + kElementwiseThreads - 1) / kElementwiseThreads;
  return Launch(Elements<In>, Extent{static_cast<unsigned>(across * e.rows), 1, 1},
                Extent{kElementwiseThreads, 1, 1}, 0, stream, e, across);
}

}  // namespace

ErrorCode LaunchElementwise(const ElementwiseJob& e, Stream stream) {
  switch (e.in) {
    case DType::kF16:
      return LaunchFor<Half>(e, stream);
    case DType::kBF16:
      return LaunchFor<BFloat>(e, stream);
    default:
      return LaunchFor<Float32>(e, stream);
  }
}

}  // namespace assay::kernels::gpu
