#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/ops/common/sum_deviations.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "hwy/highway.h"
#include "kernels/ops/common/deviation-inl.h"
#include "kernels/ops/common/load.h"
#include "kernels/ops/common/product_residuals.h"
#include "kernels/runtime/cpu/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace assay::inline kernels {
namespace HWY_NAMESPACE {
namespace {

// E of one row of sums, and σ if `deviation` is not nullptr and nothing truncates. row: Q of the
// row.
template <bool kDeviates>
void FinishRow(const ProductBound& bound, const SumModel& sums, const OutputSteps& steps,
               double row, const double* HWY_RESTRICT columns, const double* HWY_RESTRICT r,
               double* HWY_RESTRICT absolute, std::int64_t n, float* HWY_RESTRICT deviation) {
  const DeviationTag d;
  const auto zero = hn::Zero(d);
  // ProductBound::Allowance.
  const auto factor = hn::Set(d, bound.factor), underflow = hn::Set(d, bound.underflow);
  const auto times = hn::Set(d, bound.times);
  // SumModel::Variance and OutputSteps::Variance: a·r² + b·q + c, and ulp(r)²/12.
  const double u2 = sums.roundoff * sums.roundoff / 3;
  const double partial = (sums.terms + 1) / 6;
  const auto of_r = hn::Set(d, u2 * partial * 2);
  const auto of_q = hn::Set(d, u2 * (partial + 1) * row);
  const double least = sums.LeastSquares(1);
  const auto of_least = hn::Set(d, u2 * (partial + 1) * least);
  const auto constant = hn::Set(d, sums.underflow);
  const OutputStepsOfVectors output(steps);
  const auto most = hn::Set(d, std::numeric_limits<double>::max());
  const auto finish = [&](auto value, auto sum, auto column, auto& e, auto& sigma) HWY_ATTR
      __attribute__((always_inline)) {
    const auto magnitude = hn::Abs(value);
    e = hn::Mul(times, hn::MulAdd(factor, sum, underflow));
    auto variance = constant;
    if (kDeviates) {
      const auto squares = hn::Max(hn::Mul(column, of_q), hn::Mul(hn::Mul(sum, sum), of_least));
      variance = hn::MulAdd(hn::Mul(value, value), of_r, hn::Add(squares, constant));
      variance = output.AddVariance(magnitude, variance);
      if (RootInRange(variance, sigma)) return;  // an r that is not finite has no such σ
    }
    const auto finite = hn::Le(magnitude, most);
    e = hn::IfThenElseZero(finite, e);
    if (!kDeviates) return;
    DeviationVec inverse;
    RootAndInverse(variance, sigma, inverse);
    sigma = hn::IfThenElseZero(finite, sigma);
  };
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const hn::Rebind<float, DeviationTag> df;
  DeviationVec e, sigma = zero;
  std::int64_t j = 0;
  for (; j + lanes <= n; j += lanes) {
    finish(hn::LoadU(d, r + j), hn::LoadU(d, absolute + j),
           kDeviates ? hn::LoadU(d, columns + j) : zero, e, sigma);
    hn::StoreU(e, d, absolute + j);
    if (kDeviates) hn::StoreU(hn::DemoteTo(df, sigma), df, deviation + j);
  }
  for (; j < n; ++j) {  // each in a vector of its own
    finish(hn::Set(d, r[j]), hn::Set(d, absolute[j]), hn::Set(d, kDeviates ? columns[j] : 0.0), e,
           sigma);
    absolute[j] = hn::GetLane(e);
    if (kDeviates) deviation[j] = static_cast<float>(hn::GetLane(sigma));
  }
}

void Finish(const ProductBound& bound, std::int64_t rows, std::int64_t cols, std::int64_t ld,
            const double* r, double* absolute, const TileDeviations& to) {
  const bool deviates = to.deviation != nullptr && to.sums.truncation == 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t at = i * ld;
    if (deviates) {
      FinishRow<true>(bound, to.sums, to.steps, to.rows[i], to.columns, r + at, absolute + at, cols,
                      to.deviation + at);
    } else {
      FinishRow<false>(bound, to.sums, to.steps, 0, nullptr, r + at, absolute + at, cols, nullptr);
    }
  }
}

// x², or 0 if that is not finite: elements with such inputs have no deviation anyway.
HWY_INLINE DeviationVec FiniteSquares(const float* from) {
  const DeviationTag d;
  const DeviationVec x = hn::PromoteTo(d, hn::LoadU(hn::Rebind<float, DeviationTag>(), from));
  const DeviationVec square = hn::Mul(x, x);
  return hn::IfThenElseZero(hn::Le(square, hn::Set(d, std::numeric_limits<double>::max())), square);
}

double FiniteSquare(float x) {
  const double square = static_cast<double>(x) * static_cast<double>(x);
  return square <= std::numeric_limits<double>::max() ? square : 0;
}

double SquaresAlong(const float* HWY_RESTRICT x, const double* HWY_RESTRICT weights,
                    std::int64_t n) {
  const hn::ScalableTag<double> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto sum0 = hn::Zero(d), sum1 = sum0;
  std::int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    sum0 = hn::MulAdd(FiniteSquares(x + i), hn::LoadU(d, weights + i), sum0);
    sum1 = hn::MulAdd(FiniteSquares(x + i + lanes), hn::LoadU(d, weights + i + lanes), sum1);
  }
  double sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(sum0, sum1)));
  for (; i < n; ++i) sum += FiniteSquare(x[i]) * weights[i];
  return sum;
}

void SquaresAcross(const float* HWY_RESTRICT x, double weight, std::int64_t n,
                   double* HWY_RESTRICT sums) {
  const hn::ScalableTag<double> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto w = hn::Set(d, weight);
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(hn::MulAdd(FiniteSquares(x + i), w, hn::LoadU(d, sums + i)), d, sums + i);
  }
  for (; i < n; ++i) sums[i] += FiniteSquare(x[i]) * weight;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace assay::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay::inline kernels {

HWY_EXPORT(Finish);
HWY_EXPORT(SquaresAcross);
HWY_EXPORT(SquaresAlong);

namespace {

constexpr std::int64_t kGrain = 1 << 14;  // elements that are worth a thread
constexpr std::int64_t kChunk = 1024;     // elements of a line that are read together

// Elements begin to begin + n of a matrix as floats, in place or in the buffer.
const float* LineOf(const StridedMatrix& m, std::int64_t begin, std::int64_t n, float* buffer) {
  if (m.dtype == DType::kF32 || m.dtype == DType::kTF32) {
    return static_cast<const float*>(m.base) + begin;
  }
  LoadFloats(m.dtype, m.base, begin, n, buffer);
  return buffer;
}

// sums[row] = scale·Σ_k x(row, k)²·weights[k] of a matrix [rows, k], whose lines along k are stored
// together (`along`), or else those along the rows.
void WeighSquares(const StridedMatrix& m, std::int64_t rows, std::int64_t k, const double* weights,
                  double scale, double* sums) {
  const bool along = m.k_stride == 1;
  if (along) {
    ParallelFor(rows, kGrain / k + 1, [&](std::int64_t begin, std::int64_t end) {
      float buffer[kChunk];
      for (std::int64_t row = begin; row < end; ++row) {
        double sum = 0;
        for (std::int64_t k0 = 0; k0 < k; k0 += kChunk) {
          const std::int64_t kc = std::min(kChunk, k - k0);
          const float* line = LineOf(m, m.origin + row * m.row_stride + k0, kc, buffer);
          sum += HWY_DYNAMIC_DISPATCH(SquaresAlong)(line, weights + k0, kc);
        }
        sums[row] = scale * sum;
      }
    });
    return;
  }
  const std::int64_t chunks = (rows + kChunk - 1) / kChunk;
  ParallelFor(chunks, kGrain / (k * kChunk) + 1, [&](std::int64_t begin, std::int64_t end) {
    float buffer[kChunk];
    for (std::int64_t r0 = begin * kChunk; r0 < std::min(rows, end * kChunk); r0 += kChunk) {
      const std::int64_t here = std::min(kChunk, rows - r0);
      std::fill_n(sums + r0, here, 0.0);
      for (std::int64_t i = 0; i < k; ++i) {
        const float* line = LineOf(m, m.origin + i * m.k_stride + r0, here, buffer);
        HWY_DYNAMIC_DISPATCH(SquaresAcross)(line, scale * weights[i], here, sums + r0);
      }
    }
  });
}

}  // namespace

void SquareMargins(const StridedMatrix& a, std::int64_t m, const StridedMatrix& b, std::int64_t n,
                   std::int64_t k, double* rows, double* columns) {
  const auto across = [](const StridedMatrix& x) {
    return StridedMatrix{x.dtype, x.base, x.origin, x.k_stride, x.row_stride};
  };
  const std::vector<double> ones(static_cast<std::size_t>(std::max(m, n)), 1.0);
  std::vector<double> of_a(static_cast<std::size_t>(k)), of_b(of_a.size());
  WeighSquares(across(a), k, m, ones.data(), 1, of_a.data());
  WeighSquares(across(b), k, n, ones.data(), 1, of_b.data());
  double total = 0;
  for (std::size_t i = 0; i < of_a.size(); ++i) total += of_a[i] * of_b[i];
  // Without any product Q is 0 everywhere.
  const double scale = total > 0 ? 1 / std::sqrt(total) : 0;
  WeighSquares(a, m, k, of_b.data(), scale, rows);
  WeighSquares(b, n, k, of_a.data(), scale, columns);
}

void FinishTile(const ProductBound& bound, std::int64_t rows, std::int64_t cols, std::int64_t ld,
                const double* r, double* absolute, const TileDeviations& to) {
  for (std::int64_t i = 0; to.deviation != nullptr && to.sums.truncation > 0 && i < rows; ++i) {
    for (std::int64_t j = 0; j < cols; ++j) {
      const std::int64_t at = i * ld + j;
      const double variance = to.sums.Variance(r[at], to.rows[i] * to.columns[j], absolute[at]) +
                              to.steps.Variance(r[at]);
      to.deviation[at] = std::isfinite(r[at]) ? static_cast<float>(std::sqrt(variance)) : 0.0f;
    }
  }
  HWY_DYNAMIC_DISPATCH(Finish)(bound, rows, cols, ld, r, absolute, to);
}

}  // namespace assay::kernels
#endif
