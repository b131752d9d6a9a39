// Fast fills against the scalar specification, bit for bit: every pattern, every
// format, sizes and strides that end in the middle of everything, every target.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "kernels/numerics/generate.h"
#include "kernels/runtime/cpu/fill_cpu.h"
#include "kernels/runtime/cpu/fill_simd.h"
#include "kernels/runtime/cpu/strided.h"
#include "kernels/runtime/device.h"
#include "kernels/text/cat.h"
#include "tests/unit/runtime/targets.h"

namespace assay {
namespace {

constexpr DType kAll[] = {DType::kF64,      DType::kF32,    DType::kTF32,     DType::kF16,
                          DType::kBF16,     DType::kE4M3FN, DType::kE4M3FNUZ, DType::kE5M2,
                          DType::kE5M2FNUZ, DType::kE2M1,   DType::kI8,       DType::kI32};

// Parameters away from the defaults, where other code runs: scaling that makes
// subnormals, values beyond the narrow formats, integers that no float holds.
const char* const kTexts[] = {"normal",
                              "normal:0.01:-3",
                              "normal:1e-6",
                              "normal:1e-39",
                              "normal:1e38",
                              "uniform",
                              "uniform:-10:10",
                              "integers",
                              "integers:0:255",
                              "constant:0.1",
                              "zeros",
                              "ones",
                              "diagonal",
                              "checkerboard",
                              "sparse",
                              "sparse:0.5:100",
                              "one-hot:3",
                              "one-hot:3:-5",
                              "sequential:5",
                              "all-positive:3",
                              "row-vary",
                              "col-vary",
                              "extremes:1000",
                              "extremes:-80:0.5",
                              "one-large",
                              "one-large:50:-1",
                              "one-large:50:2",
                              "large-small",
                              "all-inf",
                              "all-neg-inf",
                              "denormal",
                              "near-constant",
                              "bernoulli:0.3",
                              "exact-sparse",
                              "exact-ints",
                              "one-hot:nan:-0",
                              "one-hot:-0:inf",
                              "constant:nan",
                              "exact-ints:0.3",
                              "exact-ints:0.9:7",
                              "integers:-2147483648:2147483647",
                              "uniform:16777215:16777216"};

Pattern Parse(const char* text) {
  std::string error;
  const auto pattern = ParsePattern(text, &error);
  EXPECT_TRUE(pattern.has_value()) << error;
  return pattern.value_or(Pattern{});
}

// Storage of a view, with a byte behind it that must not change.
struct Storage {
  Storage(DType dtype, const Extents& e)
      : bytes(static_cast<std::size_t>(StorageBytes(dtype, e.span())) + 64 + 8, 0x77) {
    const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
    view = TensorView{bytes.data() + (64 - address % 64) % 64, dtype, e};
  }
  std::vector<unsigned char> bytes;
  TensorView view;
};

// Counts elements that differ from the specification; checks that nothing else of
// the storage was written.
void ExpectSpecification(const FillSpec& spec, const Storage& s, const std::string& what) {
  const TensorView& v = s.view;
  Generator g(spec.pattern, spec.seed, spec.tensor_id, spec.epoch, v.extents.rows, v.extents.cols,
              v.dtype);
  int wrong = 0;
  std::vector<bool> logical(static_cast<std::size_t>(v.extents.span()) + 2, false);
  for (std::int64_t i = 0; i < v.count(); ++i) {
    const std::int64_t at = OffsetOf(v.extents, i);
    logical[static_cast<std::size_t>(at)] = true;
    const std::uint64_t actual = LoadBits(v.dtype, v.data, at);
    const std::uint64_t expected = g.Bits(i);
    if (actual != expected && ++wrong <= 3) {
      ADD_FAILURE() << what << " element " << i << ": " << std::hex << actual << ", expected "
                    << expected;
    }
  }
  EXPECT_EQ(wrong, 0) << what;
  const std::uint64_t untouched = 0x7777777777777777u;
  for (std::int64_t at = 0; at < v.extents.span(); ++at) {
    if (logical[static_cast<std::size_t>(at)]) continue;
    const int bits = Info(v.dtype).storage_bits;
    const std::uint64_t mask = bits == 64 ? ~0ull : (1ull << bits) - 1;
    ASSERT_EQ(LoadBits(v.dtype, v.data, at), untouched & mask) << what << " padding at " << at;
  }
  const auto* end = v.as<unsigned char>() + v.bytes();
  if (v.dtype == DType::kE2M1 && (v.extents.span() & 1) != 0) {
    EXPECT_EQ(end[-1] >> 4, 0x7) << what << " half a byte behind the end";
  }
  for (int k = 0; k < 8; ++k) ASSERT_EQ(end[k], 0x77) << what << " byte behind the end";
}

const Extents kExtents[] = {
    Extents::Dense(1, 1, 1),           Extents::Dense(1, 1, 17),  Extents::Dense(1, 3, 5),
    Extents::Dense(1, 37, 61),         Extents::Dense(2, 7, 129), Extents{1, 5, 7, 9, 45},
    Extents{3, 4, 33, 35, 4 * 35 + 5}, Extents{2, 3, 1, 2, 9},    Extents{1, 70, 70, 71, 4970},
};

TEST(Fill, EqualsTheSpecificationOnEveryTarget) {
  ForEachTarget([](const char* target) {
    for (const char* text : kTexts) {
      for (const DType dtype : kAll) {
        for (const Extents& e : kExtents) {
          const FillSpec spec{Parse(text), 0x123456789abcdef0, 3, 1};
          Storage s(dtype, e);
          FillCpu(spec, s.view);
          ExpectSpecification(spec, s,
                              std::string(target) + " " + text + " " + std::string(Name(dtype)) +
                                  " " + std::to_string(e.batch) + "x" + std::to_string(e.rows) +
                                  "x" + std::to_string(e.cols));
        }
      }
    }
  });
}

TEST(Fill, GroupsOfKeysEqualTheSpecification) {
  constexpr std::int64_t kKeys = 45, kQueries = 37;
  for (const DType dtype : kAll) {
    for (const std::int64_t dim : {5, 8, 17}) {
      const std::pair<Pattern, Extents> operands[] = {
          {KeyCodes(2), Extents::Dense(3, kKeys, dim)},
          {QueryCodes(-4, kKeys, false, 2), Extents::Dense(6, kQueries, dim)},
          {QueryCodes(4, kKeys, true, 1), Extents{3, kQueries, dim, dim + 3, 40 * (dim + 3)}},
          {KeyCodes(2, true), Extents{3, kKeys, dim, dim + 1, kKeys * (dim + 1)}},
          {QueryCodes(-2, kKeys, false, 2, true), Extents::Dense(6, kQueries, dim)},
          {QueryCodes(4, kKeys, true, 1, true), Extents::Dense(3, kQueries, dim)},
          {KeyMask(true), Extents::Dense(1, kQueries, kKeys)},
          {KeyMask(false), Extents{1, kQueries, kKeys, kKeys + 1, 0}}};
      for (const auto& [pattern, extents] : operands) {
        Storage s(dtype, extents);
        FillCpu({pattern, 1, 0, 0}, s.view);
        ExpectSpecification({pattern, 1, 0, 0}, s,
                            std::string(Name(dtype)) + " " + ToString(pattern));
      }
    }
  }
}

TEST(Fill, OperandsOfTheSignificandProbesEqualTheSpecification) {
  for (const DType dtype : kAll) {
    for (const Extents& e : {Extents::Dense(3, 70, 45), Extents{2, 37, 300, 301, 40 * 301}}) {
      for (const Pattern& pattern :
           {UnitRows(), UnitColumns(), UnitRows(kFullSignificand), UnitColumns(3), UnitRows(-3, -5),
            UnitPixels({.width = 3, .channels = 5, .group_channels = 5, .step = {2, 1, 2}}),
            UnitPixels({.channels = 15, .group_channels = 3, .channels_last = true}),
            kFullSignificands}) {
        Storage s(dtype, e);
        FillCpu({pattern, 1, 0, 0}, s.view);
        ExpectSpecification({pattern, 1, 0, 0}, s,
                            std::string(Name(dtype)) + " " + ToString(pattern));
      }
    }
  }
}

TEST(Fill, EveryCodeEqualsTheSpecificationOnEveryTarget) {
  ForEachTarget([](const char* target) {
    for (const DType t : {DType::kE4M3FN, DType::kE4M3FNUZ, DType::kE5M2, DType::kE5M2FNUZ}) {
      Storage s(t, {2, 37, 300, 301, 40 * 301});
      FillCpu({kEveryFiniteNumber, 7, 1, 0}, s.view);
      ExpectSpecification({kEveryFiniteNumber, 7, 1, 0}, s, Cat(target, " ", Name(t)));
    }
  });
}

// Large enough for several threads.
TEST(Fill, ManyThreadsGiveTheSameBits) {
  for (const DType dtype : {DType::kF32, DType::kE2M1, DType::kBF16}) {
    for (const Extents& e : {Extents::Dense(1, 1, 200003), Extents{1, 401, 499, 501, 401 * 501}}) {
      const FillSpec spec{Pattern{}, 5, 0, 0};
      Storage s(dtype, e);
      FillCpu(spec, s.view);
      ExpectSpecification(spec, s, std::string(Name(dtype)));
    }
  }
}

// The fused loop that large fp32 data takes, at a start inside the tensor and with
// a tail, plain and scaled into the subnormals.
TEST(Fill, StreamedNormalEqualsTheSpecification) {
  ForEachTarget([](const char* target) {
    for (const char* text : {"normal", "normal:0.5:2", "normal:1e-38"}) {
      alignas(64) float out[5000];
      const FillSpec spec{Parse(text), 9, 1, 2};
      // Beyond 2^34 elements, so that the block number takes its second word.
      constexpr std::int64_t kBegin = (std::int64_t{1} << 34) - 2048;
      if (!StreamNormalF32(spec, kBegin, 4999, out)) continue;
      Generator g(spec.pattern, 9, 1, 2, 1, std::int64_t{1} << 40, DType::kF32);
      for (std::int64_t i = 0; i < 4999; ++i) {
        ASSERT_EQ(LoadBits(DType::kF32, out, i), g.Bits(kBegin + i)) << target << " " << text;
      }
    }
  });
}

TEST(Fill, OneCodeEverywhere) {
  for (const DType dtype : kAll) {
    Storage s(dtype, Extents{2, 3, 5, 8, 30});
    FillCode(0x5, s.view);
    for (std::int64_t i = 0; i < s.view.count(); ++i) {
      ASSERT_EQ(LoadBits(dtype, s.view.data, OffsetOf(s.view.extents, i)), 0x5u);
    }
    EXPECT_EQ(LoadBits(dtype, s.view.data, 5) & 0xf, 0x7u) << "padding";
  }
}

}  // namespace
}  // namespace assay
