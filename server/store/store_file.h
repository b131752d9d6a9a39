// Opens the store's file: takes its lock, brings its schema up to date, and moves a damaged file
// aside. A large file is not looked through: StoreCheck does that later. Opening ends with a write,
// so that a read-only disk is found before the first job. Before a schema of an earlier version is
// changed, the file is copied to assay.db.v<version>.
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

// Space that is set aside in the folder (assay.reserve), for the case that the disk is full. A
// daemon needs some to open its store, and to delete jobs, which makes more.
//
// Not thread-safe.
class Room {
 public:
  // Takes the space if it is not yet taken and the disk has far more.
  explicit Room(const std::string& folder);

  // Gives the space back to the disk; whether there was any.
  bool Give();
  // Takes what was given. False: the disk has not enough.
  bool Take();
  // Whether space was given that is not yet taken again. It is for deletions.
  bool given() const { return given_; }

 private:
  const std::string path_;
  bool kept_ = false;
  bool given_ = false;
};

// The writing connection to `folder`/assay.db, its schema up to date. Notices are
// appended to `notices`.
// `room` is given where the disk is full, which `state` then says; it says, too, whether a damaged
// file was moved aside.
absl::StatusOr<std::unique_ptr<Database>> OpenStoreFile(const StoreOptions& options, Room& room,
                                                        std::vector<std::string>& notices,
                                                        StoreState& state);

// A reading connection to a file that OpenStoreFile has opened.
absl::StatusOr<std::unique_ptr<Database>> OpenStoreReader(const std::string& folder);

}  // namespace assay::server

#endif  // ASSAY_SERVER_STORE_STORE_FILE_H_
