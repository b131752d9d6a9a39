// A causal attention's first row sees one key alone: its output is that key's value.
#include <cmath>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/numerics/dtype.h"
#include "kernels/ops/attention/attention_probes.h"
#include "kernels/ops/case.h"
#include "kernels/ops/op.h"

namespace assay {
namespace {

constexpr std::int64_t kDim = 4;

// What is found where every head's first row has value `value` in each column and the
// kernel gave `actual`; query and key are `coordinate` everywhere.
Identity Check(DType dtype, double coordinate, double value, double actual) {
  Case c;
  c.problem = AttentionProblem{.heads = 2, .seq = 8, .dim = kDim, .causal = true};
  c.dtype = c.out_dtype = dtype;
  const auto found = CheckFirstRows(c, Plan(), dtype, [&](std::int64_t head, FirstRow& row) {
    const std::vector<double> same(kDim, coordinate);
    row = {same, same, std::vector<double>(kDim, value), std::vector<double>(kDim, value),
           std::vector<double>(kDim, value)};
    if (head == 1) row.actual[2] = actual;
    return absl::OkStatus();
  });
  EXPECT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->size(), 1u);
  return found->at(0);
}

TEST(FirstRow, TheKeysValueIsRight) {
  for (const DType t : {DType::kF32, DType::kF16, DType::kBF16}) {
    const Identity found = Check(t, 1, 1.5, 1.5);
    EXPECT_EQ(found.broken, 0);
    EXPECT_EQ(found.count, 2 * kDim);
  }
}

TEST(FirstRow, SixteenBitsHoldItToTheLast) {
  EXPECT_EQ(Check(DType::kF16, 1, 1.5, 1.5 + 0x1p-10).broken, 1);
  const Identity found = Check(DType::kBF16, 1, 1.5, 1.5 - 0x1p-7);
  EXPECT_EQ(found.broken, 1);
  EXPECT_EQ(found.message,
            "head 1 query 0 sees one key alone: column 2 is 1.4921875, that key's value is 1.5");
}

TEST(FirstRow, Fp32MayLoseWhatItsOwnScoreCosts) {
  const double ulp = 0x1p-23;
  // Score 2: a dozen roundoffs, no more.
  EXPECT_EQ(Check(DType::kF32, 1, 1.5, 1.5 * (1 + 5 * ulp)).broken, 0);
  EXPECT_EQ(Check(DType::kF32, 1, 1.5, 1.5 * (1 + 20 * ulp)).broken, 1);
  // Score 2·32²: exp2(fma(s, c, −m·c)) is off by as many roundoffs.
  EXPECT_EQ(Check(DType::kF32, 32, 1.5, 1.5 * (1 + 20 * ulp)).broken, 0);
  EXPECT_EQ(Check(DType::kF32, 32, 1.5, 1.5 * (1 + 3000 * ulp)).broken, 1);
}

TEST(FirstRow, NanRejects) {
  EXPECT_EQ(Check(DType::kF32, 1, 1.5, std::nan("")).broken, 1);
  EXPECT_EQ(Check(DType::kF16, 1, 1.5, 0.0).broken, 1);
}

}  // namespace
}  // namespace assay
