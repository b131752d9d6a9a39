#include "client/report/output.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

namespace assay::client {
namespace {

namespace fs = std::filesystem;

// As many links as Linux follows before it says ELOOP.
constexpr int kMostLinks = 40;

// The file that a chain of symbolic links ends in, whether it exists or not.
fs::path FollowLinks(fs::path path) {
  std::error_code error;
  for (int i = 0; i < kMostLinks && fs::is_symlink(path, error); ++i) {
    const fs::path target = fs::read_symlink(path, error);
    if (error) break;
    path = path.parent_path() / target;  // an absolute target stands for itself
  }
  return path;
}

}  // namespace

OutputFile::OutputFile(std::string path, std::string draft)
    : path_(std::move(path)),
      draft_(std::move(draft)),
      stream_(draft_.empty() ? path_ : draft_, std::ios::binary) {}

OutputFile::~OutputFile() {
  if (committed_ || draft_.empty()) return;
  stream_.close();
  std::remove(draft_.c_str());
}

absl::StatusOr<std::unique_ptr<OutputFile>> OutputFile::Create(const std::string& path) {
  std::error_code error;
  const fs::file_status there = fs::status(path, error);
  std::string place = path;
  std::string draft;
  if (!fs::exists(there) || fs::is_regular_file(there)) {
    // Beside the file, because a rename is atomic only within a file system.
    const fs::path real = FollowLinks(path);
    place = real.string();
    draft =
        (real.parent_path() / absl::StrCat(".", real.filename().string(), ".", getpid())).string();
  }
  errno = 0;
  std::unique_ptr<OutputFile> file(new OutputFile(std::move(place), std::move(draft)));
  if (!file->stream_) {
    return absl::InvalidArgumentError(
        absl::StrCat("output: cannot write ", path, ": ", std::generic_category().message(errno)));
  }
  return file;
}

absl::Status OutputFile::Commit() {
  stream_.close();
  if (!stream_ || (!draft_.empty() && std::rename(draft_.c_str(), path_.c_str()) != 0)) {
    return absl::InternalError(
        absl::StrCat("output: cannot write ", path_, ": ", std::generic_category().message(errno)));
  }
  committed_ = true;
  return absl::OkStatus();
}

}  // namespace assay::client
