// Lays out the text of --help.
//
// It lists options as CLI11 does, with three changes: descriptions wrap beside their column on a
// terminal, each option has one name, and arguments do not show how they are checked.
#ifndef ASSAY_CLIENT_CLI_HELP_FORMAT_H_
#define ASSAY_CLIENT_CLI_HELP_FORMAT_H_

#include <string>

#include "CLI/CLI.hpp"

namespace assay::client {

class HelpFormat : public CLI::Formatter {
 public:
  // `width`: columns of the terminal; 0 in a pipe, where no line is wrapped.
  explicit HelpFormat(int width);

  std::string make_option_name(const CLI::Option* option, bool positional) const override;
  std::string make_option(const CLI::Option* option, bool positional) const override;
  std::string make_subcommand(const CLI::App* command) const override;
  std::string make_description(const CLI::App* app) const override;
  std::string make_footer(const CLI::App* app) const override;

 private:
  std::size_t width_;
};

// The lines of a text, none wider than `width` (0: any), broken at blanks; a line that was
// broken goes on below its second column, where it has one, else below its beginning.
std::string Wrapped(const std::string& text, std::size_t width);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_CLI_HELP_FORMAT_H_
