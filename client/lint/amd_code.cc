#include "client/lint/amd_code.h"

#include <algorithm>
#include <cctype>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace assay::client {
namespace {

constexpr absl::string_view kDirective = ".amdhsa_";

bool IsWordChar(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// A number at the beginning of the text, which is taken off it.
std::optional<int> TakeNumber(absl::string_view& text) {
  std::size_t digits = 0;
  while (digits < text.size() && std::isdigit(static_cast<unsigned char>(text[digits])) != 0) {
    ++digits;
  }
  int number = 0;
  if (digits == 0 || !absl::SimpleAtoi(text.substr(0, digits), &number)) return std::nullopt;
  text.remove_prefix(digits);
  return number;
}

// The highest register that begins here: "v12" or "v[4:7]" after its letter. -1: it is none.
int RegisterHere(absl::string_view text) {
  if (!absl::ConsumePrefix(&text, "[")) {
    const std::optional<int> one = TakeNumber(text);
    // "v1.h" is a half of v1; "v1x" is no register.
    return one && (text.empty() || !IsWordChar(text.front())) ? *one : -1;
  }
  const std::optional<int> first = TakeNumber(text);
  if (!first) return -1;
  if (absl::ConsumePrefix(&text, "]")) return *first;
  if (!absl::ConsumePrefix(&text, ":")) return -1;
  const std::optional<int> last = TakeNumber(text);
  return last && absl::ConsumePrefix(&text, "]") ? *last : -1;
}

// The highest register of a kind that the operands name.
int HighestOf(char kind, absl::string_view operands) {
  int highest = -1;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (operands[i] != kind || (i > 0 && IsWordChar(operands[i - 1]))) continue;
    highest = std::max(highest, RegisterHere(operands.substr(i + 1)));
  }
  return highest;
}

void Note(char kind, absl::string_view operands, const RegisterUse& at, RegisterUses& uses) {
  const int highest = HighestOf(kind, operands);
  if (highest <= Highest(uses)) return;
  uses.push_back(at);
  uses.back().highest = highest;
}

// "	v_mov_b32_e32 v1, 0        // 000000001508: 7E020280".
void ReadInstruction(absl::string_view line, std::int64_t begin, FunctionCode& code) {
  const std::size_t comment = line.find("//");
  if (comment == absl::string_view::npos) return;
  absl::string_view address = absl::StripAsciiWhitespace(line.substr(comment + 2));
  address = address.substr(0, address.find(':'));
  std::int64_t at = 0;
  if (!absl::SimpleHexAtoi(address, &at)) return;
  // "<v2+0x10>" at the end is the name of a place.
  line = absl::StripAsciiWhitespace(line.substr(0, std::min(comment, line.find('<'))));
  const std::size_t space = line.find(' ');
  const absl::string_view name = line.substr(0, space);
  const absl::string_view operands =
      space == absl::string_view::npos ? absl::string_view() : line.substr(space);
  const RegisterUse use{-1, at - begin, std::string(name)};
  Note('v', operands, use, code.vector);
  Note('a', operands, use, code.accumulator);
  Note('s', operands, use, code.scalar);
  if (absl::StartsWith(name, "scratch_") && code.scratch.empty()) code.scratch = std::string(name);
  code.calls = code.calls || name == "s_swappc_b64";
}

// "0000000000001500 <attn_fwd>:".
std::optional<std::pair<std::int64_t, std::string>> ReadLabel(absl::string_view line) {
  const std::size_t open = line.find(" <");
  if (open == absl::string_view::npos || !absl::EndsWith(line, ">:")) return std::nullopt;
  std::int64_t address = 0;
  if (!absl::SimpleHexAtoi(line.substr(0, open), &address)) return std::nullopt;
  return std::pair(address, std::string(line.substr(open + 2, line.size() - open - 4)));
}

}  // namespace

AmdCode ReadAmdCode(absl::string_view disassembly) {
  AmdCode code;
  FunctionCode* function = nullptr;
  std::map<std::string, std::int64_t>* descriptor = nullptr;
  std::int64_t begin = 0;
  for (const absl::string_view line : absl::StrSplit(disassembly, '\n')) {
    absl::string_view text = absl::StripAsciiWhitespace(line);
    if (absl::ConsumePrefix(&text, ".amdhsa_kernel ")) {
      descriptor = &code.descriptors[std::string(text)];
    } else if (absl::ConsumePrefix(&text, "; error decoding ")) {
      const std::size_t end = text.find(".kd: ");
      if (end == absl::string_view::npos) continue;
      code.undecoded[std::string(text.substr(0, end))] = std::string(text.substr(end + 5));
    } else if (text == ".end_amdhsa_kernel") {
      descriptor = nullptr;
    } else if (descriptor != nullptr && absl::ConsumePrefix(&text, kDirective)) {
      const std::size_t space = text.find(' ');
      std::int64_t value = 0;
      if (space == absl::string_view::npos || !absl::SimpleAtoi(text.substr(space + 1), &value)) {
        continue;
      }
      (*descriptor)[std::string(text.substr(0, space))] = value;
    } else if (const auto label = ReadLabel(line)) {
      function = &code.functions[label->second];
      begin = label->first;
    } else if (function != nullptr && absl::StartsWith(line, "\t")) {
      ReadInstruction(line, begin, *function);
    }
  }
  return code;
}

}  // namespace assay::client
