// The built-in CPU kernels of reduce, elementwise and rope: within their operators' bounds in every
// format, at awkward sizes, on every instruction set of this processor.
#include <gtest/gtest.h>

#include <hwy/targets.h>

#include "tests/unit/ops/every_target.h"
#include "tests/unit/providers/provider_testing.h"

namespace assay::testing {
namespace {

constexpr DType kFormats[] = {DType::kF64,  DType::kF32,      DType::kTF32,
                              DType::kF16,  DType::kBF16,     DType::kE4M3FN,
                              DType::kE5M2, DType::kE4M3FNUZ, DType::kE5M2FNUZ};

void ExpectRight(const Problem& problem, DType in, DType out = DType::kUnspecified,
                 std::string pattern = "") {
  Case c;
  c.problem = problem;
  c.dtype = in;
  c.out_dtype = out;
  c.provider = "builtin";
  c.pattern = std::move(pattern);
  c.seed = 7;
  const CaseRun run(c, /*believe=*/true);
  EXPECT_TRUE(run.ran().right()) << DefaultName(c) << ": " << run.ran().Describe();
}

ReduceProblem Reduce(std::string kind, IntList shape, std::int64_t axis = -1) {
  return {.extents = std::move(shape), .axis = axis, .kind = std::move(kind)};
}

TEST(BuiltinReduce, IsRightInEveryFormatAndShape) {
  testing::OnEveryTarget([] {
    std::vector<DType> formats(std::begin(kFormats), std::end(kFormats));
    formats.push_back(DType::kI8);
    for (const DType t : formats) {
      for (const char* kind : {"sum", "max", "argmax"}) {
        for (const IntList& shape :
             {IntList{1}, {3, 5}, {4, 1031}, {2, 2048}, {2, 33, 300}, {1, 3, 2, 9}}) {
          for (std::int64_t axis = 0; axis < static_cast<std::int64_t>(shape.size()); ++axis) {
            ExpectRight(Reduce(kind, shape, axis), t);
          }
        }
      }
    }
  });
}

TEST(BuiltinReduce, WidensItsOutput) {
  for (const auto& [in, out] : {std::pair{DType::kF16, DType::kF32},
                                {DType::kBF16, DType::kF32},
                                {DType::kE4M3FN, DType::kBF16},
                                {DType::kE5M2, DType::kF16}}) {
    for (const char* kind : {"sum", "max"}) ExpectRight(Reduce(kind, {300, 70}), in, out);
  }
}

// Ties, whose first index wins, negative elements, and infinities.
TEST(BuiltinReduce, IsRightOnHardData) {
  for (const DType t : {DType::kF32, DType::kF16, DType::kE4M3FN, DType::kI8, DType::kF64}) {
    for (const char* kind : {"max", "argmax"}) {
      for (const std::int64_t axis : {0, 1}) {
        ExpectRight(Reduce(kind, {70, 75}, axis), t, DType::kUnspecified, "integers:-3:-1");
        ExpectRight(Reduce(kind, {70, 75}, axis), t, DType::kUnspecified, "zeros");
        if (t == DType::kI8) continue;
        ExpectRight(Reduce(kind, {70, 75}, axis), t, DType::kUnspecified, "one-large:-1000");
        if (t == DType::kE4M3FN) continue;
        ExpectRight(Reduce(kind, {70, 75}, axis), t, DType::kUnspecified, "all-neg-inf");
      }
    }
  }
}

TEST(BuiltinElementwise, IsRightInEveryFormatAndShape) {
  testing::OnEveryTarget([] {
    for (const DType t : kFormats) {
      for (const char* kind : {"add", "silu_mul", "gelu", "gelu_tanh"}) {
        for (const auto& [rows, cols] : {std::pair{1, 1}, {3, 7}, {5, 64}, {2, 2100}}) {
          for (const bool broadcast : {false, true}) {
            const ElementwiseProblem p = {
                .rows = rows, .cols = cols, .kind = kind, .broadcast = broadcast};
            if (broadcast && !p.has_b()) continue;
            ExpectRight(p, t);
            ExpectRight(p, t, DType::kUnspecified, "normal:30");
          }
        }
      }
    }
  });
}

TEST(BuiltinRope, IsRightInEveryFormatAndShape) {
  testing::OnEveryTarget([] {
    for (const DType t : kFormats) {
      for (const bool interleaved : {false, true}) {
        for (const std::int64_t dim : {2, 6, 64, 130}) {
          for (const std::int64_t start : {0, 30000}) {
            ExpectRight(RopeProblem{.batch = 2,
                                    .seq = 9,
                                    .heads = 3,
                                    .dim = dim,
                                    .interleaved = interleaved,
                                    .start = start},
                        t);
          }
        }
      }
    }
  });
}

TEST(BuiltinElements, RefuseFormatsThatTheyHaveNot) {
  for (const char* op : {"reduce", "elementwise", "rope"}) {
    const KernelEntry* entry = AllKernels().Find(op, "builtin", "cpu");
    ASSERT_NE(entry, nullptr) << op;
    EXPECT_EQ(std::count(entry->dtypes.begin(), entry->dtypes.end(), DType::kE2M1), 0);
    EXPECT_EQ(std::count(entry->dtypes.begin(), entry->dtypes.end(), DType::kF64), 1);
  }
}

}  // namespace
}  // namespace assay::testing
