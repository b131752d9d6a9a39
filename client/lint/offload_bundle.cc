#include "client/lint/offload_bundle.h"

#include <cstdint>
#include <cstring>

namespace assay::client {
namespace {

constexpr std::string_view kMagic = "__CLANG_OFFLOAD_BUNDLE__";

// Takes 64-bit numbers and texts off the front of the bytes.
class Front {
 public:
  explicit Front(std::string_view bytes) : bytes_(bytes) {}
  bool Number(std::uint64_t& number) {
    if (bytes_.size() < sizeof number) return false;
    std::memcpy(&number, bytes_.data(), sizeof number);
    bytes_.remove_prefix(sizeof number);
    return true;
  }
  bool Text(std::uint64_t size, std::string_view& text) {
    if (bytes_.size() < size) return false;
    text = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return true;
  }

 private:
  std::string_view bytes_;
};

}  // namespace

bool IsOffloadBundle(std::string_view bytes) { return bytes.starts_with(kMagic); }

absl::StatusOr<std::vector<std::string>> UnpackOffloadBundle(std::string_view bytes) {
  const absl::Status cut = absl::InvalidArgumentError("the offload bundle is cut off");
  Front front(bytes.substr(kMagic.size()));
  std::uint64_t count = 0;
  if (!front.Number(count)) return cut;
  std::vector<std::string> objects;
  for (std::uint64_t i = 0; i < count; ++i) {
    std::uint64_t offset = 0, size = 0, name_size = 0;
    std::string_view name;
    if (!front.Number(offset) || !front.Number(size) || !front.Number(name_size) ||
        !front.Text(name_size, name) || offset > bytes.size() || size > bytes.size() - offset) {
      return cut;
    }
    if (size > 0 && !name.starts_with("host")) objects.emplace_back(bytes.substr(offset, size));
  }
  return objects;
}

}  // namespace assay::client
