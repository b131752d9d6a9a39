#include "server/kernels/launch_description.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <utility>

#include "kernels/simt/expression.h"
#include "kernels/suites/toml_values.h"
#include "kernels/text/cat.h"

namespace assay::server {
namespace {

using suites::Location;

constexpr std::string_view kFile = "launch description";
constexpr std::string_view kKeys[] = {"entry", "grid", "block", "shared", "args"};
constexpr std::size_t kMostArguments = 64;

Location At(const toml::node& node) { return {kFile, node.source()}; }

// A number, or the text of an expression.
absl::StatusOr<std::string> ReadText(const std::string& key, const toml::node& node) {
  if (const auto number = node.value_exact<std::int64_t>()) return Cat(*number);
  if (const auto text = node.value_exact<std::string>()) return *text;
  return At(node).Error(Cat(key, ": must be a whole number or the text of an expression"));
}

absl::StatusOr<std::string> ReadExpression(const std::string& key, const toml::node& node) {
  absl::StatusOr<std::string> text = ReadText(key, node);
  if (!text.ok()) return text;
  const std::string wrong = simt::CheckExpression(*text);
  if (wrong.empty()) return text;
  return At(node).Error(Cat(key, " = \"", *text, "\": ", wrong,
                            "; an expression has names, whole numbers, + - * / %, parentheses, "
                            "min, max and ceil_div"));
}

// An argument may also be a real number.
absl::StatusOr<std::string> ReadArgument(const std::string& key, const toml::node& node) {
  if (const auto real = node.value_exact<double>()) {
    std::string text = Shortest(*real);
    // It stays a real number.
    if (text.find_first_of(".en") == text.npos) text += ".0";
    return text;
  }
  if (const auto text = node.value_exact<std::string>()) {
    char* end = nullptr;
    std::strtod(text->c_str(), &end);
    const bool plain = text->find_first_not_of("0123456789+-.eE") == text->npos;
    if (plain && end == text->c_str() + text->size() && !text->empty()) return *text;
  }
  return ReadExpression(key, node);
}

absl::Status ReadExtents(std::string_view key, const toml::node& node,
                         std::array<std::string, 3>& extents) {
  const toml::array* const list = node.as_array();
  if (list == nullptr) {
    absl::StatusOr<std::string> one = ReadExpression(std::string(key), node);
    if (!one.ok()) return one.status();
    extents[0] = *std::move(one);
    return absl::OkStatus();
  }
  if (list->empty() || list->size() > extents.size()) {
    return At(node).Error(Cat(key, ": must have 1 to 3 values, in x, y and z; got ", list->size()));
  }
  for (std::size_t i = 0; i < list->size(); ++i) {
    absl::StatusOr<std::string> one = ReadExpression(Cat(key, "[", i, "]"), *list->get(i));
    if (!one.ok()) return one.status();
    extents[i] = *std::move(one);
  }
  return absl::OkStatus();
}

absl::Status ReadArguments(const toml::node& node, std::vector<std::string>& args) {
  const toml::array* const list = node.as_array();
  if (list == nullptr || list->size() > kMostArguments) {
    return At(node).Error(Cat("args: must be a list of at most ", kMostArguments,
                              " arguments, such as [\"a\", \"d\", \"n\"]"));
  }
  for (std::size_t i = 0; i < list->size(); ++i) {
    absl::StatusOr<std::string> one = ReadArgument(Cat("args[", i, "]"), *list->get(i));
    if (!one.ok()) return one.status();
    args.push_back(*std::move(one));
  }
  return absl::OkStatus();
}

absl::Status ReadEntry(const toml::node& node, std::string& entry) {
  const auto text = node.value_exact<std::string>();
  if (!text) return At(node).Error("entry: must be the name of a kernel, a text");
  if (absl::Status s = CheckEntry(*text); !s.ok()) {
    return At(node).Error(Cat("entry = \"", *text, "\": ", s.message()));
  }
  entry = *text;
  return absl::OkStatus();
}

absl::Status ReadKey(std::string_view key, const toml::node& node, LaunchDescription& launch) {
  if (key == "grid") return ReadExtents(key, node, launch.grid);
  if (key == "block") return ReadExtents(key, node, launch.block);
  if (key == "args") return ReadArguments(node, launch.args);
  if (key == "entry") return ReadEntry(node, launch.entry);
  if (key == "shared") {
    absl::StatusOr<std::string> shared = ReadExpression("shared", node);
    if (!shared.ok()) return shared.status();
    launch.shared = *std::move(shared);
    return absl::OkStatus();
  }
  return At(node).Error(suites::Unknown("key", key, kKeys));
}

}  // namespace

absl::StatusOr<LaunchDescription> ParseLaunch(std::string_view text) {
  if (text.size() > kMostLaunchBytes) {
    return absl::InvalidArgumentError(Cat("the launch description must have at most ",
                                          kMostLaunchBytes, " bytes, got ", text.size()));
  }
  const toml::parse_result parsed = toml::parse(text);
  if (!parsed) {
    return Location(kFile, parsed.error().source()).Error(parsed.error().description());
  }
  const toml::table& root = parsed.table();
  LaunchDescription launch;
  for (const auto& [key, node] : root) {
    if (absl::Status s = ReadKey(key.str(), node, launch); !s.ok()) return s;
  }
  for (const std::string_view key : {"grid", "block", "args"}) {
    if (root.contains(key)) continue;
    return absl::InvalidArgumentError(
        Cat(kFile, ": the key ", key, " is missing; required are grid, block and args"));
  }
  return launch;
}

absl::Status CheckEntry(std::string_view entry) {
  const bool named =
      !entry.empty() && (std::isalpha(static_cast<unsigned char>(entry.front())) != 0 ||
                         entry.front() == '_' || entry.front() == ':');
  const bool plain = std::all_of(entry.begin(), entry.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("_:<>, *").find(c) != std::string_view::npos;
  });
  if (named && plain && entry.size() <= kMostEntryBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(Cat("must be the name of a kernel of at most ", kMostEntryBytes,
                                        " bytes, such as gemm or lab::gemm<float, 16>"));
}

}  // namespace assay::server
