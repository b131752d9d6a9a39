// Computes the epilogue of a product on a GPU, one element at a time:
//   d = act(factor·s_j·acc + beta·c + b_j)
// The arithmetic is FP32 (FP64 for fp64), in this order. Missing terms are skipped. The result is
// rounded to the output's format once, at the end. For int32 it is factor·acc + beta·c modulo 2^32.
//
// relu keeps NaN. gelu is x/2·erfc(−x/√2). gelu_tanh is x·σ(2z), z = √(2/π)·(x + 0.044715·x³),
// which equals x/2·(1 + tanh z) without its cancellation. For kernels only.
#ifndef ASSAY_KERNELS_PROVIDERS_BUILTIN_EPILOGUE_GPU_H_
#define ASSAY_KERNELS_PROVIDERS_BUILTIN_EPILOGUE_GPU_H_

#include "kernels/providers/builtin/gemm_builtin_gpu.h"
#include "kernels/providers/builtin/store_gpu.h"

namespace assay::inline kernels::gpu {

// F is float, double, or int32_t.
template <class F>
struct Epilogue {
  F factor;
  F beta;
  const F* channel_scale;
  const F* bias;
  Activation activation;
  DType out;
  const void* c;
  std::int64_t c_ld;
  std::int64_t c_batch_stride;
  void* d;
  std::int64_t d_ld;
  std::int64_t d_batch_stride;

  explicit Epilogue(const GemmJob& g)
      : factor(static_cast<F>(g.factor)),
        beta(static_cast<F>(g.beta)),
        channel_scale(static_cast<const F*>(g.channel_scale)),
        bias(static_cast<const F*>(g.bias)),
        activation(g.activation),
        out(g.out),
        c(g.beta != 0.0 ? g.c.data : nullptr),
        c_ld(g.c.ld),
        c_batch_stride(g.c.batch_stride),
        d(g.d),
        d_ld(g.d_ld),
        d_batch_stride(g.d_batch_stride) {}
};

template <class F>
ASSAY_DEVICE F Activated(Activation activation, F x) {
  switch (activation) {
    case Activation::kRelu:
      return x < F{0} ? F{0} : x;
    case Activation::kGelu:
      return F{0.5} * x * Erfc(static_cast<F>(-0.70710678118654752) * x);
    case Activation::kGeluTanh: {
      const F z =
          static_cast<F>(0.79788456080286536) * x * Fma(static_cast<F>(0.044715) * x, x, F{1});
      const F e = Exp(z < F{0} ? F{2} * z : F{-2} * z);
      return x * ((z < F{0} ? e : F{1}) / (F{1} + e));
    }
    default:
      return x;
  }
}

template <class F, class Acc>
ASSAY_OUTLINE void Finish(const Epilogue<F>& e, std::int64_t batch, std::int64_t row,
                          std::int64_t column, Acc acc) {
  F v = e.factor * static_cast<F>(acc);
  if (e.channel_scale != nullptr) v *= e.channel_scale[column];
  if (e.c != nullptr) {
    v = Fma(e.beta, LoadAs(e.out, e.c, batch * e.c_batch_stride + row * e.c_ld + column, F{}), v);
  }
  if (e.bias != nullptr) v += e.bias[column];
  StoreAs(e.out, e.d, batch * e.d_batch_stride + row * e.d_ld + column, Activated(e.activation, v));
}

ASSAY_DEVICE void Finish(const Epilogue<std::int32_t>& e, std::int64_t batch, std::int64_t row,
                         std::int64_t column, std::int32_t acc) {
  // Unsigned arithmetic, because its overflow is defined.
  auto v = static_cast<std::uint32_t>(e.factor) * static_cast<std::uint32_t>(acc);
  if (e.c != nullptr) {
    const std::int64_t at = batch * e.c_batch_stride + row * e.c_ld + column;
    v += static_cast<std::uint32_t>(e.beta) *
         static_cast<std::uint32_t>(static_cast<const std::int32_t*>(e.c)[at]);
  }
  StoreAs(e.out, e.d, batch * e.d_batch_stride + row * e.d_ld + column,
          static_cast<std::int32_t>(v));
}

}  // namespace assay::kernels::gpu

#endif  // ASSAY_KERNELS_PROVIDERS_BUILTIN_EPILOGUE_GPU_H_
