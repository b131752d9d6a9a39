// The built-in GPU gemm under the emulator, held to the operator's proven bound against
// plain FP64 loops, at awkward sizes, in every orientation and with every epilogue.
#include <cmath>
#include <random>
#include <string>

#include "kernels/providers/builtin/gemm_builtin_gpu.h"
#include "simt/testing.h"

namespace assay::inline kernels::gpu {
namespace {

struct Variant {
  std::int64_t m, n, k;
  std::int64_t batch = 1;
  bool trans_a = false;
  bool trans_b = false;
  std::int64_t pad = 0;  // elements behind every row, and between batches
  double factor = 1;
  double beta = 0;
  bool channel_scale = false;
  bool bias = false;
  Activation activation = Activation::kNone;
};

class SimtGemm : public SimtTest {
 protected:
  using Draw = std::function<double()>;

  static std::int64_t Span(std::int64_t batch, std::int64_t rows, std::int64_t cols,
                           std::int64_t pad) {
    return (batch - 1) * (rows * (cols + pad) + pad) + (rows - 1) * (cols + pad) + cols;
  }

  void Check(const Variant& v) {
    const Form& f = GetParam();
    SCOPED_TRACE(std::to_string(v.m) + "x" + std::to_string(v.n) + "x" + std::to_string(v.k) +
                 (v.trans_a ? " t" : " n") + (v.trans_b ? "t" : "n") + " pad " +
                 std::to_string(v.pad));
    const bool integer = f.in == DType::kI8;
    const bool exact = f.out == DType::kI32;
    const DType of_scale = f.in == DType::kF64 ? DType::kF64 : DType::kF32;
    std::mt19937_64 random(static_cast<std::uint64_t>(v.m * 31 + v.n * 7 + v.k));
    std::normal_distribution<double> normal(0.0, 1.0);
    const auto draw = [&](std::int64_t) {
      return integer ? std::nearbyint(20 * normal(random)) : normal(random);
    };
    const std::int64_t a_rows = v.trans_a ? v.k : v.m, a_cols = v.trans_a ? v.m : v.k;
    const std::int64_t b_rows = v.trans_b ? v.n : v.k, b_cols = v.trans_b ? v.k : v.n;
    HostTensor a(f.in, Span(v.batch, a_rows, a_cols, v.pad), draw);
    HostTensor b(f.in, Span(v.batch, b_rows, b_cols, v.pad), draw);
    HostTensor c(f.out, Span(v.batch, v.m, v.n, v.pad), draw);
    HostTensor scale(of_scale, v.n, [&](std::int64_t) { return 1 + 0.1 * normal(random); });
    HostTensor bias(of_scale, v.n, [&](std::int64_t) { return normal(random); });
    const std::int64_t d_ld = v.n + v.pad;
    const std::int64_t d_stride = v.m * d_ld + v.pad;
    HostTensor d(f.out, v.batch * d_stride);
    GemmJob job;
    job.a = {a.data(), a_cols + v.pad, a_rows * (a_cols + v.pad) + v.pad};
    job.b = {b.data(), b_cols + v.pad, b_rows * (b_cols + v.pad) + v.pad};
    job.c = {c.data(), d_ld, d_stride};
    job.d = d.data();
    job.d_ld = d_ld;
    job.d_batch_stride = d_stride;
    job.in = f.in;
    job.out = f.out;
    job.m = v.m;
    job.n = v.n;
    job.k = v.k;
    job.batch = v.batch;
    job.trans_a = v.trans_a;
    job.trans_b = v.trans_b;
    job.factor = v.factor;
    job.beta = v.beta;
    if (v.channel_scale) job.channel_scale = scale.data();
    if (v.bias) job.bias = bias.data();
    job.activation = v.activation;
    ASSERT_EQ(LaunchGemm(job, nullptr), kOk);

    const FormatInfo& o = Info(f.out);
    const double u = f.in == DType::kF64 ? 0x1p-53 : 0x1p-24;
    for (std::int64_t e = 0; e < v.batch; ++e) {
      for (std::int64_t i = 0; i < v.m; ++i) {
        for (std::int64_t j = 0; j < v.n; ++j) {
          double sum = 0, absolute = 0;
          for (std::int64_t k = 0; k < v.k; ++k) {
            const double x =
                a[e * job.a.batch_stride + (v.trans_a ? k * job.a.ld + i : i * job.a.ld + k)];
            const double y =
                b[e * job.b.batch_stride + (v.trans_b ? j * job.b.ld + k : k * job.b.ld + j)];
            sum += x * y;
            absolute += std::abs(x * y);
          }
          const double by = v.factor * (v.channel_scale ? scale[j] : 1.0);
          const double added = v.beta == 0 ? 0 : v.beta * c[e * d_stride + i * d_ld + j];
          const double shift = v.bias ? bias[j] : 0;
          const double inner = by * sum + added + shift;
          const double want = Activate(v.activation, inner);
          // Twice for fp64, where these loops round too.
          const double chain =
              integer ? 0.0 : static_cast<double>(v.k + 8) * u * absolute * (u < 1e-10 ? 2 : 1);
          const double error =
              1.13 *
              (std::abs(by) * chain +
               u * (3 * std::abs(by * sum) + std::abs(added) + std::abs(shift) + std::abs(inner)) +
               8 * u * std::abs(inner));
          const double bound = exact ? 0.0
                                     : o.unit_roundoff * std::abs(want) + o.min_subnormal / 2 +
                                           (1 + o.unit_roundoff) * error;
          const double got = d[e * d_stride + i * d_ld + j];
          const double limited = std::clamp(want, -o.max_finite, o.max_finite);
          ASSERT_LE(std::abs(got - limited), bound) << e << "," << i << "," << j;
        }
        for (std::int64_t j = v.n; j < d_ld; ++j) {
          ASSERT_TRUE(d.Untouched(e * d_stride + i * d_ld + j)) << "behind row " << i;
        }
      }
      for (std::int64_t j = v.m * d_ld; j < d_stride; ++j) {
        ASSERT_TRUE(d.Untouched(e * d_stride + j)) << "behind batch " << e;
      }
    }
  }
};

INSTANTIATE_TEST_SUITE_P(
    Forms, SimtGemm,
    ::testing::Values(Form{32, DType::kF16, DType::kF16}, Form{64, DType::kF16, DType::kF32},
                      Form{32, DType::kBF16, DType::kBF16}, Form{64, DType::kBF16, DType::kF32},
                      Form{32, DType::kF32, DType::kF32}, Form{64, DType::kF64, DType::kF64},
                      Form{32, DType::kI8, DType::kI32}, Form{64, DType::kI8, DType::kF16},
                      Form{32, DType::kE4M3FN, DType::kF32},
                      Form{64, DType::kE4M3FNUZ, DType::kBF16},
                      Form{32, DType::kE5M2, DType::kE5M2},
                      Form{64, DType::kE5M2FNUZ, DType::kF16}));

TEST_P(SimtGemm, AwkwardSizesInEveryOrientation) {
  struct Size {
    std::int64_t m, n, k;
  };
  const Size sizes[] = {{1, 1, 1}, {31, 33, 65}, {65, 127, 31}, {129, 40, 33}, {33, 130, 127}};
  for (int i = 0; i < 5; ++i) {
    for (const int orientation : {0, 1, 2, 3}) {
      Check({.m = sizes[i].m,
             .n = sizes[i].n,
             .k = sizes[i].k,
             .trans_a = (orientation & 1) != 0,
             .trans_b = (orientation & 2) != 0,
             .pad = (i + orientation) % 2 * 3});
    }
  }
}

// Rows of whole 16 bytes, which are copied so; extents that end inside one.
TEST_P(SimtGemm, AlignedRowsWhoseEndsAreNot) {
  for (const int orientation : {0, 1, 2, 3}) {
    const bool trans_a = (orientation & 1) != 0, trans_b = (orientation & 2) != 0;
    Check({.m = 128, .n = 128, .k = 64, .trans_a = trans_a, .trans_b = trans_b});
    Check({.m = 136, .n = 24, .k = 72, .trans_a = trans_a, .trans_b = trans_b, .pad = 8});
    Check({.m = 8, .n = 8, .k = 200, .trans_a = trans_a, .trans_b = trans_b});
  }
}

TEST_P(SimtGemm, BatchesKeepToThemselves) {
  Check({.m = 17, .n = 9, .k = 40, .batch = 3});
  Check({.m = 16, .n = 24, .k = 40, .batch = 2, .trans_b = true, .pad = 8});
}

// More tiles than one band holds.
TEST_P(SimtGemm, TallProducts) { Check({.m = 1100, .n = 130, .k = 3}); }

TEST_P(SimtGemm, Epilogues) {
  const bool whole = GetParam().out == DType::kI32;
  Check({.m = 33, .n = 17, .k = 20, .factor = whole ? 3.0 : 0.75, .beta = whole ? -2.0 : -1.5});
  if (whole) return;
  for (const Activation activation :
       {Activation::kNone, Activation::kRelu, Activation::kGelu, Activation::kGeluTanh}) {
    Check({.m = 20,
           .n = 33,
           .k = 9,
           .pad = 1,
           .factor = 0.125,
           .beta = 0.5,
           .channel_scale = true,
           .bias = true,
           .activation = activation});
  }
}

TEST_P(SimtGemm, TheSameLaunchGivesTheSameBits) {
  const Form& f = GetParam();
  HostTensor a(f.in, 50 * 70, [](std::int64_t i) { return 3 * std::sin(static_cast<double>(i)); });
  HostTensor b(f.in, 70 * 30, [](std::int64_t i) { return 3 * std::cos(static_cast<double>(i)); });
  HostTensor first(f.out, 50 * 30);
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    simt::CurrentConfig().seed = seed;
    HostTensor d(f.out, 50 * 30);
    GemmJob job;
    job.a = {a.data(), 70, 0};
    job.b = {b.data(), 30, 0};
    job.d = d.data();
    job.d_ld = 30;
    job.in = f.in;
    job.out = f.out;
    job.m = 50;
    job.n = 30;
    job.k = 70;
    ASSERT_EQ(LaunchGemm(job, nullptr), kOk);
    if (seed == 1) first = d;
    EXPECT_TRUE(d == first);
  }
}

}  // namespace
}  // namespace assay::kernels::gpu
