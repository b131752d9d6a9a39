// The numbers are those of cudaError_t. hipError_t has the same numbers up to 1000.
#include "kernels/runtime/gpu/error_status.h"

#include <string>

#include "kernels/runtime/gpu/host.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels::gpu {
namespace {

absl::StatusCode ClassOf(ErrorCode code) {
  if (IsSticky(code)) return absl::StatusCode::kInternal;
  if (IsOutOfMemory(code)) return absl::StatusCode::kResourceExhausted;
  if (IsAbsent(code)) return absl::StatusCode::kUnavailable;
  if (IsWithoutCode(code) || IsUnrecordable(code)) return absl::StatusCode::kUnimplemented;
  switch (code) {
    case 9:    // invalid configuration: a grid or a block that no device has
    case 31:   // not yet implemented
    case 36:   // the call wants a newer driver
    case 701:  // out of resources: registers or shared memory of a block
    case 720:  // more blocks than fit at once, though all must
    case 801:  // not supported
    case 912:  // invalid cluster size
      return absl::StatusCode::kUnimplemented;
    case 102:  // not licensed
    case 800:  // not permitted
      return absl::StatusCode::kPermissionDenied;
    case 46:   // busy, or another process has exclusive use
    case 101:  // no such device
    case 216:  // in use
    case 802:  // the system's services are not ready
    case 804:  // the compatibility driver is not for this device
    case 805:  // CUDA MPS: no connection
    case 806:  // its server
    case 807:  // its server is not ready
    case 808:  // its clients are too many
    case 809:  // its connections are too many
      return absl::StatusCode::kUnavailable;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

std::string_view Architectures() { return ASSAY_GPU_ARCHITECTURES; }

bool IsWithoutCode(ErrorCode code) {
  switch (code) {
    case 98:   // invalid device function
    case 200:  // invalid kernel image
    case 209:  // no kernel image for the device
    case 218:  // invalid intermediate code
    case 221:  // no compiler for it
    case 222:  // of a later toolkit than the driver's
    case 223:  // which may not be compiled
      return true;
    default:
      return false;
  }
}

bool IsForAnother(ErrorCode code) { return code == 209 || code == 222; }

bool IsUnrecordable(ErrorCode code) { return code >= 900 && code <= 908; }

absl::Status StatusOf(ErrorCode code, std::string_view what) {
  if (code == kOk) return absl::OkStatus();
  std::string said = Cat(what, what.empty() ? "" : ": ", Describe(code));
  if (IsWithoutCode(code)) {
    Append(&said, "; this library's kernels are compiled for ", Architectures());
  }
  return absl::Status(ClassOf(code), said);
}

}  // namespace assay::kernels::gpu
