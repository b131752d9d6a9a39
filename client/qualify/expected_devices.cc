#include "client/qualify/expected_devices.h"

#include <algorithm>
#include <array>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/lib/text.h"

namespace assay::client {
namespace {

constexpr std::array<std::string_view, 3> kBackends = {"cpu", "cuda", "hip"};
constexpr int kMostDevices = 1024;

// Nothing but digits: neither signs nor blanks.
bool ReadCount(std::string_view text, int* count) {
  return std::all_of(text.begin(), text.end(), absl::ascii_isdigit) &&
         absl::SimpleAtoi(View(text), count) && *count <= kMostDevices;
}

}  // namespace

absl::StatusOr<ExpectedDevices> ParseExpectedDevices(std::string_view text) {
  ExpectedDevices expected;
  const std::size_t colon = text.find(':');
  const bool named = colon != std::string_view::npos;
  if (named) expected.backend = std::string(text.substr(0, colon));
  const bool known =
      !named || std::find(kBackends.begin(), kBackends.end(), expected.backend) != kBackends.end();
  if (known && ReadCount(text.substr(named ? colon + 1 : 0), &expected.count)) return expected;
  return absl::InvalidArgumentError(
      absl::StrCat("expect-devices: must be N or BACKEND:N, N from 0 to ", kMostDevices,
                   " and BACKEND cpu, cuda or hip, such as 8 or cuda:8, got \"", View(text), "\""));
}

std::string DeviceCountText(const ExpectedDevices& expected, const FoundDevices& found) {
  std::string text = absl::StrCat(
      "expected ", expected.count, " ", expected.backend, expected.backend.empty() ? "" : " ",
      expected.count == 1 ? "device" : "devices", ", found ", found.count,
      found.with_ignored ? ", with those that are ignored" : "");
  if (!found.instead.empty()) {
    absl::StrAppend(&text, "; looked at ", absl::StrJoin(found.instead, ", "), " instead");
  }
  if (!found.why_none.empty()) {
    absl::StrAppend(&text, "; ", expected.backend, ": ", found.why_none);
  }
  return text;
}

}  // namespace assay::client
