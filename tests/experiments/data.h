// Draws the operands of the experiment: A of [m, k] by rows, and B of [k, n] in panels of 32
// columns
// ([n/32][k][32]). Values are rounded to the input's format. The same seed gives the same values.
#ifndef ASSAY_TESTS_EXPERIMENTS_DATA_H_
#define ASSAY_TESTS_EXPERIMENTS_DATA_H_

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/numerics/dtype.h"

namespace assay::experiment {

struct Shape {
  int m = 0;
  int n = 0;  // a multiple of 32
  std::int64_t k = 0;
};

struct Data {
  const char* name;
  bool judged;          // whether the statistics may fail a kernel on it: see the README
  const char* pattern;  // of `assay run`, if its statistics may fail a kernel on it; otherwise ""
  // Fills one line along k: a row of A (`of_a`) or a column of B.
  void (*line)(std::uint64_t seed, bool of_a, std::span<float> values);
};

std::span<const Data> AllData();
// The same, and data that vary least of those whose verdicts follow from statistics.
std::span<const Data> DataOfAlarms();

struct Operands {
  Shape shape;
  std::vector<float> a, b;
};
Operands Draw(const Data& data, const Shape& shape, std::uint64_t seed);
// The same operands, rounded to a format; too large values become the largest.
Operands Rounded(const Operands& operands, DType format);

}  // namespace assay::experiment

#endif  // ASSAY_TESTS_EXPERIMENTS_DATA_H_
