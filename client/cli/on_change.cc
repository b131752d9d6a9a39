#include "client/cli/on_change.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "client/cli/interrupt.h"

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

std::vector<Stamp> StampsOf(const std::vector<std::string>& files) {
  std::vector<Stamp> stamps;
  stamps.reserve(files.size());
  for (const std::string& file : files) stamps.push_back(StampOf(file));
  return stamps;
}

}  // namespace

ExitCode RunOnChange(const Context& context, const std::vector<std::string>& files,
                     const std::function<ExitCode()>& run) {
  std::vector<std::string> watched;
  for (const std::string& file : files) {
    if (StampOf(file) != Stamp()) watched.push_back(file);
  }
  for (;;) {
    const std::vector<Stamp> ran = StampsOf(watched);
    const ExitCode code = run();
    if (Interrupt::Came()) return code;
    context.Say(
        absl::StrCat("waiting for ", absl::StrJoin(watched, " or "), " to change; Ctrl-C ends"));
    for (std::vector<Stamp> before = ran;;) {
      absl::SleepFor(kLook);
      const std::vector<Stamp> now = StampsOf(watched);
      const bool settled = now == before;
      before = now;
      const bool all_there = std::find(now.begin(), now.end(), Stamp()) == now.end();
      if (settled && now != ran && all_there) break;
    }
  }
}

}  // namespace assay::client
