// The folder of the users' kernels, <state-dir>/kernels. Each kernel has a folder in it, named by
// the first 12 hexadecimal digits of the SHA-256 of the file that was sent:
//
//   3fa9c1d2e4b0/about.json   what is known of the kernel (assay.v1.UserKernel)
//   3fa9c1d2e4b0/source       the source as it was sent; absent if a library was sent
//   3fa9c1d2e4b0/kernel.so    the library
//   3fa9c1d2e4b0/toolchain    what compiled it; absent if a library was sent
//   new-x7k2p9/               a kernel that is being written
//
// A kernel is written into a folder of its own, synced to the disk and then renamed. So a daemon
// that is killed leaves a whole kernel or none; what it left half-written is removed at the next
// opening. The number and the bytes are limited: the kernel that was not used for the longest time
// goes first. A kernel that a kept job names stays.
//
// Thread-safe. Only the user of the daemon can read the folder.
#ifndef ASSAY_SERVER_KERNELS_KERNEL_FOLDER_H_
#define ASSAY_SERVER_KERNELS_KERNEL_FOLDER_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "assay/v1/user_kernel.pb.h"

namespace assay::server {

inline constexpr std::size_t kKernelIdLength = 12;

// "3fa9c1d2e4b0" of "user/3fa9c1d2e4b0". Nothing if the provider is no user's kernel.
std::optional<std::string> KernelIdOf(std::string_view provider);

struct KernelFolderOptions {
  std::string path;
  std::int64_t most_bytes = 0;  // [bytes] of all kernels; 0: no limit
  std::int64_t most_count = 0;  // of kernels; 0: no limit
  // Returns the providers ("user/…") that kept jobs name. Asked only if a kernel has to go. Empty:
  // no job names any.
  std::function<absl::StatusOr<std::set<std::string>>()> named;
};

class KernelFolder {
 public:
  // Makes the folder if it does not exist, and removes what is half-written.
  static absl::StatusOr<std::unique_ptr<KernelFolder>> Open(KernelFolderOptions options);

  // Makes a folder for a kernel that is being written, and returns its path. Put or Discard ends
  // it.
  absl::StatusOr<std::string> NewFolder();
  void Discard(const std::string& folder);

  // Keeps what is in `folder`. The file kernel.so must be there. A kernel of the same id is
  // replaced. RESOURCE_EXHAUSTED if kept jobs name so many kernels that there is no room.
  absl::Status Put(const std::string& folder, const v1::UserKernel& kernel,
                   const std::string& toolchain);

  struct Kept {
    v1::UserKernel kernel;
    std::string library;    // path
    std::string toolchain;  // empty: a library was sent
  };
  // The kernel of an id. Counts as a use.
  std::optional<Kept> Find(const std::string& id);

 private:
  struct Entry {
    v1::UserKernel kernel;
    std::string toolchain;
    std::int64_t bytes = 0;
    std::filesystem::file_time_type used;
  };

  explicit KernelFolder(KernelFolderOptions options) : options_(std::move(options)) {}

  void Load();
  std::string PathOf(const std::string& id) const { return options_.path + "/" + id; }
  // Removes kernels until one of `bytes` has room. Requires mutex_.
  absl::Status MakeRoom(const std::string& id, std::int64_t bytes);

  const KernelFolderOptions options_;
  std::mutex mutex_;
  std::map<std::string, Entry> entries_;  // mutex_; by id
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_KERNELS_KERNEL_FOLDER_H_
