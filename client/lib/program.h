// Runs another program of this machine and returns its output.
#ifndef ASSAY_CLIENT_LIB_PROGRAM_H_
#define ASSAY_CLIENT_LIB_PROGRAM_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace assay::client {

// Runs words[0], found in PATH, with the others as its arguments and no input; returns
// what it wrote to standard output. UNAVAILABLE says the command and why: there is no such
// program, it ended with another code than 0 (and the first line it wrote to standard
// error), or it took longer than `wait`, after which it is killed.
absl::StatusOr<std::string> RunProgram(const std::vector<std::string>& words, absl::Duration wait);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_LIB_PROGRAM_H_
