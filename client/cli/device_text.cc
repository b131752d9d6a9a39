#include "client/cli/device_text.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/report/units.h"

namespace assay::client {

std::vector<std::string> TelemetryWords(const v1::Telemetry& t) {
  std::vector<std::string> words;
  if (t.has_temperature_celsius()) {
    words.push_back(absl::StrFormat("%.0f °C", t.temperature_celsius()));
  }
  if (const auto it = t.clock_hertz().find("core"); it != t.clock_hertz().end()) {
    words.push_back(absl::StrFormat("%.2f GHz", it->second * 1e-9));
  }
  if (t.has_power_watts()) words.push_back(absl::StrFormat("%.0f W", t.power_watts()));
  std::vector<std::string> throttled;
  // Maps of protobuf have no order.
  for (const auto& [reason, seconds] :
       std::map<std::string, double>(t.throttle_seconds().begin(), t.throttle_seconds().end())) {
    if (seconds > 0) throttled.push_back(absl::StrCat(reason, " ", SecondsText(seconds)));
  }
  if (!throttled.empty()) {
    words.push_back(absl::StrCat("throttled: ", absl::StrJoin(throttled, ", ")));
  }
  for (const auto& [type, count] :
       std::map<std::string, std::int64_t>(t.ecc_errors().begin(), t.ecc_errors().end())) {
    if (count > 0) {
      words.push_back(absl::StrCat(count, " ", type, count == 1 ? " ECC error" : " ECC errors"));
    }
  }
  for (const auto& [code, count] :
       std::map<std::string, std::int64_t>(t.faults().begin(), t.faults().end())) {
    if (count > 0) words.push_back(absl::StrCat(count, " ", code));
  }
  return words;
}

}  // namespace assay::client
