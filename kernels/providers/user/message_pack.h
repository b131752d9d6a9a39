// Reads MessagePack, in which AMD's compilers describe kernels. Strangers make such bytes: nothing
// outside of them is read, and no depth of maps and arrays costs a stack.
//
// Source: msgpack.org, "MessagePack specification", Formats.
#ifndef ASSAY_KERNELS_PROVIDERS_USER_MESSAGE_PACK_H_
#define ASSAY_KERNELS_PROVIDERS_USER_MESSAGE_PACK_H_

#include <cstdint>
#include <optional>
#include <string_view>

namespace assay::inline kernels {

// Goes over the values one after the other. A value that is not of the kind that was asked for
// stays where it is.
class MessagePack {
 public:
  explicit MessagePack(std::string_view bytes) : rest_(bytes) {}

  // How many pairs of a key and a value follow, or how many values.
  std::optional<std::uint64_t> Map() { return Count(0x80, 0xde); }
  std::optional<std::uint64_t> Array() { return Count(0x90, 0xdc); }
  std::optional<std::string_view> Text();
  // A whole number that is not negative.
  std::optional<std::uint64_t> Number();
  // Goes over a value, with all that is in it. False if the bytes end before.
  bool Skip();

 private:
  std::optional<std::uint64_t> Count(unsigned short_form, unsigned long_form);
  // A number of so many bytes, highest first, behind `at` bytes. Takes nothing.
  std::optional<std::uint64_t> Peek(std::size_t at, std::size_t bytes) const;
  unsigned First() const { return static_cast<unsigned char>(rest_.front()); }

  std::string_view rest_;
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_PROVIDERS_USER_MESSAGE_PACK_H_
