#include "kernels/ops/common/unit_product.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <vector>

#include "kernels/ops/common/load.h"
#include "kernels/runtime/cpu/parallel.h"

namespace assay::inline kernels {
namespace {

constexpr std::int64_t kGrain = 16;  // lines

// Elements that are looked at or multiplied together: the compiler makes vectors of loops of so
// many.
constexpr std::size_t kBlock = 16;

// A line of doubles, and 0s to whole blocks.
struct Line {
  explicit Line(std::int64_t n)
      : size(n), data((static_cast<std::size_t>(n) + kBlock - 1) / kBlock * kBlock) {}
  std::int64_t size;
  std::vector<double> data;
};

bool IsZero(const double* block) {
  std::uint64_t bits = 0;
  for (std::size_t q = 0; q < kBlock; ++q) bits |= std::bit_cast<std::uint64_t>(block[q]);
  return bits << 1 == 0;  // without the sign
}

bool IsFinite(const Line& line) {
  std::array<double, kBlock> zeros = {};  // x·0 is NaN if x is an Inf or NaN
  for (std::size_t at = 0; at < line.data.size(); at += kBlock) {
    for (std::size_t q = 0; q < kBlock; ++q) zeros[q] += line.data[at + q] * 0.0;
  }
  return std::all_of(zeros.begin(), zeros.end(), [](double x) { return x == 0; });
}

// to[i] = x·to[i] + 0
void Multiply(double x, std::int64_t n, double* to) {
  constexpr auto kStep = static_cast<std::int64_t>(kBlock);
  for (; n >= kStep; n -= kStep, to += kStep) {
    for (std::size_t q = 0; q < kBlock; ++q) to[q] = x * to[q] + 0.0;
  }
  for (std::int64_t j = 0; j < n; ++j) to[j] = x * to[j] + 0.0;
}

// The element of each row that is not 0, and its k. A row of 0s has a 0 of any k.
struct Units {
  std::vector<double> values;
  std::vector<std::int64_t> places;
};

// False if a row has two.
bool FindUnits(const StridedMatrix& matrix, std::int64_t rows, std::int64_t k, Units& units) {
  units.values.assign(static_cast<std::size_t>(rows), 0.0);
  units.places.assign(static_cast<std::size_t>(rows), 0);
  std::atomic<bool> single = true;
  const bool along = matrix.k_stride == 1;  // else rows lie behind one another
  ParallelFor(rows, kGrain, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t lines = along ? end - begin : k, width = along ? k : end - begin;
    Line line(width);
    for (std::int64_t i = 0; i < lines && single; ++i) {
      const std::int64_t at = along ? (begin + i) * matrix.row_stride : begin + i * matrix.k_stride;
      LoadDoubles(matrix.dtype, matrix.base, matrix.origin + at, width, line.data.data());
      for (std::int64_t j = 0; j < width; ++j) {
        const auto at_j = static_cast<std::size_t>(j);
        if (at_j % kBlock == 0 && IsZero(line.data.data() + at_j)) {
          j += static_cast<std::int64_t>(kBlock) - 1;
          continue;
        }
        const double x = line.data[at_j];
        if (x == 0) continue;
        const auto row = static_cast<std::size_t>(begin + (along ? i : j));
        if (units.values[row] != 0) single = false;
        units.values[row] = x;
        units.places[row] = along ? j : i;
      }
    }
  });
  return single;
}

bool AllFinite(const StridedMatrix& matrix, std::int64_t rows, std::int64_t k) {
  std::atomic<bool> finite = true;
  const bool along = matrix.k_stride == 1;  // else rows lie behind one another
  ParallelFor(along ? rows : k, kGrain, [&](std::int64_t begin, std::int64_t end) {
    Line line(along ? k : rows);
    for (std::int64_t i = begin; i < end && finite; ++i) {
      LoadDoubles(matrix.dtype, matrix.base,
                  matrix.origin + i * (along ? matrix.row_stride : matrix.k_stride), line.size,
                  line.data.data());
      if (!IsFinite(line)) finite = false;
    }
  });
  return finite;
}

}  // namespace

bool UnitProduct(const StridedMatrix& a, std::int64_t m, const StridedMatrix& b, std::int64_t n,
                 std::int64_t k, double* value) {
  Units units;
  // A sum that begins with 0 is never -0.
  if (b.row_stride == 1 && FindUnits(a, m, k, units) && AllFinite(b, n, k)) {
    ParallelFor(m, kGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const auto row = static_cast<std::size_t>(i);
        double* const to = value + i * n;
        LoadDoubles(b.dtype, b.base, b.origin + units.places[row] * b.k_stride, n, to);
        Multiply(units.values[row], n, to);
      }
    });
    return true;
  }
  if (a.k_stride != 1 || !FindUnits(b, n, k, units) || !AllFinite(a, m, k)) return false;
  ParallelFor(m, kGrain, [&](std::int64_t begin, std::int64_t end) {
    std::vector<double> line(static_cast<std::size_t>(k));
    for (std::int64_t i = begin; i < end; ++i) {
      LoadDoubles(a.dtype, a.base, a.origin + i * a.row_stride, k, line.data());
      double* const to = value + i * n;
      for (std::int64_t j = 0; j < n; ++j) {
        const auto column = static_cast<std::size_t>(j);
        const auto at = static_cast<std::size_t>(units.places[column]);
        to[j] = line[at] * units.values[column] + 0.0;
      }
    }
  });
  return true;
}

}  // namespace assay::kernels
