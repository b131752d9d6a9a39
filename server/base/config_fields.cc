#include "server/base/config_fields.h"

#include <algorithm>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "kernels/text/cat.h"

namespace assay::server::options {
namespace {

absl::Status Wrong(const std::string& message) { return absl::InvalidArgumentError(message); }

}  // namespace

Field Text(std::string Config::*member) {
  return FieldOf(
      [member](const Values& v, Config& c) {
        // A variable that a script did not set must not turn off a check of callers.
        if (v.back().empty()) return Wrong("must not be empty; give it a value or leave it out");
        c.*member = v.back();
        return absl::OkStatus();
      },
      member);
}

Field AddressOrOff(std::string Config::*member) {
  return FieldOf(
      [member](const Values& v, Config& c) {
        c.*member = v.back() == "off" ? "" : v.back();
        return v.back() == "off" ? absl::OkStatus() : ParseHostPort(v.back()).status();
      },
      member);
}

Field List(std::vector<std::string> Config::*member) {
  return FieldOf(
      [member](const Values& v, Config& c) {
        Values& out = c.*member;
        out.clear();
        for (const std::string& value : v) {
          for (const auto& part : absl::StrSplit(value, ',', absl::SkipWhitespace())) {
            out.emplace_back(absl::StripAsciiWhitespace(part));
          }
        }
        return out.empty() ? Wrong("must name at least one, got none") : absl::OkStatus();
      },
      member);
}

Field Switch(bool Config::*member) {
  return FieldOf(
      [member](const Values& v, Config& c) {
        if (v.back() != "true" && v.back() != "false") {
          return Wrong(Cat("must be true or false, got \"", v.back(), "\""));
        }
        c.*member = v.back() == "true";
        return absl::OkStatus();
      },
      member);
}

Field Time(absl::Duration Config::*member, bool zero_allowed) {
  return FieldOf(
      [=](const Values& v, Config& c) {
        const absl::StatusOr<absl::Duration> d = ParseSeconds(v.back());
        if (!d.ok()) return d.status();
        if (!zero_allowed && *d == absl::ZeroDuration()) {
          return Wrong(Cat("must be above 0, got \"", v.back(), "\""));
        }
        c.*member = *d;
        return absl::OkStatus();
      },
      member);
}

Field Bytes(std::int64_t Config::*member) { return BytesFrom(member, 0, INT64_MAX); }

Field BytesFrom(std::int64_t Config::*member, std::int64_t low, std::int64_t high) {
  return FieldOf(
      [=](const Values& v, Config& c) {
        const absl::StatusOr<std::int64_t> bytes = ParseBytes(v.back());
        if (!bytes.ok()) return bytes.status();
        if (*bytes < low || *bytes > high) {
          return Wrong(Cat("must be from ", low, " to ", high, " bytes, got \"", v.back(), "\""));
        }
        c.*member = *bytes;
        return absl::OkStatus();
      },
      member);
}

Field Count(std::int64_t Config::*member, std::int64_t low, std::int64_t high) {
  return FieldOf(
      [=](const Values& v, Config& c) {
        std::int64_t n = 0;
        if (!absl::SimpleAtoi(v.back(), &n) || n < low || n > high) {
          return Wrong(
              Cat("must be a number from ", low, " to ", high, ", got \"", v.back(), "\""));
        }
        c.*member = n;
        return absl::OkStatus();
      },
      member);
}

Field LimitOf(std::int64_t ClientLimitValues::*member) {
  Field field;
  field.read = [member](const Values& v, Config& c) {
    std::int64_t n = 0;
    if (!absl::SimpleAtoi(v.back(), &n) || n < 0 || n > 1'000'000'000) {
      return Wrong(Cat("must be a number from 0 (no limit) to 1000000000, got \"", v.back(), "\""));
    }
    c.limits.*member = n;
    return absl::OkStatus();
  };
  field.same = [member](const Config& a, const Config& b) {
    return a.limits.*member == b.limits.*member;
  };
  field.copy = [member](const Config& from, Config& to) {
    to.limits.*member = from.limits.*member;
  };
  return field;
}

Field OneOf(std::string Config::*member, std::vector<std::string> words) {
  return FieldOf(
      [member, words = std::move(words)](const Values& v, Config& c) {
        if (std::find(words.begin(), words.end(), v.back()) == words.end()) {
          return Wrong(
              Cat("must be one of ", absl::StrJoin(words, ", "), ", got \"", v.back(), "\""));
        }
        c.*member = v.back();
        return absl::OkStatus();
      },
      member);
}

Field Paths(std::vector<std::string> Config::*member) {
  return FieldOf(
      [member](const Values& values, Config& config) {
        if (absl::Status status = List(member).read(values, config); !status.ok()) return status;
        for (const std::string& path : config.*member) {
          if (!path.starts_with('/') || path.find_first_not_of('/') == path.npos) {
            return Wrong(Cat("must be absolute paths below the root, got \"", path, "\""));
          }
        }
        return absl::OkStatus();
      },
      member);
}

}  // namespace assay::server::options
