// The references of softmax, layer_norm and copy for GPUs under the emulator, held to the
// plain ones, and softmax's identities.
#include "kernels/ops/softmax/softmax_identities.h"
#include "simt/references.h"

namespace assay {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

class SimtRowReference : public SimtReference {};
INSTANTIATE_TEST_SUITE_P(Waves, SimtRowReference, ::testing::Values(32, 64));

TEST_P(SimtRowReference, SoftmaxAtAwkwardSizes) {
  for (const DType t : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16, DType::kE4M3FN}) {
    for (const std::int64_t cols : {1, 2, 31, 255, 256, 257, 1030}) {
      ExpectPlain(MakeCase(SoftmaxProblem{.rows = 3, .cols = cols}, t));
    }
  }
}

TEST_P(SimtRowReference, SoftmaxHoldsNarrowIntermediates) {
  for (const DType t : {DType::kF32, DType::kF16}) {
    const Case c = MakeCase(SoftmaxProblem{.rows = 2, .cols = 300}, t);
    Plan plan = PlanOf(c);
    plan.intermediate_roundoff = 0x1p-11;
    ExpectPlain(c, plan, RandomValues(plan));
  }
}

TEST_P(SimtRowReference, SoftmaxOfNonFiniteRows) {
  const Case c = MakeCase(SoftmaxProblem{.rows = 6, .cols = 300}, DType::kF32);
  ExpectPlain(c, [](int, std::int64_t i) -> double {
    switch (i / 300) {
      case 0:
        return i == 270 ? std::nan("") : 1.0;
      case 1:
        return i == 300 + 299 ? kInf : 1.0;
      case 2:
        return -kInf;
      case 3:
        return i % 2 == 0 ? -kInf : 3.0;
      case 4:
        return 1000.0 - static_cast<double>(i % 300);
      default:
        return -1000.0;
    }
  });
}

// Longer than what shared memory holds at a time, in orders that make the roundings of a sum add
// up: σ_β is as large as it is by what the orders of the sum lose.
TEST_P(SimtRowReference, SoftmaxDeviationsOfRowsInOrder) {
  constexpr std::int64_t kCols = 2500;
  for (const DType t : {DType::kF32, DType::kF16}) {
    const Case c = MakeCase(SoftmaxProblem{.rows = 5, .cols = kCols}, t);
    const Plan plan = PlanOf(c);
    const auto values = [&](int, std::int64_t i) -> double {
      const double at = static_cast<double>(i % kCols);
      switch (i / kCols) {
        case 0:
          return -at / 200;
        case 1:
          return at / 200;
        case 2:
          return 0.75;
        case 3:
          return i % kCols % 7 == 0 ? -kInf : std::sin(at);
        default:
          return i % kCols == 2499 ? 90 : std::sin(at);  // all weight is on the last
      }
    };
    ExpectPlain(c, plan, values);
    const Result result = Run(c, plan, Tensors(plan, values));
    ASSERT_EQ(result.row_gain.size(), 5U);
    for (const float gain : result.row_gain) EXPECT_GT(gain, 0x1p-24F);
    for (const float offset : result.row_offset) EXPECT_EQ(offset, 0);
    EXPECT_EQ(result.deviation[3 * kCols + 7], 0);  // -inf: the model says nothing of it
  }
}

TEST_P(SimtRowReference, NormsAtAwkwardSizes) {
  for (const DType t : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16, DType::kE4M3FN}) {
    for (const std::int64_t cols : {1, 2, 33, 256, 257, 1030}) {
      for (const bool rms : {false, true}) {
        ExpectPlain(MakeCase(
            LayerNormProblem{.rows = 3, .cols = cols, .affine = cols % 2 == 0, .rms = rms}, t));
      }
    }
  }
}

// Longer than what shared memory holds at a time, in orders that make the roundings of a sum add
// up, and with tails so heavy that Welford's update loses most.
TEST_P(SimtRowReference, NormDeviationsOfRowsInOrder) {
  constexpr std::int64_t kCols = 2500;
  for (const DType t : {DType::kF32, DType::kF16}) {
    for (const auto& [affine, rms] : {std::pair(false, false), {true, false}, {true, true}}) {
      const Case c =
          MakeCase(LayerNormProblem{.rows = 6, .cols = kCols, .affine = affine, .rms = rms}, t);
      const Plan plan = PlanOf(c);
      const auto values = [&](int operand, std::int64_t i) -> double {
        const double at = static_cast<double>(i % kCols), wave = std::sin(at * at);
        if (operand > 0) return 1 + wave / 2;
        switch (i / kCols) {
          case 0:
            return at / 200;
          case 1:
            return 3 + at / 2000;
          case 2:
            return std::pow(wave, 31) * 30;  // κ is above 6
          case 3:
            return 0.75;
          case 4:
            return i % kCols == 2499 ? 100 : wave / 100;
          default:
            return wave;
        }
      };
      ExpectPlain(c, plan, values);
      const Result result = Run(c, plan, Tensors(plan, values));
      EXPECT_GT(result.deviation[0], 0);
      ASSERT_EQ(result.row_gain.size(), affine && !rms ? 0U : 6U);
    }
  }
}

// A mean that is large beside the spread, constant rows, a row with an outlier in front,
// and rows that are not finite.
TEST_P(SimtRowReference, NormsOfHardRows) {
  for (const bool rms : {false, true}) {
    const Case c =
        MakeCase(LayerNormProblem{.rows = 6, .cols = 300, .affine = true, .rms = rms}, DType::kF32);
    ExpectPlain(c, [](int operand, std::int64_t i) -> double {
      const double small = std::sin(static_cast<double>(i));
      if (operand > 0) return small;
      switch (i / 300) {
        case 0:
          return 1000 + small;
        case 1:
          return -0.1;
        case 2:
          return i == 600 ? 1e6 : small;
        case 3:
          return i == 1100 ? kInf : small;
        case 4:
          return i == 1300 ? std::nan("") : small;
        default:
          return -1000 + small;
      }
    });
  }
}

// Copies have no arithmetic: every format's values come back to the bit.
TEST_P(SimtRowReference, CopiesOfEveryFormat) {
  for (int t = 1; t < kDTypeCount; ++t) {
    const auto dtype = static_cast<DType>(t);
    const Case c = MakeCase(CopyProblem{.count = 1000}, dtype);
    if (!Check(c).empty()) continue;
    const Plan plan = PlanOf(c);
    ExpectPlain(c, plan,
                [](int, std::int64_t i) { return 3.0 * std::sin(static_cast<double>(i)); });
  }
}

class SimtSoftmaxIdentities : public SimtReference {
 protected:
  // Both ways for an output that `change` was made to, which must agree.
  std::vector<Identity> Check(DType dtype,
                              const std::function<void(std::vector<double>&)>& change) {
    const Case c = MakeCase(SoftmaxProblem{.rows = 7, .cols = 300}, dtype);
    const Plan plan = PlanOf(c);
    const Tensors tensors(plan, RandomValues(plan));
    Result right = Run(c, plan, tensors);
    std::vector<double> values = right.value;
    change(values);
    Plan outputs = plan;
    outputs.inputs = {plan.output};
    const Tensors y(outputs,
                    [&](int, std::int64_t i) { return values[static_cast<std::size_t>(i)]; });
    const ReferenceBuffers reference{right.value.data(), right.allowance.data()};
    const auto found =
        references_.CheckIdentities(c, plan, *device_, tensors.views(), y.views()[0], reference);
    EXPECT_TRUE(found.ok()) << found.status();
    const auto plain = CheckSoftmaxRows(c, plan, tensors.views(), y.views()[0], reference);
    EXPECT_EQ(found->size(), plain.size());
    for (std::size_t i = 0; i < plain.size(); ++i) {
      EXPECT_EQ((*found)[i].name, plain[i].name);
      EXPECT_EQ((*found)[i].count, plain[i].count);
      EXPECT_EQ((*found)[i].broken, plain[i].broken);
      // Sums of another order: the row and the claim are the same.
      EXPECT_EQ((*found)[i].message.substr(0, 10), plain[i].message.substr(0, 10));
    }
    return *found;
  }
};
INSTANTIATE_TEST_SUITE_P(Waves, SimtSoftmaxIdentities, ::testing::Values(32, 64));

TEST_P(SimtSoftmaxIdentities, RightRowsKeepThem) {
  for (const DType t : {DType::kF32, DType::kF16}) {
    for (const Identity& i : Check(t, [](std::vector<double>&) {})) EXPECT_EQ(i.broken, 0);
  }
}

TEST_P(SimtSoftmaxIdentities, WrongRowsAreCountedAndNamed) {
  const auto found = Check(DType::kF32, [](std::vector<double>& y) {
    y[3 * 300 + 7] = -0.25;
    y[5 * 300 + 299] = 1.5;
    y[6 * 300] = std::nan("");
  });
  EXPECT_EQ(found[0].broken, 3);
  EXPECT_EQ(found[0].message, "[3,7] is -0.25, not from 0 to 1");
  EXPECT_EQ(found[1].broken, 3);
  EXPECT_EQ(found[1].message.substr(0, 14), "row 3 sums to ");
}

}  // namespace
}  // namespace assay
