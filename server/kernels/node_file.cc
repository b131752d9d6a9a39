#include "server/kernels/node_file.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "absl/cleanup/cleanup.h"
#include "kernels/text/cat.h"

namespace assay::server {
namespace {

absl::Status Outside(const std::string& path, const std::vector<std::string>& folders) {
  return absl::PermissionDeniedError(
      folders.empty()
          ? Cat("node_path: this daemon approves no folder of its node; its operator can name one "
                "with `assayd --user-kernel-dirs`")
          : Cat("node_path: ", path,
                " is in none of the folders that this daemon's operator "
                "approved (`assayd --user-kernel-dirs`)"));
}

// Opens `rest` below the folder. Returns a descriptor, or -1 with errno: EXDEV if the path leads
// out of the folder.
int OpenBelow(const std::string& folder, const std::string& rest) {
  const int at = open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (at < 0) return -1;
  const absl::Cleanup close_it = [at] { close(at); };
  open_how how{};
  how.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;  // a pipe must not block the daemon
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  return static_cast<int>(syscall(SYS_openat2, at, rest.c_str(), &how, sizeof how));
}

}  // namespace

absl::StatusOr<int> OpenNodeFile(const std::string& path, const std::vector<std::string>& folders) {
  if (!path.starts_with('/') || path.find('\0') != path.npos) {
    return absl::InvalidArgumentError("node_path: must be an absolute path on the node");
  }
  for (std::string folder : folders) {
    while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
    if (!path.starts_with(Cat(folder, "/"))) continue;
    const int file = OpenBelow(folder, path.substr(folder.size() + 1));
    if (file < 0 && (errno == EXDEV || errno == ELOOP)) return Outside(path, folders);
    if (file < 0) {
      return absl::NotFoundError(
          Cat("node_path: cannot open ", path, ": ", std::generic_category().message(errno)));
    }
    struct stat found {};
    if (fstat(file, &found) == 0 && S_ISREG(found.st_mode)) return file;
    close(file);
    return absl::InvalidArgumentError(Cat("node_path: ", path, " is no plain file"));
  }
  return Outside(path, folders);
}

}  // namespace assay::server
