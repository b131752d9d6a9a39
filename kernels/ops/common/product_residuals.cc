#include "kernels/ops/common/product_residuals.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/ops/common/planning.h"
#include "kernels/runtime/cpu/parallel.h"

namespace assay {
namespace {

// Data that vary less than so beside their magnitude repeat one rounding error: the model, which
// takes errors for independent, does not hold.
constexpr double kLeastSpread = 0.25;

bool IsDrawnInFullPrecision(const Pattern& p) {
  switch (p.kind) {
    case PatternKind::kNormal:
      return p.a >= kLeastSpread * std::abs(p.b);
    case PatternKind::kUniform:
      return std::abs(p.b - p.a) >= kLeastSpread * std::max(std::abs(p.a), std::abs(p.b));
    case PatternKind::kAllPositive:
      return true;
    default:
      return false;
  }
}

constexpr std::int64_t kWidth = 8, kDepth = 256;  // of a packed panel
constexpr std::int64_t kGrain = 1 << 14;          // elements that are worth a thread

// x², or 0 if that is not finite: such elements have no deviation anyway.
double FiniteSquare(double x) {
  const double square = x * x;
  return square <= std::numeric_limits<double>::max() ? square : 0;
}

double* ThreadPanel() {
  static thread_local std::vector<double> panel(kWidth * kDepth);
  return panel.data();
}

// sums[k] = Σ x(row, k)² over all rows.
void TermSquares(const PanelSource& source, std::int64_t rows, std::int64_t k, double* sums) {
  const std::int64_t parts = (k + kDepth - 1) / kDepth;
  ParallelFor(parts, kGrain / (rows * kDepth) + 1, [&](std::int64_t begin, std::int64_t end) {
    double* panel = ThreadPanel();
    for (std::int64_t k0 = begin * kDepth; k0 < std::min(k, end * kDepth); k0 += kDepth) {
      const std::int64_t kc = std::min(kDepth, k - k0);
      double lanes[kDepth][kWidth] = {};
      for (std::int64_t r = 0; r < rows; r += kWidth) {
        source.Pack(r, std::min(kWidth, rows - r), k0, kc, kWidth, panel);
        for (std::int64_t i = 0; i < kc; ++i) {
          for (std::int64_t w = 0; w < kWidth; ++w) {
            lanes[i][w] += FiniteSquare(panel[i * kWidth + w]);
          }
        }
      }
      for (std::int64_t i = 0; i < kc; ++i) {
        double sum = 0;
        for (const double lane : lanes[i]) sum += lane;
        sums[k0 + i] = sum;
      }
    }
  });
}

// sums[row] = scale·Σ_k x(row, k)²·weights[k].
void RowSquares(const PanelSource& source, std::int64_t rows, std::int64_t k, const double* weights,
                double scale, double* sums) {
  const std::int64_t parts = (rows + kWidth - 1) / kWidth;
  ParallelFor(parts, kGrain / (k * kWidth) + 1, [&](std::int64_t begin, std::int64_t end) {
    double* panel = ThreadPanel();
    for (std::int64_t r = begin * kWidth; r < std::min(rows, end * kWidth); r += kWidth) {
      const std::int64_t here = std::min(kWidth, rows - r);
      double sum[kWidth] = {};
      for (std::int64_t k0 = 0; k0 < k; k0 += kDepth) {
        const std::int64_t kc = std::min(kDepth, k - k0);
        source.Pack(r, here, k0, kc, kWidth, panel);
        for (std::int64_t i = 0; i < kc; ++i) {
          for (std::int64_t w = 0; w < kWidth; ++w) {
            sum[w] += FiniteSquare(panel[i * kWidth + w]) * weights[k0 + i];
          }
        }
      }
      for (std::int64_t w = 0; w < here; ++w) sums[r + w] = scale * sum[w];
    }
  });
}

}  // namespace

SumModel MakeSumModel(DType input, std::int64_t terms, const Accumulator& accumulator) {
  const Arithmetic arithmetic = ArithmeticOf(input);
  const double k = static_cast<double>(terms);
  SumModel model;
  model.terms = k;
  model.roundoff = arithmetic.u;
  if (accumulator.roundoff > arithmetic.u) {
    model.truncation = accumulator.roundoff;
    model.block = static_cast<double>(accumulator.block);
  }
  const double lost = k * arithmetic.min_normal;
  model.underflow = lost * lost;
  return model;
}

bool DrawnInFullPrecision(const Plan& plan, int operands) {
  return std::all_of(plan.inputs.begin(), plan.inputs.begin() + operands,
                     [](const Operand& o) { return IsDrawnInFullPrecision(o.pattern); });
}

ResidualModel ProductResiduals(const Case& c, const Plan& plan) {
  ResidualModel model;
  const FormatInfo& input = Info(c.dtype);
  const FormatInfo& output = Info(plan.output.dtype);
  if (plan.exact || input.is_integer || output.is_integer || c.dtype == DType::kF64 ||
      plan.output.dtype == DType::kF64) {
    return model;
  }
  const double u = AccumulatorRoundoff(c.dtype);
  const double k = static_cast<double>(plan.accumulations);
  model.known = true;
  model.roundoff = std::max(u, plan.accumulator.roundoff);
  model.gates = DrawnInFullPrecision(plan, 2);
  // t² of a right kernel: partial sums share a relative error of about t = u·|r|·√(K/Q). For data
  // of mean zero r² is near Q; otherwise it is K·Q at most.
  const double growth = plan.zero_mean_random ? 4 * std::sqrt(k) : k;
  model.gain_floor = 4 * u + u * u * growth * growth;
  if (plan.accumulator.roundoff > u) {
    model.gain_floor += plan.accumulator.roundoff * (k + 1) / 2 *
                        (1 / static_cast<double>(plan.accumulator.block) + 1);
  }
  return model;
}

void SquareMargins(const PanelSource& a, std::int64_t m, const PanelSource& b, std::int64_t n,
                   std::int64_t k, double* rows, double* columns) {
  std::vector<double> of_a(static_cast<std::size_t>(k)), of_b(of_a.size());
  TermSquares(a, m, k, of_a.data());
  TermSquares(b, n, k, of_b.data());
  double total = 0;
  for (std::size_t i = 0; i < of_a.size(); ++i) total += of_a[i] * of_b[i];
  // Without any product Q is 0 everywhere.
  const double scale = total > 0 ? 1 / std::sqrt(total) : 0;
  RowSquares(a, m, k, of_b.data(), scale, rows);
  RowSquares(b, n, k, of_a.data(), scale, columns);
}

void SumFourthPowers(const PanelSource& source, std::int64_t row0, std::int64_t rows,
                     std::int64_t k, double* sums) {
  double* panel = ThreadPanel();
  for (std::int64_t r = 0; r < rows; r += kWidth) {
    const std::int64_t here = std::min(kWidth, rows - r);
    double sum[kWidth] = {};
    for (std::int64_t k0 = 0; k0 < k; k0 += kDepth) {
      const std::int64_t kc = std::min(kDepth, k - k0);
      source.Pack(row0 + r, here, k0, kc, kWidth, panel);
      for (std::int64_t i = 0; i < kc; ++i) {
        const double* x = panel + i * kWidth;
        for (std::int64_t w = 0; w < kWidth; ++w) {
          const double square = x[w] * x[w];
          sum[w] += square * square;
        }
      }
    }
    std::copy_n(sum, here, sums + r);
  }
}

}  // namespace assay
