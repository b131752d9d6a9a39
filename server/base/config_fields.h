// Reads the values of options. There is one function for each kind of value, and it makes a Field
// for a member of Config. Errors say what the value must be and what was given. The caller puts the
// option in front.
#ifndef ASSAY_SERVER_BASE_CONFIG_FIELDS_H_
#define ASSAY_SERVER_BASE_CONFIG_FIELDS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/base/config.h"

namespace assay::server::options {

// What was given for an option: several values if it was repeated.
using Values = std::vector<std::string>;
// Reads the values into the configuration.
using Read = std::function<absl::Status(const Values& values, Config& config)>;

// What an option sets.
struct Field {
  Read read;
  std::function<bool(const Config& a, const Config& b)> same;
  std::function<void(const Config& from, Config& to)> copy;
};

template <class... Member>
Field FieldOf(Read read, Member Config::*... members) {
  return {std::move(read),
          [=](const Config& a, const Config& b) { return ((a.*members == b.*members) && ...); },
          [=](const Config& from, Config& to) { ((to.*members = from.*members), ...); }};
}

Field Text(std::string Config::*member);
// HOST:PORT, or off, which makes it empty.
Field AddressOrOff(std::string Config::*member);
// At least one word, with commas between them.
Field List(std::vector<std::string> Config::*member);
// true or false.
Field Switch(bool Config::*member);
// "60s", "250ms".
Field Time(absl::Duration Config::*member, bool zero_allowed);
// "8GiB".
Field Bytes(std::int64_t Config::*member);
Field BytesFrom(std::int64_t Config::*member, std::int64_t low, std::int64_t high);
Field Count(std::int64_t Config::*member, std::int64_t low, std::int64_t high);
// A limit of one client; 0 means no limit.
Field LimitOf(std::int64_t ClientLimitValues::*member);
Field OneOf(std::string Config::*member, std::vector<std::string> words);
// Absolute paths, none of them the root.
Field Paths(std::vector<std::string> Config::*member);

}  // namespace assay::server::options

#endif  // ASSAY_SERVER_BASE_CONFIG_FIELDS_H_
