#include "server/kernels/compiler_log.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "kernels/text/cat.h"
#include "kernels/text/visible.h"

namespace assay::server {
namespace {

constexpr std::size_t kLineBytes = 1000;
constexpr std::size_t kSummaryBytes = 1500;

// The bytes of the UTF-8 character that the text begins with; 0 if it begins with none.
std::size_t CharacterLength(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xC2 && first <= 0xDF   ? 2
                             : first >= 0xE0 && first <= 0xEF ? 3
                             : first >= 0xF0 && first <= 0xF4 ? 4
                                                              : 0;
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  // Overlong forms, surrogates, and what is beyond U+10FFFF.
  const bool wrong = (first == 0xE0 && byte(1) < 0xA0) || (first == 0xED && byte(1) > 0x9F) ||
                     (first == 0xF0 && byte(1) < 0x90) || (first == 0xF4 && byte(1) > 0x8F);
  return wrong ? 0 : length;
}

// Cuts the text to at most `most` bytes, at the end of a character.
std::string Cut(const std::string& text, std::size_t most) {
  if (text.size() <= most) return text;
  std::size_t end = most;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "…";
}

}  // namespace

std::string ShownText(std::string_view text) {
  std::string valid;
  while (!text.empty()) {
    const std::size_t length = CharacterLength(text);
    if (text.front() == '\t') {
      valid += ' ';
    } else if (length == 0) {
      valid += '?';
    } else {
      valid += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return Visible(valid);
}

CompilerLog::CompilerLog(std::string file_name, std::int64_t bytes,
                         std::function<void(const std::string&)> tell)
    : file_name_(std::move(file_name)), left_(bytes), tell_(std::move(tell)) {}

void CompilerLog::Take(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    const std::string_view piece = bytes.substr(0, end);
    if (partial_.size() <= kLineBytes) partial_.append(piece.substr(0, 2 * kLineBytes));
    if (end == std::string_view::npos) return;
    Line();
    bytes.remove_prefix(end + 1);
  }
}

void CompilerLog::End() {
  if (!partial_.empty()) Line();
}

void CompilerLog::Line() {
  const std::string line = Cut(ShownText(std::exchange(partial_, std::string())), kLineBytes);
  if (left_ <= 0) return;
  left_ -= static_cast<std::int64_t>(line.size()) + 1;
  if (tell_) tell_(left_ > 0 ? line : "… the compiler printed more, which is left out");
  const bool names_author =
      line.starts_with(Cat(file_name_, ":")) && line.size() > file_name_.size() + 1 &&
      std::isdigit(static_cast<unsigned char>(line[file_name_.size() + 1])) != 0;
  if (names_author && !author_named_) {
    author_named_ = true;
    first_.clear();
    first_bytes_ = 0;
  }
  if (first_bytes_ > kSummaryBytes) return;
  first_bytes_ += line.size() + 1;
  first_.push_back(line);
}

std::string CompilerLog::Summary() const { return Cut(Join(first_, "\n"), kSummaryBytes); }

}  // namespace assay::server
