// The recheck on a GPU under the emulator: whatever the device has wrong of the elements
// that the host recomputed is counted, and the first of it shown.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/runtime/gpu/recheck_gpu.h"
#include "kernels/runtime/recheck_rule.h"
#include "simt/testing.h"

namespace assay::inline kernels::gpu {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

// An output with padding, its reference and allowance, and elements that agree with them.
class Desk {
 public:
  // Every `step`-th element of [2, 7, 95].
  Desk(DType dtype, std::int64_t count, std::int64_t step)
      : extents_{2, 7, 95, 101, 7 * 101 + 13},
        output_(dtype, extents_.span(), [](std::int64_t) { return -1.0; }) {
    request_.output = {output_.data(), dtype, extents_};
    for (std::int64_t i = 0; i < extents_.count(); ++i) {
      const double value = static_cast<double>(i % 5) / 2;
      reference_.push_back(value);
      allowance_.push_back(0.25);
      StoreBits(dtype, output_.data(), internal::StorageIndex(extents_, i),
                RoundToFormat(value, dtype));
    }
    for (std::int64_t i = 0; i < count; ++i) {
      const double value = reference_[static_cast<std::size_t>(i * step)];
      elements_.push_back({i * step, value, Quantise(value, dtype), 0.5, 0.25, false, 0.5});
    }
    request_.reference = reference_.data();
    request_.allowance = allowance_.data();
  }

  RecheckFindings Check() {
    RecheckFindings found{-7, -7, Disagreement::kNone, -7};
    EXPECT_EQ(LaunchRecheck(request_, elements_.data(), static_cast<std::int64_t>(elements_.size()),
                            &found, nullptr),
              kOk);
    return found;
  }

  HostElement& Host(std::int64_t place) { return elements_[static_cast<std::size_t>(place)]; }
  double& Reference(std::int64_t place) { return reference_[Index(place)]; }
  double& Allowance(std::int64_t place) { return allowance_[Index(place)]; }
  void SetOutput(std::int64_t place, double value) {
    const DType dtype = request_.output.dtype;
    StoreBits(dtype, output_.data(), internal::StorageIndex(extents_, Host(place).index),
              RoundToFormat(value, dtype));
  }
  RecheckRequest& request() { return request_; }

 private:
  std::size_t Index(std::int64_t place) { return static_cast<std::size_t>(Host(place).index); }

  const Extents extents_;
  HostTensor output_;
  std::vector<double> reference_, allowance_;
  std::vector<HostElement> elements_;
  RecheckRequest request_;
};

void ExpectFirst(const RecheckFindings& found, std::int64_t disagreements, std::int64_t first,
                 Disagreement what, double got) {
  EXPECT_EQ(found.disagreements, disagreements);
  EXPECT_EQ(found.first, first);
  EXPECT_EQ(found.what, what);
  EXPECT_EQ(found.got, got);
}

using SimtRecheck = SimtTest;

TEST_P(SimtRecheck, FindsWhatDisagreesWhereverItIs) {
  for (const std::int64_t count : {1, 31, 33, 63, 65, 256, 257, 1000}) {
    Desk desk(GetParam().in, count, 1);
    ExpectFirst(desk.Check(), 0, -1, Disagreement::kNone, 0);
    for (const std::int64_t place : {count - 1, count / 2, std::int64_t{0}}) {
      desk.Reference(place) += 4;
      // They were planted from the last to the first.
      const RecheckFindings found = desk.Check();
      EXPECT_EQ(found.first, place) << count;
      EXPECT_EQ(found.what, Disagreement::kReference);
      EXPECT_EQ(found.got, desk.Reference(place));
    }
    EXPECT_EQ(desk.Check().disagreements, count > 1 ? std::min<std::int64_t>(count, 3) : 1);
  }
}

TEST_P(SimtRecheck, ReferencesAreHeldToTheirClassAndBound) {
  Desk desk(GetParam().in, 300, 4);
  desk.Reference(7) += 0.5;  // which is the bound
  EXPECT_EQ(desk.Check().disagreements, 0);
  desk.Reference(7) += 0.001;
  EXPECT_EQ(desk.Check().disagreements, 1);
  desk.Reference(7) = kNan;
  EXPECT_EQ(desk.Check().what, Disagreement::kReference);
  EXPECT_TRUE(std::isnan(desk.Check().got));
  desk.Host(7).value = desk.Host(7).rounded = kNan;  // and then it is right
  desk.SetOutput(7, kNan);
  EXPECT_EQ(desk.Check().disagreements, 0);
  desk.Reference(7) = desk.Host(7).value = kInf;
  desk.Host(7).rounded = kInf;
  desk.SetOutput(7, kInf);
  EXPECT_EQ(desk.Check().disagreements, 0);
  desk.Reference(7) = -kInf;
  ExpectFirst(desk.Check(), 1, 7, Disagreement::kReference, -kInf);
}

TEST_P(SimtRecheck, AllowancesMayNotBeLarger) {
  Desk desk(GetParam().in, 300, 4);
  desk.Allowance(256) = 0.26;
  ExpectFirst(desk.Check(), 1, 256, Disagreement::kAllowance, 0.26);
  desk.Allowance(256) = kNan;
  EXPECT_EQ(desk.Check().what, Disagreement::kAllowance);
  desk.request().allowance = nullptr;
  EXPECT_EQ(desk.Check().disagreements, 0);
}

TEST_P(SimtRecheck, OutputsThatWereAcceptedAreLookedAt) {
  Desk desk(GetParam().in, 300, 4);
  desk.SetOutput(299, 16);
  ExpectFirst(desk.Check(), 1, 299, Disagreement::kOutput, 16);
  desk.SetOutput(31, kNan);
  EXPECT_EQ(desk.Check().disagreements, 2);
  EXPECT_EQ(desk.Check().first, 31);
  desk.SetOutput(31, kInf);
  EXPECT_EQ(desk.Check().disagreements, 2);
  desk.Host(31).may_overflow = true;
  EXPECT_EQ(desk.Check().disagreements, 1);
  desk.SetOutput(31, kNan);
  EXPECT_EQ(desk.Check().disagreements, 2);
  desk.request().output.data = nullptr;
  EXPECT_EQ(desk.Check().disagreements, 0);
}

TEST_P(SimtRecheck, ExactOutputsAreTheRoundedReference) {
  Desk desk(GetParam().in, 10, 1);
  desk.request().exact = true;
  desk.request().allowance = nullptr;
  for (int i = 0; i < 10; ++i) desk.Host(i).bound = desk.Host(i).reference_bound = 0;
  desk.Reference(2) = desk.Host(2).value = 1 + 0x1p-40;  // rounds to the output there is
  EXPECT_EQ(desk.Check().disagreements, 0);
  // What only rounding makes exact may come from another exp.
  desk.Reference(2) += 0x1p-52;
  EXPECT_EQ(desk.Check().what, Disagreement::kReference);
  desk.Host(2).reference_bound = 0x1p-40;
  EXPECT_EQ(desk.Check().disagreements, 0);
  desk.request().exact = false;
  EXPECT_EQ(desk.Check().what, Disagreement::kOutput);
}

INSTANTIATE_TEST_SUITE_P(Forms, SimtRecheck, kForms);

}  // namespace
}  // namespace assay::kernels::gpu
