// Reads the small files of /sys, which hold one number or one word each.
#ifndef ASSAY_SERVER_TELEMETRY_SYSFS_H_
#define ASSAY_SERVER_TELEMETRY_SYSFS_H_

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace assay::server {

// The first line of a text, without blanks at its ends.
std::string SysfsWord(std::string_view text);
// The whole number that a word is. Nothing if it is none.
std::optional<std::int64_t> SysfsNumber(std::string_view word);

// The first line of a file, without blanks at its ends. Nothing if the file cannot be read.
std::optional<std::string> ReadSysfsWord(const std::filesystem::path& file);

// The whole number in a file. Nothing if there is none.
std::optional<std::int64_t> ReadSysfsNumber(const std::filesystem::path& file);

// The entries of a folder whose names are `prefix` and a digit, with or without more text, sorted
// by name. Empty if the folder cannot be read. Links are followed.
std::vector<std::filesystem::path> NumberedEntries(const std::filesystem::path& folder,
                                                   std::string_view prefix);

}  // namespace assay::server

#endif  // ASSAY_SERVER_TELEMETRY_SYSFS_H_
