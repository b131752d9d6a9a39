#include "server/rpc/request_parsing.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "google/protobuf/descriptor.h"
#include "kernels/text/cat.h"
#include "proto/near_name.h"
#include "server/base/job_name.h"
#include "server/base/request_errors.h"

namespace assay::server {
namespace {

constexpr std::int32_t kDefaultPage = 100;
constexpr std::int32_t kLargestPage = 1000;
// The largest position of a case in its job, as in the store. No daemon has as many jobs.
constexpr std::int64_t kLargestPosition = (std::int64_t{1} << 24) - 1;

absl::string_view View(std::string_view s) { return {s.data(), s.size()}; }

absl::Status Refuse(std::string_view field, std::string message) {
  return BadRequestError({{std::string(field), std::move(message)}});
}

// FNV-1a, 64 bits: the same in every run of the daemon, unlike absl::Hash.
std::uint64_t FingerprintOfText(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3u;
  }
  return hash;
}

// The number of an enum's value by its name without the prefix.
absl::StatusOr<int> ParseEnum(const google::protobuf::EnumDescriptor& type, std::string_view prefix,
                              std::string_view key, std::string_view word) {
  std::vector<std::string> known;
  for (int n = 0; n < type.value_count(); ++n) {
    const std::string& name = type.value(n)->name();
    if (type.value(n)->number() == 0) continue;
    if (name == Cat(prefix, word)) return type.value(n)->number();
    known.push_back(name.substr(prefix.size()));
  }
  const std::vector<std::string_view> views(known.begin(), known.end());
  const std::string_view near = NearestName(word, views);
  return Refuse("filter", Cat("unknown ", key, " \"", word, "\"",
                              near.empty() ? Cat("; known: ", absl::StrJoin(known, ", "))
                                           : Cat("; did you mean \"", near, "\"?")));
}

}  // namespace

absl::Status CheckJobName(std::string_view field, std::string_view name) {
  std::string fault = FaultOfJobName(name);
  return fault.empty() ? absl::OkStatus() : Refuse(field, std::move(fault));
}

absl::StatusOr<std::string> ParseDeviceName(std::string_view name) {
  constexpr std::string_view kPrefix = "devices/";
  if (!name.starts_with(kPrefix) || name.size() == kPrefix.size()) {
    return Refuse(
        "name", Cat("must be devices/ID, such as devices/cpu:0, got \"", name.substr(0, 64), "\""));
  }
  return std::string(name.substr(kPrefix.size()));
}

absl::StatusOr<int> ParsePageSize(std::int32_t page_size) {
  if (page_size < 0) return Refuse("page_size", Cat("must be 0 or more, got ", page_size));
  return page_size == 0 ? kDefaultPage : std::min(page_size, kLargestPage);
}

absl::StatusOr<JobQuery> ParseJobFilter(std::string_view filter) {
  JobQuery query;
  if (filter.empty()) return query;
  constexpr std::string_view kAnd = " AND";
  if (filter.ends_with(kAnd)) return Refuse("filter", "has nothing behind its last \" AND\"");
  for (const absl::string_view term : absl::StrSplit(View(filter), " AND ")) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(term, absl::MaxSplits('=', 1));
    const auto& [key, value] = parts;
    if (term.find('=') == absl::string_view::npos || value.empty()) {
      return Refuse("filter", Cat("\"", std::string(term),
                                  "\" must be KEY=VALUE, with \" AND \" "
                                  "between several"));
    }
    bool twice = false;
    if (key == "state") {
      const auto state = ParseEnum(*v1::JobState_descriptor(), "JOB_STATE_", key, value);
      if (!state.ok()) return state.status();
      twice = query.state.has_value();
      query.state = static_cast<v1::JobState>(*state);
    } else if (key == "verdict") {
      const auto verdict = ParseEnum(*v1::Verdict_descriptor(), "VERDICT_", key, value);
      if (!verdict.ok()) return verdict.status();
      twice = query.verdict.has_value();
      query.verdict = static_cast<v1::Verdict>(*verdict);
    } else if (key == "suite") {
      twice = query.suite.has_value();
      query.suite = value;
    } else if (key.starts_with("label.") && key.size() > 6) {
      query.labels.emplace_back(key.substr(6), value);
    } else {
      return Refuse("filter",
                    Cat("unknown key \"", key, "\"; known: state, verdict, suite, label.KEY"));
    }
    if (twice) return Refuse("filter", Cat(key, " is given twice"));
  }
  if (query.labels.size() > 64) {
    return Refuse("filter", Cat("may name at most 64 labels, got ", query.labels.size()));
  }
  return query;
}

std::string MakePageToken(std::string_view scope, std::int64_t position) {
  const std::uint64_t sum = FingerprintOfText(Cat(scope, "\n", position));
  return absl::WebSafeBase64Escape(Cat(position, ".", absl::StrCat(absl::Hex(sum))));
}

absl::StatusOr<std::int64_t> ParsePageToken(std::string_view scope, std::string_view token) {
  if (token.empty()) return 0;
  std::string text;
  std::int64_t position = 0;
  if (!absl::WebSafeBase64Unescape(View(token), &text) ||
      !absl::SimpleAtoi(text.substr(0, text.find('.')), &position) || position < 0 ||
      position > kLargestPosition || MakePageToken(scope, position) != token) {
    return Refuse("page_token",
                  "is no token of this listing: use the next_page_token of the page before, "
                  "with the same filter");
  }
  return position;
}

}  // namespace assay::server
