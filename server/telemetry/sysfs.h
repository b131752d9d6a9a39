// Reading the small files of /sys: one number or one word each.
#ifndef ASSAY_SERVER_TELEMETRY_SYSFS_H_
#define ASSAY_SERVER_TELEMETRY_SYSFS_H_

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace assay {

// The first line, without blanks at its ends; nothing where it cannot be read.
std::optional<std::string> ReadSysfsWord(const std::filesystem::path& file);

// The whole number that the file has; nothing where it has none.
std::optional<std::int64_t> ReadSysfsNumber(const std::filesystem::path& file);

// Entries of a folder whose names begin with `prefix` and go on with a digit, sorted by
// name; none where it cannot be read. Links are followed.
std::vector<std::filesystem::path> NumberedEntries(const std::filesystem::path& folder,
                                                   std::string_view prefix);

}  // namespace assay

#endif  // ASSAY_SERVER_TELEMETRY_SYSFS_H_
