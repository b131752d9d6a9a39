// Conversions against tables from other implementations, and against properties
// that hold for every code of every format.
#include "kernels/numerics/convert.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <vector>

namespace assay {
namespace {

const std::string kGolden = ASSAY_GOLDEN_DIR;

constexpr DType kFloats[] = {DType::kF64,      DType::kF32,    DType::kTF32,     DType::kF16,
                             DType::kBF16,     DType::kE4M3FN, DType::kE4M3FNUZ, DType::kE5M2,
                             DType::kE5M2FNUZ, DType::kE2M1};
constexpr DType kSmall[] = {DType::kF16,  DType::kBF16,     DType::kE4M3FN, DType::kE4M3FNUZ,
                            DType::kE5M2, DType::kE5M2FNUZ, DType::kE2M1};

std::uint64_t Codes(DType t) { return std::uint64_t{1} << Info(t).storage_bits; }

double ValueOf(const nlohmann::json& v) {
  if (v.is_number()) return v.get<double>();
  const auto text = v.get<std::string>();
  if (text == "nan") return std::nan("");
  if (text == "inf") return HUGE_VAL;
  if (text == "-inf") return -HUGE_VAL;
  if (text == "-0.0") return -0.0;
  ADD_FAILURE() << "unknown value " << text;
  return 0;
}

TEST(Decode, EveryCodeOfTheEightAndFourBitFormats) {
  std::ifstream in(kGolden + "/decode_fp8_fp4.json");
  const auto table = nlohmann::json::parse(in);
  int formats = 0;
  for (const auto& [name, format] : table["formats"].items()) {
    const DType t = ParseDType(name);
    ASSERT_NE(t, DType::kUnspecified) << name;
    const auto& values = format["values"];
    ASSERT_EQ(values.size(), Codes(t));
    for (std::uint64_t code = 0; code < values.size(); ++code) {
      const double expected = ValueOf(values[code]);
      const double actual = ToDouble(t, code);
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(actual)) << name << " code " << code;
        EXPECT_TRUE(IsNaNCode(t, code));
      } else {
        EXPECT_EQ(std::bit_cast<std::uint64_t>(actual), std::bit_cast<std::uint64_t>(expected))
            << name << " code " << code;
      }
    }
    EXPECT_EQ(format["max_finite"], Info(t).max_finite);
    EXPECT_EQ(format["min_normal"], Info(t).min_normal);
    EXPECT_EQ(format["min_subnormal"], Info(t).min_subnormal);
    ++formats;
  }
  EXPECT_EQ(formats, 5);
}

std::vector<std::string> Split(const std::string& line) {
  std::vector<std::string> cells;
  std::stringstream in(line);
  for (std::string cell; std::getline(in, cell, ',');) cells.push_back(cell);
  return cells;
}

// The code a column of rne_tricky.csv asks for.
std::uint64_t Convert(const std::string& column, float v) {
  const std::size_t underscore = column.find('_');
  const DType t = ParseDType(column.substr(0, underscore));
  EXPECT_NE(t, DType::kUnspecified) << column;
  const std::string mode = underscore == std::string::npos ? "" : column.substr(underscore + 1);
  if (mode == "sat") return RoundToFormat(v, t, Overflow::kSat);
  if (mode == "sat_infkeep") return RoundToFormat(v, t, Overflow::kSatInfKeep);
  return RoundToFormat(v, t);
}

TEST(Round, EveryColumnOfTheTrickyTable) {
  std::ifstream in(kGolden + "/rne_tricky.csv");
  std::string line;
  ASSERT_TRUE(std::getline(in, line));
  const std::vector<std::string> header = Split(line);
  ASSERT_EQ(header.size(), 21u);
  int rows = 0;
  while (std::getline(in, line)) {
    const std::vector<std::string> cells = Split(line);
    ASSERT_EQ(cells.size(), header.size()) << line;
    const float v =
        std::bit_cast<float>(static_cast<std::uint32_t>(std::stoul(cells[0], nullptr, 16)));
    for (std::size_t c = 3; c < header.size(); ++c) {
      // Formats are rounded to the nearest only.
      const bool other = header[c] == "tf32_rna_f32bits" || header[c] == "tf32_rz_f32bits";
      if (cells[c] == "impl" || other) continue;
      const std::uint64_t code = Convert(header[c], v);
      if (cells[c] == "nan") {
        const DType t = header[c].starts_with("tf32")
                            ? DType::kTF32
                            : ParseDType(header[c].substr(0, header[c].find('_')));
        EXPECT_TRUE(IsNaNCode(t, code)) << header[c] << " of " << line;
      } else {
        EXPECT_EQ(code, std::stoul(cells[c], nullptr, 16)) << header[c] << " of " << line;
      }
    }
    ++rows;
  }
  EXPECT_EQ(rows, 144);
}

TEST(Round, EveryCodeComesBackAsItself) {
  for (const DType t : kSmall) {
    for (std::uint64_t code = 0; code < Codes(t); ++code) {
      if (IsNaNCode(t, code)) {
        EXPECT_TRUE(IsNaNCode(t, RoundToFormat(ToDouble(t, code), t)) || t == DType::kE2M1);
        continue;
      }
      EXPECT_EQ(RoundToFormat(ToDouble(t, code), t), code) << Name(t) << " code " << code;
    }
  }
}

// Neighbours a < b of a format: the midpoint goes to the even code, a double just
// beside it to the nearer one. A conversion through float would lose "just beside".
TEST(Round, MidpointsGoToEvenAndTheirNeighboursToTheNearer) {
  for (const DType t : kSmall) {
    const std::uint64_t top = internal::LayoutOf(t).max_code;
    for (std::uint64_t code = 0; code < top; ++code) {
      const double a = ToDouble(t, code);
      const double b = ToDouble(t, code + 1);
      const double mid = a + (b - a) / 2;
      const std::uint64_t even = (code & 1) == 0 ? code : code + 1;
      EXPECT_EQ(RoundToFormat(mid, t), even) << Name(t) << " above code " << code;
      EXPECT_EQ(RoundToFormat(std::nextafter(mid, a), t), code) << Name(t) << " code " << code;
      EXPECT_EQ(RoundToFormat(std::nextafter(mid, b), t), code + 1) << Name(t) << " code " << code;
    }
  }
}

TEST(Round, Float32AsTheHardwareDoes) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 200000; ++i) {
    // Exponents over all of float's range and its edges.
    const std::uint64_t exponent = 1023 - 160 + random() % 300;
    const double v = std::bit_cast<double>((random() & 0x800fffffffffffff) | (exponent << 52));
    const float hardware = static_cast<float>(v);
    ASSERT_EQ(RoundToFormat(v, DType::kF32), std::bit_cast<std::uint32_t>(hardware)) << v;
#ifdef __FLT16_MANT_DIG__  // clang has the type on x86 since version 15
    const auto half = static_cast<_Float16>(v);
    ASSERT_EQ(RoundToFormat(v, DType::kF16), std::bit_cast<std::uint16_t>(half)) << v;
#endif
  }
}

TEST(Round, DoublesOwnBitsAndSubnormals) {
  for (const double v : {0.0, -0.0, 1.0, 5e-324, -2.2250738585072009e-308, HUGE_VAL, 1e308}) {
    EXPECT_EQ(RoundToFormat(v, DType::kF64), std::bit_cast<std::uint64_t>(v));
    EXPECT_EQ(std::bit_cast<std::uint64_t>(Quantise(v, DType::kF64)),
              std::bit_cast<std::uint64_t>(v));
  }
  EXPECT_EQ(RoundToFormat(5e-324, DType::kF32), 0u);
  EXPECT_EQ(RoundToFormat(-5e-324, DType::kF32), 0x80000000u);
  EXPECT_EQ(RoundToFormat(-5e-324, DType::kE4M3FNUZ), 0u);  // no negative zero
}

TEST(Round, IntegersToNearestEvenAndClamped) {
  const auto i8 = [](double v) { return static_cast<std::int8_t>(RoundToFormat(v, DType::kI8)); };
  EXPECT_EQ(i8(0.5), 0);
  EXPECT_EQ(i8(1.5), 2);
  EXPECT_EQ(i8(2.5), 2);
  EXPECT_EQ(i8(-0.5), 0);
  EXPECT_EQ(i8(-1.5), -2);
  EXPECT_EQ(i8(-2.5), -2);
  EXPECT_EQ(i8(126.5), 126);
  EXPECT_EQ(i8(127.5), 127);
  EXPECT_EQ(i8(1e300), 127);
  EXPECT_EQ(i8(-128.5), -128);
  EXPECT_EQ(i8(-HUGE_VAL), -128);
  EXPECT_EQ(i8(std::nan("")), 0);
  EXPECT_EQ(RoundToFormat(2147483646.5, DType::kI32), 2147483646u);
  EXPECT_EQ(RoundToFormat(2147483647.5, DType::kI32), 2147483647u);
  EXPECT_EQ(RoundToFormat(-2147483648.5, DType::kI32), 0x80000000u);
  EXPECT_EQ(ToDouble(DType::kI32, 0x80000000u), -2147483648.0);
  EXPECT_EQ(ToDouble(DType::kI8, 0xff), -1.0);
}

TEST(Formats, TableAgreesWithTheConversions) {
  for (const DType t : kFloats) {
    const FormatInfo& f = Info(t);
    EXPECT_EQ(Quantise(f.max_finite, t), f.max_finite) << f.name;
    EXPECT_EQ(Quantise(f.min_normal, t), f.min_normal) << f.name;
    EXPECT_EQ(Quantise(f.min_subnormal, t), f.min_subnormal) << f.name;
    EXPECT_EQ(Quantise(f.min_subnormal / 2, t), 0.0) << f.name;
    EXPECT_EQ(Quantise(1.0 + f.machine_epsilon, t), 1.0 + f.machine_epsilon) << f.name;
    EXPECT_EQ(Quantise(1.0 + f.unit_roundoff, t), 1.0) << f.name;  // the tie, to even
    EXPECT_EQ(std::isinf(Quantise(HUGE_VAL, t)), f.has_inf) << f.name;
    EXPECT_EQ(std::isnan(Quantise(std::nan(""), t)), f.has_nan) << f.name;
    EXPECT_EQ(ParseDType(f.name), t);
  }
  EXPECT_EQ(ParseDType("float32"), DType::kUnspecified);
  EXPECT_EQ(StorageBytes(DType::kE2M1, 5), 3);
}

// What device code has in place of the table, which it cannot read.
TEST(Formats, SwitchesAgreeWithTheTable) {
  for (const FormatInfo& f : kFormats) EXPECT_EQ(StorageBits(f.dtype), f.storage_bits) << f.name;
  for (const DType t : kFloats) {
    EXPECT_EQ(internal::SmallestNormal(internal::LayoutOf(t)), Info(t).min_normal) << Name(t);
  }
}

TEST(Storage, NibblesKeepTheirNeighbour) {
  std::uint8_t bytes[2] = {0xff, 0xff};
  StoreBits(DType::kE2M1, bytes, 1, 0x3);
  StoreBits(DType::kE2M1, bytes, 2, 0x5);
  EXPECT_EQ(bytes[0], 0x3f);
  EXPECT_EQ(bytes[1], 0xf5);
  EXPECT_EQ(LoadBits(DType::kE2M1, bytes, 0), 0xfu);
  EXPECT_EQ(LoadBits(DType::kE2M1, bytes, 1), 0x3u);
  EXPECT_EQ(LoadDouble(DType::kE2M1, bytes, 2), 3.0);
}

// Conversions are usable in constant expressions.
static_assert(Quantise(1.0625, DType::kE4M3FN) == 1.0);
static_assert(RoundToFormat(1.0f, DType::kBF16) == 0x3f80);

}  // namespace
}  // namespace assay
