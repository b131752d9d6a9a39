#include "server/telemetry/sysfs.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <system_error>

namespace assay::server {

std::string SysfsWord(std::string_view text) {
  text = text.substr(0, text.find('\n'));
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  return std::string(text);
}

std::optional<std::int64_t> SysfsNumber(std::string_view word) {
  std::int64_t value = 0;
  const char* const last = word.data() + word.size();
  const auto [end, error] = std::from_chars(word.data(), last, value);
  if (word.empty() || error != std::errc() || end != last) return std::nullopt;
  return value;
}

std::optional<std::string> ReadSysfsWord(const std::filesystem::path& file) {
  const int fd = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  std::array<char, 256> buffer;
  const ssize_t n = read(fd, buffer.data(), buffer.size());
  close(fd);
  if (n < 0) return std::nullopt;
  return SysfsWord({buffer.data(), static_cast<std::size_t>(n)});
}

std::optional<std::int64_t> ReadSysfsNumber(const std::filesystem::path& file) {
  const std::optional<std::string> word = ReadSysfsWord(file);
  return word ? SysfsNumber(*word) : std::nullopt;
}

std::vector<std::filesystem::path> NumberedEntries(const std::filesystem::path& folder,
                                                   std::string_view prefix) {
  std::vector<std::filesystem::path> found;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.size() > prefix.size() && name.starts_with(prefix) &&
        std::isdigit(static_cast<unsigned char>(name[prefix.size()]))) {
      found.push_back(it->path());
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace assay::server
