// Sorts the forms of users' kernels: sources, code objects, and forms with a launch description.
#ifndef ASSAY_SERVER_KERNELS_KERNEL_FORM_H_
#define ASSAY_SERVER_KERNELS_KERNEL_FORM_H_

#include "assay/v1/user_kernel.pb.h"

namespace assay::server {

// Whether the daemon compiles it.
inline bool IsSource(v1::KernelForm form) {
  return form == v1::KERNEL_FORM_C || form == v1::KERNEL_FORM_CXX || form == v1::KERNEL_FORM_CUDA ||
         form == v1::KERNEL_FORM_HIP;
}

inline bool IsCodeObject(v1::KernelForm form) {
  return form == v1::KERNEL_FORM_PTX || form == v1::KERNEL_FORM_CUBIN ||
         form == v1::KERNEL_FORM_HSACO;
}

// Whether a launch description belongs to it.
inline bool HasLaunch(v1::KernelForm form) {
  return form == v1::KERNEL_FORM_CUDA || form == v1::KERNEL_FORM_HIP || IsCodeObject(form);
}

}  // namespace assay::server

#endif  // ASSAY_SERVER_KERNELS_KERNEL_FORM_H_
