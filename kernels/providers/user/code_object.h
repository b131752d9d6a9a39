// Looks into device code that its author compiled, PTX and cubins of NVIDIA's, for the kernels in
// it (amd_code_object.h: of AMD's). The bytes are a stranger's: nothing in them is trusted. Whether
// a card takes them, the driver says when it loads them.
#ifndef ASSAY_KERNELS_PROVIDERS_USER_CODE_OBJECT_H_
#define ASSAY_KERNELS_PROVIDERS_USER_CODE_OBJECT_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace assay::inline kernels {

// The symbols of the kernels, in the order of the file. INVALID_ARGUMENT says what the bytes are
// instead.
absl::StatusOr<std::vector<std::string>> KernelsOfPtx(std::string_view text);
absl::StatusOr<std::vector<std::string>> KernelsOfCubin(std::string_view bytes);

// Whether a compiler gives a function such a name. What else there may be does not go into messages
// and files.
bool IsSymbol(std::string_view name);

// The kernel that `entry` names: its symbol, or its name as the source has it ("lab::gemm<float>"),
// in which blanks do not count. Empty: the only one. INVALID_ARGUMENT lists those that there are.
absl::StatusOr<std::string> ChooseKernel(const std::vector<std::string>& symbols,
                                         std::string_view entry);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_PROVIDERS_USER_CODE_OBJECT_H_
