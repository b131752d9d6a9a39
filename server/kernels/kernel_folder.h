// The folder of the users' kernels, <state-dir>/kernels. Each kernel has a folder in it, named by
// the first 12 hexadecimal digits of the SHA-256 of the file that was sent:
//
//   3fa9c1d2e4b0/about.json   what is known of the kernel (assay.v1.UserKernel)
//   3fa9c1d2e4b0/source       the source as it was sent; absent if a library was sent
//   3fa9c1d2e4b0/kernel.so    the library; may be absent if there is device code
//   3fa9c1d2e4b0/device.sm_90 device code (kernels/providers/user/device_program.h)
//   3fa9c1d2e4b0/toolchain    what compiled it; absent if a library was sent
//   new-x7k2p9/               a kernel that is being written
//
// A kernel is written into a folder of its own, synced to the disk and then renamed; one that takes
// the place of another is exchanged with it. So a daemon that is killed leaves a whole kernel or
// none, and loses none that it had (a file system that cannot exchange folders has a short gap
// there). What it left half-written is removed at the next opening.
//
// The number and the bytes are limited: the kernel that was not used for the longest time goes
// first. A kernel that a kept job names stays, and so does one that came or was asked for a moment
// ago: a job that names it may be on its way.
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
#include "absl/time/time.h"
#include "assay/v1/user_kernel.pb.h"

namespace assay::server {

inline constexpr std::size_t kKernelIdLength = 12;

// "3fa9c1d2e4b0" of "user/3fa9c1d2e4b0". Nothing if the provider is no user's kernel.
std::optional<std::string> KernelIdOf(std::string_view provider);

struct KernelFolderOptions {
  std::string path;
  std::int64_t most_bytes = 0;  // [bytes] of all kernels; 0: no limit
  std::int64_t most_count = 0;  // of kernels; 0: no limit
  // How long a kernel stays after its last use, also if no job names it.
  absl::Duration fresh = absl::Minutes(2);
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

  // Keeps what is in `folder`. The library or device code must be there. If the same kernel of the
  // same toolchain is here and whole, it stays, and `folder` is removed. Another of the same id is
  // replaced. RESOURCE_EXHAUSTED if so many kernels stay that there is no room. ALREADY_EXISTS as
  // FindSame.
  absl::Status Put(const std::string& folder, const v1::UserKernel& kernel,
                   const std::string& toolchain);

  struct Kept {
    v1::UserKernel kernel;
    std::string library;    // path, whether or not it is there; device code lies beside it
    std::string toolchain;  // empty: a library was sent
  };
  // The kernel of an id. Counts as a use.
  std::optional<Kept> Find(const std::string& id);
  // The kernel of the same bytes and the same form. Counts as a use. Nothing if there is none.
  // ALREADY_EXISTS if another kernel of the same id is here and stays.
  absl::StatusOr<std::optional<Kept>> FindSame(const v1::UserKernel& kernel);

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
  // These require mutex_.
  absl::StatusOr<std::set<std::string>> Named() const;
  bool IsFresh(const Entry& entry) const;
  // OK if `kernel` is the entry's, or may take its place.
  absl::Status CheckPlace(const Entry& entry, const v1::UserKernel& kernel) const;
  // Removes kernels until one of `bytes` has room.
  absl::Status MakeRoom(const std::string& id, std::int64_t bytes);
  // Moves `folder` to the kernel's place. What was there is in `folder` then.
  absl::Status Place(const std::string& folder, const std::string& id) const;
  Kept Use(const std::string& id, Entry& entry) const;

  const KernelFolderOptions options_;
  std::mutex mutex_;
  std::map<std::string, Entry> entries_;  // mutex_; by id
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_KERNELS_KERNEL_FOLDER_H_
