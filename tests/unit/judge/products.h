// Products of fp32 matrices with data of many kinds, computed in FP64 and as kernels compute them.
#ifndef ASSAY_TESTS_UNIT_JUDGE_PRODUCTS_H_
#define ASSAY_TESTS_UNIT_JUDGE_PRODUCTS_H_

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <string_view>
#include <vector>

#include "kernels/confine/sanitized.h"
#include "kernels/numerics/convert.h"
#include "kernels/ops/products.h"

namespace assay::testing {

inline constexpr std::int64_t kSide = 32;  // rows and columns
inline constexpr std::int64_t kOutputs = kSide * kSide;
// Of a sum. A sanitizer makes each term fourteen times as slow, and longer sums have no other code.
inline constexpr std::int64_t kMostTerms = kSanitized ? 4096 : 65536;

// Element k of a vector.
using Fill = std::function<double(std::int64_t k, std::int64_t terms, std::mt19937_64& random)>;

struct Data {
  std::string_view name;
  Fill fill;
  bool sorted = false;  // each vector is put into ascending order
};

inline double Normal(std::mt19937_64& random) { return std::normal_distribution<double>()(random); }
inline double Uniform(std::mt19937_64& random) {
  return std::uniform_real_distribution<double>()(random);
}

inline Data NormalData() {
  return {"normal", [](std::int64_t, std::int64_t, auto& random) { return Normal(random); }};
}
inline Data PositiveData() {
  return {"uniform(0,1)", [](std::int64_t, std::int64_t, auto& random) { return Uniform(random); }};
}
inline Data HeavyTailedData() {
  return {"Student t, 3", [](std::int64_t, std::int64_t, auto& random) {
            return std::student_t_distribution<double>(3)(random);
          }};
}
inline Data ConstantData() {
  return {"constant", [](std::int64_t, std::int64_t, auto&) { return 1.0 / 3.0; }};
}
inline Data SortedData() {
  Data data = NormalData();
  data.name = "sorted";
  data.sorted = true;
  return data;
}
inline Data SmoothData() {
  return {"smooth", [](std::int64_t k, std::int64_t terms, auto& random) {
            const double t = static_cast<double>(k) / static_cast<double>(terms);
            return std::sin(6 * t) + 0.5 + 1e-3 * Normal(random);
          }};
}
inline Data RampData() {
  return {"ramp", [](std::int64_t k, std::int64_t terms, auto& random) {
            return (static_cast<double>(k) + Uniform(random)) / static_cast<double>(terms);
          }};
}
// Every product of two such vectors with a positive one alternates.
inline Data AlternatingData() {
  return {"alternating", [](std::int64_t k, std::int64_t, auto& random) {
            return (k % 2 == 0 ? 1.0 : -1.0) * (0.5 + Uniform(random));
          }};
}

// The 16 levels of four bits, times a scale, as a dequantised operand has them.
inline Data FourBitData() {
  return {"four bits", [](std::int64_t, std::int64_t, auto& random) {
            const double level = static_cast<double>(random() % 16);
            return static_cast<double>(static_cast<float>(level) * 0.037f);
          }};
}

// A [kSide, terms] and B [terms, kSide], rounded to fp32.
struct Matrices {
  std::int64_t terms = 0;
  std::vector<float> a, b;

  Matrices(const Data& left, const Data& right, std::int64_t k, std::uint64_t seed)
      : terms(k), a(Rows(left, k, seed)) {
    const std::vector<float> columns = Rows(right, k, seed + 1);
    b.resize(columns.size());
    for (std::int64_t j = 0; j < kSide; ++j) {
      for (std::int64_t i = 0; i < k; ++i) {
        b[static_cast<std::size_t>(i * kSide + j)] = columns[static_cast<std::size_t>(j * k + i)];
      }
    }
  }

  float A(std::int64_t row, std::int64_t k) const {
    return a[static_cast<std::size_t>(row * terms + k)];
  }
  const float* B(std::int64_t k) const { return b.data() + k * kSide; }

  SampledProducts Products() const {
    SampledProducts products;
    products.format = DType::kF32;
    products.terms = terms;
    products.left = {"a", {a.begin(), a.end()}};
    products.right = {"b", std::vector<double>(b.size())};
    for (std::int64_t j = 0; j < kSide; ++j) {
      for (std::int64_t k = 0; k < terms; ++k) {
        products.right.values[static_cast<std::size_t>(j * terms + k)] =
            static_cast<double>(B(k)[j]);
      }
    }
    for (std::int64_t i = 0; i < kOutputs; ++i) {
      products.elements.push_back({i / kSide, i % kSide, 1.0});
    }
    return products;
  }

 private:
  static std::vector<float> Rows(const Data& data, std::int64_t k, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<float> rows(static_cast<std::size_t>(kSide * k));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      rows[i] = static_cast<float>(data.fill(static_cast<std::int64_t>(i) % k, k, random));
    }
    for (std::int64_t r = 0; data.sorted && r < kSide; ++r) {
      std::sort(rows.begin() + r * k, rows.begin() + (r + 1) * k);
    }
    return rows;
  }
};

// One row of outputs, in sums of type T.
template <class T>
using Line = std::array<T, static_cast<std::size_t>(kSide)>;

template <class T>
void AddProducts(const Matrices& m, std::int64_t row, std::int64_t begin, std::int64_t end,
                 std::int64_t step, Line<T>& sums) {
  for (std::int64_t k = begin; k < end; k += step) {
    const T a = static_cast<T>(m.A(row, k));
    const float* b = m.B(k);
    for (std::size_t j = 0; j < sums.size(); ++j) sums[j] += a * static_cast<T>(b[j]);
  }
}

inline std::vector<double> Collect(const std::function<Line<double>(std::int64_t row)>& line) {
  std::vector<double> all;
  for (std::int64_t row = 0; row < kSide; ++row) {
    const Line<double> sums = line(row);
    all.insert(all.end(), sums.begin(), sums.end());
  }
  return all;
}

template <class T>
Line<double> AsDoubles(const Line<T>& line) {
  Line<double> doubles;
  std::copy(line.begin(), line.end(), doubles.begin());
  return doubles;
}

inline std::vector<double> Exact(const Matrices& m) {
  return Collect([&](std::int64_t row) {
    Line<double> sums = {};
    AddProducts(m, row, 0, m.terms, 1, sums);
    return sums;
  });
}

// The usual orders of an fp32 sum.
struct Order {
  std::string_view name;
  std::function<std::vector<double>(const Matrices&)> multiply;
};

inline std::vector<double> Sequential(const Matrices& m) {
  return Collect([&](std::int64_t row) {
    Line<float> sums = {};
    AddProducts(m, row, 0, m.terms, 1, sums);
    return AsDoubles(sums);
  });
}

inline std::vector<double> WithFma(const Matrices& m) {
  return Collect([&](std::int64_t row) {
    Line<float> sums = {};
    for (std::int64_t k = 0; k < m.terms; ++k) {
      const double a = static_cast<double>(m.A(row, k));
      for (std::size_t j = 0; j < sums.size(); ++j) {
        const double product = a * static_cast<double>(m.B(k)[j]);  // exact
        sums[j] = static_cast<float>(static_cast<double>(sums[j]) + product);
      }
    }
    return AsDoubles(sums);
  });
}

inline Line<float> PairwiseSum(const Matrices& m, std::int64_t row, std::int64_t begin,
                               std::int64_t end) {
  Line<float> sums = {};
  if (end - begin <= 8) {
    AddProducts(m, row, begin, end, 1, sums);
    return sums;
  }
  const std::int64_t middle = begin + (end - begin) / 2;
  sums = PairwiseSum(m, row, begin, middle);
  const Line<float> second = PairwiseSum(m, row, middle, end);
  for (std::size_t j = 0; j < sums.size(); ++j) sums[j] += second[j];
  return sums;
}

inline std::vector<double> Pairwise(const Matrices& m) {
  return Collect([&](std::int64_t row) { return AsDoubles(PairwiseSum(m, row, 0, m.terms)); });
}

// `parts` contiguous parts, each summed in order, added in order.
inline std::vector<double> SplitK(const Matrices& m, std::int64_t parts) {
  return Collect([&](std::int64_t row) {
    Line<float> sums = {};
    for (std::int64_t p = 0; p < parts; ++p) {
      Line<float> part = {};
      AddProducts(m, row, m.terms * p / parts, m.terms * (p + 1) / parts, 1, part);
      for (std::size_t j = 0; j < sums.size(); ++j) sums[j] += part[j];
    }
    return AsDoubles(sums);
  });
}

// Lane l sums the products l, l + lanes, …; the lanes are added in order.
inline std::vector<double> Lanes(const Matrices& m, std::int64_t lanes) {
  return Collect([&](std::int64_t row) {
    Line<float> sums = {};
    for (std::int64_t l = 0; l < lanes; ++l) {
      Line<float> lane = {};
      AddProducts(m, row, l, m.terms, lanes, lane);
      for (std::size_t j = 0; j < sums.size(); ++j) sums[j] += lane[j];
    }
    return AsDoubles(sums);
  });
}

inline std::vector<Order> UsualOrders() {
  return {
      {"sequential", Sequential},
      {"FMA", WithFma},
      {"pairwise", Pairwise},
      {"split-K 2", [](const Matrices& m) { return SplitK(m, 2); }},
      {"split-K 64", [](const Matrices& m) { return SplitK(m, 64); }},
      {"blocks of 16", [](const Matrices& m) { return SplitK(m, m.terms / 16); }},
      {"8 lanes", [](const Matrices& m) { return Lanes(m, 8); }},
  };
}

// The matrices with elements changed.
inline Matrices Rounded(Matrices m, const std::function<float(float)>& a,
                        const std::function<float(float)>& b) {
  if (a) std::transform(m.a.begin(), m.a.end(), m.a.begin(), a);
  if (b) std::transform(m.b.begin(), m.b.end(), m.b.begin(), b);
  return m;
}

inline float To(DType format, float v) { return static_cast<float>(Quantise(v, format)); }

}  // namespace assay::testing

#endif  // ASSAY_TESTS_UNIT_JUDGE_PRODUCTS_H_
