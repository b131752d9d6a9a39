// Reads the files that say who may call the daemon: roles, certificates, keys.
#ifndef ASSAY_SERVER_AUTH_PLAIN_FILE_H_
#define ASSAY_SERVER_AUTH_PLAIN_FILE_H_

#include <sys/stat.h>

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace assay::server {

struct PlainFile {
  std::string text;
  struct stat about {};  // of the file that was read
};

// Reads a file of at most 16 MiB. `flag` is the option that names it, such as "--tls-key".
// NOT_FOUND if it cannot be read, or is a folder, a pipe or a device: a daemon must not wait for
// somebody to write into a pipe.
absl::StatusOr<PlainFile> ReadPlainFile(const std::string& path, std::string_view flag);

// INVALID_ARGUMENT if others than the owner may change the file, or others than the owner and the
// group may read it.
absl::Status CheckPrivate(const PlainFile& file, const std::string& path, std::string_view flag);

}  // namespace assay::server

#endif  // ASSAY_SERVER_AUTH_PLAIN_FILE_H_
