// The references of reduce, elementwise and rope for GPUs under the emulator, held to the plain
// ones.
#include <algorithm>

#include "simt/references.h"

namespace assay {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr DType kFormats[] = {DType::kF64, DType::kF32, DType::kF16, DType::kBF16, DType::kE4M3FN};

class SimtElementReference : public SimtReference {};
INSTANTIATE_TEST_SUITE_P(Waves, SimtElementReference, ::testing::Values(32, 64));

ReduceProblem Reduce(std::string kind, IntList shape, std::int64_t axis = -1) {
  return {.extents = std::move(shape), .axis = axis, .kind = std::move(kind)};
}

TEST_P(SimtElementReference, ReductionsAtAwkwardSizes) {
  for (const DType t : kFormats) {
    for (const char* kind : {"sum", "max", "argmax"}) {
      for (const std::int64_t n : {1, 2, 255, 256, 257, 1030}) {
        ExpectPlain(MakeCase(Reduce(kind, {3, n}), t));
        ExpectPlain(MakeCase(Reduce(kind, {n, 5}, 0), t));
        ExpectPlain(MakeCase(Reduce(kind, {2, 3, n}, 1), t));
      }
    }
  }
  ExpectPlain(MakeCase(Reduce("sum", {3, 300}), DType::kI8));
  ExpectPlain(MakeCase(Reduce("max", {3, 300}), DType::kI8));
}

TEST_P(SimtElementReference, ReductionsOfHardSlices) {
  const auto of = [](std::int64_t i) -> double {
    switch (i / 300) {
      case 0:
        return static_cast<double>(i % 3);
      case 1:
        return i == 577 || i == 390 ? std::nan("") : kInf;
      case 2:
        return -kInf;
      case 3:
        return i % 2 == 0 ? kInf : -kInf;
      default:
        return -1 - static_cast<double>(i % 4);
    }
  };
  for (const char* kind : {"sum", "max", "argmax"}) {
    ExpectPlain(MakeCase(Reduce(kind, {5, 300}), DType::kF32),
                [&](int, std::int64_t i) { return of(i); });
    ExpectPlain(MakeCase(Reduce(kind, {300, 5}, 0), DType::kF32),
                [&](int, std::int64_t i) { return of(i % 5 * 300 + i / 5); });
  }
}

// Where any index of a largest element is right, the output's own is taken if it is one.
TEST_P(SimtElementReference, AnArgmaxOfAnyTieFollowsItsOutput) {
  for (const std::int64_t axis : {0, 1}) {
    ReduceProblem p = Reduce("argmax", axis == 1 ? IntList{4, 300} : IntList{300, 4}, axis);
    p.ties = "any";
    const Case c = MakeCase(p, DType::kF16);
    const Plan plan = PlanOf(c);
    const Tensors tensors(plan, [&](int, std::int64_t i) {
      const std::int64_t at = axis == 1 ? i % 300 : i / 4;
      return at % 7 == 3 ? 2.0 : 1.0;
    });
    std::vector<std::int32_t> output = {3, 298 / 7 * 7 - 4, 4, -9};
    std::vector<double> value(4);
    ReferenceBuffers out{value.data()};
    out.output = {output.data(), DType::kI32, plan.output.extents};
    ASSERT_TRUE(references_.Reference(c, plan, *device_, tensors.views(), out).ok());
    EXPECT_EQ(value, (std::vector<double>{3, 290, 3, 3})) << axis;
  }
}

TEST_P(SimtElementReference, ElementsAtAwkwardSizes) {
  for (const DType t : kFormats) {
    for (const char* kind : {"add", "silu_mul", "gelu", "gelu_tanh"}) {
      for (const bool broadcast : {false, true}) {
        for (const std::int64_t cols : {1, 255, 257}) {
          const ElementwiseProblem p = {
              .rows = 3, .cols = cols, .kind = kind, .broadcast = broadcast};
          if (!p.Check().empty()) continue;
          ExpectPlain(MakeCase(p, t));
        }
      }
    }
  }
}

TEST_P(SimtElementReference, RotationsAtAwkwardSizes) {
  for (const DType t : kFormats) {
    for (const bool interleaved : {false, true}) {
      for (const std::int64_t dim : {2, 6, 130}) {
        ExpectPlain(MakeCase(RopeProblem{.batch = 2,
                                         .seq = 5,
                                         .heads = 3,
                                         .dim = dim,
                                         .interleaved = interleaved,
                                         .start = 1000},
                             t));
      }
    }
  }
}

// Exact cases have no allowance.
TEST_P(SimtElementReference, ExactCasesHaveNoAllowance) {
  for (const Problem& problem : {Problem(Reduce("sum", {3, 300})),
                                 Problem(ElementwiseProblem{.rows = 3, .cols = 40, .kind = "gelu"}),
                                 Problem(RopeProblem{.seq = 3, .dim = 40})}) {
    Case c = MakeCase(problem, DType::kF32);
    const Op& op = OpOf(problem);
    const std::vector<KernelProbe> probes = op.Probes(c, PlanOf(c));
    const auto exact = std::find_if(probes.begin(), probes.end(),
                                    [](const KernelProbe& p) { return p.data.exact; });
    ASSERT_NE(exact, probes.end());
    const Plan plan = *op.MakePlan(exact->data);
    ASSERT_TRUE(plan.exact);
    ExpectPlain(exact->data, plan,
                [](int, std::int64_t i) { return 16 + static_cast<double>(i % 9); });
  }
}

}  // namespace
}  // namespace assay
