// The name of a kernel as its author wrote it.
#ifndef ASSAY_CLIENT_LINT_KERNEL_NAME_H_
#define ASSAY_CLIENT_LINT_KERNEL_NAME_H_

#include <string>

namespace assay::client {

// Demangled, if it is a name of C++; else as it is.
std::string KernelName(const std::string& symbol);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_LINT_KERNEL_NAME_H_
