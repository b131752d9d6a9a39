// The right output, made from the reference, and whether it is biased as the kernel's is.
#include "kernels/judge/rounded_reference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/judge/verdict.h"
#include "kernels/numerics/convert.h"
#include "kernels/numerics/poison.h"
#include "tests/unit/judge/forwarding_device.h"

namespace assay {
namespace {

// The CPU, which refuses a copy on request: the call-th from the host, or to it.
class RefusingDevice : public testing::ForwardingDevice {
 public:
  absl::Status FromHost(const void* src, std::int64_t bytes, void* dst) override {
    if (--from_host == 0) return refusal;
    return cpu_->FromHost(src, bytes, dst);
  }
  absl::Status ToHost(const TensorView& t, std::int64_t b, std::int64_t n, void* d) override {
    if (--to_host == 0) return refusal;
    return cpu_->ToHost(t, b, n, d);
  }
  absl::StatusOr<CompareResult> Compare(const CompareRequest& request) override {
    asked = request;
    if (!compares.ok()) return compares;
    return cpu_->Compare(request);
  }
  int from_host = 0, to_host = 0;
  absl::Status refusal = absl::InternalError("refused");
  absl::Status compares;
  CompareRequest asked;
};

TEST(RoundedReference, IsTheReferenceInTheOutputsFormat) {
  const Extents shapes[] = {{2, 3, 5, 7, 30},
                            Extents::Dense(1, 1, 1),
                            Extents::Dense(3, 47, 1001),
                            Extents::Dense(1, 2, 65536),
                            Extents::Dense(0, 3, 5)};
  for (const DType t : {DType::kF64, DType::kF32, DType::kF16, DType::kE4M3FN, DType::kE2M1}) {
    for (const Extents& e : shapes) {
      RefusingDevice device;
      std::vector<double> reference(static_cast<std::size_t>(e.count()));
      for (std::size_t i = 0; i < reference.size(); ++i) {
        reference[i] = 3 * std::sin(static_cast<double>(i) * 0.7);
      }
      const absl::StatusOr<TensorView> right =
          MakeRoundedReference(device, TensorView{nullptr, t, e}, reference.data());
      ASSERT_TRUE(right.ok()) << right.status();
      EXPECT_EQ(-device.from_host, (e.count() + 65535) / 65536) << "pieces";
      EXPECT_EQ(right->dtype, t);
      EXPECT_EQ(right->extents.batch, e.batch);
      EXPECT_EQ(right->extents.rows, e.rows);
      EXPECT_EQ(right->extents.cols, e.cols);
      EXPECT_TRUE(right->extents.dense());
      ASSERT_EQ(device.arena().blocks().size(), 1u);
      EXPECT_EQ(device.arena().blocks()[0].bytes, StorageBytes(t, e.count()));
      EXPECT_FALSE(device.arena().blocks()[0].guarded);
      for (std::int64_t i = 0; i < e.count(); ++i) {
        ASSERT_EQ(LoadBits(t, right->data, i),
                  RoundToFormat(reference[static_cast<std::size_t>(i)], t))
            << Name(t) << " " << i;
      }
    }
  }
}

TEST(RoundedReference, SaysWhyThereIsNone) {
  const std::vector<double> reference(150'000, 1.0);
  const TensorView output{nullptr, DType::kF32, Extents::Dense(1, 1, 150'000)};
  for (const int call : {1, 2, 3}) {
    RefusingDevice device;
    device.from_host = call;
    EXPECT_EQ(MakeRoundedReference(device, output, reference.data()).status(), device.refusal);
    device.from_host = 0;
    device.to_host = call;
    EXPECT_EQ(MakeRoundedReference(device, output, reference.data()).status(), device.refusal);
  }
  RefusingDevice device;
  const TensorView large{nullptr, DType::kF32, Extents::Dense(1, 1 << 15, 1 << 15)};
  EXPECT_TRUE(absl::IsResourceExhausted(MakeRoundedReference(device, large, nullptr).status()));
  EXPECT_TRUE(CannotHaveOne(absl::ResourceExhaustedError("")));
  EXPECT_TRUE(CannotHaveOne(absl::UnimplementedError("")));
  EXPECT_FALSE(CannotHaveOne(absl::InternalError("")));
  EXPECT_FALSE(CannotHaveOne(absl::OkStatus()));
}

// An output in fp16 of which every element lies `share` of an ulp, and up to a third, from the
// reference; rounded to nearest or away from it.
struct Biased {
  Biased(double share, bool away) {
    constexpr std::int64_t kCount = 20'000;
    for (std::int64_t i = 0; i < kCount; ++i) {
      const double ulps = share + 0.34 * std::sin(static_cast<double>(i));
      reference.push_back(1.5 + ulps * 0x1p-10);
      const double right = Quantise(reference.back(), DType::kF16);
      const double other = right + (right > reference.back() ? -1 : 1) * 0x1p-10;
      output.push_back(
          static_cast<std::uint16_t>(RoundToFormat(away ? other : right, DType::kF16)));
    }
    request.output = {output.data(), DType::kF16, Extents::Dense(1, 1, kCount)};
    request.reference = reference.data();
  }
  absl::StatusOr<bool> Ask(RefusingDevice& device) {
    CompareRequest quiet = request;
    found = device.Compare(quiet).value();
    return RightOutputIsBiased(device, request, found);
  }
  std::vector<double> reference;
  std::vector<std::uint16_t> output;
  CompareRequest request;
  CompareResult found;
};

TEST(RoundedReference, IsBiasedAsTheOutputIsOrNot) {
  for (const double share : {0.15, -0.15}) {
    RefusingDevice device;
    Biased same(share, false);
    EXPECT_TRUE(same.Ask(device).value()) << share;
    EXPECT_TRUE(LooksBiased(same.found));
    EXPECT_EQ(same.found.bias_sum > 0, share < 0);
    // It is not what was poisoned, and nobody wants its digest; the rest is as it was asked for.
    EXPECT_NE(device.asked.output.data, same.request.output.data);
    EXPECT_FALSE(device.asked.digests);
    EXPECT_FALSE(device.asked.poisoned);
    EXPECT_EQ(device.asked.reference, same.request.reference);
    EXPECT_TRUE(device.arena().blocks().empty());
    Biased other(share, true);
    EXPECT_FALSE(other.Ask(device).value()) << "to the other side";
    EXPECT_TRUE(LooksBiased(other.found));
  }
  // The right output is not, whose errors go either way.
  RefusingDevice device;
  Biased alone(0.15, false);
  alone.found = device.Compare(alone.request).value();
  for (std::size_t i = 0; i < alone.reference.size(); i += 2) {
    alone.reference[i] = 1.5 - (alone.reference[i] - 1.5);
  }
  EXPECT_FALSE(RightOutputIsBiased(device, alone.request, alone.found).value());
}

TEST(RoundedReference, IsNotMadeOfAnOutputThatIsNotBiased) {
  RefusingDevice device;
  Biased none(0, false);
  device.to_host = 1;
  EXPECT_FALSE(none.Ask(device).value());
  EXPECT_EQ(device.to_host, 1) << "nothing was read";
}

TEST(RoundedReference, IsNotBiasedWhereItCannotBeMade) {
  Biased biased(0.15, false);
  {
    RefusingDevice device;
    device.from_host = 1;
    device.refusal = absl::UnimplementedError("takes nothing");
    EXPECT_FALSE(biased.Ask(device).value());
    EXPECT_TRUE(device.arena().blocks().empty());
  }
  {
    RefusingDevice device;
    device.from_host = 1;
    EXPECT_EQ(biased.Ask(device).status(), device.refusal);
    EXPECT_TRUE(device.arena().blocks().empty());
  }
  RefusingDevice device;
  const CompareResult found = device.Compare(biased.request).value();
  device.compares = absl::InternalError("no comparison");
  EXPECT_EQ(RightOutputIsBiased(device, biased.request, found).status(), device.compares);
  EXPECT_TRUE(device.arena().blocks().empty());
}

}  // namespace
}  // namespace assay
