// The table of the daemon's options. Each is a flag, and a key of the TOML file.
#ifndef ASSAY_SERVER_BASE_CONFIG_OPTIONS_H_
#define ASSAY_SERVER_BASE_CONFIG_OPTIONS_H_

#include <string>
#include <string_view>
#include <vector>

#include "server/base/config_fields.h"

namespace assay::server::options {

enum class Kind { kText, kList, kSwitch };

struct Option {
  std::string_view name;  // --name, and the key
  Kind kind = Kind::kText;
  std::string_view placeholder;
  std::string_view help;
  Field field;
  bool reloadable = false;  // a running daemon takes it over
};

// Every option, in the order of --help.
const std::vector<Option>& Table();

// The option of this name; null if there is none.
const Option* Find(std::string_view name);

// "; did you mean \"listen\"?", or nothing if no option is near.
std::string Near(std::string_view name);

}  // namespace assay::server::options

#endif  // ASSAY_SERVER_BASE_CONFIG_OPTIONS_H_
