// Runs one command line of `assay`. It is a function, so that tests can call it in their own
// process.
#ifndef ASSAY_CLIENT_CLI_APP_H_
#define ASSAY_CLIENT_CLI_APP_H_

#include <ostream>
#include <string>
#include <vector>

namespace assay::client {

// Where a command writes, and what stands there.
struct Streams {
  std::ostream& out;    // results
  std::ostream& err;    // everything else
  bool live = false;    // out is a terminal that can be redrawn
  bool colour = false;  // out is a terminal that may be coloured
  int width = 0;        // its columns; 0: no terminal
};

// Runs one command; `args` without the program's name. Returns the exit code.
int RunCommandLine(const std::vector<std::string>& args, const Streams& streams);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_CLI_APP_H_
