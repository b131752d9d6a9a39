#include "tests/experiments/statistics.h"

#include <algorithm>
#include <cmath>

#include "kernels/numerics/bound.h"
#include "kernels/numerics/deviation.h"
#include "tests/experiments/lanes.h"

namespace assay::experiment {
namespace {

constexpr double kU = 0x1p-24;

// Products between promotions.
double LengthOf(const Truncating& t, double k) {
  return t.promoted > 0 ? std::min(static_cast<double>(t.promoted), k) : k;
}

// What a truncating accumulator adds to σ².
double TruncationVariance(const Truncating& t, double k, double r, double s, double q) {
  if (t.roundoff == 0) return 0;
  const double l = LengthOf(t, k);
  const double v1 = k * (q * (l / (2 * k) - l * l / (3 * k * k)) + r * r * l * l / (3 * k * k));
  const double v2 = l * l * (r * r / 4 + q * (1.0 / 3 - l / (4 * k)));
  const double share = s > 0 ? r / s : 0;
  return t.roundoff * t.roundoff *
         (4.0 / 3 * (v1 + q) + v2 * (1 / (t.block * t.block) + share * share));
}

// Sums of (e/σ)² by row, column and tile of 16×16.
class Groups {
 public:
  explicit Groups(const Shape& s)
      : shape_(s),
        tiles_across_((s.n + 15) / 16),
        rows_(Size(s.m)),
        columns_(Size(s.n)),
        tiles_(Size(tiles_across_ * ((s.m + 15) / 16))) {}
  void Add(std::size_t at, double square) {
    const std::size_t i = at / Size(shape_.n);
    const std::size_t j = at % Size(shape_.n);
    for (Sum* sum : {&rows_[i], &columns_[j], &tiles_[i / 16 * Size(tiles_across_) + j / 16]}) {
      sum->square += square;
      ++sum->count;
    }
  }
  // The largest R over its threshold, and that R.
  std::array<double, 2> Worst() const {
    std::array<double, 2> worst{};
    for (const std::vector<Sum>* sums : {&rows_, &columns_, &tiles_}) {
      for (const Sum& sum : *sums) {
        if (sum.count == 0) continue;
        const double r = std::sqrt(sum.square / sum.count);
        const double limit = std::max(3.0, Limit(static_cast<double>(sums->size()), sum.count));
        worst[0] = std::max(worst[0], r / limit);
        worst[1] = std::max(worst[1], r);
      }
    }
    return worst;
  }

 private:
  struct Sum {
    double square = 0;
    double count = 0;
  };
  static std::size_t Size(int i) { return static_cast<std::size_t>(i); }

  Shape shape_;
  int tiles_across_;
  std::vector<Sum> rows_, columns_, tiles_;
};

bool Fits(double r, DType output) { return std::abs(r) < Info(output).max_finite; }

void MeasureBound(const Reference& x, std::span<const float> y, DType input, DType output,
                  const Truncating& truncating, Statistics* found) {
  const OutputRounding rounding = OutputRoundingOf(output);
  const double narrow = Info(input).storage_bits == 8 ? kNarrowestRoundoff : 0;
  const double factor = ProbableFactor(x.shape.k, AccumulatorOf(input, {narrow, kNarrowBlock}));
  const auto k = static_cast<double>(x.shape.k);
  const double held = std::max(factor, LengthOf(truncating, k) * truncating.roundoff);
  for (std::size_t at = 0; at < y.size(); ++at) {
    const double r = x.r[at];
    const double s = x.s[at];
    if (!Fits(r, output)) continue;
    const double e = std::abs(y[at] - r);
    found->rho = std::max(found->rho, e / TBound(rounding, r, factor * s));
    found->rho_held = std::max(found->rho_held, e / TBound(rounding, r, held * s));
    if (truncating.roundoff == 0 || s == 0) continue;
    const double beside = e - TBound(rounding, r, 0);
    found->lost = std::max(found->lost, beside / (k * 2 * truncating.roundoff * s));
  }
}

Statistics::OfQ MeasureDeviation(const Reference& x, std::span<const float> y, QKind kind,
                                 DType output, const OutputSteps& steps,
                                 const Truncating& truncating) {
  Statistics::OfQ of;
  Groups groups(x.shape);
  const auto k = static_cast<double>(x.shape.k);
  // Odd, so that the sample goes through every column.
  const std::size_t every = std::max<std::size_t>(1, y.size() / 256) | 1;
  double squares = 0, count = 0, sampled = 0, samples = 0, er = 0, rr = 0, ratio = 0, share = 0;
  for (std::size_t at = 0; at < y.size(); ++at) {
    const double r = x.r[at];
    const double s = x.s[at];
    const double w = x.w[at];
    const double q = x.q[kind][at];
    if (!Fits(r, output)) continue;
    const double e = y[at] - r;
    const double sum = kind == kPrefix ? kU * kU / 3 * (k * w * w + q) : SumVariance(k, kU, r, q);
    const double variance = sum + steps.Variance(r) + TruncationVariance(truncating, k, r, s, q);
    const double square = e == 0 ? 0 : e * e / variance;
    squares += square;
    count += 1;
    if (at % every == 0) {
      sampled += square;
      samples += 1;
    }
    groups.Add(at, square);
    of.z = std::max(of.z, std::sqrt(square));
    er += e * r / variance;
    rr += r * r / variance;
    ratio += q > 0 ? r * r * k / q : 0;
    share += s > 0 ? std::abs(r) / s : 0;
  }
  if (count == 0) return of;
  of.r = std::sqrt(squares / count);
  of.sampled = samples > 0 ? std::sqrt(sampled / samples) : 0;
  const auto [over, r] = groups.Worst();
  of.group = over;
  of.group_r = r;
  if (rr == 0) return of;
  of.gain = er / rr;
  of.gain_error = 1 / std::sqrt(rr);
  const double t = kU * std::sqrt(ratio / count);
  of.gain_limit = 4 * kU + t * t + 8 * of.gain_error +
                  truncating.roundoff * (LengthOf(truncating, k) + 1) / 2 *
                      (1 / truncating.block + share / count);
  return of;
}

}  // namespace

double Limit(double groups, double count) {
  return std::max(2.0, (21 + std::log(groups)) / (1.74 * std::sqrt(count)));
}

Truncating TruncatingOf(DType input, std::int64_t promoted) {
  switch (Info(input).storage_bits) {
    case 16:
      return {kU, 8, promoted};
    case 8:
      return {0x1p-14, 32, promoted};
    default:
      return {};
  }
}

Reference Refer(const Operands& o) {
  const auto m = static_cast<std::size_t>(o.shape.m);
  const auto n = static_cast<std::size_t>(o.shape.n);
  const auto k = static_cast<std::size_t>(o.shape.k);
  Reference x{o.shape,
              std::vector<double>(m * n),
              std::vector<double>(m * n),
              std::vector<double>(m * n),
              {}};
  for (std::vector<double>& q : x.q) q.resize(m * n);
  std::vector<double> a4(m), b4(n);
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t l = 0; l < k; ++l) {
      const double square = static_cast<double>(o.a[i * k + l]) * o.a[i * k + l];
      a4[i] += square * square;
    }
  }
  for (std::size_t p = 0; p < n / kPanel; ++p) {
    const float* panel = o.b.data() + p * k * kPanel;
    std::array<double, kPanel> s4{};
    for (std::size_t l = 0; l < k; ++l) {
      for (std::size_t j = 0; j < kPanel; ++j) {
        const double square = static_cast<double>(panel[l * kPanel + j]) * panel[l * kPanel + j];
        s4[j] += square * square;
      }
    }
    std::copy(s4.begin(), s4.end(), b4.begin() + static_cast<std::ptrdiff_t>(p * kPanel));
    for (std::size_t i = 0; i < m; ++i) {
      constexpr std::size_t kGroup = 8;
      for (std::size_t from = 0; from < kPanel; from += kGroup) {
        Doubles r{}, s{}, q{}, low{}, high{};
        for (std::size_t l = 0; l < k; ++l) {
          Floats column;
          std::copy_n(panel + l * kPanel + from, kGroup, reinterpret_cast<float*>(&column));
          const Doubles product =
              static_cast<double>(o.a[i * k + l]) * __builtin_convertvector(column, Doubles);
          r += product;
          low = r < low ? r : low;
          high = r > high ? r : high;
          s += product < 0 ? -product : product;
          q += product * product;
        }
        for (std::size_t j = 0; j < kGroup; ++j) {
          const std::size_t at = i * n + p * kPanel + from + j;
          x.r[at] = r[j];
          x.s[at] = s[j];
          x.w[at] = high[j] - low[j];
          x.q[kExact][at] = q[j];
        }
      }
    }
  }
  x.q[kPrefix] = x.q[kExact];
  // The means of Q along rows and columns, and of all. They need no Q: Σ_j Σ_k a²b² is
  // Σ_k a²·(Σ_j b²). Here Q is there, so it is summed.
  std::vector<double> row(m), column(n);
  double all = 0;
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      const double q = x.q[kExact][i * n + j];
      row[i] += q;
      column[j] += q;
      all += q;
    }
  }
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      x.q[kUpper][i * n + j] = std::sqrt(a4[i] * b4[j]);
      x.q[kMargins][i * n + j] = all > 0 ? row[i] * column[j] / all : 0;
    }
  }
  return x;
}

Statistics Measure(const Reference& x, std::span<const float> y, DType input, DType output,
                   const Truncating& truncating) {
  Statistics found;
  MeasureBound(x, y, input, output, truncating, &found);
  const OutputSteps steps = OutputStepsOf(output);
  for (int kind = 0; kind < kQKinds; ++kind) {
    found.of[static_cast<std::size_t>(kind)] =
        MeasureDeviation(x, y, static_cast<QKind>(kind), output, steps, truncating);
  }
  return found;
}

}  // namespace assay::experiment
