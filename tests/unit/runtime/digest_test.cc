// Fast digests against the plain sum of the specification, on every target.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/numerics/digest.h"
#include "kernels/runtime/cpu/digest_cpu.h"
#include "kernels/runtime/cpu/fill_cpu.h"
#include "kernels/runtime/cpu/strided.h"
#include "tests/unit/runtime/targets.h"

namespace assay {
namespace {

constexpr DType kAll[] = {DType::kF64,      DType::kF32,    DType::kTF32,     DType::kF16,
                          DType::kBF16,     DType::kE4M3FN, DType::kE4M3FNUZ, DType::kE5M2,
                          DType::kE5M2FNUZ, DType::kE2M1,   DType::kI8,       DType::kI32};

// The definition, element by element.
TensorDigest PlainDigest(const TensorView& v) {
  const int width = Info(v.dtype).storage_bits;
  const std::int64_t per_word = 64 / width;
  TensorDigest d;
  for (std::int64_t w = 0; w * per_word < v.count(); ++w) {
    std::uint64_t raw = 0;
    std::uint64_t canonical = 0;
    for (std::int64_t k = 0; k < per_word && w * per_word + k < v.count(); ++k) {
      const std::uint64_t bits = LoadBits(v.dtype, v.data, OffsetOf(v.extents, w * per_word + k));
      raw |= bits << (k * width);
      canonical |= CanonicalBits(v.dtype, bits) << (k * width);
    }
    for (int s = 0; s < 2; ++s) {
      d.raw[s] += DigestTerm(raw, static_cast<std::uint64_t>(w), kDigestSeeds[s]);
      d.canonical[s] += DigestTerm(canonical, static_cast<std::uint64_t>(w), kDigestSeeds[s]);
    }
  }
  return d;
}

// Random bytes: every format's NaNs, infinities and negative zeros among them.
std::vector<unsigned char> RandomBytes(std::int64_t n) {
  std::mt19937_64 random(11);
  std::vector<unsigned char> bytes(static_cast<std::size_t>(n));
  for (auto& b : bytes) b = static_cast<unsigned char>(random() % 3 == 0 ? 0x80 : random());
  return bytes;
}

TEST(Digest, EqualsTheDefinitionOnEveryTarget) {
  ForEachTarget([](const char* target) {
    for (const DType dtype : kAll) {
      for (const Extents& e : {Extents::Dense(1, 1, 1), Extents::Dense(1, 7, 9),
                               Extents::Dense(1, 1, 1027), Extents{2, 5, 67, 71, 400}}) {
        auto bytes = RandomBytes(StorageBytes(dtype, e.span()) + 8);
        const TensorView v{bytes.data(), dtype, e};
        EXPECT_EQ(DigestCpu(v), PlainDigest(v))
            << target << " " << Name(dtype) << " " << e.rows << "x" << e.cols;
      }
    }
  });
}

// Every 16-bit pattern: the edges between numbers, infinities and NaNs among them.
TEST(Digest, CanonicalFormOfEveryCode) {
  std::vector<std::uint16_t> codes(65536);
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint16_t>(i);
  ForEachTarget([&](const char* target) {
    for (const DType dtype : kAll) {
      const std::int64_t count = 65536 * 16 / Info(dtype).storage_bits;
      const TensorView v{codes.data(), dtype, Extents::Dense(1, 1, count)};
      EXPECT_EQ(DigestCpu(v), PlainDigest(v)) << target << " " << Name(dtype);
    }
  });
}

TEST(Digest, ManyThreadsGiveTheSameSum) {
  for (const Extents& e : {Extents::Dense(1, 1, 100001), Extents{1, 300, 333, 335, 300 * 335}}) {
    auto bytes = RandomBytes(e.span() * 4);
    const TensorView v{bytes.data(), DType::kF32, e};
    EXPECT_EQ(DigestCpu(v), PlainDigest(v));
  }
}

TEST(Digest, PaddingIsNoPartAndEveryElementIs) {
  std::vector<std::uint16_t> a(3 * 8, 0x3c00);
  const TensorView padded{a.data(), DType::kF16, Extents{1, 3, 5, 8, 24}};
  std::vector<std::uint16_t> b(15, 0x3c00);
  const TensorView dense{b.data(), DType::kF16, Extents::Dense(1, 3, 5)};
  EXPECT_EQ(DigestCpu(padded), DigestCpu(dense));
  a[6] = 1;
  EXPECT_EQ(DigestCpu(padded), DigestCpu(dense));
  for (std::size_t i = 0; i < 15; ++i) {
    b[i] ^= 1;
    EXPECT_NE(DigestCpu(dense), DigestCpu(padded)) << i;
    b[i] ^= 1;
  }
}

TEST(Digest, CanonicalJoinsWhatRawTellsApart) {
  std::vector<std::uint32_t> a(40, 0x3f800000);
  std::vector<std::uint32_t> b = a;
  a[3] = 0x80000000;
  b[3] = 0;
  a[17] = 0x7fc00000;
  b[17] = 0xffa00001;
  const TensorDigest da = DigestCpu({a.data(), DType::kF32, Extents::Dense(1, 1, 40)});
  const TensorDigest db = DigestCpu({b.data(), DType::kF32, Extents::Dense(1, 1, 40)});
  for (int s = 0; s < 2; ++s) {
    EXPECT_NE(da.raw[s], db.raw[s]);
    EXPECT_EQ(da.canonical[s], db.canonical[s]);
  }
}

}  // namespace
}  // namespace assay
