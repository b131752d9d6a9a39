#include "client/qualify/level.h"

#define TOML_EXCEPTIONS 0  // as everywhere in the client: one program has one kind of toml++
#define TOML_ASSERT(expr) static_cast<void>(0)  // see client/lib/targets_file.cc
#include <toml++/toml.h>

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/lib/operators.h"
#include "client/lib/text.h"
#include "client/lib/words.h"

namespace assay::client {
namespace {

constexpr Level kLevels[] = {
    {1, "quick", "ten seconds"},
    {2, "medium", "two minutes"},
    {3, "nightly", "a quarter of an hour"},
    {4, "extended", "an hour and a half"},
};

// One of each way to be wrong, and a kernel that is right.
constexpr const char* kFewDefects[] = {
    "planted/correct",     "planted/wrong-tile", "planted/bit-flip",       "planted/dropped-k",
    "planted/zero-output", "planted/nan",        "planted/unwritten-tail", "planted/past-the-end",
};

// FNV-1a, 64 bits.
std::uint64_t Hash(std::string_view text) {
  std::uint64_t h = 0xcbf29ce484222325;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return h;
}

}  // namespace

absl::StatusOr<Level> ParseLevel(std::string_view word) {
  std::vector<std::string> names;
  for (const Level& level : kLevels) {
    if (word == level.suite || word == std::to_string(level.number)) return level;
    names.emplace_back(level.suite);
  }
  return absl::InvalidArgumentError(absl::StrCat("level: unknown level \"", View(word), "\"",
                                                 KnownWords(word, names),
                                                 "; numbers 1 to 4 are taken, too"));
}

std::string LevelsText() {
  return absl::StrJoin(kLevels, ", ", [](std::string* out, const Level& level) {
    absl::StrAppend(out, View(level.suite), " (", level.number, ")");
  });
}

std::optional<bool> SuiteTimes(const std::string& text) {
  const toml::parse_result parsed = toml::parse(text);
  if (!parsed) return std::nullopt;
  const toml::table& suite = parsed.table();
  bool known = false;
  for (const char* kind : {"case", "fill"}) {
    const toml::array* cases = suite[kind].as_array();
    if (cases == nullptr) continue;
    for (const toml::node& entry : *cases) {
      const toml::table* one = entry.as_table();
      if (one == nullptr) return std::nullopt;
      known = true;
      // A word, or a list of words.
      const toml::node* mode = one->get("mode");
      if (mode != nullptr && mode->value<std::string>() != "validate") return true;
    }
  }
  return known ? std::optional(false) : std::nullopt;
}

v1::JobSpec SelftestOf(const Level& level, std::string_view device, std::uint64_t seed) {
  v1::JobSpec spec;
  spec.set_suite("selftest");
  spec.set_device(std::string(device));
  spec.set_seed(seed);
  spec.set_trials(level.number >= 4 ? 2 : 1);
  if (level.number == 1) {
    for (const std::string& op : OperatorNames()) {
      if (InfoOf(op).shortest_selftest()) spec.mutable_filter()->add_ops(op);
    }
    for (const char* provider : kFewDefects) spec.mutable_filter()->add_providers(provider);
    spec.mutable_filter()->add_dtypes(v1::DTYPE_FP32);
  }
  if (level.number == 2) {
    spec.mutable_filter()->add_dtypes(v1::DTYPE_FP32);
    spec.mutable_filter()->add_dtypes(v1::DTYPE_BF16);
  }
  return spec;
}

std::uint64_t NightlySeed(std::string_view day, std::string_view host, std::string_view device) {
  // The fill counts up from here, and a seed is easier to copy when it is short.
  return Hash(absl::StrCat(View(day), "/", View(host), "/", View(device))) % 1'000'000'000 + 1;
}

}  // namespace assay::client
