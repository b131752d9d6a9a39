// Inputs that the host makes again are those of the specification, bit by bit: whatever was read
// before, in whatever order, of operands that are kept and of larger ones.
#include "kernels/validate/host_inputs.h"

#include <algorithm>
#include <bit>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/numerics/generate.h"

namespace assay {
namespace {

constexpr std::uint64_t kSeed = 7;

Operand Filled(const Pattern& pattern, DType dtype, const Extents& extents) {
  Operand o;
  o.dtype = dtype;
  o.extents = extents;
  o.pattern = pattern;
  return o;
}

double Specified(const Plan& plan, int operand, std::int64_t index) {
  const Operand& o = plan.inputs[static_cast<std::size_t>(operand)];
  return ToDouble(o.dtype,
                  GenerateElement(o.pattern, kSeed, static_cast<std::uint32_t>(operand),
                                  /*epoch=*/0, index, o.extents.rows, o.extents.cols, o.dtype));
}

void ExpectSpecified(const Plan& plan, const RegeneratedInputs& inputs, int operand,
                     std::int64_t begin, std::int64_t count) {
  std::vector<double> read(static_cast<std::size_t>(count), -77.0);
  inputs.Read(operand, begin, count, read.data());
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const double expected = Specified(plan, operand, begin + i);
    const auto bits = [](double v) { return std::bit_cast<std::uint64_t>(v); };
    wrong += bits(read[static_cast<std::size_t>(i)]) != bits(expected) ? 1 : 0;
  }
  EXPECT_EQ(wrong, 0) << operand << ": " << count << " from " << begin;
}

// Each kind of the specification's own code, and formats that are rounded to in different ways.
std::vector<Operand> Operands(const Extents& extents) {
  std::vector<Operand> operands;
  for (const DType t : {DType::kF64, DType::kF32, DType::kTF32, DType::kF16, DType::kBF16,
                        DType::kE4M3FNUZ, DType::kE2M1, DType::kI8}) {
    for (const Pattern& p :
         {*ParsePattern("normal", nullptr), *ParsePattern("uniform", nullptr),
          *ParsePattern("sparse", nullptr), *ParsePattern("denormal", nullptr),
          *ParsePattern("large-small", nullptr), UnitRows(), UnitColumns(),
          // Numbers that the formats round to 0, saturate or overflow.
          Pattern{PatternKind::kNormal, 0x1p-15, 0}, Pattern{PatternKind::kNormal, 0x1p-127, 0},
          Pattern{PatternKind::kNormal, 0x1p15, 3}, Pattern{PatternKind::kNormal, 0x1p126, 0},
          Pattern{PatternKind::kAllPositive, 2, 0}, Pattern{PatternKind::kExtremes, 80, 1},
          Pattern{PatternKind::kNearConstant, 1000, 1}, Pattern{PatternKind::kIntegers, -3, 100},
          Pattern{PatternKind::kExactSparse, 0.25, 0}, Pattern{PatternKind::kExactInts, 0.5, 2},
          Pattern{PatternKind::kEveryCode, 0, 0}, *ParsePattern("row-vary", nullptr), KeyCodes(4),
          KeyMask(true)}) {
      operands.push_back(Filled(p, t, extents));
    }
  }
  return operands;
}

TEST(HostInputs, AreTheSpecificationsInAnyOrder) {
  Plan plan;
  plan.inputs = Operands({.batch = 2, .rows = 37, .cols = 29, .ld = 29});
  const std::int64_t size = plan.inputs[0].extents.count();
  const RegeneratedInputs inputs(plan, kSeed);
  std::mt19937_64 engine(3);
  for (int operand = 0; operand < static_cast<int>(plan.inputs.size()); ++operand) {
    for (int i = 0; i < 60; ++i) {
      // Single elements, stretches, and at last all of them.
      const std::int64_t begin = i < 59 ? static_cast<std::int64_t>(engine() % size) : 0;
      const std::int64_t most = i < 20 ? 1 : i < 40 ? 130 : size;
      const std::int64_t rest = std::min(most, size - begin);
      const std::int64_t count =
          i < 59 ? 1 + static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(rest))
                 : size;
      ExpectSpecified(plan, inputs, operand, begin, count);
    }
  }
}

TEST(HostInputs, StretchesThatAllThreadsDrawAreTheSpecifications) {
  Plan plan;
  for (const std::int64_t rows : {RegeneratedInputs::kMostKept / 8, std::int64_t{200'001}}) {
    plan.inputs.push_back(Filled(*ParsePattern("normal", nullptr), DType::kF32,
                                 {.batch = 1, .rows = rows, .cols = 8, .ld = 8}));
  }
  ASSERT_EQ(plan.inputs[0].extents.count(), RegeneratedInputs::kMostKept);
  ASSERT_GT(plan.inputs[1].extents.count(), RegeneratedInputs::kMostKept);
  const RegeneratedInputs inputs(plan, kSeed);
  for (const int operand : {0, 1}) {
    const std::int64_t size = plan.inputs[static_cast<std::size_t>(operand)].extents.count();
    ExpectSpecified(plan, inputs, operand, 999, 1);
    ExpectSpecified(plan, inputs, operand, 3, 100'001);
    ExpectSpecified(plan, inputs, operand, 50'000, 100'000);
    ExpectSpecified(plan, inputs, operand, size - 65, 65);
  }
}

}  // namespace
}  // namespace assay
