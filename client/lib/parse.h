// Parses what people type: numbers, durations and lists.
//
// An error is INVALID_ARGUMENT. Its message begins with `what`, the path of the option, and quotes
// the text. All functions but those that read a file are pure.
#ifndef ASSAY_CLIENT_LIB_PARSE_H_
#define ASSAY_CLIENT_LIB_PARSE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "google/protobuf/duration.pb.h"

namespace assay::client {

// "4096", "-1".
absl::StatusOr<std::int64_t> ParseInt(std::string_view what, std::string_view text);

// "7", "0xcafe".
absl::StatusOr<std::uint64_t> ParseSeed(std::string_view what, std::string_view text);

// "0.5", "1e-3", "inf"; not NaN.
absl::StatusOr<double> ParseNumber(std::string_view what, std::string_view text);

// "true", "yes", "1" and their opposites; empty is true, as a bare flag says.
absl::StatusOr<bool> ParseBool(std::string_view what, std::string_view text);

// "10s", "500ms", "1h30m", "10" (seconds).
absl::StatusOr<google::protobuf::Duration> ParseDuration(std::string_view what,
                                                         std::string_view text);

// The same, and more than nothing.
absl::StatusOr<google::protobuf::Duration> ParsePositiveDuration(std::string_view what,
                                                                 std::string_view text);

// The bytes of a file. INVALID_ARGUMENT "cannot read PATH: REASON" if there are none to be had, as
// of a folder, or more than 1 GiB. A pipe is read to its end.
absl::StatusOr<std::string> ReadFile(const std::string& path);

// The text of a file of --suite-file. It must be UTF-8, as protobuf's strings are.
absl::StatusOr<std::string> ReadSuiteFile(const std::string& path);

// "a,b[0,1]" -> {"a", "b[0,1]"}; a blank text has none, an empty word
// between commas stays.
std::vector<std::string> SplitList(std::string_view text);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_LIB_PARSE_H_
