// Counts and moments of inputs, worked out by hand.
#include "kernels/judge/input_stats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "kernels/judge/pieces.h"
#include "kernels/numerics/convert.h"
#include "tests/unit/judge/forwarding_device.h"

namespace assay {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

class FailingDevice : public testing::ForwardingDevice {
 public:
  absl::Status ToHost(const TensorView& t, std::int64_t b, std::int64_t n, void* d) override {
    if (fails) return absl::InternalError("lost");
    return cpu_->ToHost(t, b, n, d);
  }
  bool fails = false;
};

// The statistics of each list as an operand of its own.
std::vector<OperandStats> Measure(std::vector<std::vector<double>> operands, DType t) {
  FailingDevice device;
  Plan plan;
  std::vector<TensorView> views;
  std::vector<std::vector<unsigned char>> memory(operands.size());
  for (std::size_t k = 0; k < operands.size(); ++k) {
    const auto n = static_cast<std::int64_t>(operands[k].size());
    memory[k].resize(static_cast<std::size_t>(StorageBytes(t, n)) + 8);
    for (std::int64_t i = 0; i < n; ++i) {
      StoreBits(t, memory[k].data(), i, RoundToFormat(operands[k][static_cast<std::size_t>(i)], t));
    }
    plan.inputs.emplace_back().name = k == 0 ? "a" : "b";
    views.push_back({memory[k].data(), t, Extents::Dense(1, 1, n)});
  }
  return MeasureInputs(device, plan, views).value();
}

TEST(InputStats, CountAndMeasureEveryOperand) {
  const std::vector<OperandStats> all =
      Measure({{kNaN, 2, -3, kInf, 0, -0.0, 0x1p-20, kNaN, -kInf, 4, -kInf, 0x1p-14}, {-1, -2, -2}},
              DType::kF16);
  ASSERT_EQ(all.size(), 2u);
  const OperandStats& a = all[0];
  EXPECT_EQ(a.name, "a");
  EXPECT_EQ(a.count, 12);
  EXPECT_EQ(a.nan_count, 2);
  EXPECT_EQ(a.inf_count, 3);
  EXPECT_EQ(a.zero_count, 2);
  EXPECT_EQ(a.subnormal_count, 1) << "2^-14 is normal";
  EXPECT_EQ(a.min, -3);
  EXPECT_EQ(a.max, 4);
  EXPECT_DOUBLE_EQ(*a.mean, (3 + 0x1p-20 + 0x1p-14) / 7);
  EXPECT_DOUBLE_EQ(*a.rms, std::sqrt((4 + 9 + 16 + 0x1p-40 + 0x1p-28) / 7));
  const OperandStats& b = all[1];
  EXPECT_EQ(b.name, "b");
  EXPECT_EQ(b.count, 3);
  EXPECT_EQ(b.nan_count + b.inf_count + b.zero_count + b.subnormal_count, 0);
  EXPECT_EQ(b.min, -2);
  EXPECT_EQ(b.max, -1);
  EXPECT_DOUBLE_EQ(*b.mean, -5.0 / 3);
  EXPECT_DOUBLE_EQ(*b.rms, std::sqrt(3.0));
}

TEST(InputStats, SayNothingOfNothing) {
  const std::vector<OperandStats> all = Measure({{kNaN, kInf}, {}}, DType::kF32);
  for (const OperandStats& s : all) {
    EXPECT_FALSE(s.min.has_value());
    EXPECT_FALSE(s.max.has_value());
    EXPECT_FALSE(s.mean.has_value());
    EXPECT_FALSE(s.rms.has_value());
  }
  EXPECT_EQ(all[0].nan_count, 1);
  EXPECT_EQ(all[0].inf_count, 1);
  EXPECT_EQ(all[1].count, 0);
  EXPECT_EQ(Measure({{5}}, DType::kF32)[0].min, 5);
}

TEST(InputStats, ReadLargeOperandsPieceByPiece) {
  for (const std::int64_t extra : {std::int64_t{0}, std::int64_t{1}, kPiece - 1}) {
    std::vector<double> values(static_cast<std::size_t>(2 * kPiece + extra), 1.0);
    values.front() = 0;
    values[static_cast<std::size_t>(kPiece)] = -7;
    values.back() = 9;
    const OperandStats s = Measure({values}, DType::kE2M1)[0];  // 6 is the largest number
    EXPECT_EQ(s.count, 2 * kPiece + extra);
    EXPECT_EQ(s.zero_count, 1);
    EXPECT_EQ(s.min, -6);
    EXPECT_EQ(s.max, 6);
    EXPECT_DOUBLE_EQ(*s.mean * static_cast<double>(s.count), static_cast<double>(s.count) - 3);
  }
}

TEST(InputStats, HandOnWhatTheDeviceSays) {
  FailingDevice device;
  device.fails = true;
  Plan plan;
  plan.inputs.emplace_back();
  float value = 1;
  const std::vector<TensorView> views = {{&value, DType::kF32, Extents::Dense(1, 1, 1)}};
  EXPECT_EQ(MeasureInputs(device, plan, views).status(), absl::InternalError("lost"));
}

}  // namespace
}  // namespace assay
