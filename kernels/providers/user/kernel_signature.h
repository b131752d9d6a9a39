// Reads the parameters of a compiled CUDA kernel from its symbol: "_Z4gemmPKfS0_Pfi" takes three
// pointers to fp32 and an int. The symbol of a kernel marked extern "C" does not tell. For such a
// kernel server/kernels/device_compiler_main.cc makes a second symbol that does:
// "_Z15assay_signatureIPFvPKfiEEvv".
#ifndef ASSAY_KERNELS_PROVIDERS_USER_KERNEL_SIGNATURE_H_
#define ASSAY_KERNELS_PROVIDERS_USER_KERNEL_SIGNATURE_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/simt/cuda/assay_simt_program.h"

namespace assay::inline kernels {

// The parameters in order. Of a real number `dtype` is its format. Nothing if the symbol does not
// say: that of a kernel marked extern "C". UNIMPLEMENTED names a parameter that no launch
// description can give, such as a struct.
absl::StatusOr<std::optional<std::vector<simt::Parameter>>> ParametersOf(const std::string& symbol);

// The size of an argument [bytes].
std::size_t SizeOf(const simt::Parameter& parameter);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_PROVIDERS_USER_KERNEL_SIGNATURE_H_
