#include "client/report/output.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace assay {

OutputFile::OutputFile(std::string path, std::string draft)
    : path_(std::move(path)), draft_(std::move(draft)), stream_(draft_, std::ios::binary) {}

OutputFile::~OutputFile() {
  if (committed_) return;
  stream_.close();
  std::remove(draft_.c_str());
}

absl::StatusOr<std::unique_ptr<OutputFile>> OutputFile::Create(const std::string& path) {
  const std::size_t slash = path.rfind('/') + 1;  // npos + 1 is 0
  // Beside the file, because a rename is atomic only within a file system.
  std::string draft = absl::StrCat(path.substr(0, slash), ".", path.substr(slash), ".", getpid());
  std::unique_ptr<OutputFile> file(new OutputFile(path, std::move(draft)));
  if (!file->stream_) {
    return absl::InvalidArgumentError(
        absl::StrCat("output: cannot write ", path, ": ", std::strerror(errno)));
  }
  return file;
}

absl::Status OutputFile::Commit() {
  stream_.close();
  if (!stream_ || std::rename(draft_.c_str(), path_.c_str()) != 0) {
    return absl::InternalError(
        absl::StrCat("output: cannot write ", path_, ": ", std::strerror(errno)));
  }
  committed_ = true;
  return absl::OkStatus();
}

}  // namespace assay
