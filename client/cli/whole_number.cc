#include "client/cli/whole_number.h"

#include <optional>

#include "absl/strings/str_cat.h"

namespace assay::client {
namespace {

void Add(CLI::App& app, const std::string& name, int& value, const std::string& help,
         std::optional<WholeRange> range) {
  const auto check = [name, range](const std::string& text) -> std::string {
    int number = 0;
    if (CLI::detail::lexical_cast(text, number) &&
        (!range || (number >= range->least && number <= range->most))) {
      return "";
    }
    throw BadOption(
        absl::StrCat(name, ": must be a whole number",
                     range ? absl::StrCat(" from ", range->least, " to ", range->most) : "",
                     ", got \"", text, "\""));
  };
  app.add_option("--" + name, value, help)->type_name("N")->check(check);
}

}  // namespace

void AddWholeNumber(CLI::App& app, const std::string& name, int& value, const std::string& help) {
  Add(app, name, value, help, std::nullopt);
}

void AddWholeNumber(CLI::App& app, const std::string& name, int& value, const std::string& help,
                    WholeRange range) {
  Add(app, name, value, help, range);
}

}  // namespace assay::client
