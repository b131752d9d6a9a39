// The loop of editing: runs a command again whenever a file has changed.
#ifndef ASSAY_CLIENT_CLI_ON_CHANGE_H_
#define ASSAY_CLIENT_CLI_ON_CHANGE_H_

#include <functional>
#include <string>

#include "client/cli/context.h"

namespace assay::client {

// Runs `run`, waits until `file` has changed and been left alone for a moment, and runs it again,
// until the process is ended (Ctrl-C).
[[noreturn]] void RunOnChange(const Context& context, const std::string& file,
                              const std::function<ExitCode()>& run);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_CLI_ON_CHANGE_H_
