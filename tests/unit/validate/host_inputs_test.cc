// Inputs that the host makes again are those of the specification, bit by bit: whatever was read
// before, in whatever order, of operands that are kept and of larger ones, by this case or an
// earlier one.
#include "kernels/validate/host_inputs.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <numeric>
#include <random>
#include <utility>
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

DrawnElements OneOperand(std::int64_t size, std::int64_t known, DType dtype = DType::kF64) {
  DrawnElements drawn(size, dtype);
  std::vector<double> values(static_cast<std::size_t>(known));
  std::iota(values.begin(), values.end(), 0.0);
  drawn.Set(0, known, values.data());
  return drawn;
}

double Element(const DrawnElements& drawn, std::int64_t at) {
  double value = -77;
  drawn.Get(at, 1, &value);
  return value;
}

// Cases behind one another read other parts of the same operands.
TEST(KeptDraws, GiveTheSpecificationsElementsToEveryCase) {
  KeptDraws draws;
  std::mt19937_64 engine(5);
  std::int64_t bytes = 0;
  for (int i = 0; i < 20; ++i) {
    Plan plan;  // each case has its own
    plan.inputs = Operands({.batch = 2, .rows = 37, .cols = 29, .ld = 31, .batch_stride = 37 * 31});
    const auto size = static_cast<std::uint64_t>(plan.inputs[0].extents.count());
    {
      const RegeneratedInputs inputs(plan, kSeed, &draws);
      for (int operand = 0; operand < static_cast<int>(plan.inputs.size()); ++operand) {
        const std::uint64_t begin = engine() % size, count = 1 + engine() % (size - begin);
        ExpectSpecified(plan, inputs, operand, static_cast<std::int64_t>(begin),
                        static_cast<std::int64_t>(count));
      }
      EXPECT_EQ(draws.bytes(), 0) << "the case has them";
    }
    if (i > 0) {
      EXPECT_EQ(draws.bytes(), bytes) << "no operand is kept twice";
    }
    bytes = draws.bytes();
  }
  EXPECT_GT(bytes, 0);
}

TEST(KeptDraws, DoNotGiveOutWhatHasChanged) {
  constexpr std::int64_t kSize = KeptDraws::kFewest + 77, kKnown = KeptDraws::kFewest + 3;
  const DrawKey key = {1};
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    KeptDraws draws;
    const auto width = static_cast<std::int64_t>(dtype == DType::kF32 ? 4 : 8);
    for (const bool given_before : {false, true}) {
      for (const std::int64_t at : {std::int64_t{0}, kKnown / 2, kKnown - 1}) {
        DrawnElements drawn = OneOperand(kSize, kKnown, dtype);
        std::byte* const values = drawn.data();
        draws.Put(key, std::move(drawn));
        // A case had them, and drew no others.
        if (given_before) draws.Put(key, draws.Take(key));
        // The sign of a double is its last byte.
        values[at * width + width - 1] ^= std::byte{0x80};
        EXPECT_TRUE(draws.Take(key).empty()) << at;
        EXPECT_EQ(draws.bytes(), 0);
        // While a case had them.
        DrawnElements in_use = OneOperand(kSize, kKnown, dtype);
        in_use.data()[at * width] ^= std::byte{1};
        draws.Put(key, std::move(in_use));
        EXPECT_TRUE(draws.Take(key).empty()) << at;
      }
    }
    draws.Put(key, OneOperand(kSize, kKnown, dtype));
    const DrawnElements same = draws.Take(key);
    ASSERT_FALSE(same.empty());
    EXPECT_EQ(Element(same, kKnown - 1), static_cast<double>(kKnown - 1));
    EXPECT_TRUE(same.Knows(kKnown - 1));
    EXPECT_FALSE(same.Knows(kKnown));
    EXPECT_TRUE(draws.Take(key).empty()) << "one case has them";
  }
}

TEST(KeptDraws, DropTheOldestIfThereIsNoRoom) {
  constexpr std::int64_t kSize = KeptDraws::kFewest;
  KeptDraws draws(/*most_bytes=*/3 * OneOperand(kSize, 1).bytes());
  for (std::uint64_t i = 0; i < 5; ++i) draws.Put({i}, OneOperand(kSize, kSize));
  EXPECT_EQ(draws.bytes(), 3 * OneOperand(kSize, 1).bytes());
  draws.Put({2}, draws.Take({2}));  // now the newest
  draws.Put({5}, OneOperand(kSize, kSize));
  draws.Put({6}, OneOperand(4 * kSize, kSize));  // larger than all of the room
  draws.Put({7}, OneOperand(kSize - 1, kSize - 1));
  for (const std::uint64_t gone : {0, 1, 3, 6, 7}) {
    EXPECT_TRUE(draws.Take({gone}).empty()) << gone;
  }
  draws.Put({2}, OneOperand(kSize, 1));  // replaces it
  EXPECT_FALSE(draws.Take({2}).Knows(1));
  EXPECT_FALSE(draws.Take({4}).empty());
  draws.Clear();
  EXPECT_EQ(draws.bytes(), 0);
  EXPECT_TRUE(draws.Take({5}).empty());
}

TEST(KeptDraws, KnowAnOperandByAllThatDecidesItsElements) {
  const Operand own =
      Filled({PatternKind::kNormal, 1, 0}, DType::kF32, {.batch = 2, .rows = 3, .cols = 4});
  const DrawKey key = DrawKeyOf(own, 7, 1);
  EXPECT_NE(DrawKeyOf(own, 8, 1), key);
  EXPECT_NE(DrawKeyOf(own, 7, 0), key);
  const auto changed = [&](auto change) {
    Operand other = own;
    change(other);
    return DrawKeyOf(other, 7, 1) != key;
  };
  EXPECT_TRUE(changed([](Operand& o) { o.dtype = DType::kF16; }));
  EXPECT_TRUE(changed([](Operand& o) { o.pattern.kind = PatternKind::kUniform; }));
  EXPECT_TRUE(changed([](Operand& o) { o.pattern.a = 2; }));
  EXPECT_TRUE(changed([](Operand& o) { o.pattern.b = -0.0; }));
  EXPECT_TRUE(changed([](Operand& o) { o.extents.batch = 3; }));
  EXPECT_TRUE(changed([](Operand& o) { o.extents.rows = 4; }));
  EXPECT_TRUE(changed([](Operand& o) { o.extents.cols = 3; }));
  EXPECT_FALSE(changed([](Operand& o) { o.extents.ld = 9; })) << "elements have logical indices";
}

}  // namespace
}  // namespace assay
