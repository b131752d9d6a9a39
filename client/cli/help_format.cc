#include "client/cli/help_format.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/report/units.h"
#include "client/report/wrap.h"

namespace assay::client {
namespace {

constexpr std::size_t kColumn = 30;      // where descriptions begin, as CLI11 has it
constexpr std::size_t kLeastText = 30;   // narrower than this nothing is wrapped
constexpr std::size_t kWidestText = 78;  // wider lines are hard to follow

// "  name      description"; CLI11 itself counts bytes.
std::string Entry(const std::string& name, const std::string& description, std::size_t width) {
  std::string text = absl::StrCat("  ", name);
  const std::size_t used = DisplayWidth(text);
  if (description.empty()) return text + "\n";
  text += used >= kColumn ? "\n" + std::string(kColumn, ' ') : std::string(kColumn - used, ' ');
  if (width < kColumn + kLeastText) return absl::StrCat(text, description, "\n");
  bool first = true;
  for (const std::string& line : Fill(description, std::min(width - kColumn, kWidestText))) {
    absl::StrAppend(&text, first ? "" : std::string(kColumn, ' '), line, "\n");
    first = false;
  }
  return text;
}

// Where a line goes on: below its second column, which two blanks begin.
std::size_t Indent(std::string_view line) {
  const std::size_t begin = std::min(line.find_first_not_of(' '), line.size());
  const std::size_t gap = line.find("  ", begin);
  if (gap == std::string_view::npos) return begin;
  return DisplayWidth(line.substr(0, line.find_first_not_of(' ', gap)));
}

}  // namespace

std::string Wrapped(const std::string& text, std::size_t width) {
  if (width < kLeastText) return text;
  std::string wrapped;
  for (const absl::string_view part : absl::StrSplit(text, '\n')) {
    const std::string_view line(part.data(), part.size());
    absl::StrAppend(&wrapped, wrapped.empty() ? "" : "\n");
    const std::size_t indent = Indent(line);
    if (DisplayWidth(line) <= width || indent + kLeastText / 2 > width) {
      absl::StrAppend(&wrapped, part);
      continue;
    }
    // The indented beginning is kept as it is, blanks and all.
    std::size_t begin = 0;
    while (DisplayWidth(line.substr(0, begin)) < indent) ++begin;
    bool first = true;
    for (const std::string& one : Fill(line.substr(begin), width - indent)) {
      if (first) {
        absl::StrAppend(&wrapped, part.substr(0, begin), one);
      } else {
        absl::StrAppend(&wrapped, "\n", std::string(indent, ' '), one);
      }
      first = false;
    }
  }
  return wrapped;
}

HelpFormat::HelpFormat(int width) : width_(static_cast<std::size_t>(std::max(width, 0))) {}

std::string HelpFormat::make_option_name(const CLI::Option* option, bool positional) const {
  if (positional || option->get_lnames().empty()) {
    return CLI::Formatter::make_option_name(option, positional);
  }
  // Further long names are understood, and need no telling.
  std::string name;
  for (const std::string& letter : option->get_snames()) absl::StrAppend(&name, "-", letter, ",");
  return absl::StrCat(name, "--", option->get_lnames().front());
}

std::string HelpFormat::make_option(const CLI::Option* option, bool positional) const {
  return Entry(make_option_name(option, positional) + make_option_opts(option),
               make_option_desc(option), width_);
}

std::string HelpFormat::make_subcommand(const CLI::App* command) const {
  return Entry(command->get_display_name(true), command->get_description(), width_);
}

std::string HelpFormat::make_description(const CLI::App* app) const {
  return Wrapped(CLI::Formatter::make_description(app), width_);
}

std::string HelpFormat::make_footer(const CLI::App* app) const {
  return Wrapped(CLI::Formatter::make_footer(app), width_);
}

}  // namespace assay::client
