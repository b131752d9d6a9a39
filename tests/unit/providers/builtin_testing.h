// Helps the tests of the built-in CPU kernels: a device that is only an arena, tensors of any
// format as doubles, and the judgement by the bound.
#ifndef ASSAY_TESTS_UNIT_PROVIDERS_BUILTIN_TESTING_H_
#define ASSAY_TESTS_UNIT_PROVIDERS_BUILTIN_TESTING_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <hwy/targets.h>

#include "kernels/numerics/convert.h"
#include "kernels/providers/builtin/builtin.h"

namespace assay {

class HeapArena : public Arena {
 public:
  absl::StatusOr<Block> Allocate(std::int64_t bytes, bool guarded) override {
    // Filled with NaNs, so that workspace read before it is written shows.
    memory_.emplace_back(static_cast<std::size_t>(bytes + kBlockAlignment), std::byte{0xff});
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.back().data());
    const auto aligned = (address + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment;
    blocks_.push_back(Block{reinterpret_cast<void*>(aligned), bytes, guarded});
    return blocks_.back();
  }
  void ResetTo(std::size_t kept) override {
    if (kept < blocks_.size()) blocks_.resize(kept), memory_.resize(kept);
  }
  std::int64_t Release() override { return 0; }
  std::int64_t capacity_bytes() const override { return 0; }
  std::int64_t used_bytes() const override { return 0; }
  std::int64_t leased_bytes() const override { return 0; }
  std::span<const Block> blocks() const override { return blocks_; }
  std::int64_t available_bytes(int) const override { return 0; }

 private:
  std::vector<std::vector<std::byte>> memory_;
  std::vector<Block> blocks_;
};

// Kernels ask a device for its arena and its properties only.
class HeapDevice : public Device {
 public:
  const DeviceInfo& info() const override { return info_; }
  Arena& arena() override { return arena_; }
  absl::Status Fill(const FillSpec&, const TensorView&) override { return None(); }
  absl::Status PoisonTensor(Poison, const TensorView&) override { return None(); }
  absl::Status GuardPadding(Poison, const TensorView&) override { return None(); }
  absl::StatusOr<std::int64_t> CheckPadding(Poison, const TensorView&) override { return None(); }
  absl::Status WriteGuards(Poison) override { return None(); }
  absl::StatusOr<std::int64_t> CheckGuards(Poison) override { return None(); }
  absl::StatusOr<CompareResult> Compare(const CompareRequest&) override { return None(); }
  absl::StatusOr<TensorDigest> Digest(const TensorView&) override { return None(); }
  absl::Status Copy(const TensorView&, const TensorView&) override { return None(); }
  absl::Status ToHost(const TensorView&, std::int64_t, std::int64_t, void*) override {
    return None();
  }
  absl::Status Synchronize() override { return absl::OkStatus(); }
  double Now() override { return 0; }

  // A tiny last-level cache makes kernels take their streaming path.
  void SetLastLevel(const std::string& bytes) { info_.properties["l3_bytes"] = bytes; }

 private:
  static absl::Status None() { return absl::UnimplementedError("not part of this device"); }
  DeviceInfo info_;
  HeapArena arena_;
};

// A tensor at a cache line, with 64 guard bytes on each side, stored in its format.
class TestTensor {
 public:
  TestTensor() = default;
  TestTensor(DType dtype, const Extents& extents)
      : dtype_(dtype),
        extents_(extents),
        size_(static_cast<std::size_t>(StorageBytes(dtype, extents.span())) + 128),
        lines_((size_ + 63) / 64) {
    std::memset(data(), GuardByte(Poison::kFirst), size_);
  }
  static TestTensor Dense(DType dtype, std::int64_t rows, std::int64_t cols,
                          std::int64_t batch = 1) {
    return TestTensor(dtype, Extents::Dense(batch, rows, cols));
  }

  TensorView view() { return TensorView{data() + 64, dtype_, extents_}; }
  std::int64_t count() const { return extents_.count(); }
  std::vector<std::byte> bytes() const { return {data(), data() + size_}; }

  // Element i of the logical order; Set rounds to nearest even.
  double Get(std::int64_t i) const { return At(Offset(i)); }
  void Set(std::int64_t i, double v) {
    std::byte* p = data() + 64 + StorageBytes(dtype_, Offset(i));
    if (dtype_ == DType::kF64) Put(p, v);
    if (dtype_ == DType::kF32) Put(p, static_cast<float>(v));
    if (dtype_ == DType::kF16) Put(p, static_cast<std::uint16_t>(RoundToFormat(v, dtype_)));
    if (dtype_ == DType::kBF16) Put(p, RoundBf16(static_cast<float>(v)));
    if (dtype_ == DType::kI8) Put(p, static_cast<std::int8_t>(v));
    if (dtype_ == DType::kI32) Put(p, static_cast<std::int32_t>(v));
  }
  // Every element, for loops that read them often.
  std::vector<double> Values() const {
    std::vector<double> all(static_cast<std::size_t>(count()));
    for (std::int64_t i = 0; i < count(); ++i) all[static_cast<std::size_t>(i)] = Get(i);
    return all;
  }
  void FillNormal(std::mt19937_64& rng, double sigma = 1.0, double mean = 0.0) {
    std::normal_distribution<double> normal(mean, sigma);
    for (std::int64_t i = 0; i < count(); ++i) Set(i, normal(rng));
  }
  void FillIntegers(std::mt19937_64& rng, int lo, int hi) {
    std::uniform_int_distribution<int> uniform(lo, hi);
    for (std::int64_t i = 0; i < count(); ++i) Set(i, uniform(rng));
  }
  void FillBytes(unsigned char b) {
    for (std::size_t i = 64; i < size_ - 64; ++i) data()[i] = std::byte{b};
  }
  // Bytes outside the logical elements still hold what the tensor was made with.
  bool GuardsWhole() const {
    for (std::size_t i = 0; i < 64; ++i) {
      if (data()[i] != std::byte{GuardByte(Poison::kFirst)}) return false;
      if (data()[size_ - 1 - i] != std::byte{GuardByte(Poison::kFirst)}) return false;
    }
    return true;
  }

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::byte* data() { return reinterpret_cast<std::byte*>(lines_.data()); }
  const std::byte* data() const { return reinterpret_cast<const std::byte*>(lines_.data()); }

  std::int64_t Offset(std::int64_t i) const {
    const std::int64_t plane = extents_.rows * extents_.cols;
    return i / plane * extents_.batch_stride + i % plane / extents_.cols * extents_.ld +
           i % extents_.cols;
  }
  double At(std::int64_t offset) const {
    const std::byte* p = data() + 64 + StorageBytes(dtype_, offset);
    switch (dtype_) {
      case DType::kF64:
        return Take<double>(p);
      case DType::kF32:
        return static_cast<double>(Take<float>(p));
      case DType::kF16:
        return ToDouble(dtype_, Take<std::uint16_t>(p));
      case DType::kBF16:
        return static_cast<double>(
            std::bit_cast<float>(static_cast<std::uint32_t>(Take<std::uint16_t>(p)) << 16));
      case DType::kI8:
        return Take<std::int8_t>(p);
      default:
        return Take<std::int32_t>(p);
    }
  }
  template <class T>
  static T Take(const std::byte* p) {
    T v;
    std::memcpy(&v, p, sizeof(v));
    return v;
  }
  template <class T>
  static void Put(std::byte* p, T v) {
    std::memcpy(p, &v, sizeof(v));
  }
  static std::uint16_t RoundBf16(float v) {
    const auto bits = std::bit_cast<std::uint32_t>(v);
    if (v != v) return static_cast<std::uint16_t>(bits >> 16 | 0x40);
    return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }

  DType dtype_ = DType::kUnspecified;
  Extents extents_;
  std::size_t size_ = 0;
  std::vector<Line> lines_;
};

// Makes the kernel and launches it twice over different garbage in the output:
// every element must be written, the same way both times, and nothing else.
inline void LaunchTwice(const KernelEntry& entry, const Case& c, HeapDevice& device,
                        std::vector<TestTensor*> inputs, TestTensor& output) {
  Plan plan;
  plan.output.dtype = output.view().dtype;
  plan.output.extents = output.view().extents;
  auto kernel = entry.make(c, plan, device);
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  std::vector<TensorView> views;
  for (TestTensor* t : inputs) views.push_back(t->view());
  TestTensor first = output;
  first.FillBytes(0x5a);
  ASSERT_TRUE((*kernel)->Launch(views, first.view()).ok());
  output.FillBytes(0xc3);
  ASSERT_TRUE((*kernel)->Launch(views, output.view()).ok());
  EXPECT_TRUE(first.GuardsWhole()) << "wrote outside the output";
  for (std::int64_t i = 0; i < output.count(); ++i) {
    const double a = first.Get(i);
    const double b = output.Get(i);
    ASSERT_EQ(std::bit_cast<std::uint64_t>(a), std::bit_cast<std::uint64_t>(b))
        << "element " << i << " differs between launches or is not written";
  }
}

// T of numerics.md 1 in the output's format for reference r and allowance E.
inline double Bound(DType out, double r, double allowance) {
  const FormatInfo& f = Info(out);
  if (f.is_integer) return 0;
  return f.unit_roundoff * std::abs(r) + f.min_subnormal / 2 + (1 + f.unit_roundoff) * allowance;
}

// The class of r rounded to the output's format, then |o − r| <= T.
inline void ExpectWithin(double o, double r, double allowance, DType out, std::int64_t i) {
  const FormatInfo& f = Info(out);
  if (std::isnan(r)) {
    ASSERT_TRUE(std::isnan(o)) << "element " << i << ": " << o << " where NaN was due";
    return;
  }
  if (!f.is_integer && std::abs(r) >= f.max_finite * (1 + f.unit_roundoff)) {
    ASSERT_EQ(o, std::copysign(INFINITY, r)) << "element " << i;
    return;
  }
  const double bound = Bound(out, r, allowance);
  ASSERT_TRUE(std::abs(o - r) <= bound) << "element " << i << ": " << o << ", right " << r
                                        << ", off by " << std::abs(o - r) << " of " << bound;
}

struct Form {
  DType in;
  DType out;
};

inline constexpr Form kFloatForms[] = {
    {DType::kF32, DType::kF32},   {DType::kF64, DType::kF64}, {DType::kF16, DType::kF16},
    {DType::kBF16, DType::kBF16}, {DType::kF16, DType::kF32}, {DType::kBF16, DType::kF32},
};

// fp64 kernels are judged by an fp64 reference: its own error counts too.
inline double ReferenceShare(DType in) { return in == DType::kF64 ? 2.0 : 1.0; }

// Every SIMD target of this build that the machine has, one a test run.
class BuiltinTest : public testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override { hwy::GetChosenTarget().Update(GetParam()); }
  void TearDown() override { hwy::GetChosenTarget().DeInit(); }

  HeapDevice device_;
  std::mt19937_64 rng_{20240607};
};

inline std::vector<std::int64_t> Targets() {
  std::vector<std::int64_t> all;
  for (const std::int64_t t : {HWY_SSE4, HWY_AVX2, HWY_AVX3}) {
    if ((hwy::SupportedTargets() & t) != 0) all.push_back(t);
  }
  return all;
}

inline std::string TargetOf(const testing::TestParamInfo<std::int64_t>& info) {
  return hwy::TargetName(info.param);
}

}  // namespace assay

#endif  // ASSAY_TESTS_UNIT_PROVIDERS_BUILTIN_TESTING_H_
