#include "server/auth/file_stamp.h"

#include <sys/stat.h>

#include "kernels/text/cat.h"

namespace assay::server {

std::string FileStamp(std::initializer_list<std::string> paths) {
  std::string stamp;
  for (const std::string& path : paths) {
    struct stat s {};
    if (path.empty() || stat(path.c_str(), &s) != 0) {
      stamp += "-;";
      continue;
    }
    Append(&stamp, s.st_ino, ",", s.st_size, ",", s.st_mtim.tv_sec, ",", s.st_mtim.tv_nsec, ",",
           s.st_ctim.tv_sec, ",", s.st_ctim.tv_nsec, ";");
  }
  return stamp;
}

}  // namespace assay::server
