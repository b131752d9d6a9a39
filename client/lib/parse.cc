#include "client/lib/parse.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/lib/text.h"

namespace assay::client {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 30;  // of a file; a device may have no end

absl::Status Wrong(std::string_view what, std::string_view should_be, std::string_view text) {
  return absl::InvalidArgumentError(
      absl::StrCat(View(what), ": must be ", View(should_be), ", got \"", View(text), "\""));
}

}  // namespace

absl::StatusOr<std::int64_t> ParseInt(std::string_view what, std::string_view text) {
  std::int64_t value = 0;
  if (!absl::SimpleAtoi(View(text), &value)) return Wrong(what, "a whole number", text);
  return value;
}

absl::StatusOr<std::uint64_t> ParseSeed(std::string_view what, std::string_view text) {
  const bool hex = text.starts_with("0x") || text.starts_with("0X");
  const std::string_view digits = hex ? text.substr(2) : text;
  std::uint64_t value = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, hex ? 16 : 10);
  if (error != std::errc() || end != digits.data() + digits.size() || digits.empty()) {
    return Wrong(what, "a whole number from 0 to 2^64-1", text);
  }
  return value;
}

absl::StatusOr<double> ParseNumber(std::string_view what, std::string_view text) {
  double value = 0;
  if (!absl::SimpleAtod(View(text), &value) || std::isnan(value)) {
    return Wrong(what, "a number", text);
  }
  return value;
}

absl::StatusOr<bool> ParseBool(std::string_view what, std::string_view text) {
  bool value = true;
  if (!text.empty() && !absl::SimpleAtob(View(text), &value)) {
    return Wrong(what, "true or false", text);
  }
  return value;
}

absl::StatusOr<google::protobuf::Duration> ParseDuration(std::string_view what,
                                                         std::string_view text) {
  absl::Duration value;
  double seconds = 0;
  if (absl::SimpleAtod(View(text), &seconds) && std::isfinite(seconds)) {
    value = absl::Seconds(seconds);
  } else if (!absl::ParseDuration(View(text), &value) || value == absl::InfiniteDuration() ||
             value == -absl::InfiniteDuration()) {
    return Wrong(what, "a duration such as 10s, 500ms or 1h30m", text);
  }
  google::protobuf::Duration duration;
  duration.set_seconds(absl::IDivDuration(value, absl::Seconds(1), &value));
  duration.set_nanos(static_cast<std::int32_t>(absl::ToInt64Nanoseconds(value)));
  return duration;
}

absl::StatusOr<google::protobuf::Duration> ParsePositiveDuration(std::string_view what,
                                                                 std::string_view text) {
  auto span = ParseDuration(what, text);
  if (span.ok() && span->seconds() <= 0 && span->nanos() <= 0) {
    return Wrong(what, "more than 0", text);
  }
  return span;
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::string bytes;
  std::array<char, 1 << 16> piece{};
  // A stream does not tell a folder from an empty file.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  ssize_t count = fd < 0 ? -1 : 1;
  while (fd >= 0 && count != 0 && bytes.size() <= kMostBytes) {
    count = read(fd, piece.data(), piece.size());
    if (count > 0) bytes.append(piece.data(), static_cast<std::size_t>(count));
    if (count < 0 && errno != EINTR) break;
  }
  const int error = errno;
  if (fd >= 0) close(fd);
  if (count == 0) return bytes;
  if (count > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot read ", path, ": it has more than 1 GiB"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("cannot read ", path, ": ", std::generic_category().message(error)));
}

absl::StatusOr<std::string> ReadSuiteFile(const std::string& path) {
  absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("suite-file: ", text.status().message()));
  }
  if (IsUtf8(*text)) return text;
  return absl::InvalidArgumentError(
      absl::StrCat("suite-file: ", path, " is not UTF-8 text, so it is no suite"));
}

std::vector<std::string> SplitList(std::string_view text) {
  std::vector<std::string> words;
  if (absl::StripAsciiWhitespace(View(text)).empty()) return words;
  const auto add = [&words](std::string_view word) {
    words.emplace_back(absl::StripAsciiWhitespace(View(word)));
  };
  std::size_t begin = 0;
  int open = 0;  // brackets
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '[') ++open;
    if (text[i] == ']' && open > 0) --open;
    if (text[i] != ',' || open > 0) continue;
    add(text.substr(begin, i - begin));
    begin = i + 1;
  }
  add(text.substr(begin));
  return words;
}

}  // namespace assay::client
