// Where two outputs differ, told from the whole of both; and how many launches agree.
#include "kernels/validate/repeats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/unit/judge/distorted.h"
#include "tests/unit/judge/forwarding_device.h"

namespace assay {
namespace {

using ::testing::ElementsAre;
using testing::GemmCase;
using ::testing::HasSubstr;
using testing::RunDistorted;

// Refuses the n-th read.
class FailingReads : public testing::ForwardingDevice {
 public:
  int left = 1 << 30;
  absl::Status ToHost(const TensorView& t, std::int64_t b, std::int64_t n, void* d) override {
    if (left-- == 0) return absl::DataLossError("the device is gone");
    return ForwardingDevice::ToHost(t, b, n, d);
  }
};

// Longer than what is read at once: 2^20 elements, and 20 rows of 1024 more.
const std::vector<std::int64_t> kDims = {2, 522, 1024};
constexpr std::int64_t kCount = 2 * 522 * 1024;

class LocateTest : public ::testing::Test {
 protected:
  LocateTest() : kept_(kCount, 0x3c00), output_(kept_) {}

  std::optional<Deviation> Located() {
    const Extents extents = Extents::Dense(2, 522, 1024);
    auto found = Locate(device_, {kept_.data(), DType::kF16, extents},
                        {output_.data(), DType::kF16, extents}, kDims);
    status_ = found.status();
    return found.value_or(std::nullopt);
  }

  std::vector<std::uint16_t> kept_, output_;
  FailingReads device_;
  absl::Status status_;
};

TEST_F(LocateTest, EqualOutputsHaveNoDeviation) {
  EXPECT_FALSE(Located().has_value());
  EXPECT_TRUE(status_.ok());
}

TEST_F(LocateTest, TheBlockHoldsEveryElementThatDiffers) {
  const std::int64_t first = 522 * 1024 - 1024 + 7;         // [0,521,7]
  const std::int64_t second = (std::int64_t{1} << 20) + 5;  // [1,502,5], read with the second part
  output_[static_cast<std::size_t>(second)] = 0x3c01;
  kept_[static_cast<std::size_t>(first)] = 0x4000;
  const std::optional<Deviation> d = Located();
  ASSERT_TRUE(d.has_value());
  EXPECT_EQ(d->elements, 2);
  EXPECT_EQ(d->first, first);
  EXPECT_EQ(d->first_bits, 0x4000u);
  EXPECT_EQ(d->deviating_bits, 0x3c00u);
  EXPECT_THAT(d->begin, ElementsAre(0, 502, 5));
  EXPECT_THAT(d->end, ElementsAre(2, 522, 8));
}

TEST_F(LocateTest, TheFirstAndTheLastElementAreLookedAt) {
  output_[0] = 0;
  EXPECT_EQ(Located()->first, 0);
  EXPECT_THAT(Located()->begin, ElementsAre(0, 0, 0));
  EXPECT_THAT(Located()->end, ElementsAre(1, 1, 1));
  output_[0] = kept_[0];
  output_[kCount - 1] = 0;
  EXPECT_EQ(Located()->first, kCount - 1);
  EXPECT_EQ(Located()->elements, 1);
  EXPECT_THAT(Located()->begin, ElementsAre(1, 521, 1023));
}

// Nor is what lies behind the last part: the first part's, which were read into the same memory.
TEST_F(LocateTest, AnElementIsCountedOnce) {
  const std::int64_t behind_the_last = kCount - (std::int64_t{1} << 20);
  output_[static_cast<std::size_t>(behind_the_last)] = 0;
  EXPECT_EQ(Located()->elements, 1);
}

TEST_F(LocateTest, ADeviceThatCannotBeReadIsAnError) {
  for (int read = 0; read < 4; ++read) {
    device_.left = read;
    Located();
    EXPECT_EQ(status_.code(), absl::StatusCode::kDataLoss) << read;
  }
}

TEST(DeviationText, NamesABlockOrOneElement) {
  Plan plan;
  plan.output.dtype = DType::kF16;
  plan.output.dims = {4, 8};
  Deviation d{.launch = 1200,
              .elements = 1,
              .first = 9,
              .first_bits = 0x3c00,
              .deviating_bits = 0x1,
              .begin = {1, 1},
              .end = {2, 2}};
  EXPECT_EQ(Text(d, plan),
            "launch 1,200 differs from the first in 1 element, [1,1]: 5.96046e-08 (0x0001) instead "
            "of 1 (0x3c00)");
  d.elements = 2;
  d.end = {2, 4};
  EXPECT_THAT(Text(d, plan), HasSubstr("in 2 elements, all in [1:2,1:4], the first [1,1]: "));
  plan.output.dtype = DType::kE2M1;
  EXPECT_THAT(Text(d, plan), HasSubstr("(0x1)")) << "four bits are one digit";
}

// Odd are those that are not the most frequent, whichever came first.
TEST(Repeats, CountTheLaunchesThatAreNotLikeTheMost) {
  struct Row {
    std::vector<int> kinds;  // of each launch
    int odd;
    bool deterministic;
    const char* first_odd;
  };
  for (const Row& row :
       {Row{{0, 0, 0, 0}, 0, true, ""}, Row{{0, 0, 1, 0}, 1, false, "launch 3 "},
        Row{{1, 0, 0, 0}, 1, false, "launch 2 "}, Row{{0, 1, 2, 1}, 2, false, "launch 2 "}}) {
    Case c = GemmCase(DType::kF32, 8, 8, 8);
    c.repeats = static_cast<int>(row.kinds.size());
    std::size_t launch = 0;
    const CaseOutcome outcome = RunDistorted(c, [&](std::vector<double>& v, const Plan&) {
      const int kind = launch < row.kinds.size() ? row.kinds[launch] : row.kinds.back();
      ++launch;
      if (kind > 0)
        v[5] =
            std::nextafterf(static_cast<float>(v[5]), 1e9F * static_cast<float>(kind - 1) - 1e8F);
    });
    EXPECT_EQ(outcome.launches, 4);
    EXPECT_EQ(outcome.odd_launches, row.odd);
    EXPECT_EQ(outcome.deterministic, row.deterministic);
    if (row.deterministic) continue;
    ASSERT_FALSE(outcome.findings.empty());
    EXPECT_THAT(outcome.findings[0].message, HasSubstr(row.first_odd));
    EXPECT_THAT(outcome.findings[0].message, HasSubstr("[0,5]"));
  }
}

TEST(Repeats, OneLaunchAgreesWithNothing) {
  Case c = GemmCase(DType::kF32, 8, 8, 8);
  int launches = 0;
  const CaseOutcome once = RunDistorted(c, [&](std::vector<double>&, const Plan&) { ++launches; });
  EXPECT_EQ(once.launches, 1);
  EXPECT_EQ(once.odd_launches, 0);
  EXPECT_FALSE(once.deterministic.has_value());
  c.repeats = 2;
  launches = 0;
  const CaseOutcome twice = RunDistorted(c, [&](std::vector<double>&, const Plan&) { ++launches; });
  EXPECT_GE(launches, 2);
  EXPECT_EQ(twice.launches, 2);
  EXPECT_EQ(twice.odd_launches, 0);
}

}  // namespace
}  // namespace assay
