// Reads the symbols of C++ that a stranger's file may hold.
#ifndef ASSAY_KERNELS_PROVIDERS_USER_DEMANGLE_H_
#define ASSAY_KERNELS_PROVIDERS_USER_DEMANGLE_H_

#include <optional>
#include <string>

namespace assay::inline kernels {

// "lab::gemm(float const*, int)" of "_ZN3lab4gemmEPKfi". Nothing if the symbol is none of C++, or
// has other types than plain ones, or if its text could be far longer than itself: a symbol may
// name a part of itself again and again.
std::optional<std::string> Demangled(const std::string& symbol);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_PROVIDERS_USER_DEMANGLE_H_
