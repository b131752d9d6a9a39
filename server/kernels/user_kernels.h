// The users' own kernels of this daemon: which forms it takes, how a file comes in, and where the
// library of a provider "user/…" lies. It also knows where those of the cheats lie ("cheat/…"),
// which are part of the installation and need no form.
//
// A kernel comes in three steps. Begin checks the header. The bytes go into the upload one after
// the other. Keep compiles source, checks the library and keeps it. Only Keep takes long.
//
// Thread-safe. An upload belongs to one thread at a time, and must not outlive the object.
#ifndef ASSAY_SERVER_KERNELS_USER_KERNELS_H_
#define ASSAY_SERVER_KERNELS_USER_KERNELS_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/kernels/compiler.h"
#include "server/kernels/kernel_folder.h"
#include "server/kernels/kernel_upload.h"
#include "server/kernels/user_kernel_options.h"

namespace assay::server {

class UserKernels {
 public:
  // Opens <state-dir>/kernels if any form is taken.
  static absl::StatusOr<std::unique_ptr<UserKernels>> Open(UserKernelOptions options);

  // Whether any form is taken.
  bool on() const { return options_.on(); }

  // Checks a header and begins an upload. A file on the node is read here. Errors as
  // assay.v1.ValidationService.UploadKernel says.
  absl::StatusOr<std::unique_ptr<KernelUpload>> Begin(const v1::KernelHeader& header);

  // Keeps what came in. `log` is called with each line of the compiler. `cancel` ends a compile.
  absl::StatusOr<v1::UserKernel> Keep(KernelUpload& upload,
                                      const std::function<void(const std::string&)>& log,
                                      const std::atomic<bool>& cancel);

  // Whether a case can name the provider. The message is in words for the field. INVALID_ARGUMENT:
  // no name of a kernel. FAILED_PRECONDITION: no form is taken, or the installation is not whole.
  // NOT_FOUND: no such kernel is here.
  absl::Status CheckProvider(std::string_view provider);
  // The path of the provider's library. Empty if there is none.
  std::string LibraryOf(std::string_view provider);

 private:
  explicit UserKernels(UserKernelOptions options) : options_(std::move(options)) {}

  absl::Status CheckCheat(std::string_view provider) const;
  absl::Status CompileSource(const KernelUpload& upload, const std::string& library,
                             const DeviceTargets& targets,
                             const std::function<void(const std::string&)>& log,
                             const std::atomic<bool>& cancel) const;
  absl::Status WriteDevicePrograms(const KernelUpload& upload, const std::string& library,
                                   const DeviceTargets& targets) const;
  absl::Status CompileForEmulator(const KernelUpload& upload, const std::string& source,
                                  Compile compile) const;
  absl::Status CompileForDevice(const KernelUpload& upload, const std::string& library,
                                Compile compile) const;

  const UserKernelOptions options_;
  std::unique_ptr<KernelFolder> folder_;  // null if no form is taken
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_KERNELS_USER_KERNELS_H_
