// Helps the tests of the residual pass, on the CPU and on GPUs. It makes random requests, and sums
// them by plain loops, against which the pass is held.
#ifndef ASSAY_TESTS_UNIT_RUNTIME_RESIDUALS_TESTING_H_
#define ASSAY_TESTS_UNIT_RUNTIME_RESIDUALS_TESTING_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <vector>

#include "kernels/numerics/convert.h"
#include "kernels/runtime/compare_rule.h"
#include "kernels/runtime/residuals.h"

namespace assay {

struct ResidualData {
  ResidualData(DType dtype, const Extents& extents, std::uint64_t seed)
      : storage(static_cast<std::size_t>(StorageBytes(dtype, extents.span()) + 8)),
        reference(static_cast<std::size_t>(extents.count())),
        deviation(reference.size()),
        direction(reference.size()),
        row_offset(static_cast<std::size_t>(extents.batch * extents.rows)),
        row_gain(row_offset.size()) {
    std::mt19937_64 random(seed);
    std::normal_distribution<double> normal;
    for (std::size_t i = 0; i < reference.size(); ++i) {
      reference[i] = normal(random);
      deviation[i] = static_cast<float>(0.01 * (1 + std::abs(normal(random))));
      direction[i] = static_cast<float>(normal(random));
      StoreBits(
          dtype, storage.data(), internal::StorageIndex(extents, static_cast<std::int64_t>(i)),
          RoundToFormat(reference[i] + static_cast<double>(deviation[i]) * normal(random), dtype));
    }
    for (std::size_t i = 0; i < row_offset.size(); ++i) {
      row_offset[i] = static_cast<float>(0.001 * (1 + std::abs(normal(random))));
      row_gain[i] = static_cast<float>(0.002 * (1 + std::abs(normal(random))));
    }
    request.output = TensorView{storage.data(), dtype, extents};
    request.reference = reference.data();
    request.deviation = deviation.data();
    request.direction = direction.data();
    request.row_offset = row_offset.data();
    request.row_gain = row_gain.data();
  }
  ResidualData(const ResidualData&) = delete;

  std::vector<unsigned char> storage;
  std::vector<double> reference;
  std::vector<float> deviation, direction, row_offset, row_gain;
  ResidualRequest request;
};

// Rows of two elements of padding, and matrices of four.
inline Extents PaddedExtents(std::int64_t batch, std::int64_t rows, std::int64_t cols) {
  return {batch, rows, cols, cols + 2, rows * (cols + 2) + 4};
}

// Makes 8 elements of an fp32 output such that they do not count. Two further elements get a
// direction that is not finite, and still count. The output needs 302 elements.
inline void SpoilElements(ResidualData& data) {
  using Float = std::numeric_limits<float>;
  auto* output = reinterpret_cast<float*>(data.storage.data());
  output[3] = Float::quiet_NaN();
  output[70] = Float::infinity();
  data.reference[101] = std::numeric_limits<double>::quiet_NaN();
  data.reference[150] = -std::numeric_limits<double>::infinity();
  data.deviation[202] = 0;
  data.deviation[203] = Float::quiet_NaN();
  data.deviation[204] = Float::infinity();
  data.deviation[205] = Float::denorm_min();
  data.direction[300] = Float::infinity();
  data.direction[301] = Float::quiet_NaN();
}

// The sums by plain loops, in host memory.
inline ResidualSums PlainResiduals(const ResidualRequest& q) {
  const Extents& x = q.output.extents;
  struct Group {
    std::int64_t count = 0;
    double squared = 0;
  };
  std::map<std::int64_t, Group> rows, columns, tiles;
  ResidualSums s;
  for (std::int64_t row = 0; row < x.batch * x.rows; ++row) {
    double w = 0, wr = 0, wrr = 0, we = 0, wer = 0, zz = 0, t = 0, dd = 0;
    std::int64_t count = 0;
    for (std::int64_t column = 0; column < x.cols; ++column) {
      const std::int64_t i = row * x.cols + column;
      const double o = LoadDouble(q.output.dtype, q.output.data, internal::StorageIndex(x, i));
      const double r = q.reference[i];
      const float sigma = q.deviation[i];
      const std::int64_t bands = (x.rows + kResidualTile - 1) / kResidualTile;
      const std::int64_t band = row / x.rows * bands + row % x.rows / kResidualTile;
      const std::int64_t tile =
          band * ((x.cols + kResidualTile - 1) / kResidualTile) + column / kResidualTile;
      Group* groups[] = {&rows[row], &columns[column], &tiles[tile]};
      if (!std::isfinite(o) || !std::isfinite(r) || !std::isfinite(sigma) ||
          !(sigma >= std::numeric_limits<float>::min())) {
        continue;
      }
      const double e = o - r, v = static_cast<double>(sigma) * static_cast<double>(sigma);
      for (Group* group : groups) {
        ++group->count;
        group->squared += e * e / v;
      }
      if (s.largest_index < 0 || std::abs(e) / std::sqrt(v) > s.largest) {
        s.largest = std::abs(e) / std::sqrt(v);
        s.largest_index = i;
      }
      ++count;
      zz += e * e / v, w += 1 / v, wr += r / v, wrr += r * r / v, we += e / v, wer += e * r / v;
      if (q.direction != nullptr && std::isfinite(q.direction[i])) {
        const double d = static_cast<double>(q.direction[i]);
        t += e * d / v;
        dd += d * d / v;
      }
    }
    s.count += count;
    s.sum_squared += zz;
    s.error_reference += wer;
    s.reference_squared += wrr;
    s.error_direction += t, s.direction_squared += dd;
    s.direction_errors += t * t, s.direction_products += t * dd, s.direction_weights += dd * dd;
    if (q.row_gain == nullptr || count < kFittedElements) continue;
    double alpha = 0, beta = wer / wrr;
    if (q.row_offset != nullptr) {
      // Cramer's rule for the two normal equations.
      const double determinant = w * wrr - wr * wr;
      alpha = (we * wrr - wer * wr) / determinant;
      beta = (w * wer - wr * we) / determinant;
      const double a = alpha / static_cast<double>(q.row_offset[row]);
      s.offset_squared += a * a;
      s.offset += alpha;
    }
    const double b = beta / static_cast<double>(q.row_gain[row]);
    s.gain_squared += b * b;
    s.gain += beta;
    ++s.rows;
    s.rest_count += count - (q.row_offset != nullptr ? 2 : 1);
    s.rest_squared += zz - alpha * we - beta * wer;
  }
  const auto worst = [](const std::map<std::int64_t, Group>& groups, ResidualGroup& to) {
    for (const auto& [index, group] : groups) {
      ++to.groups;
      if (group.count < 8) continue;
      const double best = to.count > 0 ? to.sum_squared / static_cast<double>(to.count) : -1;
      if (group.squared / static_cast<double>(group.count) <= best) continue;
      to = {index, group.count, to.groups, group.squared};
    }
  };
  worst(rows, s.row);
  worst(columns, s.column);
  worst(tiles, s.tile);
  return s;
}

inline void ExpectSameGroup(const ResidualGroup& a, const ResidualGroup& b) {
  EXPECT_EQ(a.index, b.index);
  EXPECT_EQ(a.count, b.count);
  EXPECT_EQ(a.groups, b.groups);
  EXPECT_NEAR(a.sum_squared, b.sum_squared, 1e-9 * (1 + b.sum_squared));
}

inline void ExpectSameSums(const ResidualSums& a, const ResidualSums& b) {
  const auto near = [](double x, double y, double scale, const char* what) {
    EXPECT_NEAR(x, y, 1e-9 * (scale + std::abs(y))) << what;
  };
  EXPECT_EQ(a.count, b.count);
  EXPECT_EQ(a.largest_index, b.largest_index);
  EXPECT_EQ(a.rows, b.rows);
  EXPECT_EQ(a.rest_count, b.rest_count);
  near(a.sum_squared, b.sum_squared, 0, "sum_squared");
  near(a.largest, b.largest, 0, "largest");
  const double scale = std::sqrt(b.sum_squared * b.reference_squared);
  near(a.error_reference, b.error_reference, scale, "error_reference");
  near(a.reference_squared, b.reference_squared, 0, "reference_squared");
  near(a.error_direction, b.error_direction, std::sqrt(b.sum_squared * b.direction_squared),
       "error_direction");
  near(a.direction_squared, b.direction_squared, 0, "direction_squared");
  near(a.direction_errors, b.direction_errors, 0, "direction_errors");
  near(a.direction_products, b.direction_products,
       std::sqrt(b.direction_errors * b.direction_weights), "direction_products");
  near(a.direction_weights, b.direction_weights, 0, "direction_weights");
  near(a.offset_squared, b.offset_squared, 1, "offset_squared");
  near(a.gain_squared, b.gain_squared, 1, "gain_squared");
  near(a.offset, b.offset, 1, "offset");
  near(a.gain, b.gain, 1, "gain");
  near(a.rest_squared, b.rest_squared, 1, "rest_squared");
  ExpectSameGroup(a.row, b.row);
  ExpectSameGroup(a.column, b.column);
  ExpectSameGroup(a.tile, b.tile);
}

// Damages a row, a column, a tile and an element in turn. `sums` computes those of a request.
template <class Sums>
void ExpectDamageIsFound(const Sums& sums) {
  const auto damaged = [&](auto damage) {
    ResidualData data(DType::kF32, Extents::Dense(1, 64, 96), 11);
    damage(reinterpret_cast<float*>(data.storage.data()));
    return sums(data.request);
  };
  EXPECT_EQ(damaged([](float* o) {
              for (int j = 0; j < 96; ++j) o[41 * 96 + j] += 1;
            }).row.index,
            41);
  EXPECT_EQ(damaged([](float* o) {
              for (int i = 0; i < 64; ++i) o[i * 96 + 13] += 1;
            }).column.index,
            13);
  EXPECT_EQ(damaged([](float* o) {
              for (int i = 32; i < 48; ++i) {
                for (int j = 80; j < 96; ++j) o[i * 96 + j] += 1;
              }
            }).tile.index,
            2 * 6 + 5);
  EXPECT_EQ(damaged([](float* o) { o[4000] += 5; }).largest_index, 4000);
}

}  // namespace assay

#endif  // ASSAY_TESTS_UNIT_RUNTIME_RESIDUALS_TESTING_H_
