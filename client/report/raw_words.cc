#include "client/report/raw_words.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <span>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace assay::client {
namespace {

using Kind = WordType::Kind;

constexpr WordType kTypes[] = {
    {"u8", Kind::kUnsigned, 1},  {"u16", Kind::kUnsigned, 2}, {"u32", Kind::kUnsigned, 4},
    {"u64", Kind::kUnsigned, 8}, {"i8", Kind::kSigned, 1},    {"i16", Kind::kSigned, 2},
    {"i32", Kind::kSigned, 4},   {"i64", Kind::kSigned, 8},   {"f16", Kind::kFloat, 2},
    {"f32", Kind::kFloat, 4},    {"f64", Kind::kFloat, 8},    {"bf16", Kind::kBfloat16, 2},
};

std::uint64_t LittleEndian(std::span<const std::uint8_t> bytes) {
  std::uint64_t word = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) word = word << 8 | bytes[i];
  return word;
}

double HalfValue(std::uint64_t word) {
  const auto exponent = static_cast<int>(word >> 10 & 0x1f);
  const double fraction = static_cast<double>(word & 0x3ff);
  double value =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  if (exponent == 0x1f) value = fraction == 0 ? HUGE_VAL : std::nan("");
  return (word & 0x8000) != 0 ? -value : value;
}

std::string FloatText(double value, int digits) {
  return std::isnan(value) ? "NaN" : absl::StrFormat("%.*g", digits, value);
}

std::string ValueOf(const WordType& type, std::uint64_t word) {
  switch (type.kind) {
    case Kind::kUnsigned:
      return absl::StrCat(word);
    case Kind::kSigned: {
      const int unused = 64 - 8 * type.bytes;
      return absl::StrCat(static_cast<std::int64_t>(word << unused) >> unused);
    }
    case Kind::kBfloat16:
      return FloatText(std::bit_cast<float>(static_cast<std::uint32_t>(word << 16)), 4);
    case Kind::kFloat:
      break;
  }
  if (type.bytes == 2) return FloatText(HalfValue(word), 5);
  if (type.bytes == 4) return FloatText(std::bit_cast<float>(static_cast<std::uint32_t>(word)), 9);
  return FloatText(std::bit_cast<double>(word), 17);
}

}  // namespace

absl::StatusOr<std::vector<WordType>> ParseWordTypes(const std::vector<std::string>& names) {
  std::vector<WordType> types;
  for (const std::string& name : names) {
    const auto* const found = std::find_if(std::begin(kTypes), std::end(kTypes),
                                           [&](const WordType& type) { return type.name == name; });
    if (found == std::end(kTypes)) {
      const std::string known = absl::StrJoin(
          kTypes, ", ", [](std::string* out, const WordType& type) { out->append(type.name); });
      return absl::InvalidArgumentError(
          absl::StrCat("as: no type of words \"", name, "\"; known: ", known));
    }
    types.push_back(*found);
  }
  return types;
}

std::string RawWordTable(const std::vector<std::uint8_t>& bytes, std::int64_t begin,
                         const std::vector<WordType>& types) {
  int widest = 1;
  for (const WordType& type : types) widest = std::max(widest, type.bytes);
  std::vector<std::vector<std::string>> rows(1, {"byte", "bits"});
  for (const WordType& type : types) rows[0].emplace_back(type.name);
  const auto step = static_cast<std::size_t>(widest);
  for (std::size_t at = 0; at < bytes.size(); at += step) {
    const auto line = std::span(bytes).subspan(at, std::min(step, bytes.size() - at));
    std::vector<std::string>& row = rows.emplace_back();
    row.push_back(absl::StrCat(begin + static_cast<std::int64_t>(at)));
    row.push_back(absl::StrFormat("0x%0*x", 2 * line.size(), LittleEndian(line)));
    for (const WordType& type : types) {
      const auto width = static_cast<std::size_t>(type.bytes);
      std::vector<std::string> values;
      for (std::size_t i = 0; i + width <= line.size(); i += width) {
        values.push_back(ValueOf(type, LittleEndian(line.subspan(i, width))));
      }
      row.push_back(absl::StrJoin(values, " "));
    }
  }
  std::vector<std::size_t> widths(rows[0].size(), 0);
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      absl::StrAppend(&line, i == 0 ? "" : "  ", std::string(widths[i] - row[i].size(), ' '),
                      row[i]);
    }
    absl::StrAppend(&text, line, "\n");
  }
  return text;
}

}  // namespace assay::client
