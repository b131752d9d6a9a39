// Helps the tests of the comparison pass, on the CPU and on GPUs. It makes data of every kind, each
// of which takes another path, and tells whether two results are the same.
#ifndef ASSAY_TESTS_UNIT_RUNTIME_COMPARE_TESTING_H_
#define ASSAY_TESTS_UNIT_RUNTIME_COMPARE_TESTING_H_

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "kernels/numerics/convert.h"
#include "kernels/numerics/poison.h"
#include "kernels/runtime/compare.h"

namespace assay {

inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

inline constexpr DType kFormatsUnderTest[] = {
    DType::kF64,      DType::kF32,  DType::kTF32,     DType::kF16,  DType::kBF16, DType::kE4M3FN,
    DType::kE4M3FNUZ, DType::kE5M2, DType::kE5M2FNUZ, DType::kE2M1, DType::kI8,   DType::kI32};
inline constexpr Gate kGates[] = {Gate::kBound, Gate::kBoundProbable, Gate::kAllClose, Gate::kUlp,
                                  Gate::kBitwise};

// A comparison and the memory it looks at.
struct Data {
  explicit Data(DType dtype, const Extents& extents)
      : storage(static_cast<std::size_t>(StorageBytes(dtype, extents.span()) + 8)),
        reference(static_cast<std::size_t>(extents.count())),
        allowance(static_cast<std::size_t>(extents.count())) {
    request.output = TensorView{storage.data(), dtype, extents};
    request.reference = reference.data();
    request.allowance = allowance.data();
    request.proven_factor = 3.0;
  }
  Data(const Data&) = delete;

  std::int64_t Position(std::int64_t i) const {
    const Extents& x = request.output.extents;
    const std::int64_t row = i / x.cols;
    return row / x.rows * x.batch_stride + row % x.rows * x.ld + i % x.cols;
  }
  void SetBits(std::int64_t i, std::uint64_t bits) {
    StoreBits(request.output.dtype, storage.data(), Position(i), bits);
  }
  void Set(std::int64_t i, double v) { SetBits(i, RoundToFormat(v, request.output.dtype)); }
  double& R(std::int64_t i) { return reference[static_cast<std::size_t>(i)]; }
  double& E(std::int64_t i) { return allowance[static_cast<std::size_t>(i)]; }

  std::vector<unsigned char> storage;
  std::vector<double> reference;
  std::vector<double> allowance;
  CompareRequest request;
};

inline void ExpectClose(double a, double b, double scale, const char* what) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return;
  // Beyond the range of FP64 the order decides whether Inf meets -Inf.
  if (!std::isfinite(a) && !std::isfinite(b) && !std::isfinite(scale)) return;
  EXPECT_LE(std::abs(a - b), 1e-12 * scale) << what << ": " << a << " and " << b;
}

inline void ExpectSample(const ElementSample& a, const ElementSample& b, const char* what) {
  EXPECT_EQ(a.index, b.index) << what;
  EXPECT_EQ(a.actual_bits, b.actual_bits) << what;
  EXPECT_EQ(a.expected_bits, b.expected_bits) << what;
  EXPECT_TRUE(a.bound == b.bound || (std::isnan(a.bound) && std::isnan(b.bound))) << what;
}

inline void ExpectSame(const CompareResult& fast, const CompareResult& plain) {
#define ASSAY_SAME(field) EXPECT_EQ(fast.field, plain.field) << #field
  ASSAY_SAME(count);
  ASSAY_SAME(mismatches);
  ASSAY_SAME(beyond_probable);
  ASSAY_SAME(beyond_proven);
  ASSAY_SAME(max_abs_error);
  ASSAY_SAME(max_abs_expected);
  ASSAY_SAME(finite_pairs);
  ASSAY_SAME(bias_count);
  ASSAY_SAME(nan_count);
  ASSAY_SAME(inf_count);
  ASSAY_SAME(reference_nan_count);
  ASSAY_SAME(reference_inf_count);
  ASSAY_SAME(class_mismatches);
  ASSAY_SAME(unwritten);
  ASSAY_SAME(zero_count);
  ASSAY_SAME(reference_zero_count);
  ASSAY_SAME(first_nan);
  ASSAY_SAME(first_inf);
  ASSAY_SAME(first_unexpected_nan);
  ASSAY_SAME(first_unexpected_inf);
  ASSAY_SAME(unexpected_nan);
  ASSAY_SAME(unexpected_inf);
  ASSAY_SAME(first_unwritten);
  ASSAY_SAME(digest_raw[0]);
  ASSAY_SAME(digest_raw[1]);
  ASSAY_SAME(digest_canonical[0]);
  ASSAY_SAME(digest_canonical[1]);
#undef ASSAY_SAME
  ExpectClose(fast.rho, plain.rho, plain.rho, "rho");
  ExpectClose(fast.rho_proven, plain.rho_proven, plain.rho_proven, "rho_proven");
  ExpectClose(fast.max_rel_error, plain.max_rel_error, plain.max_rel_error, "max_rel_error");
  ExpectClose(fast.max_ulp, plain.max_ulp, plain.max_ulp, "max_ulp");
  ExpectClose(fast.sum_abs_error, plain.sum_abs_error, plain.sum_abs_error, "sum_abs_error");
  ExpectClose(fast.sum_squared_error, plain.sum_squared_error, plain.sum_squared_error,
              "sum_squared_error");
  ExpectClose(fast.sum_squared_actual, plain.sum_squared_actual, plain.sum_squared_actual,
              "sum_squared_actual");
  ExpectClose(fast.sum_squared_expected, plain.sum_squared_expected, plain.sum_squared_expected,
              "sum_squared_expected");
  ExpectClose(fast.dot, plain.dot, plain.sum_squared_actual + plain.sum_squared_expected, "dot");
  ExpectClose(fast.bias_sum_squared, plain.bias_sum_squared, plain.bias_sum_squared,
              "bias_sum_squared");
  ExpectClose(fast.bias_sum, plain.bias_sum,
              plain.bias_sum_squared + static_cast<double>(plain.bias_count), "bias_sum");
  ASSERT_EQ(fast.samples.size(), plain.samples.size());
  for (std::size_t i = 0; i < plain.samples.size(); ++i) {
    ExpectSample(fast.samples[i], plain.samples[i], "sample");
  }
  ExpectSample(fast.worst, plain.worst, "worst");
}

// Kinds of data, each of which takes another path.
enum class Kind { kClean, kWrong, kSparse, kSpecial, kExact, kNoAllowance };

inline void Fill(Kind kind, std::uint64_t seed, Data* data) {
  const DType t = data->request.output.dtype;
  const FormatInfo& f = Info(t);
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform(0.0, 1.0);
  const double scale = f.is_integer ? 20.0 : (t == DType::kE2M1 ? 1.5 : 1.0);
  const double specials[] = {kNaN,
                             kInf,
                             -kInf,
                             0.0,
                             -0.0,
                             f.max_finite,
                             -f.max_finite,
                             f.max_finite * (1.0 + 0.25 * f.machine_epsilon),
                             -f.max_finite * (1.0 + 0.5 * f.machine_epsilon),
                             f.max_finite * 1.5,
                             f.min_normal,
                             f.min_subnormal,
                             -f.min_subnormal,
                             f.min_subnormal * 0.5,
                             f.min_subnormal * 0.51,
                             f.min_normal * (1.0 - 0.25 * f.machine_epsilon)};
  const std::uint64_t codes =
      std::min(f.storage_bits, 32) == 32 ? 0xffffffffu : (std::uint64_t{1} << f.storage_bits) - 1;
  for (std::int64_t i = 0; i < data->request.output.count(); ++i) {
    double r = normal(random) * scale;
    double e = std::abs(normal(random)) * 1e-3 * f.unit_roundoff;
    double o = r + 0.9 * e * (2.0 * uniform(random) - 1.0);
    if (kind == Kind::kExact || f.is_integer)
      r = o = std::nearbyint(4 * r) * (f.is_integer ? 1 : 0.25);
    if (kind == Kind::kWrong && uniform(random) < 0.01) o += normal(random);
    if (kind == Kind::kSparse && uniform(random) < 0.5) r = o = 0.0;
    if (kind == Kind::kSparse && uniform(random) < 0.1) o = -0.0;
    std::uint64_t bits = RoundToFormat(o, t);
    if (kind == Kind::kSpecial && uniform(random) < 0.02) {
      r = specials[random() % std::size(specials)];
      bits = RoundToFormat(r, t);
      if (uniform(random) < 0.3) bits = RoundToFormat(specials[random() % std::size(specials)], t);
      if (uniform(random) < 0.2) bits = random() & codes;
      if (uniform(random) < 0.2) bits = PoisonBits(t, Poison::kFirst);
      if (uniform(random) < 0.2) e = 2.0 * f.max_finite * f.unit_roundoff;
      if (uniform(random) < 0.05) e = kNaN;
    }
    data->R(i) = r;
    data->E(i) = e;
    data->SetBits(i, bits);
  }
  if (kind == Kind::kNoAllowance) data->request.allowance = nullptr;
  data->request.exact = kind == Kind::kExact;
  data->request.atol = 1e-3;
  data->request.rtol = 1e-3;
  data->request.max_ulp = 1.0;
}

}  // namespace assay

#endif  // ASSAY_TESTS_UNIT_RUNTIME_COMPARE_TESTING_H_
