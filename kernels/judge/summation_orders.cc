#include "kernels/judge/summation_orders.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "kernels/numerics/bound.h"
#include "kernels/numerics/convert.h"
#include "kernels/numerics/deviation.h"
#include "kernels/runtime/cpu/parallel.h"

namespace assay::inline kernels {
namespace {

// Elements that are summed side by side: two or four vector registers of floats.
constexpr std::size_t kWidth = 8;
using Sums = std::array<float, kWidth>;

// The products of kWidth elements, term after term.
struct Batch {
  std::int64_t terms = 0;
  std::vector<double> exact;   // [terms, kWidth]
  std::vector<float> rounded;  // the same

  const double* Exact(std::int64_t k) const {
    return exact.data() + static_cast<std::size_t>(k) * kWidth;
  }
  const float* Rounded(std::int64_t k) const {
    return rounded.data() + static_cast<std::size_t>(k) * kWidth;
  }
};

void Add(Sums& sums, const float* x) {
  for (std::size_t i = 0; i < kWidth; ++i) sums[i] += x[i];
}

// The products begin, begin + step, …, below `end`, in this order.
Sums InOrder(const Batch& b, std::int64_t begin, std::int64_t end, std::int64_t step) {
  Sums sums = {};
  for (std::int64_t k = begin; k < end; k += step) Add(sums, b.Rounded(k));
  return sums;
}

Sums Sequential(const Batch& b, std::int64_t) { return InOrder(b, 0, b.terms, 1); }

Sums Backwards(const Batch& b, std::int64_t) {
  Sums sums = {};
  for (std::int64_t k = b.terms; k-- > 0;) Add(sums, b.Rounded(k));
  return sums;
}

// Each product is added before it is rounded.
Sums Fused(const Batch& b, std::int64_t) {
  Sums sums = {};
  for (std::int64_t k = 0; k < b.terms; ++k) {
    const double* x = b.Exact(k);
    for (std::size_t i = 0; i < kWidth; ++i) {
      sums[i] = static_cast<float>(static_cast<double>(sums[i]) + x[i]);
    }
  }
  return sums;
}

Sums Halves(const Batch& b, std::int64_t begin, std::int64_t end) {
  if (end - begin <= 8) return InOrder(b, begin, end, 1);
  const std::int64_t middle = begin + (end - begin) / 2;
  Sums sums = Halves(b, begin, middle);
  Add(sums, Halves(b, middle, end).data());
  return sums;
}

Sums Pairwise(const Batch& b, std::int64_t) { return Halves(b, 0, b.terms); }

// Sums of `size` neighbours each, added in order.
Sums Blocks(const Batch& b, std::int64_t size) {
  Sums sums = {};
  for (std::int64_t k = 0; k < b.terms; k += size) {
    Add(sums, InOrder(b, k, std::min(k + size, b.terms), 1).data());
  }
  return sums;
}

Sums SplitK(const Batch& b, std::int64_t parts) {
  return Blocks(b, std::max<std::int64_t>(1, (b.terms + parts - 1) / parts));
}

// Lane l sums the products l, l + lanes, …; the lanes are added in order.
Sums Lanes(const Batch& b, std::int64_t lanes) {
  Sums sums = {};
  for (std::int64_t l = 0; l < std::min(lanes, b.terms); ++l) {
    Add(sums, InOrder(b, l, b.terms, lanes).data());
  }
  return sums;
}

struct Order {
  std::string_view name;
  Sums (*sum)(const Batch&, std::int64_t parameter);
  std::int64_t parameter;
};

constexpr Order kOrders[] = {
    {"sequential", Sequential, 0}, {"backwards", Backwards, 0},    {"sequential, FMA", Fused, 0},
    {"pairwise", Pairwise, 0},     {"blocks of 4", Blocks, 4},     {"blocks of 16", Blocks, 16},
    {"blocks of 64", Blocks, 64},  {"blocks of 256", Blocks, 256}, {"split-K 2", SplitK, 2},
    {"split-K 4", SplitK, 4},      {"split-K 8", SplitK, 8},       {"split-K 64", SplitK, 64},
    {"2 lanes", Lanes, 2},         {"4 lanes", Lanes, 4},          {"8 lanes", Lanes, 8},
    {"16 lanes", Lanes, 16},       {"32 lanes", Lanes, 32},        {"64 lanes", Lanes, 64},
    {"128 lanes", Lanes, 128},     {"256 lanes", Lanes, 256},
};
constexpr std::size_t kOrderCount = std::size(kOrders);

// Of the elements of one batch.
struct Squares {
  std::int64_t elements = 0;
  std::array<double, kOrderCount> orders = {};  // Σe²/σ²
  std::array<double, kOrderCount> shared = {};  // Σe·r/σ²
  double reference = 0;                         // Σr²/σ²
  double prefix = 0;                            // Σσ_W²/σ²
};

// The FP64 sums of an element.
struct Exactly {
  double sum = 0;            // r
  double square = 0;         // Q
  double low = 0, high = 0;  // of the prefix sums, with 0
};

Batch MakeBatch(const SampledProducts& products, std::span<const std::int64_t> elements) {
  Batch batch;
  batch.terms = products.terms;
  batch.exact.assign(static_cast<std::size_t>(products.terms) * kWidth, 0.0);
  batch.rounded.assign(batch.exact.size(), 0.0f);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const double* a = products.left_of(elements[i]);
    const double* b = products.right_of(elements[i]);
    std::size_t at = i;
    for (std::int64_t k = 0; k < products.terms; ++k, at += kWidth) {
      batch.exact[at] = a[k] * b[k];
      batch.rounded[at] = static_cast<float>(batch.exact[at]);
    }
  }
  return batch;
}

std::array<Exactly, kWidth> SumExactly(const Batch& b) {
  std::array<Exactly, kWidth> all = {};
  for (std::int64_t k = 0; k < b.terms; ++k) {
    const double* x = b.Exact(k);
    for (std::size_t i = 0; i < kWidth; ++i) {
      Exactly& e = all[i];
      e.sum += x[i];
      e.square += x[i] * x[i];
      e.low = std::min(e.low, e.sum);
      e.high = std::max(e.high, e.sum);
    }
  }
  return all;
}

Squares MeasureBatch(const SampledProducts& products, DType output,
                     std::span<const std::int64_t> elements) {
  const Batch batch = MakeBatch(products, elements);
  const std::array<Exactly, kWidth> exact = SumExactly(batch);
  std::array<Sums, kOrderCount> sums;
  for (std::size_t o = 0; o < kOrderCount; ++o) {
    sums[o] = kOrders[o].sum(batch, kOrders[o].parameter);
  }
  const double u = AccumulatorRoundoff(products.format);
  const double terms = static_cast<double>(products.terms);
  const OutputSteps steps = OutputStepsOf(output);
  Squares squares;
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const Exactly& e = exact[i];
    const double factor = products.elements[static_cast<std::size_t>(elements[i])].factor;
    const double rounding = steps.Variance(factor * e.sum);
    const double variance = factor * factor * SumVariance(terms, u, e.sum, e.square) + rounding;
    const double width = e.high - e.low;
    const double prefix =
        factor * factor * u * u / 3 * (terms * width * width + e.square) + rounding;
    const double r = factor * e.sum;
    std::array<double, kOrderCount> ratios, shared;
    bool finite = e.square > 0 && variance > 0 && std::isfinite(prefix / variance);
    for (std::size_t o = 0; o < kOrderCount; ++o) {
      const double got = Quantise(factor * static_cast<double>(sums[o][i]), output);
      const double error = got - r;
      ratios[o] = error * error / variance;
      shared[o] = error * r / variance;
      finite = finite && std::isfinite(ratios[o]);
    }
    if (!finite) continue;
    ++squares.elements;
    squares.prefix += prefix / variance;
    squares.reference += r * r / variance;
    for (std::size_t o = 0; o < kOrderCount; ++o) {
      squares.orders[o] += ratios[o];
      squares.shared[o] += shared[o];
    }
  }
  return squares;
}

}  // namespace

std::int64_t OrderSamples(std::int64_t terms) {
  constexpr std::int64_t kWork = std::int64_t{1} << 24;
  return std::clamp<std::int64_t>(kWork / std::max<std::int64_t>(terms, 1), 8, 256);
}

OrderEffect EmulateOrders(const SampledProducts& products, DType output) {
  const std::int64_t wanted = std::min(OrderSamples(products.terms), products.count());
  std::vector<std::int64_t> elements;
  for (std::int64_t i = 0; i < wanted; ++i) elements.push_back(i * products.count() / wanted);
  return EmulateOrders(products, output, elements);
}

OrderEffect EmulateOrders(const SampledProducts& products, DType output,
                          std::span<const std::int64_t> elements) {
  OrderEffect effect;
  const bool fp32_sums = products.format != DType::kF64 && !Info(products.format).is_integer;
  if (!fp32_sums || Info(output).is_integer || products.terms == 0) return effect;
  const std::size_t batches = (elements.size() + kWidth - 1) / kWidth;
  std::vector<Squares> of(batches);
  ParallelForDynamic(static_cast<std::int64_t>(batches), [&](std::int64_t t) {
    const std::size_t first = static_cast<std::size_t>(t) * kWidth;
    const std::size_t count = std::min(kWidth, elements.size() - first);
    of[static_cast<std::size_t>(t)] =
        MeasureBatch(products, output, elements.subspan(first, count));
  });
  Squares all;
  for (const Squares& s : of) {
    all.elements += s.elements;
    all.prefix += s.prefix;
    all.reference += s.reference;
    for (std::size_t o = 0; o < kOrderCount; ++o) {
      all.orders[o] += s.orders[o];
      all.shared[o] += s.shared[o];
    }
  }
  if (all.elements == 0) return effect;
  const double n = static_cast<double>(all.elements);
  const auto largest = std::max_element(all.orders.begin(), all.orders.end());
  effect.elements = all.elements;
  effect.largest_rms = std::sqrt(*largest / n);
  effect.order = kOrders[largest - all.orders.begin()].name;
  effect.prefix_rms = std::sqrt(all.prefix / n);
  effect.factor = std::max(1.0, effect.largest_rms / kUsualOrderRms);
  // A sample of few elements has a gain by chance, too.
  constexpr double kByChance = 3;
  for (std::size_t o = 0; o < kOrderCount && all.reference > 0; ++o) {
    const double rms = std::max(1.0, std::sqrt(all.orders[o] / n));
    const double gain =
        std::abs(all.shared[o]) / all.reference - kByChance * rms / std::sqrt(all.reference);
    effect.largest_gain = std::max(effect.largest_gain, gain);
  }
  return effect;
}

}  // namespace assay::kernels
