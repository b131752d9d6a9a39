// elementwise: y = a + b, silu(a)·b or GELU(a), element by element, with b as large as a or one
// row.
//
// Arithmetic: FP32 (FP64 for fp64). Narrower inputs are widened, and outputs are rounded once to
// nearest even. silu(a) is a/(1 + exp(−a)), with exp of −|a| alone, so that nothing overflows. The
// GELUs are those of epilogue-inl.h.
// Error: add is correctly rounded. silu·b: exp (1.2 ulp; simd-inl.h), one sum, one quotient, two
// products. GELU by erf: 1.5e-7·|a|/2; by tanh: a few ulp of the result.
// Determinism: an element depends on its operands alone.
//
// Work: pieces of rows are split evenly over the threads. Elements are converted in pieces that
// stay in L1.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "kernels/providers/builtin/builtin.h"
#include "kernels/providers/builtin/common.h"
#include "kernels/runtime/cpu/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/providers/builtin/elementwise_builtin_cpu.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first.
#include <hwy/highway.h>

#include "kernels/providers/builtin/codes-inl.h"
#include "kernels/providers/builtin/epilogue-inl.h"

#ifndef ASSAY_ELEMENTWISE_BUILTIN_CPU_ONCE
#define ASSAY_ELEMENTWISE_BUILTIN_CPU_ONCE
namespace assay::inline kernels::internal {

struct ElementwiseLaunch {
  const void* a;
  const void* b;  // nullptr: the kind has none
  void* y;
  DType in;
  DType out;
  ElementwiseKind kind;
  std::int64_t rows;
  std::int64_t cols;
  std::int64_t a_ld;  // [elements]
  std::int64_t b_ld;  // [elements]; 0: one row serves all
  std::int64_t y_ld;  // [elements]
};

// Fewer elements are not worth a second thread, which takes some 2 µs to wake.
inline constexpr std::int64_t kElementwiseGrain = 16384;
// Elements that are converted at a time.
inline constexpr std::int64_t kElementwisePiece = 1024;

}  // namespace assay::kernels::internal
#endif

HWY_BEFORE_NAMESPACE();
namespace assay::inline kernels {
namespace HWY_NAMESPACE {

template <class D>
HWY_INLINE VOf<D> Silu(D d, VOf<D> a) {
  const auto one = hn::Set(d, TOf<D>{1});
  const auto e = Exp(d, hn::Neg(hn::Abs(a)));
  const auto top = hn::IfThenElse(hn::Lt(a, hn::Zero(d)), e, one);
  return hn::Mul(a, hn::Div(top, hn::Add(one, e)));
}

template <class D>
HWY_INLINE VOf<D> ElementsOf(D d, ElementwiseKind kind, VOf<D> a, VOf<D> b) {
  switch (kind) {
    case ElementwiseKind::kAdd:
      return hn::Add(a, b);
    case ElementwiseKind::kSiluMul:
      return hn::Mul(Silu(d, a), b);
    case ElementwiseKind::kGelu:
      return Gelu(d, a);
    case ElementwiseKind::kGeluTanh:
      return GeluTanh(d, a);
  }
  return a;
}

// n elements of a row from a column on; n <= kElementwisePiece.
template <class Raw, class T, class TOut>
void ElementsOfRow(const internal::ElementwiseLaunch& e, std::int64_t row, std::int64_t col,
                   std::int64_t n) {
  const hn::ScalableTag<Raw> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  constexpr std::int64_t kPiece = internal::kElementwisePiece;
  Raw a[kPiece + kMaxLanes], b[kPiece + kMaxLanes];
  ConvertRow(Elements<T>::Of(e.a, e.in) + (row * e.a_ld + col), n, a);
  if (e.b != nullptr) ConvertRow(Elements<T>::Of(e.b, e.in) + (row * e.b_ld + col), n, b);
  TOut* to = static_cast<TOut*>(e.y) + row * e.y_ld + col;
  for (std::int64_t i = 0; i < n; i += lanes) {
    const auto count = static_cast<std::size_t>(std::min(lanes, n - i));
    const auto first = LoadSome(d, a + i, count);
    const auto second = e.b != nullptr ? LoadSome(d, b + i, count) : hn::Zero(d);
    StoreSome(d, ElementsOf(d, e.kind, first, second), to + i, count);
  }
}

template <class Raw, class T, class TOut>
void ElementwiseAll(const internal::ElementwiseLaunch& e) {
  constexpr std::int64_t kPiece = internal::kElementwisePiece;
  const std::int64_t across = (e.cols + kPiece - 1) / kPiece;
  const std::int64_t grain =
      std::max<std::int64_t>(1, internal::kElementwiseGrain / std::min(kPiece, e.cols));
  ParallelFor(e.rows * across, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t col = i % across * kPiece;
      ElementsOfRow<Raw, T, TOut>(e, i / across, col, std::min(kPiece, e.cols - col));
    }
  });
}

void RunElementwise(const internal::ElementwiseLaunch& e) {
  internal::WithFloatForm<F16, BF16, Coded>(e.in, e.out, [&](auto in, auto out) {
    using Raw = std::conditional_t<std::is_same_v<decltype(in), double>, double, float>;
    ElementwiseAll<Raw, decltype(in), decltype(out)>(e);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace assay::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay::inline kernels {
namespace {

HWY_EXPORT(RunElementwise);

absl::StatusOr<std::unique_ptr<Kernel>> MakeElementwise(const Case& c, const Plan& plan, Device&) {
  const auto& p = std::get<ElementwiseProblem>(c.problem);
  const DType out = plan.output.dtype;
  if (!internal::IsFloatForm(c.dtype, out) || c.dtype == DType::kE2M1) {
    return internal::NoSuchForm("elementwise", c.dtype, out, internal::kFloatForms);
  }
  internal::ElementwiseLaunch launch{};
  launch.in = c.dtype;
  launch.out = out;
  launch.kind = p.kind_of();
  launch.rows = p.rows;
  launch.cols = p.cols;
  return internal::Made(internal::BuiltinTarget(),
                        [launch, broadcast = p.broadcast](std::span<const TensorView> inputs,
                                                          const TensorView& output) mutable {
                          launch.a = inputs[0].data;
                          launch.a_ld = inputs[0].extents.ld;
                          if (inputs.size() > 1) {
                            launch.b = inputs[1].data;
                            launch.b_ld = broadcast ? 0 : inputs[1].extents.ld;
                          }
                          launch.y = output.data;
                          launch.y_ld = output.extents.ld;
                          HWY_DYNAMIC_DISPATCH(RunElementwise)(launch);
                          return absl::OkStatus();
                        });
}

}  // namespace

KernelEntry BuiltinElementwiseCpu() {
  return internal::BuiltinEntry("elementwise", internal::FloatFormats(), &MakeElementwise);
}

}  // namespace assay::kernels
#endif  // HWY_ONCE
