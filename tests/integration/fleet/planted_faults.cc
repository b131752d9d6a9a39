#include "tests/integration/fleet/planted_faults.h"

#include <cstdlib>
#include <iostream>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "kernels/numerics/dtype.h"
#include "kernels/text/cat.h"

namespace assay::simulated {
namespace {

using Words = std::vector<std::string>;

bool ReadWhere(const Words& words, Where& where) {
  if (words.size() < 2 || words[0].empty() || words[1].empty()) return false;
  where = {words[0], words[1]};
  return true;
}

bool Read(const std::string& key, const std::string& value, Faults& faults) {
  const Words words = absl::StrSplit(value, ':');
  if (key == "seed") {
    std::uint64_t seed = 0;
    if (!absl::SimpleAtoi(value, &seed)) return false;
    faults.seed = seed;
    return true;
  }
  if (key == "speed") return absl::SimpleAtod(value, &faults.speed) && faults.speed > 0;
  if (key == "noise") return absl::SimpleAtod(value, &faults.noise) && faults.noise >= 0;
  if (key == "flip") {
    Faults::Flip flip;
    if (words.size() != 4 || !ReadWhere(words, flip.where) ||
        !absl::SimpleAtoi(words[2], &flip.element) || !absl::SimpleAtoi(words[3], &flip.bit) ||
        flip.element < 0 || flip.bit < 0) {
      return false;
    }
    faults.flip = std::move(flip);
    return true;
  }
  if (key == "crash") return words.size() == 2 && ReadWhere(words, faults.crash.emplace());
  return false;
}

}  // namespace

bool Where::Is(const Case& c) const {
  return c.provider == "builtin" && OpName(c.problem) == op && Name(c.dtype) == dtype;
}

absl::StatusOr<Faults> ParseFaults(std::string_view text) {
  Faults faults;
  const Words words =
      absl::StrSplit(absl::string_view(text.data(), text.size()), ' ', absl::SkipEmpty());
  for (const std::string& word : words) {
    const std::size_t at = word.find('=');
    if (at == word.npos || !Read(word.substr(0, at), word.substr(at + 1), faults)) {
      return absl::InvalidArgumentError(Cat("ASSAY_FAKE_NODE: \"", word, "\" means nothing"));
    }
  }
  return faults;
}

const Faults& PlantedFaults() {
  static const Faults* const faults = [] {
    // Daemons give workers only variables that they know: a node without faults says so, too.
    const char* text = std::getenv("ASSAY_FAKE_NODE");
    absl::StatusOr<Faults> parsed = absl::InvalidArgumentError("ASSAY_FAKE_NODE is not set");
    if (text != nullptr) parsed = ParseFaults(text);
    if (!parsed.ok()) {
      std::cerr << parsed.status().message() << std::endl;
      std::exit(2);
    }
    return new Faults(*std::move(parsed));
  }();
  return *faults;
}

}  // namespace assay::simulated
