#include "kernels/suites/golden.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "absl/status/status.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

constexpr std::size_t kDigestLength = 32;

bool IsDigest(std::string_view word) {
  return word.size() == kDigestLength &&
         word.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace

std::string GoldenKey(const Case& c) {
  Case plain;
  plain.problem = c.problem;
  plain.dtype = c.dtype;
  plain.out_dtype = c.out_dtype;
  return DefaultName(plain);
}

absl::StatusOr<Golden> ParseGolden(std::string_view text, std::string_view file_name) {
  Golden golden;
  int line_number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    ++line_number;
    if (line.empty() || line.front() == '#') continue;
    const std::size_t first = line.find('\t');
    const std::size_t second = first == std::string_view::npos ? first : line.find('\t', first + 1);
    if (second == std::string_view::npos || !IsDigest(line.substr(second + 1))) {
      return absl::InvalidArgumentError(
          Cat(file_name, ":", line_number, ": must be case, probe and digest, separated by tabs"));
    }
    golden[std::string(line.substr(0, first))]
          [std::string(line.substr(first + 1, second - first - 1))] = line.substr(second + 1);
  }
  return golden;
}

std::string GoldenText(const Golden& golden) {
  std::string text = "# case, probe, canonical digest; written by tests/golden_digests --update\n";
  for (const auto& [name, probes] : golden) {
    for (const auto& [probe, digest] : probes) Append(&text, name, "\t", probe, "\t", digest, "\n");
  }
  return text;
}

absl::StatusOr<Golden> ReadGolden(const std::string& folder, std::string_view name) {
  const std::string file_name = Cat(name, ".tsv");
  const std::filesystem::path path = std::filesystem::path(folder) / "golden" / file_name;
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return Golden();
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) return absl::InternalError(Cat("cannot read the golden digests of \"", name, "\""));
  return ParseGolden(text.str(), file_name);
}

void ApplyGolden(const Golden& golden, Suite& suite) {
  for (std::vector<Case>* cases : {&suite.cases, &suite.fill}) {
    for (Case& c : *cases) {
      const auto at = golden.find(GoldenKey(c));
      if (at != golden.end()) c.golden = at->second;
    }
  }
}

}  // namespace assay::kernels
