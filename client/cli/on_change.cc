#include "client/cli/on_change.h"

#include <sys/stat.h>

#include <cstdint>
#include <ostream>
#include <tuple>

#include "absl/time/clock.h"

namespace assay::client {
namespace {

// How often the file is looked at. An editor's write is over when two looks agree.
constexpr absl::Duration kLook = absl::Milliseconds(100);

// Size and times of the file. An editor may rename a new file into its place, so the inode counts.
using Stamp = std::tuple<std::uint64_t, std::int64_t, std::int64_t, std::int64_t>;
Stamp StampOf(const std::string& file) {
  struct stat found {};
  if (stat(file.c_str(), &found) != 0) return {};
  return {found.st_ino, found.st_size, found.st_mtim.tv_sec, found.st_mtim.tv_nsec};
}

}  // namespace

void RunOnChange(const Context& context, const std::string& file,
                 const std::function<ExitCode()>& run) {
  for (;;) {
    const Stamp ran = StampOf(file);
    run();
    context.streams.err << "assay: waiting for " << file << " to change; Ctrl-C ends\n"
                        << std::flush;
    for (Stamp before = ran;;) {
      absl::SleepFor(kLook);
      const Stamp now = StampOf(file);
      const bool settled = now == before;
      before = now;
      if (settled && now != ran && now != Stamp()) break;
    }
  }
}

}  // namespace assay::client
