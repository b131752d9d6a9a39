// Shows raw bytes as words of several types, side by side. The bytes come from memory that nobody
// else has read as numbers, so their bits arrive as they were.
#ifndef ASSAY_CLIENT_REPORT_RAW_WORDS_H_
#define ASSAY_CLIENT_REPORT_RAW_WORDS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace assay::client {

// How a word is shown.
struct WordType {
  enum class Kind : std::uint8_t { kUnsigned, kSigned, kFloat, kBfloat16 };

  std::string_view name;
  Kind kind = Kind::kUnsigned;
  int bytes = 4;
};

// The types of names such as "u32", "f16" or "bf16". INVALID_ARGUMENT names what is not known, and
// what is.
absl::StatusOr<std::vector<WordType>> ParseWordTypes(const std::vector<std::string>& names);

// A heading and a line for each word of the widest type: its place in the buffer, its bits, and
// what it is as each type. A narrower type has several values there, the lowest address first. The
// words are little-endian. `begin` is the place of the first byte. Every line ends with a newline.
std::string RawWordTable(const std::vector<std::uint8_t>& bytes, std::int64_t begin,
                         const std::vector<WordType>& types);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_REPORT_RAW_WORDS_H_
