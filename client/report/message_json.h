// Converts messages of the API to JSON, and JSON to text.
//
// A value that was not measured is absent, never 0. A number that is not finite is a string ("NaN",
// "Infinity").
#ifndef ASSAY_CLIENT_REPORT_MESSAGE_JSON_H_
#define ASSAY_CLIENT_REPORT_MESSAGE_JSON_H_

#include <string>

#include "absl/time/time.h"
#include "google/protobuf/message.h"
#include "nlohmann/json.hpp"

namespace assay::client {

using Json = nlohmann::ordered_json;

// A number, or the string that stands for one that is not finite.
Json Number(double value);

// "2026-01-31T12:00:00.000000Z".
std::string UtcText(absl::Time time);

// Any message by its field names: enums as words, times as RFC 3339, durations in seconds;
// absent where the field has presence and is not set, or is an empty string.
Json MessageJson(const google::protobuf::Message& message);

// The text of a value on one line; bytes that are not UTF-8 are replaced.
std::string Compact(const Json& value);
// The same, indented by two.
std::string Indented(const Json& value);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_REPORT_MESSAGE_JSON_H_
