// The loop of editing: runs a command again whenever one of its files has changed.
#ifndef ASSAY_CLIENT_CLI_ON_CHANGE_H_
#define ASSAY_CLIENT_CLI_ON_CHANGE_H_

#include <functional>
#include <string>
#include <vector>

#include "client/cli/context.h"

namespace assay::client {

// Runs `run`, waits until one of `files` has changed and all were left alone for a moment, and runs
// it again, until Ctrl-C. While it waits, Ctrl-C ends the process. If a Ctrl-C comes during a run,
// that run is the last, and its code is returned. What is empty or no file never changes.
ExitCode RunOnChange(const Context& context, const std::vector<std::string>& files,
                     const std::function<ExitCode()>& run);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_CLI_ON_CHANGE_H_
