#include "kernels/providers/user/message_pack.h"

#include <cstddef>

namespace assay::inline kernels {

std::optional<std::uint64_t> MessagePack::Peek(std::size_t at, std::size_t bytes) const {
  if (rest_.size() < at || rest_.size() - at < bytes) return std::nullopt;
  std::uint64_t number = 0;
  for (const char c : rest_.substr(at, bytes)) number = number << 8 | static_cast<unsigned char>(c);
  return number;
}

std::optional<std::uint64_t> MessagePack::Count(unsigned short_form, unsigned long_form) {
  if (rest_.empty()) return std::nullopt;
  const unsigned first = First();
  if ((first & 0xf0) == short_form) {
    rest_.remove_prefix(1);
    return first & 0x0f;
  }
  if (first != long_form && first != long_form + 1) return std::nullopt;
  const std::size_t bytes = first == long_form ? 2 : 4;
  const std::optional<std::uint64_t> count = Peek(1, bytes);
  if (count) rest_.remove_prefix(1 + bytes);
  return count;
}

std::optional<std::string_view> MessagePack::Text() {
  if (rest_.empty()) return std::nullopt;
  const unsigned first = First();
  std::size_t head = 1;
  std::optional<std::uint64_t> size = first & 0x1f;
  if ((first & 0xe0) != 0xa0) {
    if (first < 0xd9 || first > 0xdb) return std::nullopt;
    const std::size_t bytes = std::size_t{1} << (first - 0xd9);
    head += bytes;
    size = Peek(1, bytes);
  }
  if (!size || rest_.size() - head < *size) return std::nullopt;
  const std::string_view text = rest_.substr(head, *size);
  rest_.remove_prefix(head + *size);
  return text;
}

std::optional<std::uint64_t> MessagePack::Number() {
  if (rest_.empty()) return std::nullopt;
  const unsigned first = First();
  if (first < 0x80) {
    rest_.remove_prefix(1);
    return first;
  }
  if (first < 0xcc || first > 0xcf) return std::nullopt;
  const std::size_t bytes = std::size_t{1} << (first - 0xcc);
  const std::optional<std::uint64_t> number = Peek(1, bytes);
  if (number) rest_.remove_prefix(1 + bytes);
  return number;
}

bool MessagePack::Skip() {
  // Each value takes a byte at least, so more of them than bytes are not there.
  for (std::uint64_t left = 1; left > 0; --left) {
    if (rest_.empty() || left > rest_.size()) return false;
    if (const auto pairs = Map()) {
      left += 2 * *pairs;
    } else if (const auto values = Array()) {
      left += *values;
    } else if (!Text() && !Number()) {
      const unsigned first = First();
      std::optional<std::uint64_t> size;  // behind the first byte
      if (first >= 0xe0 || first == 0xc0 || first == 0xc2 || first == 0xc3)
        size = 0;  // -32 … -1, nil, bool
      if (first == 0xca || first == 0xd2) size = 4;
      if (first == 0xcb || first == 0xd3) size = 8;
      if (first == 0xd0 || first == 0xd1) size = first - 0xcf;
      if (first >= 0xd4 && first <= 0xd8) size = 1 + (std::uint64_t{1} << (first - 0xd4));
      for (const unsigned form : {0xc4u, 0xc7u}) {  // bytes, and those of another's kind
        if (first < form || first > form + 2) continue;
        const std::size_t bytes = std::size_t{1} << (first - form);
        size = Peek(1, bytes);
        if (size) *size += bytes + (form == 0xc7u ? 1 : 0);
      }
      if (!size || rest_.size() - 1 < *size) return false;
      rest_.remove_prefix(1 + *size);
    }
  }
  return true;
}

}  // namespace assay::kernels
