#include "server/auth/plain_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

#include "kernels/text/cat.h"

namespace assay::server {

absl::StatusOr<PlainFile> ReadPlainFile(const std::string& path, std::string_view flag) {
  constexpr std::size_t kMostBytes = std::size_t{16} << 20;
  const auto unread = [&](std::string_view why) {
    return absl::NotFoundError(Cat(flag, ": cannot read ", path, ": ", why));
  };
  // Opening a pipe that nobody writes into would wait.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return unread(std::generic_category().message(errno));
  PlainFile file;
  std::array<char, 1 << 14> piece{};
  const bool plain = fstat(fd, &file.about) == 0 && S_ISREG(file.about.st_mode);
  ssize_t count = plain ? 1 : 0;
  while (count > 0 && file.text.size() <= kMostBytes) {
    count = read(fd, piece.data(), piece.size());
    if (count > 0) file.text.append(piece.data(), static_cast<std::size_t>(count));
  }
  const int error = errno;
  close(fd);
  if (!plain) return unread("it is no plain file");
  if (count < 0) return unread(std::generic_category().message(error));
  if (file.text.size() > kMostBytes) return unread("it has more than 16 MiB");
  return file;
}

absl::Status CheckPrivate(const PlainFile& file, const std::string& path, std::string_view flag) {
  if ((file.about.st_mode & (S_IROTH | S_IWOTH | S_IWGRP)) == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      Cat(flag, ": ", path, " may be read or changed by others: chmod 0640 ", path));
}

}  // namespace assay::server
