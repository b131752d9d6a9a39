// The convolution reference for GPUs under the emulator, held to the plain one.
#include "simt/references.h"

namespace assay {
namespace {

class SimtConvReference : public SimtReference {};
INSTANTIATE_TEST_SUITE_P(Waves, SimtConvReference, ::testing::Values(32, 64));

ConvProblem Problem(IntList input, IntList kernel) {
  ConvProblem p;
  p.batch = 2;
  p.channels = 6;
  p.filters = 10;
  p.input = std::move(input);
  p.kernel = std::move(kernel);
  return p;
}

TEST_P(SimtConvReference, FormatsAndLayouts) {
  for (const char* layout : {"nchw", "nhwc"}) {
    ConvProblem p = Problem({9, 11}, {3, 2});
    p.layout = layout;
    p.padding = {1};
    for (const DType t : kProductFormats) ExpectPlain(MakeCase(p, t));
  }
}

TEST_P(SimtConvReference, EveryShape) {
  for (const char* layout : {"nchw", "nhwc"}) {
    for (ConvProblem p : {Problem({150}, {5}), Problem({1}, {1}), Problem({4, 5, 6}, {2, 3, 1})}) {
      p.layout = layout;
      ExpectPlain(MakeCase(p, DType::kF16));
      p.padding = {2};
      p.stride = {2};
      p.groups = 2;
      ExpectPlain(MakeCase(p, DType::kF32));
      p.dilation = {2};
      p.padding = {3};
      ExpectPlain(MakeCase(p, DType::kBF16));
    }
    ConvProblem p = Problem({10, 12}, {3, 3});
    p.layout = layout;
    p.stride = {1, 2};
    p.padding = {2, 0};
    p.dilation = {3, 1};
    p.filters = 70;  // more than a tile
    ExpectPlain(MakeCase(p, DType::kF16));
    p.groups = 2;
    p.filters = 140;
    ExpectPlain(MakeCase(p, DType::kE4M3FN));
    p.groups = 6;  // depthwise
    p.filters = 6;
    ExpectPlain(MakeCase(p, DType::kF64));
  }
}

// What lies in the padding is no element: not even an infinite weight makes it NaN there,
// and only there.
TEST_P(SimtConvReference, InfiniteWeightsOverPadding) {
  for (const char* layout : {"nchw", "nhwc"}) {
    ConvProblem p = Problem({5, 20}, {3, 3});
    p.layout = layout;
    p.padding = {1};
    for (const double w : {HUGE_VAL, std::nan("")}) {
      ExpectPlain(MakeCase(p, DType::kF32), [&](int operand, std::int64_t i) {
        if (operand == 1 && i == 54) return w;
        return static_cast<double>(i % 7) - 3;
      });
    }
    ExpectPlain(MakeCase(p, DType::kF32), [](int operand, std::int64_t i) {
      return operand == 0 && i == 100 ? HUGE_VAL : static_cast<double>(i % 7) - 3;
    });
  }
}

TEST_P(SimtConvReference, ExactCasesToTheBit) {
  Case c = MakeCase(Problem({9, 9}, {3, 3}), DType::kBF16);
  c.exact = true;
  const Plan plan = PlanOf(c);
  const Tensors tensors(plan,
                        [](int, std::int64_t i) { return static_cast<double>(i * 5 % 9 - 4); });
  const PlainResult plain = PlainReference(ConvOp(), c, plan, tensors);
  const Result result = Run(c, plan, tensors);
  EXPECT_EQ(result.value, plain.value);
  for (const double e : result.allowance) EXPECT_EQ(e, kUnwritten);
}

TEST_P(SimtConvReference, TooManyTermsAreRefused) {
  ConvProblem p;
  p.channels = std::int64_t{1} << 31;
  p.filters = 1;
  p.input = {1};
  p.kernel = {1};
  const Case c = MakeCase(p, DType::kF64);
  const Plan plan = PlanOf(c);
  const TensorView none[2] = {};
  ReferenceBuffers out;
  EXPECT_EQ(references_.Reference(c, plan, *device_, none, out).code(),
            absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace assay
