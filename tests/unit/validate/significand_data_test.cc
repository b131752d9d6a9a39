// Data of the significand probes: small numbers of one operand and large units of the other, so
// placed that each sum has one product at most.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "kernels/numerics/unit_places.h"
#include "kernels/ops/common/probe_data.h"
#include "kernels/ops/conv/conv_reference.h"
#include "kernels/validate/host_inputs.h"

namespace assay {
namespace {

// A split into parts, and a product with a factor, lose nothing of them.
TEST(SignificandData, NumbersAreFarBelowOneAndTheirProductsAreNot) {
  for (const DType t : {DType::kF64, DType::kF32, DType::kTF32, DType::kF16, DType::kBF16}) {
    for (const DType out : {DType::kF32, DType::kF16}) {
      for (const bool beyond : {false, true}) {
        for (const double factor : {1.0, 8.0}) {
          SCOPED_TRACE(testing::Message() << Name(t) << ' ' << Name(out) << ' ' << factor);
          Case c;
          c.dtype = t;
          c.out_dtype = out;
          const Significands data = SignificandData(c, beyond, factor);
          const double least = data.numbers.a;
          const bool far = beyond && out == DType::kF32;
          EXPECT_EQ(data.numbers.b, 3 * least);
          const bool small = out == DType::kF32 && t != DType::kF16;
          EXPECT_EQ(least * data.unit, far ? LargeProduct(t) : small ? 0x1p-14 : 1);
          EXPECT_LE(data.unit, LargestPowerOfTwo(t));
          if (t == DType::kF16) {
            EXPECT_GE(least / factor, Info(t).min_normal);
            EXPECT_LE(data.unit * factor, LargestPowerOfTwo(t));
            EXPECT_LE(3 * least * factor, Info(t).max_finite);
            if (far) continue;
            EXPECT_LT(least, factor == 1 ? 1e-4 : 1e-3);
          } else {
            EXPECT_LT(3 * least, NearZero(t).b);
            EXPECT_GT(least * 0x1p-24, Info(DType::kF32).min_normal);
            EXPECT_GT(data.unit, kBeyondHalf);
          }
        }
      }
    }
  }
}

// The data of the probe: no output sums two elements, and filters meet 1s under every tap.
TEST(SignificandData, NoFilterCoversTwoOnesAndEveryTapMeetsSome) {
  for (const bool last : {false, true}) {
    for (const std::int64_t stride : {1, 2, 3}) {
      for (const std::int64_t dilation : {1, 2}) {
        ConvProblem p;
        p.batch = 2;
        p.channels = 8;
        p.filters = 16;
        p.kernel = {3, 3};
        p.padding = {1};
        p.groups = 2;
        p.input = {24, 18};
        p.stride = {stride};
        p.dilation = {dilation};
        p.layout = last ? "nhwc" : "nchw";
        Case c;
        c.problem = p;
        c.dtype = DType::kF32;
        c.exact = true;
        c.significand = 1;
        const Plan plan = *ConvOp().MakePlan(c);
        const ConvShape s = MakeConvShape(p);
        std::vector<double> x(static_cast<std::size_t>(s.batch * s.channels * s.inputs()));
        RegeneratedInputs(plan, 1).Read(0, 0, static_cast<std::int64_t>(x.size()), x.data());
        std::vector<int> met(static_cast<std::size_t>(s.taps()));
        for (std::int64_t image = 0; image < s.batch; ++image) {
          for (std::int64_t at = 0; at < s.positions(); ++at) {
            for (std::int64_t group = 0; group < s.groups; ++group) {
              int ones = 0;
              for (std::int64_t tap = 0; tap < s.taps(); ++tap) {
                const std::int64_t y = at / s.output[2] * stride + tap / 3 * dilation - 1;
                const std::int64_t z = at % s.output[2] * stride + tap % 3 * dilation - 1;
                if (y < 0 || z < 0 || y >= s.input[1] || z >= s.input[2]) continue;
                const std::int64_t pixel = y * s.input[2] + z;
                for (std::int64_t i = 0; i < s.group_channels(); ++i) {
                  const std::int64_t channel = group * s.group_channels() + i;
                  const std::int64_t from =
                      last ? (image * s.inputs() + pixel) * s.channels + channel
                           : (image * s.channels + channel) * s.inputs() + pixel;
                  const bool one = x[static_cast<std::size_t>(from)] == kLargeUnit;
                  ones += one;
                  met[static_cast<std::size_t>(tap)] += one;
                }
              }
              ASSERT_LE(ones, 1) << "stride " << stride << " dilation " << dilation;
            }
          }
        }
        for (const int n : met) EXPECT_GT(n, 0) << "stride " << stride << " dilation " << dilation;
      }
    }
  }
}

}  // namespace
}  // namespace assay
