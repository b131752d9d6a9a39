// A kernel of a user that is coming in: its header is checked first, then its bytes are taken one
// after the other into a new folder (kernel_folder.h). The folder is removed with the object unless
// the kernel was kept.
//
// For one thread at a time.
#ifndef ASSAY_SERVER_KERNELS_KERNEL_UPLOAD_H_
#define ASSAY_SERVER_KERNELS_KERNEL_UPLOAD_H_

#include <openssl/evp.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "assay/v1/user_kernel.pb.h"
#include "server/kernels/kernel_folder.h"
#include "server/kernels/launch_description.h"
#include "server/kernels/user_kernel_options.h"

namespace assay::server {

// The most bytes of a file's name.
inline constexpr std::size_t kMostKernelNameBytes = 128;

class KernelUpload {
 public:
  // As UserKernels::Begin. `folder` must outlive the upload. It is null if no form is taken.
  static absl::StatusOr<std::unique_ptr<KernelUpload>> Begin(const v1::KernelHeader& header,
                                                             const UserKernelOptions& options,
                                                             KernelFolder* folder);
  ~KernelUpload();
  KernelUpload(const KernelUpload&) = delete;
  KernelUpload& operator=(const KernelUpload&) = delete;

  // Takes the next bytes. INVALID_ARGUMENT if there are more than the header says.
  absl::Status Append(std::string_view bytes);
  // Sets the kernel's digest and provider when all bytes are in. Called once. INVALID_ARGUMENT if
  // there are fewer than the header says.
  absl::Status Finish();

  const v1::UserKernel& kernel() const { return kernel_; }
  const std::string& path() const { return path_; }
  const LaunchDescription& launch() const { return launch_; }
  const std::string& entry() const { return entry_; }

 private:
  KernelUpload(KernelFolder& folder, std::string path);
  absl::Status TakeLaunch(const v1::KernelHeader& header);
  absl::Status ReadNodeFile(const std::string& path, const UserKernelOptions& options);

  KernelFolder& folder_;
  const std::string path_;    // of the folder that is being written
  v1::UserKernel kernel_;     // what the header says
  LaunchDescription launch_;  // of CUDA code, as are the next two
  std::string launch_text_;
  std::string entry_;  // that the header names; may be empty
  std::int64_t taken_ = 0;
  int file_ = -1;
  EVP_MD_CTX* digest_;
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_KERNELS_KERNEL_UPLOAD_H_
