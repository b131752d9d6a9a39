#include "tests/experiments/products.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "kernels/numerics/convert.h"

namespace assay::experiment {
namespace {

std::vector<float> SumAll(const Algorithm& algorithm, const Operands& given) {
  Operands changed;
  if (algorithm.operand != nullptr) {
    changed = given;
    for (std::vector<float>* values : {&changed.a, &changed.b}) {
      for (float& v : *values) v = algorithm.operand(v);
    }
  }
  const Operands& o = algorithm.operand != nullptr ? changed : given;
  const auto m = static_cast<std::size_t>(o.shape.m);
  const auto n = static_cast<std::size_t>(o.shape.n);
  const auto k = static_cast<std::size_t>(o.shape.k);
  std::vector<float> y(m * n);
  for (std::size_t panel = 0; panel < n / kPanel; ++panel) {
    for (std::size_t i = 0; i < m; ++i) {
      const F sums = algorithm.sum(o.a.data() + i * k, o.b.data() + panel * k * kPanel, o.shape.k);
      std::memcpy(y.data() + i * n + panel * kPanel, &sums, sizeof sums);
    }
  }
  return y;
}

}  // namespace

bool Takes(DType input, Unit unit) {
  switch (unit) {
    case Unit::kNearest:
      return true;
    case Unit::kTruncating:
      return Info(input).storage_bits == 16;
    case Unit::kNarrow:
      return Info(input).storage_bits == 8;
  }
  return false;
}

std::span<const Algorithm> DefectsOf(DType input) {
  return input == DType::kF32 ? DefectsOfFP32() : DefectsOf16Bits();
}

std::vector<float> Summer::Product(const Algorithm& algorithm, DType output) {
  const auto same = [&](const Done& d) {
    return d.sum == algorithm.sum && d.operand == algorithm.operand;
  };
  auto found = std::find_if(done_.begin(), done_.end(), same);
  if (found == done_.end()) {
    done_.push_back({algorithm.sum, algorithm.operand, SumAll(algorithm, operands_)});
    found = done_.end() - 1;
  }
  std::vector<float> y = found->y;
  if (algorithm.result != nullptr) {
    for (float& v : y) v = algorithm.result(v);
  }
  if (output != DType::kF32) {
    for (float& v : y) v = static_cast<float>(Quantise(v, output));
  }
  return y;
}

void MeasureAll(const Operands& drawn, const Data& data, bool defects, const Visit& visit) {
  DType input = DType::kUnspecified;
  Operands operands;
  Reference reference;
  std::optional<Summer> summer;
  for (const Formats& formats : kFormatsTried) {
    if (formats.input != input) {
      input = formats.input;
      operands = Rounded(drawn, input);
      reference = Refer(operands);
      summer.emplace(operands);
    }
    const auto measure = [&](std::span<const Algorithm> algorithms) {
      for (const Algorithm& algorithm : algorithms) {
        if (!Takes(input, algorithm.unit)) continue;
        const std::vector<float> y = summer->Product(algorithm, formats.output);
        const Truncating truncating = TruncatingOf(input, algorithm.promoted);
        visit({formats, &data, operands.shape, &algorithm,
               Measure(reference, y, input, formats.output, truncating)},
              {operands, reference, y});
      }
    };
    measure(RightAlgorithms());
    if (defects) measure(DefectsOf(input));
  }
}

double Limits::Largest() const { return std::max({r, z, group, gain}); }

Limits LimitsOf(const Statistics::OfQ& of, const Shape& shape) {
  const double elements = static_cast<double>(shape.m) * shape.n;
  return {of.r / Limit(1, elements), of.z / std::max(20.0, Limit(elements, 1)), of.group,
          of.gain_limit > 0 ? std::abs(of.gain) / of.gain_limit : 0};
}

}  // namespace assay::experiment
