// reduce: the sum, the maximum or its index along one axis of x [outer, length, inner].
//
// Arithmetic: FP32 (FP64 for fp64, int32 for int8). Narrower inputs are widened, and a sum is
// rounded once to nearest even. A row is summed in four vectors, so that a sum has a depth of
// length/(4·lanes) + 6; a slice that runs across rows is summed in its order. That is well inside
// the bound, which holds for any order.
// A NaN is the maximum, and of equal elements the first index is given.
// Determinism: one thread reduces a slice in one fixed order.
//
// Work: rows, or columns in blocks, are split evenly over the threads. Elements are converted in
// pieces that stay in L1.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "kernels/providers/builtin/builtin.h"
#include "kernels/providers/builtin/common.h"
#include "kernels/runtime/cpu/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/providers/builtin/reduce_builtin_cpu.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first.
#include <hwy/highway.h>

#include "kernels/providers/builtin/codes-inl.h"

#ifndef ASSAY_REDUCE_BUILTIN_CPU_ONCE
#define ASSAY_REDUCE_BUILTIN_CPU_ONCE
namespace assay::inline kernels::internal {

struct ReduceLaunch {
  const void* x;
  void* y;
  DType in;
  DType out;
  ReduceShape s;
  ReduceKind kind;
  std::int64_t ld;            // of x [elements]
  std::int64_t batch_stride;  // of x [elements]
};

// Fewer elements are not worth a second thread, which takes some 2 µs to wake.
inline constexpr std::int64_t kReduceGrain = 16384;
// Elements that are converted at a time.
inline constexpr std::int64_t kReducePiece = 1024;
// Columns of a block, and rows whose results are stored together.
inline constexpr std::int64_t kReduceColumns = 256;

}  // namespace assay::kernels::internal
#endif

HWY_BEFORE_NAMESPACE();
namespace assay::inline kernels {
namespace HWY_NAMESPACE {

// v where it beats the largest so far: it is larger, or the first NaN.
template <class D>
HWY_INLINE hn::Mask<D> BeatsOf(D /*d*/, VOf<D> v, VOf<D> largest) {
  if constexpr (hwy::IsFloat<TOf<D>>()) {
    return hn::Or(hn::Gt(v, largest), hn::AndNot(hn::IsNaN(largest), hn::IsNaN(v)));
  } else {
    return hn::Gt(v, largest);
  }
}
template <class Raw>
HWY_INLINE bool BeatsOne(Raw v, Raw largest) {
  return v > largest || (v != v && largest == largest);
}

struct AddTo {
  template <class D>
  static HWY_INLINE VOf<D> First(D d) {
    return hn::Zero(d);
  }
  template <class D>
  static HWY_INLINE VOf<D> Of(D /*d*/, VOf<D> all, VOf<D> v) {
    return hn::Add(all, v);
  }
};
struct LargerOf {
  template <class D>
  static HWY_INLINE VOf<D> First(D d) {
    using T = TOf<D>;
    constexpr bool kFloat = hwy::IsFloat<T>();
    return hn::Set(d,
                   kFloat ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest());
  }
  template <class D>
  static HWY_INLINE VOf<D> Of(D d, VOf<D> all, VOf<D> v) {
    return hn::IfThenElse(BeatsOf(d, v, all), v, all);
  }
};

// One row of n elements.
template <class Step, class Raw, class Cursor>
Raw ReduceRow(Cursor from, std::int64_t n) {
  const hn::ScalableTag<Raw> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  constexpr std::int64_t kPiece = internal::kReducePiece;
  HWY_ALIGN Raw piece[kPiece + 4 * kMaxLanes];
  auto r0 = Step::First(d), r1 = r0, r2 = r0, r3 = r0;
  for (std::int64_t at = 0; at < n; at += kPiece) {
    const std::int64_t count = std::min(kPiece, n - at);
    ConvertRow(from + at, count, piece);
    for (std::int64_t i = 0; i < 4; ++i) hn::StoreU(Step::First(d), d, piece + count + i * lanes);
    for (std::int64_t i = 0; i < count; i += 4 * lanes) {
      r0 = Step::Of(d, r0, hn::LoadU(d, piece + i));
      r1 = Step::Of(d, r1, hn::LoadU(d, piece + i + lanes));
      r2 = Step::Of(d, r2, hn::LoadU(d, piece + i + 2 * lanes));
      r3 = Step::Of(d, r3, hn::LoadU(d, piece + i + 3 * lanes));
    }
  }
  const auto all = Step::Of(d, Step::Of(d, r0, r1), Step::Of(d, r2, r3));
  if constexpr (std::is_same_v<Step, AddTo>) {
    return hn::GetLane(hn::SumOfLanes(d, all));
  } else {
    hn::StoreU(all, d, piece);
    Raw largest = piece[0];
    for (std::int64_t i = 1; i < lanes; ++i) {
      if (BeatsOne(piece[i], largest)) largest = piece[i];
    }
    return largest;
  }
}

// The first index of a row's largest element.
template <class Raw, class Cursor>
std::int32_t FirstLargest(Cursor from, std::int64_t n) {
  const Raw largest = ReduceRow<LargerOf, Raw>(from, n);
  constexpr std::int64_t kPiece = internal::kReducePiece;
  Raw piece[kPiece + kMaxLanes];
  for (std::int64_t at = 0; at < n; at += kPiece) {
    const std::int64_t count = std::min(kPiece, n - at);
    ConvertRow(from + at, count, piece);
    for (std::int64_t i = 0; i < count; ++i) {
      if (piece[i] == largest || (piece[i] != piece[i] && largest != largest)) {
        return static_cast<std::int32_t>(at + i);
      }
    }
  }
  return 0;
}

// n results, to elements from `at` on.
template <class Raw>
void StoreResults(const internal::ReduceLaunch& a, std::int64_t at, const Raw* from,
                  std::int64_t n) {
  const hn::ScalableTag<Raw> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto store = [&](auto* to) HWY_ATTR {
    for (std::int64_t i = 0; i < n; i += lanes) {
      const auto count = static_cast<std::size_t>(std::min(lanes, n - i));
      StoreSome(d, LoadSome(d, from + i, count), to + at + i, count);
    }
  };
  if constexpr (std::is_same_v<Raw, float>) {
    if (a.out == DType::kF16) return store(static_cast<F16*>(a.y));
    if (a.out == DType::kBF16) return store(static_cast<BF16*>(a.y));
  }
  if (a.out == DType::kI8) {
    auto* to = static_cast<std::int8_t*>(a.y) + at;
    for (std::int64_t i = 0; i < n; ++i) to[i] = static_cast<std::int8_t>(from[i]);
    return;
  }
  store(static_cast<Raw*>(a.y));
}

template <class Raw, class T>
void ReduceRows(const internal::ReduceLaunch& a, std::int64_t begin, std::int64_t end) {
  constexpr std::int64_t kRows = internal::kReduceColumns;
  Raw results[kRows];
  std::int64_t held = 0;
  for (std::int64_t row = begin; row < end; ++row) {
    const auto from = Elements<T>::Of(a.x, a.in) + row * a.ld;
    if (a.kind == ReduceKind::kArgmax) {
      static_cast<std::int32_t*>(a.y)[row] = FirstLargest<Raw>(from, a.s.length);
      continue;
    }
    results[held++] = a.kind == ReduceKind::kSum ? ReduceRow<AddTo, Raw>(from, a.s.length)
                                                 : ReduceRow<LargerOf, Raw>(from, a.s.length);
    if (held < kRows && row + 1 < end) continue;
    StoreResults(a, row + 1 - held, results, held);
    held = 0;
  }
}

// Columns [first, first + n) of a matrix, whose slices run across its rows.
template <class Raw, class T>
void ReduceColumns(const internal::ReduceLaunch& a, std::int64_t outer, std::int64_t first,
                   std::int64_t n) {
  const hn::ScalableTag<Raw> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  constexpr std::int64_t kWidth = internal::kReduceColumns;
  Raw row[kWidth + kMaxLanes] = {};
  Raw all[kWidth + kMaxLanes] = {};
  std::int32_t index[kWidth] = {};
  const auto from = Elements<T>::Of(a.x, a.in) + (outer * a.batch_stride + first);
  ConvertRow(from, n, all);
  for (std::int64_t l = 1; l < a.s.length; ++l) {
    ConvertRow(from + l * a.ld, n, row);
    if (a.kind == ReduceKind::kArgmax) {
      for (std::int64_t j = 0; j < n; ++j) {
        if (!BeatsOne(row[j], all[j])) continue;
        all[j] = row[j];
        index[j] = static_cast<std::int32_t>(l);
      }
      continue;
    }
    const bool sum = a.kind == ReduceKind::kSum;
    for (std::int64_t j = 0; j < n; j += lanes) {
      const auto v = hn::LoadU(d, row + j), so_far = hn::LoadU(d, all + j);
      hn::StoreU(sum ? AddTo::Of(d, so_far, v) : LargerOf::Of(d, so_far, v), d, all + j);
    }
  }
  const std::int64_t to = outer * a.s.inner + first;
  if (a.kind == ReduceKind::kArgmax) {
    std::copy_n(index, n, static_cast<std::int32_t*>(a.y) + to);
  } else {
    StoreResults(a, to, all, n);
  }
}

template <class Raw, class T>
void ReduceAll(const internal::ReduceLaunch& a) {
  const ReduceShape& s = a.s;
  constexpr std::int64_t kWidth = internal::kReduceColumns;
  const auto grain = [](std::int64_t elements) {
    return std::max<std::int64_t>(1, internal::kReduceGrain / elements);
  };
  if (s.inner == 1) {
    ParallelFor(s.outer, grain(s.length),
                [&](std::int64_t begin, std::int64_t end) { ReduceRows<Raw, T>(a, begin, end); });
    return;
  }
  const std::int64_t across = (s.inner + kWidth - 1) / kWidth;
  ParallelFor(s.outer * across, grain(s.length * std::min(kWidth, s.inner)),
              [&](std::int64_t begin, std::int64_t end) {
                for (std::int64_t i = begin; i < end; ++i) {
                  const std::int64_t first = i % across * kWidth;
                  ReduceColumns<Raw, T>(a, i / across, first, std::min(kWidth, s.inner - first));
                }
              });
}

void RunReduce(const internal::ReduceLaunch& a) {
  switch (a.in) {
    case DType::kF64:
      return ReduceAll<double, double>(a);
    case DType::kF32:
    case DType::kTF32:
      return ReduceAll<float, float>(a);
    case DType::kF16:
      return ReduceAll<float, F16>(a);
    case DType::kBF16:
      return ReduceAll<float, BF16>(a);
    case DType::kI8:
      return ReduceAll<std::int32_t, std::int8_t>(a);
    default:
      return ReduceAll<float, Coded>(a);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace assay::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay::inline kernels {
namespace {

HWY_EXPORT(RunReduce);

absl::StatusOr<std::unique_ptr<Kernel>> MakeReduce(const Case& c, const Plan& plan, Device&) {
  const auto& p = std::get<ReduceProblem>(c.problem);
  const DType out = plan.output.dtype;
  const bool whole = out == DType::kI32 || (c.dtype == DType::kI8 && out == DType::kI8);
  if (!whole && (!internal::IsFloatForm(c.dtype, out) || c.dtype == DType::kE2M1)) {
    return internal::NoSuchForm("reduce", c.dtype, out, internal::kFloatForms);
  }
  internal::ReduceLaunch launch{};
  launch.in = c.dtype;
  launch.out = out;
  launch.s = p.Split();
  launch.kind = p.kind_of();
  return internal::Made(internal::BuiltinTarget(), [launch](std::span<const TensorView> inputs,
                                                            const TensorView& output) mutable {
    launch.x = inputs[0].data;
    launch.y = output.data;
    launch.ld = inputs[0].extents.ld;
    launch.batch_stride = inputs[0].extents.batch_stride;
    HWY_DYNAMIC_DISPATCH(RunReduce)(launch);
    return absl::OkStatus();
  });
}

}  // namespace

KernelEntry BuiltinReduceCpu() {
  return internal::BuiltinEntry("reduce", internal::FloatFormatsAnd({DType::kI8}), &MakeReduce);
}

}  // namespace assay::kernels
#endif  // HWY_ONCE
