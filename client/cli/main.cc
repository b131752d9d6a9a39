// assay: the command line of Assay.
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "client/cli/app.h"
#include "client/lib/errors.h"

namespace {

// The number of a standard stream that is closed would go to the next file or socket, and what is
// written to the stream would land there. Writing to a closed standard output still fails.
void HoldStandardStreams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) < 0) (void)open("/dev/null", fd == STDERR_FILENO ? O_WRONLY : O_RDONLY);
  }
}

}  // namespace

int main(int argc, char** argv) {
  HoldStandardStreams();
  std::ios::sync_with_stdio(false);
  // What gRPC would log reaches the user as a status, in words.
  // No other thread runs yet: NOLINTNEXTLINE(concurrency-mt-unsafe)
  setenv("GRPC_VERBOSITY", "NONE", 0);
  assay::client::Streams streams{std::cout, std::cerr};
  const char* term = std::getenv("TERM");
  const bool dumb = term == nullptr || std::string_view(term) == "dumb";
  if (isatty(STDOUT_FILENO) != 0) {
    const char* no_color = std::getenv("NO_COLOR");
    winsize size = {};
    streams.live = !dumb;
    streams.colour = !dumb && (no_color == nullptr || *no_color == '\0');
    streams.width =
        ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
  }
  const int code =
      assay::client::RunCommandLine(std::vector<std::string>(argv + 1, argv + argc), streams);
  std::cout.flush();
  if (!std::cout) {
    // The write that failed may be long ago, and its errno with it: another tells why.
    const bool lasts = write(STDOUT_FILENO, "\n", 1) < 0;
    std::cerr << "assay: cannot write standard output: "
              << (lasts ? std::generic_category().message(errno) : "some of it was lost") << '\n'
              << std::flush;
    return code != 0 ? code : static_cast<int>(assay::client::ExitCode::kRefused);
  }
  std::cerr.flush();
  return code;
}
