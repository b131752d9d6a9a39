// Sums the residuals of one row, a vector of doubles at a time.
#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

#include "kernels/numerics/convert.h"
#include "kernels/runtime/cpu/residuals_cpu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/runtime/cpu/residuals_simd.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/runtime/cpu/compare_lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace assay::inline kernels::internal {
namespace HWY_NAMESPACE {
namespace {

constexpr std::int64_t kBlock = 512;

// As in the pass of the comparison (compare_main-inl.h).
constexpr std::int64_t kAhead = 256;

struct Lanes {
  V sum_squared, largest, weight, reference, reference_squared, error, error_reference;
  V error_direction, direction_squared;
  V missed;  // elements that do not count
  Lanes() {
    sum_squared = largest = weight = reference = reference_squared = hn::Zero(D());
    error = error_reference = error_direction = direction_squared = missed = sum_squared;
  }
};

// 1/σ, by a step of third order from an approximation in FP32: within 2^-30.
HWY_INLINE V InverseOf(hn::Vec<hn::Rebind<float, D>> deviation, V sigma) {
  const D d;
  const V near = hn::PromoteTo(d, hn::ApproximateReciprocal(deviation));
  const V error = hn::NegMulAdd(sigma, near, hn::Set(d, 1.0));
  return hn::MulAdd(near, hn::MulAdd(error, error, error), near);
}

// n is a multiple of the vector's length. `missed`: elements of each column that do not count.
// kRows: sums for the fits of rows, too.
template <Storage kStorage, bool kRows, bool kDirection>
void Block(const void* elements, const double* HWY_RESTRICT reference,
           const float* HWY_RESTRICT deviation, const float* HWY_RESTRICT direction, std::int64_t n,
           double* HWY_RESTRICT columns, double* HWY_RESTRICT missed, Lanes* out) {
  const D d;
  const hn::Rebind<float, D> df;
  constexpr float kLeast = std::numeric_limits<float>::min();
  constexpr float kMost = std::numeric_limits<float>::max();
  const auto least = hn::Set(df, kLeast);
  // Beyond this the approximation of 1/σ is a subnormal number, or 0.
  const auto near = hn::Set(df, 0x1p120f);
  const V most = hn::Set(d, static_cast<double>(kMost));
  const V largest = hn::Set(d, 1e300), one = hn::Set(d, 1.0);
  Lanes s = *out;
  for (std::int64_t i = 0; i < n; i += static_cast<std::int64_t>(hn::Lanes(d))) {
    hwy::Prefetch(static_cast<const Element<kStorage>*>(elements) + i + kAhead);
    hwy::Prefetch(reference + i + kAhead);
    hwy::Prefetch(deviation + i + kAhead);
    const auto narrow = hn::LoadU(df, deviation + i);
    const V sigma = hn::PromoteTo(d, narrow);
    V r = hn::LoadU(d, reference + i);
    V e = hn::Sub(LoadElements<kStorage>(elements, i), r);
    V inverse = InverseOf(narrow, sigma);
    // A NaN fails every comparison; o is finite if e and r are.
    const auto small = hn::And(hn::Le(hn::Abs(e), largest), hn::Le(hn::Abs(r), largest));
    const auto usual = hn::And(hn::Ge(narrow, least), hn::Le(narrow, near));
    if (HWY_UNLIKELY(!hn::AllTrue(df, usual) || !hn::AllTrue(d, small))) {
      const auto usable =
          hn::And(hn::Ge(sigma, hn::Set(d, static_cast<double>(kLeast))), hn::Le(sigma, most));
      const auto counted = hn::And(usable, small);
      inverse = hn::IfThenElseZero(counted, hn::Div(one, sigma));
      e = hn::IfThenElseZero(counted, e);
      r = hn::IfThenElseZero(counted, r);
      const V miss = hn::IfThenZeroElse(counted, one);
      s.missed = hn::Add(s.missed, miss);
      hn::StoreU(hn::Add(hn::LoadU(d, missed + i), miss), d, missed + i);
    }
    const V z = hn::Mul(e, inverse);
    const V scaled_r = hn::Mul(r, inverse);
    s.sum_squared = hn::MulAdd(z, z, s.sum_squared);
    s.largest = hn::Max(s.largest, hn::Abs(z));
    s.reference_squared = hn::MulAdd(scaled_r, scaled_r, s.reference_squared);
    s.error_reference = hn::MulAdd(z, scaled_r, s.error_reference);
    if (kRows) {
      s.weight = hn::MulAdd(inverse, inverse, s.weight);
      s.reference = hn::MulAdd(scaled_r, inverse, s.reference);
      s.error = hn::MulAdd(z, inverse, s.error);
    }
    if (kDirection) {
      const V raw_d = hn::PromoteTo(d, hn::LoadU(df, direction + i));
      const V dir = hn::IfThenElseZero(hn::Le(hn::Abs(raw_d), most), raw_d);
      const V scaled_d = hn::Mul(dir, inverse);
      s.error_direction = hn::MulAdd(z, scaled_d, s.error_direction);
      s.direction_squared = hn::MulAdd(scaled_d, scaled_d, s.direction_squared);
    }
    hn::StoreU(hn::MulAdd(z, z, hn::LoadU(d, columns + i)), d, columns + i);
  }
  *out = s;
}

// Rows of formats that are staged as floats, and the end of each row.
struct Stage {
  alignas(64) std::array<float, kBlock> floats;
  alignas(64) std::array<unsigned char, kBlock * 8> packed;
  alignas(64) std::array<double, kBlock> reference, columns, missed;
  alignas(64) std::array<float, kBlock> deviation, direction;
};

void SetTotals(const Lanes& total, RowResiduals* sums) {
  sums->sum_squared = Total(total.sum_squared);
  sums->largest = Largest(total.largest);
  sums->weight = Total(total.weight);
  sums->reference = Total(total.reference);
  sums->reference_squared = Total(total.reference_squared);
  sums->error = Total(total.error);
  sums->error_reference = Total(total.error_reference);
  sums->error_direction = Total(total.error_direction);
  sums->direction_squared = Total(total.direction_squared);
}

template <Storage kStorage>
void Row(const ResidualRequest& request, std::int64_t row, double* columns, double* missed,
         RowResiduals* sums) {
  static thread_local Stage stage;
  const Extents& x = request.output.extents;
  const DType dtype = request.output.dtype;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(D()));
  const std::int64_t origin = row / x.rows * x.batch_stride + row % x.rows * x.ld;
  const int width = Info(dtype).storage_bits;
  const bool staged = width <= 8 && !Info(dtype).is_integer;
  Lanes total;
  std::int64_t others = 0;  // of the vector of the rest
  for (std::int64_t begin = 0; begin < x.cols; begin += kBlock) {
    const std::int64_t n = std::min(kBlock, x.cols - begin);
    const std::int64_t whole = n - n % lanes;
    const std::int64_t at = row * x.cols + begin;
    const void* elements =
        static_cast<const unsigned char*>(request.output.data) + (origin + begin) * width / 8;
    if (staged) {
      for (std::int64_t i = 0; i < n; ++i) {
        stage.floats[static_cast<std::size_t>(i)] =
            ToFloat(dtype, LoadBits(dtype, request.output.data, origin + begin + i));
      }
      elements = stage.floats.data();
    }
    const double* reference = request.reference + at;
    const float* deviation = request.deviation + at;
    const float* direction = request.direction == nullptr ? nullptr : request.direction + at;
    const bool rows = request.row_gain != nullptr;
    const auto block = direction != nullptr ? Block<kStorage, true, true>
                       : rows               ? Block<kStorage, true, false>
                                            : Block<kStorage, false, false>;
    block(elements, reference, deviation, direction, whole, columns + begin, missed + begin,
          &total);
    if (whole == n) continue;
    // The rest of a row, in a vector whose other elements do not count.
    const std::int64_t rest = n - whole;
    const std::int64_t size = staged ? 4 : width / 8;
    stage.packed.fill(0);
    std::copy_n(static_cast<const unsigned char*>(elements) + whole * size, rest * size,
                stage.packed.data());
    std::fill_n(stage.deviation.data(), lanes, 0.0f);
    std::fill_n(stage.direction.data(), lanes, 0.0f);
    std::fill_n(stage.reference.data(), lanes, 0.0);
    std::fill_n(stage.columns.data(), lanes, 0.0);
    std::fill_n(stage.missed.data(), lanes, 0.0);
    std::copy_n(deviation + whole, rest, stage.deviation.data());
    std::copy_n(reference + whole, rest, stage.reference.data());
    if (direction != nullptr) std::copy_n(direction + whole, rest, stage.direction.data());
    block(stage.packed.data(), stage.reference.data(), stage.deviation.data(),
          stage.direction.data(), lanes, stage.columns.data(), stage.missed.data(), &total);
    others = lanes - rest;
    for (std::int64_t i = 0; i < rest; ++i) {
      columns[begin + whole + i] += stage.columns[static_cast<std::size_t>(i)];
      missed[begin + whole + i] += stage.missed[static_cast<std::size_t>(i)];
    }
  }
  sums->count = x.cols + others - static_cast<std::int64_t>(Total(total.missed));
  SetTotals(total, sums);
}

void SumRow(const ResidualRequest& request, std::int64_t row, double* columns, double* missed,
            RowResiduals* sums) {
  switch (request.output.dtype) {
    case DType::kF64:
      return Row<Storage::kF64>(request, row, columns, missed, sums);
    case DType::kF16:
      return Row<Storage::kF16>(request, row, columns, missed, sums);
    case DType::kBF16:
      return Row<Storage::kBF16>(request, row, columns, missed, sums);
    case DType::kI8:
      return Row<Storage::kI8>(request, row, columns, missed, sums);
    case DType::kI32:
      return Row<Storage::kI32>(request, row, columns, missed, sums);
    default:  // fp32, tf32, and the formats that are staged as floats
      return Row<Storage::kF32>(request, row, columns, missed, sums);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace assay::kernels::internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay::inline kernels::internal {

HWY_EXPORT(SumRow);

void SumRow(const ResidualRequest& request, std::int64_t row, double* columns, double* missed,
            RowResiduals* sums) {
  HWY_DYNAMIC_DISPATCH(SumRow)(request, row, columns, missed, sums);
}

}  // namespace assay::kernels::internal
#endif  // HWY_ONCE
