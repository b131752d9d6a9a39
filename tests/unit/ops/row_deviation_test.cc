// The deviations of softmax and norms: errors of right FP32 kernels, in any order and by any way to
// the variance, stay below the limits of kernels/ops/op.h, and those of wrong kernels do not,
// although most of them are within the bound of each element.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "hwy/targets.h"
#include "kernels/numerics/convert.h"
#include "kernels/numerics/generate.h"
#include "kernels/ops/common/row_depth.h"
#include "kernels/ops/common/softmax_deviation.h"
#include "kernels/ops/common/sum_orders.h"
#include "kernels/ops/layer_norm/layer_norm_deviation.h"
#include "kernels/runtime/residuals_rule.h"
#include "tests/unit/ops/every_target.h"
#include "tests/unit/ops/row_fits.h"
#include "tests/unit/ops/row_kernels.h"

namespace assay {
namespace {

constexpr double kU = 0x1p-24;
constexpr double kEps = 9.99999974737875163555e-6;  // 1e-5 in FP32

struct Data {
  const char* pattern;
  std::int64_t rows, cols;
  DType input = DType::kF32;
  DType output = DType::kF32;
};

std::string Text(const Data& d, std::string_view kernel) {
  return std::string(kernel) + ", " + d.pattern + " " + std::to_string(d.rows) + "x" +
         std::to_string(d.cols) + " " + std::string(Name(d.input)) + " to " +
         std::string(Name(d.output));
}

// Visits the rows of the data, in FP32.
template <class Visit>
void EachRow(const Data& d, const Visit& visit) {
  Generator generator(*ParsePattern(d.pattern, nullptr), /*seed=*/3, 0, /*epoch=*/0, d.rows, d.cols,
                      d.input);
  std::vector<float> x(static_cast<std::size_t>(d.cols));
  for (std::int64_t row = 0; row < d.rows; ++row) {
    for (std::int64_t i = 0; i < d.cols; ++i) {
      x[static_cast<std::size_t>(i)] = static_cast<float>(generator.Value(row * d.cols + i));
    }
    visit(x, row);
  }
}

// With NaN in the vector that is read behind a row, and left out.
constexpr std::int64_t kPad = 8;
std::vector<double> Padded(std::vector<double> row) {
  row.resize(row.size() + kPad, std::nan(""));
  return row;
}

std::vector<double> Rounded(const std::vector<float>& y, DType output) {
  std::vector<double> rounded(y.begin(), y.end());
  if (output != DType::kF32) {
    for (double& v : rounded) v = Quantise(v, output);
  }
  return rounded;
}

double DistinctOf(const Data& d, Addends addends) {
  return DistinctAddends(*ParsePattern(d.pattern, nullptr), d.input, addends, d.cols, kU);
}

Statistics Of(const SoftmaxKernel& kernel, const Data& d, double distinct = 0) {
  const SoftmaxDeviation model = {static_cast<double>(d.cols),
                                  kU,
                                  0,
                                  distinct > 0 ? distinct : DistinctOf(d, Addends::kExponentials),
                                  kFlushedExp * Info(DType::kF32).min_normal,
                                  OutputStepsOf(d.output)};
  Fits fits;
  EachRow(d, [&](const std::vector<float>& x, std::int64_t) {
    const std::vector<double> wide(x.begin(), x.end());
    const double max = *std::max_element(wide.begin(), wide.end());
    std::vector<double> r(x.size());
    double sum = 0;
    for (std::size_t i = 0; i < r.size(); ++i) sum += r[i] = std::exp(wide[i] - max);
    for (double& v : r) v /= sum;
    std::vector<float> deviation(x.size()), direction(x.size());
    float offset = 1, gain = 0;
    const RowDeviations to = {deviation.data(), &offset, &gain, direction.data()};
    SoftmaxDeviationsOfRows(model, d.cols, 1, Padded(wide).data(), Padded(r).data(), d.cols + kPad,
                            &to);
    fits.Add(r, Rounded(SoftmaxOf(kernel, x), d.output), deviation, offset, gain, direction);
  });
  return fits.Result();
}

Statistics Of(const NormKernel& kernel, const Data& d, bool rms = false, float eps = 1e-5F,
              double distinct = 0) {
  LayerNormDeviation model;
  model.n = static_cast<double>(d.cols);
  model.eps = kEps;
  model.u = kU;
  model.distinct = DistinctOf(d, Addends::kElements);
  model.distinct_squares = DistinctOf(d, rms ? Addends::kOwnSquares : Addends::kSquares);
  if (distinct > 0) model.distinct = model.distinct_squares = distinct;
  model.rms = rms;
  model.steps = OutputStepsOf(d.output);
  Fits fits;
  const std::vector<double> ones(static_cast<std::size_t>(d.cols + kPad), 1.0);
  const std::vector<double> zeros(ones.size(), 0.0);
  EachRow(d, [&](const std::vector<float>& x, std::int64_t) {
    const std::vector<double> wide(x.begin(), x.end());
    double mean = 0, variance = 0;
    for (const double v : wide) mean += v / model.n;
    if (rms) mean = 0;
    for (const double v : wide) variance += (v - mean) * (v - mean) / model.n;
    std::vector<double> r(x.size());
    for (std::size_t i = 0; i < r.size(); ++i) {
      r[i] = (wide[i] - mean) / std::sqrt(variance + kEps);
    }
    std::vector<float> deviation(x.size());
    float offset = 0, gain = 0;
    const RowDeviations to = {deviation.data(), &offset, &gain};
    LayerNormDeviationsOfRows(model, d.cols, 1, Padded(wide).data(), d.cols + kPad, ones.data(),
                              zeros.data(), &to);
    fits.Add(r, Rounded(NormOf(kernel, x, eps, rms), d.output), deviation, offset, gain);
  });
  return fits.Result();
}

// What usual orders lose of a sum.
double SeenOf(const std::vector<float>& addends) {
  const auto n = static_cast<std::int64_t>(addends.size());
  OrderedSums orders;
  SumInOrders(addends.data(), n, n, 1, &orders);
  return orders.RelativeError();
}

// Of x whose sum is exact in every order.
LayerNormMoments MomentsOfPlain(const LayerNormDeviation& model, const std::vector<double>& x) {
  double mean = 0, squares = 0, fourth = 0, lost = 0;
  for (const double v : x) mean += model.rms ? 0 : v / model.n;
  for (const double v : x) squares += (v - mean) * (v - mean);
  std::vector<float> addends;
  for (const double v : x) {
    const double square = (v - mean) * (v - mean);
    addends.push_back(static_cast<float>(square));
    fourth += square * square;
    lost += LostSquare(square, model.u * squares);
  }
  LayerNormMoments row = model.Moments(x[0], mean, squares, fourth);
  row.lost = lost / (16 * squares);
  row.seen_factor = SeenOf(addends);
  return row;
}

void ExpectFloat(float got, double want, std::size_t i) {
  EXPECT_NEAR(static_cast<double>(got), want, 0x1p-21 * std::abs(want)) << i;
}

// What is filled for rows of n elements, one behind the other with padding.
struct Filled {
  explicit Filled(std::int64_t rows, std::int64_t n, bool directed = true, bool fitted = true)
      : deviation(static_cast<std::size_t>(rows * n)), direction(deviation.size()) {
    offset.assign(static_cast<std::size_t>(rows), -1), gain = offset;
    const RowDeviations first = {deviation.data(), fitted ? offset.data() : nullptr,
                                 fitted ? gain.data() : nullptr,
                                 directed ? direction.data() : nullptr};
    for (std::int64_t row = 0; row < rows; ++row) to.push_back(first.OfRow(row, n));
  }
  std::vector<float> deviation, direction, offset, gain;
  std::vector<RowDeviations> to;
};

// The same of one row by plain code, and how large an error of D may be.
struct PlainRow {
  std::vector<double> deviation, direction, slack;
  double offset = 0, gain = 0;

  void Expect(const Filled& filled, std::size_t row, bool directed, bool fitted) const {
    SCOPED_TRACE(row);
    for (std::size_t i = 0; i < deviation.size(); ++i) {
      const std::size_t at = row * deviation.size() + i;
      ExpectFloat(filled.deviation[at], deviation[i], i);
      if (!directed) continue;
      const double within = 0x1p-21 * (std::abs(direction[i]) + slack[i]) + 0x1p-149;
      EXPECT_NEAR(static_cast<double>(filled.direction[at]), direction[i], within) << i;
    }
    if (!fitted) return;
    ExpectFloat(filled.offset[row], offset, deviation.size());
    ExpectFloat(filled.gain[row], gain, deviation.size());
  }
};

PlainRow PlainSoftmax(const SoftmaxDeviation& model, const std::vector<double>& x,
                      const std::vector<double>& r) {
  PlainRow plain;
  SoftmaxRowSums sums;
  const double max = *std::max_element(x.begin(), x.end());
  const double largest = *std::max_element(r.begin(), r.end());
  std::vector<float> addends;
  double lost = 0, weights = 0, mean = 0, spread = 0;
  std::vector<double> weight;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double sigma = sums.Add(model, r[i], x[i], max);
    plain.deviation.push_back(sigma);
    weight.push_back(sigma > 0 ? r[i] * r[i] / (sigma * sigma) : 0);
    weights += weight[i];
    if (weight[i] > 0) mean += weight[i] * x[i];
    lost += LostAddend(r[i], kU);
    addends.push_back(static_cast<float>(r[i] * (1 / largest)));
  }
  mean /= weights;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (weight[i] > 0) spread += weight[i] * (x[i] - mean) * (x[i] - mean);
  }
  for (std::size_t i = 0; i < x.size(); ++i) {
    const bool has = spread >= 0.25 * weights && std::isfinite(x[i]);
    plain.direction.push_back(has ? r[i] * (x[i] - mean) : 0);
    plain.slack.push_back(has ? 8 * r[i] : 0);
  }
  plain.gain = sums.Gain(model, max, lost, SeenOf(addends));
  return plain;
}

PlainRow PlainNorm(const LayerNormDeviation& model, const std::vector<double>& x,
                   const std::vector<double>& weight, const std::vector<double>& bias) {
  PlainRow plain;
  const LayerNormMoments row = MomentsOfPlain(model, x);
  RowFit fit, of_y;
  std::vector<double> y;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double sigma = AddLayerNormElement(model, row, x[i], weight[i], bias[i], fit);
    plain.deviation.push_back(sigma);
    y.push_back((x[i] - row.mean) * row.rstd);
    if (sigma > 0 && weight[i] != 0) of_y.Add(y[i], std::pow(sigma / weight[i], 2));
  }
  const double factor = std::sqrt(model.GainVariance(row) + model.Repeats() * of_y.GainVariance());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double along = weight[i] * (y[i] - of_y.reference / of_y.weights) * factor;
    const bool has = std::isfinite(along);
    plain.direction.push_back(has ? along : 0);
    plain.slack.push_back(has ? 4 * std::abs(weight[i]) * factor : 0);
  }
  plain.offset = model.Offset(row, fit);
  plain.gain = model.Gain(row, fit);
  return plain;
}

// Rows whose ends and middles are taken in vectors of every kind, several at a time: some x are
// -Inf, some r are so small that FP32 does not hold their σ², and the second row has no direction.
TEST(RowDeviation, SoftmaxesArePlainOnEveryInstructionSet) {
  for (const std::int64_t count : {1, 3, 5, 8}) {
    for (const std::int64_t n : {9, 16, 45, 300}) {
      SCOPED_TRACE(std::to_string(count) + "x" + std::to_string(n));
      const SoftmaxDeviation model = {static_cast<double>(n),    kU, 0, 1e9, 0x1p-125,
                                      OutputStepsOf(DType::kF32)};
      std::vector<double> all_x, all_r;
      std::vector<PlainRow> plain;
      for (std::int64_t row = 0; row < count; ++row) {
        std::vector<double> x, r;
        double sum = 0;
        for (std::int64_t i = 0; i < n; ++i) {
          const double v = static_cast<double>((i + row) % 7) * (row == 1 ? 0x1p-4 : 1);
          x.push_back(i % 29 == 20 ? -HUGE_VAL : v - (i % 31 == 30 ? 80 : 0));
          sum += r.emplace_back(std::exp(x.back() - 6));
        }
        for (double& v : r) v /= sum;
        plain.push_back(PlainSoftmax(model, x, r));
        EXPECT_EQ(plain.back().direction[0] != 0, row != 1);
        for (const double v : Padded(x)) all_x.push_back(v);
        for (const double v : Padded(r)) all_r.push_back(v);
      }
      testing::OnEveryTarget([&] {
        const Filled filled(count, n);
        SoftmaxDeviationsOfRows(model, n, count, all_x.data(), all_r.data(), n + kPad,
                                filled.to.data());
        for (std::size_t row = 0; row < plain.size(); ++row) {
          plain[row].Expect(filled, row, true, true);
        }
      });
    }
  }
}

// Errors of RMS norms are fitted with weights, too; a layer norm with weights has D.
TEST(RowDeviation, NormsArePlainOnEveryInstructionSet) {
  for (const std::int64_t count : {1, 3, static_cast<int>(kNormRows)}) {
    for (const std::int64_t n : {9, 16, 45, 300}) {
      SCOPED_TRACE(std::to_string(count) + "x" + std::to_string(n));
      for (const auto& [rms, affine] :
           {std::pair(true, true), std::pair(false, false), std::pair(false, true)}) {
        LayerNormDeviation model;
        model.n = static_cast<double>(n);
        model.eps = kEps;
        model.u = kU;
        model.rms = rms, model.affine = affine;
        model.steps = OutputStepsOf(DType::kF32);
        std::vector<double> weight, bias, all;
        for (std::int64_t i = 0; i < n; ++i) {
          const double w = i % 29 == 20 ? HUGE_VAL : static_cast<double>(i % 5) / 4 - 0.5;
          weight.push_back(affine ? w : 1);
          const double b = i % 31 == 30 ? 1e30 : static_cast<double>(i % 7) - 3;
          bias.push_back(affine ? b : 0);
        }
        std::vector<PlainRow> plain;
        for (std::int64_t row = 0; row < count; ++row) {
          std::vector<double> x;
          for (std::int64_t i = row; i < n + row; ++i) {
            x.push_back(static_cast<double>(i * i % 23) + 3);
          }
          plain.push_back(PlainNorm(model, x, weight, bias));
          for (const double v : Padded(x)) all.push_back(v);
        }
        const bool directed = affine && !rms;
        testing::OnEveryTarget([&] {
          const Filled filled(count, n, directed, !directed);
          LayerNormDeviationsOfRows(model, n, count, all.data(), n + kPad, Padded(weight).data(),
                                    Padded(bias).data(), filled.to.data());
          for (std::size_t row = 0; row < plain.size(); ++row) {
            plain[row].Expect(filled, row, directed, !directed);
          }
        });
      }
    }
  }
}

// Limits of A and B for so many rows.
double CommonLimit(std::int64_t rows) {
  return std::max(2.0, 12.1 / std::sqrt(static_cast<double>(rows)));
}
constexpr double kRestLimit = 1.5;
constexpr double kManyDistinct = 1e12;

// Of 64 rows the limits are 2 for A and B and 1.5 for the rest. These leave room.
constexpr double kCommon = 1.4, kRest = 1.1;

std::vector<Data> Drawn() {
  std::vector<Data> all;
  for (const char* pattern : {"normal", "normal:0.1", "normal:3:5", "normal:1:100", "uniform"}) {
    for (const std::int64_t cols : {64, 768, 8192}) {
      all.push_back({pattern, 4096 / cols + 16, cols});
      for (const DType narrow : {DType::kF16, DType::kBF16}) {
        if (std::string_view(pattern) == "normal:1:100") continue;
        all.push_back({pattern, 4096 / cols + 16, cols, narrow, DType::kF32});
        all.push_back({pattern, 4096 / cols + 16, cols, narrow, narrow});
      }
    }
  }
  return all;
}

TEST(RowDeviation, RightSoftmaxesStayBelowTheLimits) {
  Statistics worst;
  for (const Data& d : Drawn()) {
    for (const SoftmaxKernel& kernel : kRightSoftmaxes) {
      const Statistics s = Of(kernel, d);
      EXPECT_LE(s.gain, kCommon) << Text(d, kernel.name);
      EXPECT_LE(s.rest, kRest) << Text(d, kernel.name);
      worst = {0, std::max(worst.gain, s.gain), std::max(worst.rest, s.rest)};
    }
  }
  std::printf("largest: common %.2f, rest %.2f\n", worst.gain, worst.rest);
}

TEST(RowDeviation, RightNormsStayBelowTheLimits) {
  Statistics worst;
  for (const Data& d : Drawn()) {
    for (const bool rms : {false, true}) {
      for (const NormKernel& kernel : kRightNorms) {
        const Statistics s = Of(kernel, d, rms);
        EXPECT_LE(s.offset, kCommon) << Text(d, kernel.name) << (rms ? " rms" : "");
        EXPECT_LE(s.gain, kCommon) << Text(d, kernel.name) << (rms ? " rms" : "");
        EXPECT_LE(s.rest, kRest) << Text(d, kernel.name) << (rms ? " rms" : "");
        worst = {std::max(worst.offset, s.offset), std::max(worst.gain, s.gain),
                 std::max(worst.rest, s.rest)};
      }
    }
  }
  std::printf("largest: offset %.2f, gain %.2f, rest %.2f\n", worst.offset, worst.gain, worst.rest);
}

// An FP32 sum of 70,000 numbers near 1, one after the other, may be off by a 50th of their
// deviation. Squares are then those of x − μ and the error of μ.
TEST(RowDeviation, AnInexactMeanIsAFactor) {
  LayerNormDeviation model;
  model.n = 70'000;
  model.u = kU;
  model.distinct = model.distinct_squares = 1e6;
  const double variance = 8e-6;
  LayerNormMoments row = model.Moments(1, 1, model.n * variance, model.n * 2 * variance * variance);
  const double exact = model.GainVariance(row);
  row.seen_mean = std::sqrt(variance) / 50;
  EXPECT_NEAR(std::sqrt(model.GainVariance(row) - exact), 1.0 / 50 / 50 / 2, 1e-9);
  EXPECT_LT(exact, 1e-10);
}

// On a user's own data, which may repeat or be sorted, nothing is known of D.
template <class Kernel>
double WorstOf(const Kernel& kernel, const Data& d, bool rms) {
  Statistics s;
  if constexpr (std::is_same_v<Kernel, SoftmaxKernel>) {
    s = Of(kernel, d, kManyDistinct);
  } else {
    s = Of(kernel, d, rms, 1e-5F, kManyDistinct);
  }
  EXPECT_LE(s.rest, d.output == DType::kF32 ? kRestLimit : 1.75) << Text(d, kernel.name);
  EXPECT_LE(std::max(s.offset, s.gain), 2.0) << Text(d, kernel.name);
  return std::max(s.offset, s.gain);
}

TEST(RowDeviation, RightKernelsStayBelowTheLimitsOnDataThatRepeat) {
  double worst = 0;
  for (const char* pattern : {"integers:-8:8", "constant:0.3", "col-vary", "sequential", "sparse",
                              "checkerboard", "near-constant:5616:1", "one-large", "extremes"}) {
    for (const std::int64_t cols : {1000, 32768}) {
      for (const DType output : {DType::kF32, DType::kF16}) {
        const Data d{pattern, 8, cols, DType::kF32, output};
        for (const SoftmaxKernel& k : kRightSoftmaxes)
          worst = std::max(worst, WorstOf(k, d, false));
        if (std::string_view(pattern) == "constant:0.3") continue;  // no deviation
        for (const bool rms : {false, true}) {
          for (const NormKernel& k : kRightNorms) worst = std::max(worst, WorstOf(k, d, rms));
        }
      }
    }
  }
  std::printf("largest on data that repeat: %.2f\n", worst);
}

// With weight and bias there is no fit. σ holds what rows share.
TEST(RowDeviation, NormsWithWeightAndBiasAreHeldAsTheyAre) {
  for (const std::int64_t cols : {100, 4096}) {
    const Data d{"normal:3:5", 32, cols};
    LayerNormDeviation model;
    model.n = static_cast<double>(cols);
    model.eps = kEps;
    model.u = kU;
    model.distinct = model.distinct_squares = 1e9;
    model.affine = true;
    model.steps = OutputStepsOf(DType::kF32);
    const auto size = static_cast<std::size_t>(cols);
    std::vector<double> weight(size), bias(size);
    for (std::size_t i = 0; i < size; ++i) {
      weight[i] = static_cast<double>(i % 17) / 16 + 0.5;
      bias[i] = static_cast<double>(i % 7) / 4 - 1;
    }
    const auto rms_of = [&](const NormKernel& kernel, float eps) {
      double squares = 0;
      EachRow(d, [&](const std::vector<float>& x, std::int64_t) {
        const std::vector<double> wide(x.begin(), x.end());
        std::vector<float> deviation(size);
        const RowDeviations to = {deviation.data(), nullptr, nullptr};
        LayerNormDeviationsOfRows(model, cols, 1, Padded(wide).data(), cols + kPad,
                                  Padded(weight).data(), Padded(bias).data(), &to);
        double mean = 0, variance = 0;
        for (const double v : wide) mean += v / model.n;
        for (const double v : wide) variance += (v - mean) * (v - mean) / model.n;
        const std::vector<float> y = NormOf(kernel, x, eps, false);
        for (std::size_t i = 0; i < size; ++i) {
          const double r = (wide[i] - mean) / std::sqrt(variance + kEps) * weight[i] + bias[i];
          const auto w = static_cast<float>(weight[i]), b = static_cast<float>(bias[i]);
          const double z =
              (static_cast<double>(y[i] * w + b) - r) / static_cast<double>(deviation[i]);
          squares += z * z;
        }
      });
      return std::sqrt(squares / static_cast<double>(d.rows * cols));
    };
    for (const NormKernel& kernel : kRightNorms) {
      EXPECT_LE(rms_of(kernel, 1e-5F), 1.2) << Text(d, kernel.name);
    }
    EXPECT_GT(rms_of({}, 1e-3F), 10) << Text(d, "eps");
    EXPECT_GT(rms_of({.name = "n - 1", .sample_variance = true}, 1e-5F), 10) << Text(d, "n - 1");
  }
}

// s of the direction of norms with weight and bias: the mean of the factor of ŷ over the rows, in
// deviations.
double FactorOf(const NormKernel& kernel, const Data& d, float eps) {
  LayerNormDeviation model;
  model.n = static_cast<double>(d.cols);
  model.eps = kEps;
  model.u = kU;
  model.distinct = model.distinct_squares = 1e9;
  model.affine = true;
  model.steps = OutputStepsOf(DType::kF32);
  const auto size = static_cast<std::size_t>(d.cols);
  std::vector<double> weight(size), bias(size);
  for (std::size_t i = 0; i < size; ++i) {
    weight[i] = static_cast<double>(i % 17) / 16 - 0.5;  // some are 0
    bias[i] = static_cast<double>(i % 7) / 4 - 1;
  }
  double errors = 0, squares = 0;
  EachRow(d, [&](const std::vector<float>& x, std::int64_t) {
    const std::vector<double> wide(x.begin(), x.end());
    std::vector<float> deviation(size), direction(size);
    const RowDeviations to = {deviation.data(), nullptr, nullptr, direction.data()};
    LayerNormDeviationsOfRows(model, d.cols, 1, Padded(wide).data(), d.cols + kPad,
                              Padded(weight).data(), Padded(bias).data(), &to);
    double mean = 0, variance = 0;
    for (const double v : wide) mean += v / model.n;
    for (const double v : wide) variance += (v - mean) * (v - mean) / model.n;
    const std::vector<float> y = NormOf(kernel, x, eps, false);
    for (std::size_t i = 0; i < size; ++i) {
      const double r = (wide[i] - mean) / std::sqrt(variance + kEps) * weight[i] + bias[i];
      const auto w = static_cast<float>(weight[i]), b = static_cast<float>(bias[i]);
      const auto sigma = static_cast<double>(deviation[i]);
      const auto along = static_cast<double>(direction[i]) / sigma;
      errors += (static_cast<double>(y[i] * w + b) - r) / sigma * along;
      squares += along * along;
    }
  });
  return errors / squares;
}

TEST(RowDeviation, RightNormsWithWeightsHaveNoFactor) {
  for (const char* pattern : {"normal", "normal:3:5", "normal:1:100", "uniform"}) {
    for (const std::int64_t cols : {64, 768, 8192}) {
      const Data d{pattern, 16, cols};
      for (const NormKernel& kernel : kRightNorms) {
        EXPECT_LT(std::abs(FactorOf(kernel, d, 1e-5F)), kCommon) << Text(d, kernel.name);
      }
    }
  }
}

// Rows with a few large elements: an offset of ŷ, which moves an element by its weight, is no
// factor.
TEST(RowDeviation, AnOffsetOfWeightedNormsIsNoFactor) {
  LayerNormDeviation model;
  model.n = 9;
  model.eps = kEps;
  model.u = kU;
  model.affine = true;
  model.steps = OutputStepsOf(DType::kF32);
  const std::vector<double> x = {1, 2, 2.5, 3, 3.5, 4, 4.5, 60, 90}, bias(9, 0.0);
  const std::vector<double> weight = {1, 0.5, 2, 1, 3, 1, 0.25, 1, 2};
  std::vector<float> deviation(9), direction(9);
  const RowDeviations to = {deviation.data(), nullptr, nullptr, direction.data()};
  LayerNormDeviationsOfRows(model, 9, 1, Padded(x).data(), 9 + kPad, Padded(weight).data(),
                            Padded(bias).data(), &to);
  double sum = 0, size = 0;
  for (std::size_t i = 0; i < 9; ++i) {
    const auto sigma = static_cast<double>(deviation[i]);
    const double term = weight[i] * static_cast<double>(direction[i]) / (sigma * sigma);
    sum += term;
    size += std::abs(term);
  }
  EXPECT_GT(size, 0);
  EXPECT_LT(std::abs(sum), 1e-5 * size);
}

TEST(RowDeviation, DefectsOfNormsWithWeightsAreAFactor) {
  const NormKernel right{.name = "eps"}, sample{.name = "n - 1", .sample_variance = true};
  for (const Data& d : {Data{"normal:3:5", 16, 1000}, Data{"normal", 16, 4096}}) {
    EXPECT_GT(std::abs(FactorOf(right, d, 1e-3F)), 4 * CommonLimit(d.rows)) << Text(d, "eps");
    EXPECT_GT(std::abs(FactorOf(sample, d, 1e-5F)), 4 * CommonLimit(d.rows)) << Text(d, "n - 1");
  }
}

TEST(RowDeviation, AWrongEpsIsAFactorOfEachRow) {
  const NormKernel right;
  for (const Data& d : {Data{"normal:3:5", 64, 1000}, Data{"normal", 16, 4096},
                        Data{"normal:3:5", 16, 4096}, Data{"normal:1:100", 16, 65536}}) {
    const Statistics s = Of(right, d, false, 1e-3F);
    EXPECT_GT(s.gain, 4 * CommonLimit(d.rows)) << Text(d, "eps");
    EXPECT_LT(s.offset, CommonLimit(d.rows)) << Text(d, "eps");
    EXPECT_LT(s.rest, kRestLimit) << Text(d, "eps");
  }
  const Data d{"normal:3:5", 64, 1000};
  EXPECT_GT(Of(right, d, true, 1e-3F).gain, 4 * CommonLimit(d.rows));
}

TEST(RowDeviation, TheSampleVarianceIsAFactorOfEachRow) {
  const NormKernel kernel{.name = "n - 1", .sample_variance = true};
  for (const std::int64_t cols : {256, 4096, 8192}) {
    for (const char* pattern : {"normal", "normal:3:5"}) {
      const Data d{pattern, 16, cols};
      EXPECT_GT(Of(kernel, d).gain, 4 * CommonLimit(d.rows)) << Text(d, kernel.name);
    }
  }
}

TEST(RowDeviation, OtherDefectsOfNorms) {
  const Data far{"normal:1:100", 64, 8192}, d{"normal:3:5", 64, 4096};
  // The mean's square cancels nearly all of the sum.
  const NormKernel moments{.name = "one pass", .variance = Variance::kMoments};
  EXPECT_GT(Of(moments, far).gain, 4 * CommonLimit(far.rows));
  const NormKernel merged{
      .name = "merge", .variance = Variance::kMerged, .merges_means_alone = true};
  EXPECT_GT(Of(merged, d).gain, 4 * CommonLimit(d.rows));
  const NormKernel last{.name = "last", .last_left_out = true};
  EXPECT_GT(Of(last, d).gain, 4 * CommonLimit(d.rows));
}

TEST(RowDeviation, AnInexactExponentialShows) {
  for (const Data& d : {Data{"normal", 64, 768}, Data{"normal", 16, 4096}, Data{"uniform", 64, 768},
                        Data{"normal:3", 16, 16384}}) {
    const SoftmaxKernel kernel{.name = "exp", .exp_error = 3e-6};
    const Statistics s = Of(kernel, d);
    EXPECT_TRUE(s.gain > CommonLimit(d.rows) || s.rest > kRestLimit)
        << Text(d, kernel.name) << ": " << s.gain << ", " << s.rest;
  }
}

// The error of such a row is no rounding of its own.
TEST(RowDeviation, SaysNothingOfRowsWhoseSquaresUnderflow) {
  constexpr std::int64_t kCols = 64;
  for (const bool rms : {false, true}) {
    for (const bool affine : {false, true}) {
      LayerNormDeviation model;
      model.n = kCols;
      model.u = kU;
      model.min_normal = 0x1p-126;
      model.rms = rms;
      model.affine = affine;
      for (const double scale : {1.0, 0x1p-40, 0x1p-60, 0x1p-70, 0x1p-140}) {
        std::vector<double> x(kCols + kPad), weight(kCols + kPad, 1), bias(kCols + kPad, 0);
        for (std::size_t i = 0; i < kCols; ++i) x[i] = scale * std::cos(static_cast<double>(i));
        std::vector<float> deviation(kCols);
        float offset = 0, gain = 0;
        const RowDeviations to = {deviation.data(), &offset, &gain};
        LayerNormDeviationsOfRows(model, kCols, 1, x.data(), kCols + kPad, weight.data(),
                                  bias.data(), &to);
        const bool said = scale > 0x1p-50;
        EXPECT_EQ(internal::IsUsable(static_cast<double>(gain)), said) << scale;
        for (const float sigma : deviation) {
          EXPECT_EQ(internal::IsUsable(static_cast<double>(sigma)), said) << scale;
        }
      }
    }
  }
}

constexpr double kScale = 8 * kU;  // of exp's argument, that a right kernel may have

// Whatever a row's mean and the factor that it shares.
TEST(RowDeviation, TheSlopeIsTheScaleOfTheExponent) {
  for (const Data& d :
       {Data{"normal", 16, 256}, Data{"normal:3", 64, 768}, Data{"normal", 2, 65536},
        Data{"uniform:-3:3", 16, 256}, Data{"normal:1:5", 16, 1000}}) {
    for (const double off : {1e-6, -1e-5, 1e-4}) {
      const Statistics s = Of({.name = "scale", .scale = 1 + off}, d);
      EXPECT_NEAR(s.slope, off, 4 * kU + 4 * s.slope_error) << Text(d, "scale");
      EXPECT_GT(std::abs(s.slope), kScale + 12 * s.slope_error) << Text(d, "scale");
    }
  }
}

TEST(RowDeviation, RightSoftmaxesHaveNoSlope) {
  for (const char* pattern : {"normal", "normal:0.6", "normal:3:5", "normal:1:100", "uniform"}) {
    for (const std::int64_t cols : {64, 768, 8192}) {
      const Data d{pattern, 4096 / cols + 16, cols};
      for (const SoftmaxKernel& kernel : kRightSoftmaxes) {
        const Statistics s = Of(kernel, d);
        EXPECT_LE(std::abs(s.slope), 4 * kU + 4 * s.slope_error) << Text(d, kernel.name);
      }
    }
  }
}

// A smooth error of exp is a slope, if all arguments lie within a small part of an octave.
TEST(RowDeviation, NearlyEqualArgumentsHaveNoSlope) {
  EXPECT_EQ(Of(SoftmaxKernel{.name = "right"}, {"normal:0.4", 4, 1000}).slope_error, 0);
  EXPECT_GT(Of(SoftmaxKernel{.name = "right"}, {"normal:0.6", 4, 1000}).slope_error, 0);
}

TEST(RowDeviation, AWrongScaleOfTheExponentShows) {
  for (const double off : {1e-6, 1e-5}) {
    for (const Data& d : {Data{"normal:3", 64, 768}, Data{"normal", 16, 4096}}) {
      const SoftmaxKernel kernel{.name = "scale", .scale = 1 + off};
      const Statistics s = Of(kernel, d);
      EXPECT_TRUE(s.gain > CommonLimit(d.rows) || s.rest > kRestLimit)
          << Text(d, kernel.name) << " " << off << ": " << s.gain << ", " << s.rest;
    }
  }
}

TEST(RowDeviation, AColumnThatIsNotSummedShows) {
  for (const std::int64_t cols : {256, 768, 4096, 8192}) {
    const Data d{"normal", 64, cols};
    const SoftmaxKernel kernel{.name = "last", .last_left_out = true};
    EXPECT_GT(Of(kernel, d).gain, CommonLimit(d.rows)) << Text(d, kernel.name);
  }
}

}  // namespace
}  // namespace assay
