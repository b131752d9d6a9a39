// Opens the store's file: takes its lock, brings its schema up to date, and moves a damaged file
// aside. Opening ends with a write, so that a read-only or full disk is found before the first job.
#ifndef ASSAY_SERVER_STORE_STORE_FILE_H_
#define ASSAY_SERVER_STORE_STORE_FILE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/store/sqlite.h"
#include "server/store/store.h"

namespace assay::server {

// Version of the schema this build writes; kept in the file as user_version.
inline constexpr int kSchemaVersion = 2;

// Holds `assay.lock` of a folder for this process.
class FolderLock {
 public:
  // FAILED_PRECONDITION, with the process id, where another daemon holds it.
  static absl::StatusOr<std::unique_ptr<FolderLock>> Take(const std::string& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  explicit FolderLock(int fd) : fd_(fd) {}
  int fd_;
};

// The writing connection to `folder`/assay.db, its schema up to date. Notices are
// appended to `notices`.
absl::StatusOr<std::unique_ptr<Database>> OpenStoreFile(const StoreOptions& options,
                                                        std::vector<std::string>& notices);

// A reading connection to a file that OpenStoreFile has opened.
absl::StatusOr<std::unique_ptr<Database>> OpenStoreReader(const std::string& folder);

}  // namespace assay::server

#endif  // ASSAY_SERVER_STORE_STORE_FILE_H_
