// Runs a user's command and writes a text to its standard input.
#ifndef ASSAY_CLIENT_CLI_HOOK_H_
#define ASSAY_CLIENT_CLI_HOOK_H_

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace assay::client {

// Runs `command` in /bin/sh, `input` on its standard input, its output to standard error.
// DEADLINE_EXCEEDED where it has not ended in `limit`: it and what it started are killed.
// ABORTED with the exit code or the signal where it failed.
//
// It has a process group of its own, which a terminal's Ctrl-C does not reach: SIGINT,
// SIGTERM and SIGHUP kill it and what it started, then act as they would have before;
// CANCELLED where this process outlives that. One at a time in a process.
absl::Status RunHook(const std::string& command, const std::string& input, absl::Duration limit);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_CLI_HOOK_H_
