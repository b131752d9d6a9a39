// The built-in GPU dequant_softmax under the emulator, held to the operator's bound at
// awkward sizes, and nothing outside its output written.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "kernels/ops/common/sampling.h"
#include "kernels/ops/common/view_inputs.h"
#include "kernels/providers/builtin/dequant_softmax_builtin_gpu.h"
#include "kernels/simt/engine.h"
#include "tests/unit/ops/tensors.h"

namespace assay::inline kernels::gpu {
namespace {

struct Form {
  int wave;
  DType in;
  DType out;
};

class SimtDequantSoftmax : public ::testing::TestWithParam<Form> {
 protected:
  SimtDequantSoftmax() {
    simt::CurrentConfig() = simt::Config{};
    simt::CurrentConfig().wave_width = GetParam().wave;
    simt::TakeFaults();
  }
  ~SimtDequantSoftmax() override { simt::CurrentConfig() = simt::Config{}; }

  static std::size_t Bytes(DType t, std::int64_t count) {
    return static_cast<std::size_t>(StorageBytes(t, count));
  }

  // Launches on values(operand, index) with rows padded by `pad`, and holds the output to
  // the plain reference. Every buffer is of exactly its size, so that the address sanitizer
  // sees its ends.
  void Run(const DequantSoftmaxProblem& p, std::int64_t pad,
           const std::function<double(int, std::int64_t)>& values, std::int64_t blocks = 256) {
    SCOPED_TRACE(p.Describe());
    const Form& f = GetParam();
    Case c = MakeCase(p, f.in);
    c.out_dtype = f.out;
    Plan plan = PlanOf(c);
    for (std::size_t i = 0; i < 2; ++i) {
      Extents& e = plan.inputs[i].extents;
      e.ld = e.cols + pad;
      e.batch_stride = e.rows * e.ld;
    }
    const Tensors tensors(plan, values);
    const PlainResult right = PlainReference(DequantSoftmaxOp(), c, plan, tensors);
    const auto exactly = [](const TensorView& v) {
      const auto* from = static_cast<const unsigned char*>(v.data);
      const std::int64_t span = (v.extents.rows - 1) * v.extents.ld + v.extents.cols;
      return std::vector<unsigned char>(from, from + StorageBytes(v.dtype, span));
    };
    const std::vector<unsigned char> a = exactly(tensors.views()[0]);
    const std::vector<unsigned char> w = exactly(tensors.views()[1]);
    const std::vector<unsigned char> s = exactly(tensors.views()[2]);
    const std::int64_t y_ld = p.n + pad;
    std::vector<unsigned char> y(Bytes(f.out, p.m * y_ld), 0xA5);
    std::vector<float> logits(static_cast<std::size_t>(p.m * p.n), std::nanf(""));
    DequantSoftmaxJob job;
    job.a = a.data();
    job.w = reinterpret_cast<const std::int8_t*>(w.data());
    job.scale = reinterpret_cast<const float*>(s.data());
    job.y = y.data();
    job.logits = logits.data();
    job.in = f.in;
    job.out = f.out;
    job.m = p.m;
    job.n = p.n;
    job.k = p.k;
    job.a_ld = plan.inputs[0].extents.ld;
    job.w_ld = plan.inputs[1].extents.ld;
    job.y_ld = y_ld;
    job.transpose_w = p.transpose_w;
    job.fewest_blocks = blocks;
    ASSERT_EQ(LaunchDequantSoftmax(job, nullptr), kOk);
    for (const simt::Fault& fault : simt::TakeFaults()) ADD_FAILURE() << fault.message;
    const OutputRounding rounding = OutputRoundingOf(f.out);
    for (std::int64_t row = 0; row < p.m; ++row) {
      for (std::int64_t j = 0; j < p.n; ++j) {
        const auto at = static_cast<std::size_t>(row * p.n + j);
        const double got = LoadDouble(f.out, y.data(), row * y_ld + j);
        if (std::isnan(right.value[at])) {
          ASSERT_TRUE(std::isnan(got)) << row << "," << j;
          continue;
        }
        ASSERT_LE(std::abs(got - right.value[at]),
                  TBound(rounding, right.value[at], right.allowance[at]))
            << row << "," << j << ": " << got << ", right " << right.value[at];
      }
      for (std::size_t b = Bytes(f.out, row * y_ld + p.n); b < Bytes(f.out, (row + 1) * y_ld);
           ++b) {
        ASSERT_EQ(y[b], 0xA5) << "behind row " << row;
      }
    }
  }

  void Run(const DequantSoftmaxProblem& p, std::int64_t pad = 0, double sigma = 1,
           std::int64_t blocks = 256) {
    std::mt19937_64 random(static_cast<std::uint64_t>(p.n * 1000 + p.k));
    const double unit = 1 / (32 * std::sqrt(static_cast<double>(p.k)));
    Run(
        p, pad,
        [&](int operand, std::int64_t) -> double {
          if (operand == 0) return std::normal_distribution<double>(0, sigma)(random);
          if (operand == 1) return static_cast<double>(random() % 256) - 128;
          return std::uniform_real_distribution<double>(0.5 * unit, 1.5 * unit)(random);
        },
        blocks);
  }
};

INSTANTIATE_TEST_SUITE_P(
    Forms, SimtDequantSoftmax,
    ::testing::Values(Form{32, DType::kF32, DType::kF32}, Form{64, DType::kF32, DType::kF16},
                      Form{32, DType::kF16, DType::kF16}, Form{64, DType::kF16, DType::kF32},
                      Form{32, DType::kBF16, DType::kF32}, Form{64, DType::kBF16, DType::kBF16}));

TEST_P(SimtDequantSoftmax, AwkwardSizesHoldTheBound) {
  for (const std::int64_t n : {1, 31, 33, 63, 65, 1000, 1025}) {
    Run({.m = 3, .n = n, .k = 33});
    Run({.m = 2, .n = n, .k = 17, .transpose_w = true});
  }
  for (const std::int64_t k : {1, 31, 63, 65, 1000, 1025}) {
    Run({.m = 2, .n = 70, .k = k});
    Run({.m = 2, .n = 70, .k = k, .transpose_w = true});
  }
  for (const std::int64_t m : {1, 31, 63, 64, 65, 130}) Run({.m = m, .n = 40, .k = 20});
}

TEST_P(SimtDequantSoftmax, PaddedRowsAreLeftAlone) {
  Run({.m = 5, .n = 130, .k = 40}, 7);
  Run({.m = 66, .n = 65, .k = 33, .transpose_w = true}, 3);
}

// Bands of rows enough: the blocks that make them make their rows' softmax, too.
TEST_P(SimtDequantSoftmax, BlocksThatHaveTheirRowsToThemselves) {
  for (const std::int64_t n : {1, 63, 65, 200}) Run({.m = 130, .n = n, .k = 19}, 0, 1, 1);
  // Two bands, three blocks asked for: two a band, of four tiles of columns.
  Run({.m = 70, .n = 250, .k = 33, .transpose_w = true}, 5, 1, 3);
}

// exp of the logits themselves would overflow.
TEST_P(SimtDequantSoftmax, LargeLogitsAreShifted) { Run({.m = 3, .n = 200, .k = 64}, 0, 60.0); }

TEST_P(SimtDequantSoftmax, NonFiniteActivationsGiveNaNForTheirRowAndNoOther) {
  for (const double filled : {HUGE_VAL, -HUGE_VAL, std::nan("")}) {
    Run({.m = 3, .n = 90, .k = 20}, 0, [&](int operand, std::int64_t i) -> double {
      if (operand == 0) return i == 20 + 7 ? filled : 0.25 * static_cast<double>(i % 5 - 2);
      return operand == 1 ? static_cast<double>(i % 255 - 127) : 0.01;
    });
  }
}

}  // namespace
}  // namespace assay::kernels::gpu
