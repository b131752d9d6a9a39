// A private folder of a device's workers, for temporary files and caches. It lives as long as this
// object and is made in the system's folder for temporary files. A folder that an earlier daemon
// left behind, because it was killed, is removed by the next daemon of the same user.
#ifndef ASSAY_SERVER_CONTAINMENT_WORK_FOLDER_H_
#define ASSAY_SERVER_CONTAINMENT_WORK_FOLDER_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace assay::server {

class WorkFolder {
 public:
  // Makes a folder with mode 0700.
  static absl::StatusOr<std::unique_ptr<WorkFolder>> Make();
  ~WorkFolder();
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;

  const std::string& path() const { return path_; }
  // HOME, TMPDIR and XDG_CACHE_HOME, which point to the folder.
  std::vector<std::string> Environment() const;

 private:
  WorkFolder(std::string path, int lock) : path_(std::move(path)), lock_(lock) {}

  const std::string path_;
  const int lock_;  // the folder, locked while its owner lives
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_CONTAINMENT_WORK_FOLDER_H_
