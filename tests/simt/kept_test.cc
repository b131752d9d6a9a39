// Elements that a GPU keeps, and another output's that are held against them, under the
// emulator.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/runtime/compare_rule.h"
#include "kernels/runtime/gpu/kept_gpu.h"
#include "simt/testing.h"

namespace assay::inline kernels::gpu {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kLargest = 100;

class Desk {
 public:
  // Every other element of an output with padding, from the second on.
  Desk(DType dtype, std::int64_t count)
      : extents_{1, 2, count, count + 3, 2 * count + 6},
        dtype_(dtype),
        output_(dtype, extents_.span(), [](std::int64_t) { return 50.0; }),
        other_(dtype, extents_.span(), [](std::int64_t) { return 50.0; }) {
    for (std::int64_t i = 0; i < extents_.count(); ++i) {
      reference_.push_back(static_cast<double>(i % 4));
      allowance_.push_back(0.125);
      if (i % 2 == 1) at_.push_back(i);
      Set(output_, i, reference_.back());
      Set(other_, i, reference_.back());
    }
    request_.output = {output_.data(), dtype, extents_};
    request_.reference = reference_.data();
    request_.allowance = allowance_.data();
    request_.rule = {OutputRounding{0, 0}, 2, kLargest};  // 2·T is 0.5
  }

  std::int64_t count() const { return static_cast<std::int64_t>(at_.size()); }
  std::int64_t Index(std::int64_t place) const { return at_[static_cast<std::size_t>(place)]; }
  double& Reference(std::int64_t place) {
    return reference_[static_cast<std::size_t>(Index(place))];
  }
  void SetKept(std::int64_t place, double value) { Set(output_, Index(place), value); }
  void SetOther(std::int64_t place, double value) { Set(other_, Index(place), value); }
  // Those that are not kept.
  void SetUnlisted(double value) {
    for (std::int64_t i = 0; i < extents_.count(); i += 2) Set(other_, i, value);
  }
  KeepRequest& request() { return request_; }

  HeldCounts Hold() {
    std::vector<KeptElement> kept(at_.size());
    EXPECT_EQ(LaunchKeep(request_, at_.data(), count(), kept.data(), nullptr), kOk);
    HeldCounts counts{7, 7, 7, 7, {}};
    const TensorView other = {other_.data(), request_.output.dtype, extents_};
    EXPECT_EQ(LaunchHold(other, kept.data(), count(), &counts, nullptr), kOk);
    return counts;
  }

 private:
  void Set(HostTensor& tensor, std::int64_t index, double value) {
    StoreBits(dtype_, tensor.data(), internal::StorageIndex(extents_, index),
              RoundToFormat(value, dtype_));
  }

  const Extents extents_;
  const DType dtype_;
  HostTensor output_, other_;
  std::vector<double> reference_, allowance_;
  std::vector<std::int64_t> at_;
  KeepRequest request_;
};

using SimtKept = SimtTest;

TEST_P(SimtKept, EqualOutputsHoldAndOthersAreCountedWhereverTheyAre) {
  for (const std::int64_t count : {1, 31, 33, 63, 65, 1000}) {
    Desk desk(GetParam().in, count);
    desk.SetUnlisted(9);
    HeldCounts counts = desk.Hold();
    EXPECT_EQ(counts.compared, static_cast<unsigned long long>(desk.count()));
    EXPECT_EQ(counts.mismatches, 0u);
    unsigned long long planted = 0;
    for (std::int64_t place = desk.count() - 1; place >= 0; place -= 1 + desk.count() / 3) {
      desk.SetOther(place, 8);
      counts = desk.Hold();
      EXPECT_EQ(counts.mismatches, ++planted) << count;
      EXPECT_EQ(counts.first, static_cast<unsigned long long>(place));
      EXPECT_EQ(counts.actual, 8);
      EXPECT_EQ(counts.kept.index, desk.Index(place));
      EXPECT_EQ(counts.kept.value, desk.Reference(place));
      EXPECT_EQ(counts.kept.bound, 0.5);
    }
  }
}

TEST_P(SimtKept, TheBoundIsTwiceTheProvenOne) {
  Desk desk(GetParam().in, 40);
  desk.SetOther(3, desk.Reference(3) + 0.5);
  EXPECT_EQ(desk.Hold().mismatches, 0u);
  desk.SetOther(3, desk.Reference(3) + 0.5625);
  EXPECT_EQ(desk.Hold().mismatches, 1u);
  desk.SetOther(3, kNan);
  EXPECT_EQ(desk.Hold().mismatches, 1u);
  desk.SetOther(3, desk.Reference(3) + 0.5);
  desk.request().allowance = nullptr;
  EXPECT_EQ(desk.Hold().mismatches, 1u);
}

TEST_P(SimtKept, WhatIsNotFiniteOrMayOverflowIsLeftOut) {
  Desk desk(GetParam().in, 40);
  const auto all = static_cast<unsigned long long>(desk.count());
  desk.SetKept(0, kNan);
  desk.SetOther(0, 8);
  desk.Reference(1) = kNan;
  desk.SetOther(1, 8);
  desk.Reference(2) = -kLargest;
  desk.SetOther(2, 8);
  EXPECT_EQ(desk.Hold().compared, all - 3);
  EXPECT_EQ(desk.Hold().mismatches, 0u);
  desk.SetOther(2, kNan);  // which no overflow is
  EXPECT_EQ(desk.Hold().compared, all - 2);
  EXPECT_EQ(desk.Hold().mismatches, 1u);
}

INSTANTIATE_TEST_SUITE_P(Forms, SimtKept, kForms);

}  // namespace
}  // namespace assay::kernels::gpu
