// A kernel that rounds its inputs or its output to a narrower format is named, and a right kernel
// never is, whatever the data and the order of its sums.
#include "kernels/judge/narrowing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/judge/narrowing_errors.h"
#include "kernels/numerics/convert.h"
#include "kernels/text/cat.h"
#include "tests/unit/judge/products.h"

namespace assay {
namespace {

using namespace testing;
using Change = std::function<float(float)>;

constexpr std::int64_t kTerms[] = {256, 1024, 4096, 16384, 65536};

Change Nearest(DType format) {
  return [format](float v) { return To(format, v); };
}
float TruncatedTF32(float v) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(v) & 0xffffe000);
}
float TruncatedBF16(float v) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(v) & 0xffff0000);
}
float High(float v) { return To(DType::kBF16, v); }
float Low(float v) { return To(DType::kBF16, v - High(v)); }
float TwoParts(float v) { return High(v) + Low(v); }

struct Sides {
  bool a, b;
  std::string_view suffix;
};
constexpr Sides kSides[] = {
    {true, true, ""}, {true, false, " (a only)"}, {false, true, " (b only)"}};

Narrowing Find(const Matrices& m, const std::vector<double>& output) {
  return FindNarrowedInputs(m.Products(), output, Exact(m));
}

TEST(Narrowing, RightProductsAreNeverNamed) {
  const Data kinds[] = {NormalData(),      PositiveData(), SortedData(),     ConstantData(),
                        HeavyTailedData(), SmoothData(),   AlternatingData()};
  for (const Data& data : kinds) {
    for (const std::int64_t terms : {256, 4096, 65536}) {
      if (terms > kMostTerms) continue;
      const Matrices m(data, data, terms, 11);
      const SampledProducts products = m.Products();
      const std::vector<double> exact = Exact(m);
      for (const Order& order : UsualOrders()) {
        const std::vector<double> output = order.multiply(m);
        const Narrowing n = FindNarrowedInputs(products, output, exact);
        EXPECT_EQ(n.name, "") << data.name << ", " << order.name << ", " << terms << " terms, s "
                              << n.share << ", z " << n.z;
        EXPECT_EQ(FindNarrowedOutput(DType::kF32, output, exact).name, "");
      }
    }
  }
}

TEST(Narrowing, RightProductsOfManySeedsAreNeverNamed) {
  const Data kinds[] = {NormalData(), PositiveData(), HeavyTailedData()};
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    for (const Data& data : kinds) {
      const Matrices m(data, data, 256 << seed % 3, 1000 + 2 * seed);
      EXPECT_EQ(Find(m, Sequential(m)).name, "") << data.name << ", seed " << seed;
    }
  }
}

// The sum in order is the least exact of the usual ones, so what is found there is found in all.
// The last number of a row is the largest K at which z reaches 12 with 1,024 outputs.
TEST(Narrowing, NarrowedInputsAreNamed) {
  struct Row {
    std::string_view name;
    Change change;
    std::int64_t normal, positive;
  };
  const Row rows[] = {
      {"TF32 or fp16 inputs", Nearest(DType::kTF32), 65536, 16384},
      {"TF32 or fp16 inputs", Nearest(DType::kF16), 65536, 16384},
      {"TF32 inputs, truncated", TruncatedTF32, 65536, 16384},
      {"bf16 inputs", Nearest(DType::kBF16), 65536, 65536},
      {"bf16 inputs, truncated", TruncatedBF16, 65536, 65536},
      {"bf16x2 inputs", TwoParts, 16384, 256},
  };
  for (const bool positive : {false, true}) {
    const Data data = positive ? PositiveData() : NormalData();
    for (const std::int64_t terms : kTerms) {
      if (terms > kMostTerms) continue;
      const Matrices m(data, data, terms, 7);
      const SampledProducts products = m.Products();
      const std::vector<double> exact = Exact(m);
      for (const Row& row : rows) {
        if (terms > (positive ? row.positive : row.normal)) continue;
        for (const Sides& sides : kSides) {
          const Matrices narrowed =
              Rounded(m, sides.a ? row.change : nullptr, sides.b ? row.change : nullptr);
          const Narrowing n = FindNarrowedInputs(products, Sequential(narrowed), exact);
          EXPECT_EQ(n.name, Cat(row.name, sides.suffix)) << data.name << ", " << terms << " terms";
          EXPECT_NEAR(n.share, 1, 0.1);
          EXPECT_GT(n.z, 12);
          EXPECT_EQ(n.elements, kOutputs);
        }
      }
    }
  }
}

// Below the smallest normal number of fp16 its spacing is wider than that of TF32.
TEST(Narrowing, SmallNumbersTellFp16FromTF32) {
  for (const double scale : {0x1p-6, 0x1p-12}) {
    Data data = NormalData();
    data.fill = [scale](std::int64_t, std::int64_t, std::mt19937_64& random) {
      return scale * Normal(random);
    };
    const Matrices m(data, data, 256, 3);
    const Change half = Nearest(DType::kF16), tf32 = Nearest(DType::kTF32);
    EXPECT_EQ(Find(m, Sequential(Rounded(m, half, half))).name, "fp16 inputs") << scale;
    EXPECT_EQ(Find(m, Sequential(Rounded(m, tf32, tf32))).name, "TF32 inputs") << scale;
  }
}

// B is whole, so it stays as it is, and A has bits so low that rounding drops them as truncation
// does. The simplest of the equal explanations is named.
TEST(Narrowing, EqualExplanationsHaveTheSimplestName) {
  Data low = NormalData(), whole = NormalData();
  low.fill = [](std::int64_t, std::int64_t, std::mt19937_64& random) {
    const double v = Quantise(Normal(random), DType::kTF32);
    return v * (1 + 0x1p-14 * (0.2 + Uniform(random)));
  };
  whole.fill = [](std::int64_t, std::int64_t, std::mt19937_64& random) {
    return std::floor(9 * Uniform(random)) - 4;
  };
  const Matrices m(low, whole, 256, 61);
  const Change tf32 = Nearest(DType::kTF32);
  EXPECT_EQ(Find(m, Sequential(Rounded(m, tf32, tf32))).name, "TF32 or fp16 inputs");
}

TEST(Narrowing, LowPartsThatAreNotMultipliedAreTold) {
  for (const std::int64_t terms : {256, 4096}) {
    const Matrices m(NormalData(), NormalData(), terms, 5);
    const std::vector<double> both = Sequential(Rounded(m, TwoParts, TwoParts));
    const std::vector<double> low = Exact(Rounded(m, Low, Low));
    std::vector<double> output(both.size());
    for (std::size_t i = 0; i < output.size(); ++i) {
      output[i] = static_cast<double>(static_cast<float>(both[i] - low[i]));
    }
    EXPECT_EQ(Find(m, both).name, "bf16x2 inputs");
    EXPECT_EQ(Find(m, output).name, "bf16x2 inputs, without the products of the low parts");
    for (const std::vector<double>& split : {both, output}) {
      const auto name = [&](double declared) {
        return FindNarrowedInputs(m.Products(), split, Exact(m), {}, declared).name;
      };
      EXPECT_EQ(name(0x1p-18), "");
      EXPECT_NE(name(0x1p-19), "");
    }
  }
}

TEST(Narrowing, NarrowedInputsAreNamedWhateverTheOrderAndTheData) {
  const Change tf32 = Nearest(DType::kTF32);
  for (const Data& data : {SortedData(), HeavyTailedData(), SmoothData(), AlternatingData()}) {
    const Matrices m(data, data, 2048, 9);
    for (const Order& order : UsualOrders()) {
      const Narrowing n = Find(m, order.multiply(Rounded(m, tf32, tf32)));
      EXPECT_EQ(n.name.substr(0, 4), "TF32") << data.name << ", " << order.name;
    }
  }
}

// Σ|a||b| of such data is beyond fp32, or below its normal numbers, but the fit does not see it.
TEST(Narrowing, ExtremeMagnitudesAreNoObstacle) {
  for (const double scale : {0x1p90, 0x1p-60}) {
    const Matrices m(NormalData(), NormalData(), 512, 21);
    SampledProducts products = m.Products();
    std::vector<double> exact = Exact(m), output = exact;
    const Change tf32 = Nearest(DType::kTF32);
    const std::vector<double> narrowed = Exact(Rounded(m, tf32, tf32));
    for (double& v : products.left.values) v *= scale;
    for (double& v : products.right.values) v *= scale;
    for (std::size_t i = 0; i < exact.size(); ++i) {
      exact[i] *= scale * scale;
      output[i] = narrowed[i] * scale * scale;
    }
    EXPECT_EQ(FindNarrowedInputs(products, output, exact).name, "TF32 inputs") << scale;
  }
}

TEST(Narrowing, FactorsOfElementsCount) {
  const Matrices m(NormalData(), NormalData(), 512, 23);
  SampledProducts products = m.Products();
  std::vector<double> exact = Exact(m);
  const Change tf32 = Nearest(DType::kTF32);
  std::vector<double> output = Sequential(Rounded(m, tf32, tf32));
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double factor = 1.0 + static_cast<double>(i % kSide);
    products.elements[i].factor = factor;
    exact[i] *= factor;
    output[i] *= factor;
  }
  EXPECT_EQ(FindNarrowedInputs(products, output, exact).name, "TF32 or fp16 inputs");
}

TEST(Narrowing, RectifiedElementsCountIfTheyArePositive) {
  const Matrices m(NormalData(), NormalData(), 512, 25);
  SampledProducts products = m.Products();
  products.told_above = 0;
  const Change tf32 = Nearest(DType::kTF32);
  std::vector<double> exact = Exact(m), output = Sequential(Rounded(m, tf32, tf32));
  std::int64_t positive = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    exact[i] = std::max(exact[i], 0.0);
    output[i] = std::max(output[i], 0.0);
    positive += exact[i] > 0 && output[i] > 0 ? 1 : 0;
  }
  const Narrowing n = FindNarrowedInputs(products, output, exact);
  EXPECT_EQ(n.name, "TF32 or fp16 inputs");
  EXPECT_EQ(n.elements, positive);
}

// A deviation weights an element: those with large errors of their own must not hide the rest.
TEST(Narrowing, DeviationsWeightTheElements) {
  const Matrices m(NormalData(), NormalData(), 512, 27);
  const Change tf32 = Nearest(DType::kTF32);
  std::vector<double> output = Sequential(Rounded(m, tf32, tf32)), deviation(output.size(), 1e-6);
  std::mt19937_64 random(1);
  for (std::size_t i = 0; i < output.size(); i += 2) {
    output[i] += 1e3 * Normal(random);
    deviation[i] = 1e3;
  }
  EXPECT_EQ(Find(m, output).name, "");
  const Narrowing n = FindNarrowedInputs(m.Products(), output, Exact(m), deviation);
  EXPECT_EQ(n.name, "TF32 or fp16 inputs");
  deviation.assign(deviation.size(), 0.0);
  EXPECT_EQ(FindNarrowedInputs(m.Products(), output, Exact(m), deviation).elements, 0);
}

TEST(Narrowing, Fp64InputsThroughFp32AreNamed) {
  const Matrices m(NormalData(), NormalData(), 512, 29);
  SampledProducts products = m.Products();
  products.format = DType::kF64;
  std::mt19937_64 random(2);
  for (auto* side : {&products.left, &products.right}) {
    for (double& v : side->values) v *= 1 + 0x1p-24 * Normal(random);
  }
  std::vector<double> exact, narrowed;
  for (std::int64_t i = 0; i < products.count(); ++i) {
    double all = 0, cut = 0;
    for (std::int64_t k = 0; k < products.terms; ++k) {
      const double a = products.left_of(i)[k], b = products.right_of(i)[k];
      all += a * b;
      cut +=
          static_cast<double>(static_cast<float>(a)) * static_cast<double>(static_cast<float>(b));
    }
    exact.push_back(all);
    narrowed.push_back(cut);
  }
  EXPECT_EQ(FindNarrowedInputs(products, narrowed, exact).name, "fp32 inputs");
  EXPECT_EQ(FindNarrowedInputs(products, exact, exact).name, "");
}

TEST(Narrowing, OnlyFormatsWithFewerBitsAreConsidered) {
  const Change half = Nearest(DType::kF16);
  const Matrices m = Rounded(Matrices(NormalData(), NormalData(), 512, 31), half, half);
  SampledProducts products = m.Products();
  products.format = DType::kF16;
  const Change bf16 = Nearest(DType::kBF16);
  const std::vector<double> output = Sequential(Rounded(m, bf16, bf16));
  EXPECT_EQ(FindNarrowedInputs(products, output, Exact(m)).name, "bf16 inputs");
  products.format = DType::kBF16;
  EXPECT_EQ(FindNarrowedInputs(products, output, Exact(m)).name, "");
  products.format = DType::kI8;
  EXPECT_EQ(FindNarrowedInputs(products, output, Exact(m)).name, "");
}

TEST(Narrowing, NothingIsSaidOfNothing) {
  const Matrices m(NormalData(), NormalData(), 256, 33);
  const Change tf32 = Nearest(DType::kTF32);
  const std::vector<double> exact = Exact(m), narrowed = Sequential(Rounded(m, tf32, tf32));
  EXPECT_EQ(Find(m, exact).name, "") << "no errors at all";
  const std::vector<double> zeros(exact.size(), 0.0);
  EXPECT_EQ(FindNarrowedInputs(m.Products(), zeros, zeros).name, "");

  SampledProducts few = m.Products();
  few.elements.resize(kLeastNarrowingElements - 1);
  const auto first = [](const std::vector<double>& v, std::int64_t n) {
    return std::vector<double>(v.begin(), v.begin() + n);
  };
  EXPECT_EQ(FindNarrowedInputs(few, first(narrowed, 63), first(exact, 63)).name, "");
  few.elements.push_back({1, 31, 1.0});
  EXPECT_EQ(FindNarrowedInputs(few, first(narrowed, 64), first(exact, 64)).name,
            "TF32 or fp16 inputs");

  std::vector<double> but_one = first(narrowed, 64);
  but_one[7] = std::nan("");
  EXPECT_EQ(FindNarrowedInputs(few, but_one, first(exact, 64)).name, "");

  SampledProducts none = m.Products();
  none.elements.clear();
  EXPECT_EQ(FindNarrowedInputs(none, {}, {}).name, "");

  // Whole numbers that every format holds: d is 0.
  Data whole = NormalData();
  whole.fill = [](std::int64_t, std::int64_t, auto& random) {
    return std::floor(3 * Uniform(random));
  };
  const Matrices exactly(whole, whole, 256, 35);
  std::vector<double> off = Exact(exactly);
  std::mt19937_64 random(3);
  for (double& v : off) v += Normal(random);
  EXPECT_EQ(Find(exactly, off).name, "");
}

// 1,024 elements look like a proof, but 32 rows (or columns) that err by shares of their own are 32
// facts only.
TEST(Narrowing, ElementsOfARowAreNotIndependent) {
  const Matrices m(NormalData(), NormalData(), 256, 51);
  const Change tf32 = Nearest(DType::kTF32);
  const std::vector<double> exact = Exact(m), narrowed = Exact(Rounded(m, tf32, tf32));
  std::mt19937_64 random(4);
  std::vector<double> shares(kSide);
  double mean = 0;
  for (double& s : shares) mean += (s = Normal(random)) / kSide;
  for (double& s : shares) s += 1 - mean;
  const auto name = [&](auto share_of) {
    std::vector<double> output = exact;
    for (std::size_t i = 0; i < output.size(); ++i) {
      output[i] += share_of(i) * (narrowed[i] - exact[i]);
    }
    return Find(m, output).name;
  };
  EXPECT_EQ(name([](std::size_t) { return 1.0; }), "TF32 or fp16 inputs");
  EXPECT_EQ(name([&](std::size_t i) { return shares[i / kSide]; }), "");
  EXPECT_EQ(name([&](std::size_t i) { return shares[i % kSide]; }), "");
}

// The fit e = g·r + s·d by plain formulas: s, and the variances of s by which z is judged.
struct PlainFit {
  double share = 0;
  double equal = 0, unequal = 0, rows = 0, columns = 0;

  PlainFit(const std::vector<double>& e, const std::vector<double>& r,
           const std::vector<double>& d) {
    const auto sum = [](const std::vector<double>& a, const std::vector<double>& b) {
      return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
    };
    const double rr = sum(r, r), rd = sum(r, d), dd = sum(d, d), re = sum(r, e), de = sum(d, e);
    const double determinant = rr * dd - rd * rd;
    share = (rr * de - rd * re) / determinant;
    const double gain = (dd * re - rd * de) / determinant;
    double squares = 0;
    std::vector<double> row(kSide), column(kSide);
    for (std::size_t i = 0; i < e.size(); ++i) {
      const double rest = e[i] - gain * r[i] - share * d[i];
      const double influence = (rr * d[i] - rd * r[i]) / determinant * rest;
      const double leverage =
          (dd * r[i] * r[i] - 2 * rd * r[i] * d[i] + rr * d[i] * d[i]) / determinant;
      squares += rest * rest;
      unequal += std::pow(influence / (1 - leverage), 2);
      row[i / kSide] += influence;
      column[i % kSide] += influence;
    }
    equal = squares / static_cast<double>(e.size() - 2) * rr / determinant;
    rows = sum(row, row);
    columns = sum(column, column);
  }
};

// Each of the four standard errors is the largest for errors of its kind.
TEST(Narrowing, TheFitIsThatOfThePlainFormulas) {
  const Matrices m(NormalData(), NormalData(), 4096, 59);
  const SampledProducts products = m.Products();
  const NarrowingErrors errors = ComputeNarrowingErrors(products);
  ASSERT_EQ(errors.narrowings[0].narrower, Narrower::kTF32);
  const std::vector<double> exact = Exact(m);
  std::mt19937_64 random(6);
  std::vector<double> own(kSide);
  for (double& v : own) v = 0.1 * Normal(random);
  for (int kind = 0; kind < 4; ++kind) {
    std::vector<double> output, e, r, d;
    for (std::size_t i = 0; i < exact.size(); ++i) {
      const double sigma = errors.scale[i], both = errors.left[i] + errors.right[i];
      const double noise = Normal(random);
      double off = own[kind == 2 ? i / kSide : i % kSide] * both;
      if (kind == 0) off = std::abs(both) < 1.25e-6 * sigma ? 6e-6 * noise * sigma : 0;
      if (kind == 1) off = i / kSide == i % kSide ? noise * both : 0;
      output.push_back(exact[i] + both + 1e-6 * exact[i] + off);
      e.push_back((output[i] - exact[i]) / sigma);
      r.push_back(exact[i] / sigma);
      d.push_back(both / sigma);
    }
    const PlainFit plain(e, r, d);
    const double variances[] = {plain.equal, plain.unequal, plain.rows, plain.columns};
    EXPECT_EQ(std::max_element(variances, variances + 4) - variances, kind);
    const Narrowing n = FindNarrowedInputs(products, output, exact);
    EXPECT_EQ(n.name, "TF32 or fp16 inputs") << kind;
    EXPECT_NEAR(n.share, plain.share, 1e-9);
    EXPECT_NEAR(n.z, plain.share / std::sqrt(variances[kind]), 1e-6 * n.z) << kind;
  }
}

TEST(Narrowing, ResultsThatAreAllZeroAreNoObstacle) {
  const Matrices m(NormalData(), NormalData(), 64, 73);
  const NarrowingErrors errors = ComputeNarrowingErrors(m.Products());
  std::vector<double> output(kOutputs);
  for (std::size_t i = 0; i < output.size(); ++i) output[i] = errors.left[i] + errors.right[i];
  const std::vector<double> zeros(kOutputs, 0.0);
  const Narrowing n = FindNarrowedInputs(m.Products(), output, zeros);
  EXPECT_EQ(n.name, "TF32 or fp16 inputs");
  EXPECT_NEAR(n.share, 1, 1e-9);
  EXPECT_NEAR(n.z, 1e6, 1) << "no share is known better than to a millionth";
}

// An element is known by its inputs and its factor.
TEST(Narrowing, EqualInputsWithAnotherFactorCount) {
  const Matrices m(NormalData(), NormalData(), 64, 67);
  SampledProducts products = m.Products();
  std::vector<double> exact = Exact(m);
  for (const double factor : {1.0, 2.0}) {
    products.elements.push_back({1, 2, factor});
    exact.push_back(factor * exact[kSide + 2]);
  }
  EXPECT_EQ(FindNarrowedInputs(products, exact, exact).elements, kOutputs + 1);
}

TEST(Narrowing, AnElementOfWhichNothingIsKnownIsLeftOut) {
  const Matrices m(NormalData(), NormalData(), 64, 69);
  SampledProducts products = m.Products();
  const std::vector<double> exact = Exact(m), deviation(exact.size(), 1.0);
  const auto elements = [&](double o, double r, double sigma) {
    std::vector<double> output = exact, reference = exact, deviations = deviation;
    output[5] = o;
    reference[5] = r;
    deviations[5] = sigma;
    return FindNarrowedInputs(products, output, reference, deviations).elements;
  };
  EXPECT_EQ(elements(1, 1, 1), kOutputs);
  EXPECT_EQ(elements(1, 1, std::numeric_limits<double>::infinity()), kOutputs - 1);
  EXPECT_EQ(elements(1, std::nan(""), 1), kOutputs - 1);
  EXPECT_EQ(elements(std::nan(""), 1, 1), kOutputs - 1);
  products.told_above = -1e9;
  EXPECT_EQ(elements(-1e9, 1, 1), kOutputs - 1);
  EXPECT_EQ(elements(1, -1e9, 1), kOutputs - 1);
}

TEST(Narrowing, OtherErrorsHideANarrowing) {
  const Matrices m(NormalData(), NormalData(), 256, 55);
  const Change tf32 = Nearest(DType::kTF32);
  const std::vector<double> exact = Exact(m), narrowed = Exact(Rounded(m, tf32, tf32));
  double rms = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) rms += std::pow(narrowed[i] - exact[i], 2);
  rms = std::sqrt(rms / static_cast<double>(exact.size()));
  // With other errors of w·rms, z is about 32/w.
  for (const double w : {1.0, 3.2}) {
    std::mt19937_64 random(5);
    for (int run = 0; run < 6; ++run) {
      std::vector<double> output = narrowed;
      for (double& o : output) o += w * rms * Normal(random);
      EXPECT_EQ(Find(m, output).name, w < 2 ? "TF32 or fp16 inputs" : "");
    }
  }
}

TEST(Narrowing, TheErrorsHaveTheSizeOfTheNarrowing) {
  const Matrices m(NormalData(), NormalData(), 256, 57);
  const Change tf32 = Nearest(DType::kTF32);
  const std::vector<double> exact = Exact(m), narrowed = Exact(Rounded(m, tf32, tf32));
  for (const double share : {-1.0, 0.5, 0.88, 0.92, 1.08, 1.12, 2.0}) {
    std::vector<double> output = exact;
    for (std::size_t i = 0; i < output.size(); ++i) output[i] += share * (narrowed[i] - exact[i]);
    EXPECT_EQ(Find(m, output).name, std::abs(share - 1) < 0.1 ? "TF32 or fp16 inputs" : "")
        << share;
  }
}

// Two elements outweigh all others, and two parameters fit those exactly. The errors have the size
// of a narrowing's, so that some s is near 1 by chance.
TEST(Narrowing, TwoElementsAreNotEnough) {
  const Matrices m(NormalData(), NormalData(), 256, 53);
  const SampledProducts products = m.Products();
  const std::vector<double> exact = Exact(m), narrowed = Exact(Rounded(m, TwoParts, TwoParts));
  double rms = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) rms += std::pow(narrowed[i] - exact[i], 2);
  rms = std::sqrt(rms / static_cast<double>(exact.size()));
  for (const double weight : {1e2, 1e4}) {
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
      std::mt19937_64 random(seed);
      std::vector<double> output = exact, deviation(output.size(), 1.0);
      for (double& o : output) o += rms * Normal(random);
      deviation[0] = deviation[kSide + 1] = 1 / weight;
      const Narrowing n = FindNarrowedInputs(products, output, exact, deviation);
      EXPECT_EQ(n.name, "") << weight << ", seed " << seed;
      EXPECT_EQ(n.elements, kOutputs);
    }
  }
}

// Where a narrowing changes every element by the same share, it cannot be told from a wrong factor.
TEST(Narrowing, AShareOfTheResultIsNoFormat) {
  Matrices m(ConstantData(), ConstantData(), 64, 33);
  for (std::int64_t row = 0; row < kSide; ++row) {
    const float value = std::ldexp(1.0f + 0x1p-15f, static_cast<int>(row));
    std::fill_n(m.a.begin() + row * m.terms, m.terms, value);
  }
  for (std::size_t i = 0; i < m.b.size(); ++i) m.b[i] = static_cast<float>(1 + i % kSide);
  const Change tf32 = Nearest(DType::kTF32);
  EXPECT_EQ(Find(m, Exact(Rounded(m, tf32, tf32))).name, "");
}

TEST(Narrowing, ValuesThatAreNotFiniteAreLeftOut) {
  Matrices m(NormalData(), NormalData(), 256, 37);
  const Change tf32 = Nearest(DType::kTF32);
  m.a[5] = std::numeric_limits<float>::infinity();
  m.a[static_cast<std::size_t>(m.terms)] = std::numeric_limits<float>::quiet_NaN();
  std::vector<double> output = Sequential(Rounded(m, tf32, tf32));
  output[100] = std::numeric_limits<double>::infinity();
  const Narrowing n = Find(m, output);
  EXPECT_EQ(n.name, "TF32 or fp16 inputs");
  EXPECT_EQ(n.elements, kOutputs - 2 * kSide - 1);
}

// Numbers that fp16 does not hold give infinities there, but the other formats are still told.
TEST(Narrowing, AFormatThatOverflowsIsNotNamed) {
  Data data = NormalData();
  data.fill = [](std::int64_t, std::int64_t, auto& random) { return 1e5 * Normal(random); };
  const Matrices m(data, data, 256, 39);
  const Change tf32 = Nearest(DType::kTF32);
  EXPECT_EQ(Find(m, Sequential(Rounded(m, tf32, tf32))).name, "TF32 inputs");
}

TEST(Narrowing, EqualRowsCountOnce) {
  Matrices m(NormalData(), NormalData(), 256, 41);
  for (std::int64_t row = 2; row < kSide; ++row) {
    std::copy_n(m.a.begin() + row % 2 * m.terms, m.terms, m.a.begin() + row * m.terms);
  }
  EXPECT_EQ(Find(m, Sequential(m)).elements, 2 * kSide);
}

TEST(Narrowing, RowsThatDifferInOneTermAreTwo) {
  for (const std::int64_t term : {0, 100, 255}) {
    Matrices m(NormalData(), NormalData(), 256, 41);
    for (std::int64_t row = 1; row < kSide; ++row) {
      std::copy_n(m.a.begin(), m.terms, m.a.begin() + row * m.terms);
      m.a[static_cast<std::size_t>(row * m.terms + term)] = static_cast<float>(row % 4);
    }
    EXPECT_EQ(Find(m, Sequential(m)).elements, 5 * kSide) << term;
  }
}

TEST(Narrowing, OneRowOrOneColumnWillDo) {
  const Change tf32 = Nearest(DType::kTF32);
  for (const bool row : {true, false}) {
    // The elements (0, j) of 8 products, with the vectors of all of them on one side.
    SampledProducts products;
    std::vector<double> exact, right, narrowed;
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      Matrices m(NormalData(), NormalData(), 256, 50 + 2 * seed);
      const Matrices first(NormalData(), NormalData(), 256, 50);
      std::copy_n(first.a.begin(), m.terms, m.a.begin());
      const SampledProducts here = m.Products();
      if (seed == 0) {
        products = here;
        products.elements.clear();
        products.left.values.resize(static_cast<std::size_t>(m.terms));
        products.right.values.clear();
      }
      products.right.values.insert(products.right.values.end(), here.right.values.begin(),
                                   here.right.values.end());
      const auto add = [](std::vector<double>& to, const std::vector<double>& from) {
        to.insert(to.end(), from.begin(), from.begin() + kSide);
      };
      add(exact, Exact(m));
      add(right, Sequential(m));
      add(narrowed, Sequential(Rounded(m, tf32, tf32)));
    }
    for (std::int64_t j = 0; j < 8 * kSide; ++j) products.elements.push_back({0, j, 1.0});
    if (!row) {
      std::swap(products.left.values, products.right.values);
      for (SampledProducts::Element& e : products.elements) std::swap(e.left, e.right);
    }
    EXPECT_EQ(FindNarrowedInputs(products, right, exact).name, "");
    EXPECT_EQ(FindNarrowedInputs(products, narrowed, exact).name, "TF32 or fp16 inputs");
  }
}

TEST(Narrowing, SamplesAreBoundedByTheirWork) {
  EXPECT_EQ(NarrowingSamples(1), 1024);
  EXPECT_EQ(NarrowingSamples(1023), 1024);
  EXPECT_EQ(NarrowingSamples(1024), 4096);
  EXPECT_EQ(NarrowingSamples(65536), 4096);
  EXPECT_EQ(NarrowingSamples(131072), 2048);
  EXPECT_EQ(NarrowingSamples(1 << 20), 1024);
}

std::vector<double> Through(DType format, std::vector<double> values) {
  for (double& v : values) v = Quantise(v, format);
  return values;
}

TEST(Narrowing, NarrowedOutputsAreNamed) {
  const Matrices m(NormalData(), NormalData(), 1024, 43);
  const std::vector<double> exact = Exact(m), output = Sequential(m);
  const auto name = [&](DType format, const std::vector<double>& o) {
    return FindNarrowedOutput(format, o, exact).name;
  };
  EXPECT_EQ(name(DType::kF32, Through(DType::kBF16, output)), "output through bf16");
  EXPECT_EQ(name(DType::kF32, Through(DType::kF16, output)), "output through fp16 or TF32");
  EXPECT_EQ(name(DType::kF16, Through(DType::kBF16, output)), "output through bf16");
  EXPECT_EQ(name(DType::kF64, Through(DType::kF32, exact)), "output through fp32");
  EXPECT_EQ(name(DType::kF32, output), "");
  EXPECT_EQ(name(DType::kF16, Through(DType::kF16, output)), "");
  EXPECT_EQ(name(DType::kBF16, Through(DType::kBF16, output)), "");
  // One element with more bits is enough to clear a kernel.
  std::vector<double> but_one = Through(DType::kBF16, output);
  but_one[500] = output[500];
  EXPECT_EQ(name(DType::kF32, but_one), "");
}

TEST(Narrowing, TheRangeTellsOutputsApart) {
  const Matrices m(NormalData(), NormalData(), 1024, 45);
  const auto name = [&](double scale, DType format) {
    std::vector<double> exact = Exact(m);
    for (double& v : exact) v *= scale;
    return FindNarrowedOutput(DType::kF32, Through(format, exact), exact).name;
  };
  EXPECT_EQ(name(0x1p-20, DType::kF16), "output through fp16");
  EXPECT_EQ(name(0x1p-20, DType::kTF32), "output through TF32");
  EXPECT_EQ(name(0x1p20, DType::kTF32), "output through TF32");
  // The numbers of fp16 and bf16 differ in range alone where fp16 is coarser: that is no narrowing.
  std::vector<double> exact = Exact(m);
  for (double& v : exact) v *= 0x1p-26;
  const std::vector<double> output = Through(DType::kBF16, Through(DType::kF16, exact));
  EXPECT_EQ(FindNarrowedOutput(DType::kBF16, output, exact).name, "");
  EXPECT_EQ(FindNarrowedOutput(DType::kTF32, Through(DType::kF16, exact), exact).name, "");
}

TEST(Narrowing, ZerosOfARectifierDoNotHideANarrowOutput) {
  std::vector<double> exact = Exact(Matrices(NormalData(), NormalData(), 256, 49));
  for (double& v : exact) v = std::max(v, 0.0);
  const Narrowing n = FindNarrowedOutput(DType::kF32, Through(DType::kBF16, exact), exact);
  EXPECT_EQ(n.name, "output through bf16");
  EXPECT_NEAR(static_cast<double>(n.elements), kOutputs / 2.0, kOutputs / 8.0);
}

// Each is as near to the reference as fp16's smallest number, and a number of every format.
TEST(Narrowing, ZerosOfSumsThatCancelTellNoFormat) {
  std::vector<double> exact(1024);
  for (std::size_t i = 0; i < exact.size(); ++i) exact[i] = 1e-9 / (3.0 + static_cast<double>(i));
  const std::vector<double> zeros(exact.size(), 0.0);
  EXPECT_EQ(FindNarrowedOutput(DType::kF32, zeros, exact).name, "");
}

// A sum of constants may be a short number by chance, and all elements are that one then.
TEST(Narrowing, OneNumberAloneNamesNoOutput) {
  std::vector<double> exact(1024, 1000.0004), output(1024, 1000.0);
  EXPECT_EQ(FindNarrowedOutput(DType::kF32, output, exact).name, "");
  for (std::size_t i = 0; i < 7; ++i) {
    exact[i] += 8 * static_cast<double>(i);
    output[i] += 8 * static_cast<double>(i);
  }
  EXPECT_EQ(FindNarrowedOutput(DType::kF32, output, exact).name, "") << "seven numbers";
  exact[8] += 80;
  output[8] += 80;
  EXPECT_EQ(FindNarrowedOutput(DType::kF32, output, exact).name,
            "output through bf16 or fp16 or TF32");
}

// The first `count` of 1,024 results with many bits are replaced.
class NarrowedOutput {
 public:
  NarrowedOutput() : exact_(Exact(Matrices(NormalData(), NormalData(), 256, 47))) {
    output_ = Through(DType::kBF16, exact_);
  }
  template <class Replace>
  std::string With(std::size_t count, const Replace& replace) const {
    std::vector<double> exact = exact_, output = output_;
    for (std::size_t i = 0; i < count; ++i) replace(i, exact[i], output[i]);
    return FindNarrowedOutput(DType::kF32, output, exact).name;
  }

 private:
  std::vector<double> exact_, output_;
};

TEST(Narrowing, AQuarterOfTheResultsMayBeNarrowOnesAnyway) {
  const auto whole = [](std::size_t i, double& r, double& o) {
    r = o = static_cast<double>(1 + i % 200);
  };
  EXPECT_EQ(NarrowedOutput().With(256, whole), "output through bf16");
  EXPECT_EQ(NarrowedOutput().With(257, whole), "");
}

TEST(Narrowing, HalfOfTheResultsMayBeFarFromNarrowOnes) {
  const auto twice = [](std::size_t, double&, double& o) { o *= 2; };
  EXPECT_EQ(NarrowedOutput().With(512, twice), "output through bf16");
  EXPECT_EQ(NarrowedOutput().With(513, twice), "");
  const auto zero = [](std::size_t, double&, double& o) { o = 0; };
  EXPECT_EQ(NarrowedOutput().With(513, zero), "");
  const auto infinite = [](std::size_t, double&, double& o) { o = HUGE_VAL; };
  EXPECT_EQ(NarrowedOutput().With(513, infinite), "output through bf16") << "these are left out";
}

// Most results are numbers of bf16 but for their last bits, and become those through any format.
TEST(Narrowing, SixteenResultsTellAFormatWithMoreBits) {
  const auto name = [](std::size_t tell) {
    return NarrowedOutput().With(kOutputs, [tell](std::size_t i, double& r, double& o) {
      r = o * (1 + (i < tell ? 0x1.8p-10 : 0x1p-16));
    });
  };
  EXPECT_EQ(name(16), "output through bf16");
  EXPECT_EQ(name(15), "output through bf16 or fp16 or TF32");
}

TEST(Narrowing, OutputsThatNeedNoMoreBitsAreNotNamed) {
  const std::vector<double> zeros(1024, 0.0);
  const Matrices m(NormalData(), NormalData(), 256, 47);
  const std::vector<double> exact = Exact(m);
  EXPECT_EQ(FindNarrowedOutput(DType::kF32, zeros, exact).name, "") << "nothing was written";
  EXPECT_EQ(FindNarrowedOutput(DType::kF32, zeros, zeros).name, "");
  EXPECT_EQ(FindNarrowedOutput(DType::kF32, {}, {}).name, "");
  EXPECT_EQ(FindNarrowedOutput(DType::kI32, zeros, zeros).name, "");
  std::vector<double> whole, powers;
  for (int i = 0; i < 1024; ++i) {
    whole.push_back(i % 200);
    powers.push_back(std::ldexp(1.0, i % 30 - 15));
  }
  EXPECT_EQ(FindNarrowedOutput(DType::kF32, whole, whole).name, "");
  EXPECT_EQ(FindNarrowedOutput(DType::kF32, powers, powers).name, "");
  std::vector<double> mixed = exact;
  for (std::size_t i = 0; i < mixed.size(); i += 3) mixed[i] = whole[i];
  EXPECT_EQ(FindNarrowedOutput(DType::kF32, Through(DType::kBF16, mixed), mixed).name, "");
  std::vector<double> cut = exact;
  for (double& v : cut) v = std::trunc(v);
  EXPECT_EQ(FindNarrowedOutput(DType::kF32, cut, exact).name, "") << "the fractions are cut off";
  const std::vector<double> nan(1024, std::nan(""));
  EXPECT_EQ(FindNarrowedOutput(DType::kF32, nan, nan).name, "");
  // Too few.
  const auto few = [&](std::size_t n) {
    const std::vector<double> r(exact.begin(), exact.begin() + static_cast<std::ptrdiff_t>(n));
    return FindNarrowedOutput(DType::kF32, Through(DType::kBF16, r), r).name;
  };
  EXPECT_EQ(few(63), "");
  EXPECT_EQ(few(64), "output through bf16");
}

}  // namespace
}  // namespace assay
