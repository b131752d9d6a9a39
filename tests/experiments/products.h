// Runs the algorithms on drawn operands and keeps what the statistics say.
#ifndef ASSAY_TESTS_EXPERIMENTS_PRODUCTS_H_
#define ASSAY_TESTS_EXPERIMENTS_PRODUCTS_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <vector>

#include "kernels/numerics/dtype.h"
#include "tests/experiments/data.h"
#include "tests/experiments/statistics.h"
#include "tests/experiments/sums.h"

namespace assay::experiment {

struct Formats {
  DType input, output;
};
inline constexpr Formats kFormatsTried[] = {
    {DType::kF32, DType::kF32},     {DType::kF16, DType::kF32},   {DType::kF16, DType::kF16},
    {DType::kBF16, DType::kF32},    {DType::kBF16, DType::kBF16}, {DType::kE4M3FN, DType::kF32},
    {DType::kE4M3FN, DType::kBF16},
};

struct Measured {
  Formats formats;
  const Data* data;
  Shape shape;
  const Algorithm* algorithm;
  Statistics statistics;
};

// Whether hardware or a library may sum inputs of this format so.
bool Takes(DType input, Unit unit);
std::span<const Algorithm> DefectsOf(DType input);

// What was measured: y, what it is the product of, and the exact values.
struct Measurement {
  const Operands& operands;
  const Reference& reference;
  std::span<const float> y;
};

// Measures every right algorithm of every format on one draw, and the defects if asked to. The
// measurement lives until `visit` returns, its operands and reference until the next input format.
using Visit = std::function<void(const Measured&, const Measurement&)>;
void MeasureAll(const Operands& drawn, const Data& data, bool defects, const Visit& visit);

// Sums products of the same operands, each way once.
class Summer {
 public:
  explicit Summer(const Operands& operands) : operands_(operands) {}
  // y of [m, n] by rows, rounded to the output's format.
  std::vector<float> Product(const Algorithm& algorithm, DType output);

 private:
  struct Done {
    Sum sum;
    float (*operand)(float);
    std::vector<float> y;
  };
  const Operands& operands_;
  std::deque<Done> done_;
};

// What may fail a kernel, each over its threshold.
struct Limits {
  double r, z, group, gain;
  double Largest() const;
};
Limits LimitsOf(const Statistics::OfQ& of, const Shape& shape);

}  // namespace assay::experiment

#endif  // ASSAY_TESTS_EXPERIMENTS_PRODUCTS_H_
