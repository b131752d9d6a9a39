#include "tests/experiments/sums.h"

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "kernels/numerics/convert.h"

namespace assay::experiment {
namespace {

template <bool kFused>
[[gnu::always_inline]] inline F Add(const F& s, float a, const float* b) {
  if constexpr (kFused) return Fma(All(a), Load(b), s);
  return s + All(a) * Load(b);
}

template <bool kFused>
F Chain(const float* a, const float* b, std::int64_t k) {
  F s = All(0);
  for (std::int64_t i = 0; i < k; ++i) s = Add<kFused>(s, a[i], b + i * kPanel);
  return s;
}

F Backwards(const float* a, const float* b, std::int64_t k) {
  F s = All(0);
  for (std::int64_t i = k - 1; i >= 0; --i) s = Add<true>(s, a[i], b + i * kPanel);
  return s;
}

// Adjacent partial sums of equal length are added, as in a tournament.
F Pairwise(const float* a, const float* b, std::int64_t k) {
  std::array<F, 64> open;
  int count = 0;
  for (std::int64_t i = 0; i < k; ++i) {
    open[static_cast<std::size_t>(count++)] = All(a[i]) * Load(b + i * kPanel);
    for (std::int64_t done = i + 1; (done & 1) == 0; done >>= 1) {
      --count;
      const auto last = static_cast<std::size_t>(count);
      open[last - 1] = open[last - 1] + open[last];
    }
  }
  while (count > 1) {
    --count;
    const auto last = static_cast<std::size_t>(count);
    open[last - 1] = open[last - 1] + open[last];
  }
  return open[0];
}

// Two or four products are added first, then the sum of them to the accumulator.
template <int kGroup>
F Grouped(const float* a, const float* b, std::int64_t k) {
  F s = All(0);
  for (std::int64_t i = 0; i < k; i += kGroup) s = s + Chain<true>(a + i, b + i * kPanel, kGroup);
  return s;
}

template <int kBlock>
F Blocks(const float* a, const float* b, std::int64_t k) {
  F s = All(0);
  for (std::int64_t i = 0; i < k; i += kBlock) {
    s = s + Chain<true>(a + i, b + i * kPanel, std::min<std::int64_t>(kBlock, k - i));
  }
  return s;
}

// kLanes accumulators take the products in turn; a tree adds them at the end.
template <int kLanes>
F Lanes(const float* a, const float* b, std::int64_t k) {
  std::array<F, kLanes> s;
  s.fill(All(0));
  for (std::int64_t i = 0; i < k; i += kLanes) {
    for (int j = 0; j < kLanes; ++j) {
      F& lane = s[static_cast<std::size_t>(j)];
      lane = Add<true>(lane, a[i + j], b + (i + j) * kPanel);
    }
  }
  for (std::size_t half = kLanes / 2; half > 0; half /= 2) {
    for (std::size_t j = 0; j < half; ++j) s[j] = s[j] + s[j + half];
  }
  return s[0];
}

template <int kParts, bool kFused>
F Split(const float* a, const float* b, std::int64_t k) {
  F s = All(0);
  for (std::int64_t part = 0; part < kParts; ++part) {
    const std::int64_t from = k * part / kParts;
    s = s + Chain<kFused>(a + from, b + from * kPanel, k * (part + 1) / kParts - from);
  }
  return s;
}

F Kahan(const float* a, const float* b, std::int64_t k) {
  F s = All(0);
  F lost = All(0);
  for (std::int64_t i = 0; i < k; ++i) {
    const F term = All(a[i]) * Load(b + i * kPanel) - lost;
    const F next = s + term;
    lost = (next - s) - term;
    s = next;
  }
  return s;
}

D WideProduct(float a, const float* b) { return Wide(All(a)) * Wide(Load(b)); }

F InDouble(const float* a, const float* b, std::int64_t k) {
  D s = Wide(All(0));
  for (std::int64_t i = 0; i < k; ++i) s = s + WideProduct(a[i], b + i * kPanel);
  return Nearest(s);
}

// kBlock products are added exactly and with the accumulator; the sum is truncated.
template <int kBlock>
F ExactThenTruncate(const float* a, const float* b, std::int64_t k) {
  F s = All(0);
  for (std::int64_t i = 0; i < k; i += kBlock) {
    D block = WideProduct(a[i], b + i * kPanel);
    for (int j = 1; j < kBlock; ++j) block = block + WideProduct(a[i + j], b + (i + j) * kPanel);
    s = Truncate(block + Wide(s));
  }
  return s;
}

template <int kBlock, int kKept, int kFurther, int kPromoted>
F MatrixUnit(const float* a, const float* b, std::int64_t k) {
  F promoted = All(0);
  F s = All(0);
  for (std::int64_t i = 0; i < k; i += kBlock) {
    if constexpr (kPromoted > 0) {
      if (i > 0 && i % kPromoted == 0) {
        promoted = promoted + s;
        s = All(0);
      }
    }
    s = Aligned<kBlock, kKept, kFurther>(s, a + i, b + i * kPanel);
  }
  return kPromoted > 0 ? promoted + s : s;
}
// Inputs of 8 bits in blocks of 32, or of all products if there are 16 alone.
template <int kFurther, int kPromoted>
F Narrow(const float* a, const float* b, std::int64_t k) {
  if (k % 32 != 0) return MatrixUnit<16, 14, kFurther, kPromoted>(a, b, k);
  return MatrixUnit<32, 14, kFurther, kPromoted>(a, b, k);
}
template <int kBlock, int kFurther>
constexpr Sum kUnit = MatrixUnit<kBlock, 24, kFurther, 0>;

// Defects.

// The accumulator has 16 bits; blocks of 16 products are added in fp32 before.
template <int kDrop>
F NarrowSums(const float* a, const float* b, std::int64_t k) {
  F s = All(0);
  for (std::int64_t i = 0; i < k; i += 16) {
    s = Round16<kDrop>(s + Chain<true>(a + i, b + i * kPanel, 16));
  }
  return s;
}

// Each operand is the sum of two bf16, and the product of the two small parts is left out.
F TwoBF16(const float* a, const float* b, std::int64_t k) {
  F s = All(0);
  for (std::int64_t i = 0; i < k; ++i) {
    const F x = All(a[i]);
    const F y = Load(b + i * kPanel);
    const F x_high = Round16<16>(x);
    const F y_high = Round16<16>(y);
    s = Fma(Round16<16>(x - x_high), y_high, s);
    s = Fma(x_high, Round16<16>(y - y_high), s);
    s = Fma(x_high, y_high, s);
  }
  return s;
}

F WithoutLast(const float* a, const float* b, std::int64_t k) { return Chain<true>(a, b, k - 1); }

// Rounds half a unit away from zero, as cvt.rna does.
float ToTF32(float v) {
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(v) + 0x1000) & 0xffffe000);
}
float ThroughFP16(float v) { return static_cast<float>(Quantise(v, DType::kF16)); }
float ThroughBF16(float v) { return static_cast<float>(Quantise(v, DType::kBF16)); }
template <int kMillionths>
float Gain(float v) {
  return static_cast<float>(static_cast<double>(v) * (1 + 1e-6 * kMillionths));
}

using enum Unit;
constexpr Algorithm kRight[] = {
    {"sequential", kNearest, Chain<false>},
    {"sequential fma", kNearest, Chain<true>, 0, true, nullptr, nullptr, true},
    {"backwards fma", kNearest, Backwards},
    {"pairwise", kNearest, Pairwise, 0, true, nullptr, nullptr, true},
    {"groups of 4", kNearest, Grouped<4>},
    {"blocks of 32", kNearest, Blocks<32>, 0, true, nullptr, nullptr, true},
    {"blocks of 512", kNearest, Blocks<512>},
    {"lanes 8", kNearest, Lanes<8>, 0, true, nullptr, nullptr, true},
    {"lanes 16", kNearest, Lanes<16>},
    {"split 2", kNearest, Split<2, false>},
    {"split 4", kNearest, Split<4, true>},
    {"split 16", kNearest, Split<16, true>, 0, true, nullptr, nullptr, true},
    {"split 64", kNearest, Split<64, true>},
    {"kahan", kNearest, Kahan},
    {"fp64", kNearest, InDouble},
    {"unit 4+0", kTruncating, kUnit<4, 0>},
    {"unit 4+1", kTruncating, kUnit<4, 1>},
    {"unit 4+2", kTruncating, kUnit<4, 2>},
    {"unit 8+0", kTruncating, kUnit<8, 0>, 0, true, nullptr, nullptr, true},
    {"unit 8+1", kTruncating, kUnit<8, 1>},
    {"unit 8+2", kTruncating, kUnit<8, 2>},
    {"unit 16+0", kTruncating, kUnit<16, 0>},
    {"unit 16+1", kTruncating, kUnit<16, 1>},
    {"unit 16+2", kTruncating, kUnit<16, 2>},
    {"unit 8 exact", kTruncating, ExactThenTruncate<8>},
    {"14 bits+0, 128", kNarrow, Narrow<0, 128>, 128, true, nullptr, nullptr, true},
    {"14 bits+1, 128", kNarrow, Narrow<1, 128>, 128},
    {"14 bits+2, 128", kNarrow, Narrow<2, 128>, 128},
    {"14 bits+0, never", kNarrow, Narrow<0, 0>, 0, true, nullptr, nullptr, true},
    {"14 bits+1, never", kNarrow, Narrow<1, 0>},
    {"14 bits+2, never", kNarrow, Narrow<2, 0>},
};

constexpr Algorithm kDefects[] = {
    {"TF32 inputs", kNearest, Chain<true>, 0, false, ToTF32},
    {"bf16x2", kNearest, TwoBF16, 0, false},
    {"fp16 sums, blocks of 16", kNearest, NarrowSums<13>, 0, false},
    {"last product left out", kNearest, WithoutLast, 0, false},
    {"gain 2e-5", kNearest, Lanes<16>, 0, false, nullptr, Gain<20>},
    {"gain 1e-6", kNearest, Lanes<16>, 0, false, nullptr, Gain<1>},
    {"truncating every step", kNearest, ExactThenTruncate<1>, 0, false},
    {"output through fp16", kNearest, Lanes<16>, 0, false, nullptr, ThroughFP16},
    {"output through bf16", kNearest, Lanes<16>, 0, false, nullptr, ThroughBF16},
};

constexpr Algorithm kDefects16[] = {
    {"fp16 sums, blocks of 16", kNearest, NarrowSums<13>, 0, false},
    {"bf16 sums, blocks of 16", kNearest, NarrowSums<16>, 0, false},
    {"last product left out", kNearest, WithoutLast, 0, false},
    {"gain 1e-3", kNearest, Lanes<16>, 0, false, nullptr, Gain<1000>},
    {"gain 1e-4", kNearest, Lanes<16>, 0, false, nullptr, Gain<100>},
    {"gain 2e-5", kNearest, Lanes<16>, 0, false, nullptr, Gain<20>},
    {"output through fp16", kNearest, Lanes<16>, 0, false, nullptr, ThroughFP16},
    {"output through bf16", kNearest, Lanes<16>, 0, false, nullptr, ThroughBF16},
};

}  // namespace

std::span<const Algorithm> RightAlgorithms() { return kRight; }
std::span<const Algorithm> DefectsOfFP32() { return kDefects; }
std::span<const Algorithm> DefectsOf16Bits() { return kDefects16; }

}  // namespace assay::experiment
