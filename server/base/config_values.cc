#include <utility>

#include "absl/strings/numbers.h"
#include "kernels/text/cat.h"
#include "server/base/config.h"

namespace assay::server {
namespace {

absl::Status NotReadable(const std::string& message) { return absl::InvalidArgumentError(message); }

}  // namespace

absl::StatusOr<absl::Duration> ParseSeconds(std::string_view text) {
  const std::string word(text);
  double seconds = 0;
  absl::Duration d;
  if (absl::SimpleAtod(word, &seconds)) {
    d = absl::Seconds(seconds);
  } else if (!absl::ParseDuration(word, &d)) {
    return NotReadable(Cat("must be a time such as 60s, 1m30s or 250ms, got \"", text, "\""));
  }
  // Written so that NaN is refused.
  if (!(d >= absl::ZeroDuration() && d <= absl::Hours(24 * 365))) {
    return NotReadable(Cat("must be a time from 0s to a year, got \"", text, "\""));
  }
  return d;
}

absl::StatusOr<std::int64_t> ParseBytes(std::string_view text) {
  static constexpr std::pair<std::string_view, std::int64_t> kUnits[] = {
      {"KiB", std::int64_t{1} << 10},
      {"MiB", std::int64_t{1} << 20},
      {"GiB", std::int64_t{1} << 30},
      {"TiB", std::int64_t{1} << 40},
      {"kB", 1'000},
      {"MB", 1'000'000},
      {"GB", 1'000'000'000},
      {"TB", 1'000'000'000'000}};
  std::string_view digits = text;
  std::int64_t unit = 1;
  for (const auto& [suffix, bytes] : kUnits) {
    if (!text.ends_with(suffix)) continue;
    digits.remove_suffix(suffix.size());
    unit = bytes;
    break;
  }
  std::int64_t count = 0;
  std::int64_t bytes = 0;
  if (!absl::SimpleAtoi(std::string(digits), &count) || count < 0 ||
      __builtin_mul_overflow(count, unit, &bytes)) {
    return NotReadable(Cat("must be a size such as 8GiB, 512MiB or 1000000, got \"", text, "\""));
  }
  return bytes;
}

absl::StatusOr<HostPort> ParseHostPort(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  HostPort parsed;
  if (colon != std::string_view::npos) {
    parsed.host = text.substr(0, colon);
    const std::string port(text.substr(colon + 1));
    const bool digits = !port.empty() && port.find_first_not_of("0123456789") == port.npos;
    const bool bracketed = parsed.host.starts_with('[') && parsed.host.ends_with(']');
    if (bracketed) parsed.host = parsed.host.substr(1, parsed.host.size() - 2);
    const bool plain = bracketed || parsed.host.find(':') == std::string::npos;
    if (digits && plain && absl::SimpleAtoi(port, &parsed.port) && parsed.port <= 65535) {
      return parsed;
    }
  }
  return NotReadable(Cat(
      "must be HOST:PORT with a port from 0 to 65535 ([HOST]:PORT for IPv6), got \"", text, "\""));
}

}  // namespace assay::server
