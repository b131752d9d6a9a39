#include "server/containment/work_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "kernels/text/cat.h"

namespace assay::server {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "assay-work-";

int OpenFolder(const std::string& path) {
  return open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

// Removes the folders whose owner is gone: nobody locks them.
void RemoveAbandoned(const fs::path& parent) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(parent, error)) {
    if (!entry.path().filename().string().starts_with(kPrefix)) continue;
    const int fd = OpenFolder(entry.path().string());
    if (fd < 0) continue;
    struct stat found {};
    const bool abandoned =
        fstat(fd, &found) == 0 && found.st_uid == geteuid() && flock(fd, LOCK_EX | LOCK_NB) == 0;
    std::error_code ignored;
    if (abandoned) fs::remove_all(entry.path(), ignored);
    close(fd);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<WorkFolder>> WorkFolder::Make() {
  std::error_code error;
  const fs::path parent = fs::temp_directory_path(error);
  if (error) return absl::NotFoundError("there is no folder for temporary files; set TMPDIR");
  RemoveAbandoned(parent);
  // Another daemon that starts now may take a new folder for abandoned until it is locked.
  for (int attempt = 0; attempt < 3; ++attempt) {
    std::string path = (parent / Cat(kPrefix, "XXXXXX")).string();
    if (mkdtemp(path.data()) == nullptr) {
      return absl::ErrnoToStatus(errno, Cat("no folder can be made in ", parent.string()));
    }
    const int fd = OpenFolder(path);
    struct stat found {};
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && stat(path.c_str(), &found) == 0) {
      return std::unique_ptr<WorkFolder>(new WorkFolder(std::move(path), fd));
    }
    if (fd >= 0) close(fd);
  }
  return absl::UnavailableError(Cat("folders made in ", parent.string(), " are removed at once"));
}

WorkFolder::~WorkFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  close(lock_);
}

std::vector<std::string> WorkFolder::Environment() const {
  return {Cat("HOME=", path_), Cat("TMPDIR=", path_), Cat("XDG_CACHE_HOME=", path_, "/.cache")};
}

}  // namespace assay::server
