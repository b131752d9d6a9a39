// Level: a level of qualification. Each level has a suite of the daemon and a part of the self-test
// that runs first.
#ifndef ASSAY_CLIENT_QUALIFY_LEVEL_H_
#define ASSAY_CLIENT_QUALIFY_LEVEL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "assay/v1/job.pb.h"

namespace assay::client {

struct Level {
  int number = 0;
  std::string_view suite;  // by its name, "nightly"
  std::string_view takes;  // in words, "a quarter of an hour"
};

// From "nightly" or "3". INVALID_ARGUMENT lists them and a near one.
absl::StatusOr<Level> ParseLevel(std::string_view word);

// "quick (1), medium (2), …".
std::string LevelsText();

// Whether a suite, as TOML, times any of its cases; nothing where it cannot be read.
std::optional<bool> SuiteTimes(const std::string& text);

// The self-test that the level begins with: a few defects for the shortest, all of them,
// with two sites each, for the longest.
v1::JobSpec SelftestOf(const Level& level, std::string_view device, std::uint64_t seed);

// A seed for a device of a node on a day, so that a fleet covers more every night and a
// run can be repeated. The day is UTC's, "2026-11-22".
std::uint64_t NightlySeed(std::string_view day, std::string_view host, std::string_view device);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_QUALIFY_LEVEL_H_
