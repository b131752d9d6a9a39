// The ceiling of matrix units beside a vendor's library: the faster of the loop and of its
// products, and what is known where there is no room for them.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "kernels/bench/gpu_ceilings.h"
#include "kernels/runtime/gpu/gpu_device.h"
#include "kernels/simt/engine.h"
#include "simt/host_control.h"

namespace assay {
namespace {

class ProductCeilings : public ::testing::Test {
 protected:
  ProductCeilings() {
    simt::CurrentConfig() = simt::Config{};
    simt::ResetHost();
    absl::StatusOr<std::unique_ptr<GpuDevice>> made =
        GpuDevice::Make(0, ArenaOptions{.max_bytes = 1 << 20});
    EXPECT_TRUE(made.ok()) << made.status();
    device_ = *std::move(made);
  }
  // Products that take no time, as many operations each as `operations` says of the edge.
  std::unique_ptr<Ceilings> With(double operations) {
    return MakeGpuCeilings(
        *device_, [this, operations](DType, std::int64_t n) -> absl::StatusOr<LargeProduct> {
          edges_.push_back(n);
          if (!refused_.ok()) return refused_;
          return LargeProduct{[this] { return ++launches_, launched_; },
                              operations * static_cast<double>(n)};
        });
  }

  std::unique_ptr<GpuDevice> device_;
  std::vector<std::int64_t> edges_;
  int launches_ = 0;
  absl::Status refused_;
  absl::Status launched_;
};

// There is no loop for tf32: the library's product is all there is.
TEST_F(ProductCeilings, AFormatWithoutALoopHasTheLibrarys) {
  const auto ceilings = With(1e9);
  const std::optional<Ceiling> tf32 = ceilings->Find(CeilingKind::kMatrix, DType::kTF32);
  ASSERT_TRUE(tf32.has_value());
  EXPECT_EQ(tf32->kind, CeilingKind::kMatrix);
  EXPECT_EQ(tf32->dtype, DType::kTF32);
  EXPECT_GT(tf32->per_second, 0);
  EXPECT_FALSE(tf32->suspect);
  EXPECT_EQ(edges_, (std::vector<std::int64_t>{4096, 8192}));
  EXPECT_GE(launches_, 2 * 8);  // one to warm up, then seven at least
  EXPECT_EQ(ceilings->Find(CeilingKind::kMatrix, DType::kTF32), tf32) << "it is kept";
  EXPECT_EQ(edges_.size(), 2U);
}

TEST_F(ProductCeilings, WithoutALibraryThereIsNone) {
  refused_ = absl::NotFoundError("no library");
  EXPECT_FALSE(With(1)->Find(CeilingKind::kMatrix, DType::kTF32).has_value());
  EXPECT_FALSE(MakeGpuCeilings(*device_)->Find(CeilingKind::kMatrix, DType::kTF32).has_value());
  refused_ = absl::OkStatus();
  launched_ = absl::InternalError("the launch failed");
  EXPECT_FALSE(With(1)->Find(CeilingKind::kMatrix, DType::kTF32).has_value());
}

// A case is timed while its kernel's operands lie in the arena with their guard bands: the bands of
// a product's workspace, never written, are none of its.
TEST_F(ProductCeilings, TheArenaIsAsBefore) {
  ASSERT_TRUE(device_->arena().Allocate(1000, /*guarded=*/true).ok());
  ASSERT_TRUE(device_->WriteGuards(Poison::kFirst).ok());
  const std::int64_t used = device_->arena().used_bytes();
  const auto ceilings =
      MakeGpuCeilings(*device_, [this](DType, std::int64_t) -> absl::StatusOr<LargeProduct> {
        // As a library's kernel takes its workspace.
        const absl::StatusOr<Block> workspace = device_->arena().Allocate(1 << 16, true);
        if (!workspace.ok()) return workspace.status();
        return LargeProduct{[] { return absl::OkStatus(); }, 1e15};
      });
  for (const CeilingKind kind : {CeilingKind::kMatrix, CeilingKind::kCopy, CeilingKind::kFma}) {
    ceilings->Find(kind, DType::kTF32);
    EXPECT_EQ(device_->arena().used_bytes(), used);
    EXPECT_EQ(device_->CheckGuards(Poison::kFirst).value_or(-1), 0);
  }
}

// The loop takes the emulator seconds: it is measured twice here, and never more.
TEST_F(ProductCeilings, TheFasterOfLoopAndProductsCounts) {
  const auto ceilings =
      MakeGpuCeilings(*device_, [](DType, std::int64_t n) -> absl::StatusOr<LargeProduct> {
        return LargeProduct{[] { return absl::OkStatus(); }, n == 4096 ? 1e-9 : 1e15};
      });
  const std::optional<Ceiling> faster = ceilings->Find(CeilingKind::kMatrix, DType::kF16);
  ASSERT_TRUE(faster.has_value());
  EXPECT_GT(faster->per_second, 1e15);
  EXPECT_FALSE(faster->suspect);
}

TEST_F(ProductCeilings, WithoutRoomForTheProductTheLoopsIsSuspect) {
  refused_ = absl::ResourceExhaustedError("the arena is full");
  const auto ceilings = With(1e15);
  EXPECT_FALSE(ceilings->Find(CeilingKind::kMatrix, DType::kTF32).has_value());
  const std::optional<Ceiling> alone = ceilings->Find(CeilingKind::kMatrix, DType::kBF16);
  ASSERT_TRUE(alone.has_value());
  EXPECT_TRUE(alone->suspect);
  EXPECT_GT(alone->per_second, 1e6);
  EXPECT_LT(alone->per_second, 1e15);
}

}  // namespace
}  // namespace assay
