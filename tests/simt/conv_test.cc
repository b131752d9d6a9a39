// The built-in GPU convolution under the emulator, held to the operator's proven bound
// against plain FP64 loops: dimensions, strides, padding, dilation, groups, layouts.
#include <array>
#include <cmath>
#include <random>

#include "kernels/providers/builtin/conv_builtin_gpu.h"
#include "simt/testing.h"

namespace assay::inline kernels::gpu {
namespace {

using Axes = std::array<std::int64_t, 3>;

struct Variant {
  std::int64_t batch = 1;
  std::int64_t channels = 1;
  std::int64_t filters = 1;
  std::int64_t groups = 1;
  Axes input = {1, 1, 1};
  Axes kernel = {1, 1, 1};
  Axes stride = {1, 1, 1};
  Axes padding = {0, 0, 0};
  Axes dilation = {1, 1, 1};
};

class SimtConv : public SimtTest {
 protected:
  void Check(const Variant& v) {
    CheckLayout(v, false);
    CheckLayout(v, true);
  }

  void CheckLayout(const Variant& v, bool nhwc) {
    const Form& f = GetParam();
    const bool integer = f.in == DType::kI8;
    std::mt19937_64 random(static_cast<std::uint64_t>(v.channels * 31 + v.filters));
    std::normal_distribution<double> normal(0.0, 1.0);
    const auto draw = [&](std::int64_t) {
      return integer ? std::nearbyint(20 * normal(random)) : normal(random);
    };
    ConvJob job;
    std::int64_t in_pixels = 1, out_pixels = 1, positions = 1;
    for (std::size_t d = 0; d < 3; ++d) {
      job.input[d] = v.input[d];
      job.kernel[d] = v.kernel[d];
      job.stride[d] = v.stride[d];
      job.padding[d] = v.padding[d];
      job.dilation[d] = v.dilation[d];
      job.output[d] =
          (v.input[d] + 2 * v.padding[d] - v.dilation[d] * (v.kernel[d] - 1) - 1) / v.stride[d] + 1;
      in_pixels *= job.input[d];
      out_pixels *= job.output[d];
      positions *= job.kernel[d];
    }
    const std::int64_t group_channels = v.channels / v.groups, group_filters = v.filters / v.groups;
    HostTensor x(f.in, v.batch * v.channels * in_pixels, draw);
    HostTensor w(f.in, v.filters * group_channels * positions, draw);
    HostTensor y(f.out, v.batch * v.filters * out_pixels);
    job.x = x.data();
    job.w = w.data();
    job.y = y.data();
    job.in = f.in;
    job.out = f.out;
    job.batch = v.batch;
    job.channels = v.channels;
    job.filters = v.filters;
    job.groups = v.groups;
    job.nhwc = nhwc;
    ASSERT_EQ(LaunchConv(job, nullptr), kOk);

    const FormatInfo& o = Info(f.out);
    const double u = integer ? 0 : f.in == DType::kF64 ? 0x1p-52 : 0x1p-24;
    for (std::int64_t b = 0; b < v.batch; ++b) {
      for (std::int64_t k = 0; k < v.filters; ++k) {
        for (std::int64_t p = 0; p < out_pixels; ++p) {
          const Axes at = {p / (job.output[1] * job.output[2]), p / job.output[2] % job.output[1],
                           p % job.output[2]};
          double want = 0, absolute = 0;
          for (std::int64_t c = 0; c < group_channels; ++c) {
            for (std::int64_t t = 0; t < positions; ++t) {
              const Axes tap = {t / (job.kernel[1] * job.kernel[2]),
                                t / job.kernel[2] % job.kernel[1], t % job.kernel[2]};
              std::int64_t pixel = 0;
              bool inside = true;
              for (std::size_t d = 0; d < 3; ++d) {
                const std::int64_t i = at[d] * v.stride[d] - v.padding[d] + tap[d] * v.dilation[d];
                inside = inside && i >= 0 && i < v.input[d];
                pixel = pixel * v.input[d] + i;
              }
              if (!inside) continue;
              const std::int64_t channel = k / group_filters * group_channels + c;
              const double product = x[nhwc ? (b * in_pixels + pixel) * v.channels + channel
                                            : (b * v.channels + channel) * in_pixels + pixel] *
                                     w[nhwc ? (k * positions + t) * group_channels + c
                                            : (k * group_channels + c) * positions + t];
              want += product;
              absolute += std::abs(product);
            }
          }
          const double e = static_cast<double>(group_channels * positions + 8) * u * absolute;
          const double bound = o.is_integer ? 0
                                            : o.unit_roundoff * std::abs(want) +
                                                  o.min_subnormal / 2 + (1 + o.unit_roundoff) * e;
          const double got =
              y[nhwc ? (b * out_pixels + p) * v.filters + k : (b * v.filters + k) * out_pixels + p];
          ASSERT_LE(std::abs(got - want), bound)
              << (nhwc ? "nhwc " : "nchw ") << b << "," << k << "," << p;
        }
      }
    }
  }
};

INSTANTIATE_TEST_SUITE_P(
    Forms, SimtConv,
    ::testing::Values(Form{32, DType::kF16, DType::kF16}, Form{64, DType::kBF16, DType::kF32},
                      Form{64, DType::kBF16, DType::kBF16}, Form{32, DType::kF32, DType::kF32},
                      Form{64, DType::kF64, DType::kF64}, Form{32, DType::kI8, DType::kI32},
                      Form{32, DType::kE4M3FN, DType::kF32}, Form{64, DType::kE5M2, DType::kF16}));

TEST_P(SimtConv, OneToThreeDimensions) {
  Check({.channels = 1, .filters = 1});
  Check({.batch = 2, .channels = 3, .filters = 5, .input = {1, 1, 65}, .kernel = {1, 1, 4}});
  Check({.batch = 2, .channels = 5, .filters = 66, .input = {1, 9, 11}, .kernel = {1, 3, 2}});
  Check({.channels = 2, .filters = 3, .input = {5, 6, 7}, .kernel = {2, 3, 1}});
}

TEST_P(SimtConv, StridePaddingDilation) {
  Check({.channels = 3,
         .filters = 4,
         .input = {1, 13, 17},
         .kernel = {1, 3, 5},
         .stride = {1, 2, 3},
         .padding = {0, 1, 2},
         .dilation = {1, 2, 1}});
  Check({.batch = 2,
         .channels = 2,
         .filters = 2,
         .input = {4, 5, 6},
         .kernel = {3, 3, 3},
         .stride = {2, 1, 2},
         .padding = {1, 2, 1},
         .dilation = {1, 2, 2}});
  // Output wider than the input.
  Check(
      {.channels = 1, .filters = 1, .input = {1, 1, 3}, .kernel = {1, 1, 2}, .padding = {0, 0, 3}});
}

TEST_P(SimtConv, Groups) {
  Check({.batch = 2,
         .channels = 6,
         .filters = 9,
         .groups = 3,
         .input = {1, 7, 8},
         .kernel = {1, 3, 3},
         .padding = {0, 1, 1}});
  Check({.channels = 7, .filters = 7, .groups = 7, .input = {1, 9, 9}, .kernel = {1, 3, 3}});
}

TEST_P(SimtConv, MoreFiltersPixelsAndTapsThanATile) {
  Check({.channels = 33,
         .filters = 70,
         .input = {1, 9, 10},
         .kernel = {1, 3, 3},
         .padding = {0, 1, 1}});
}

}  // namespace
}  // namespace assay::kernels::gpu
