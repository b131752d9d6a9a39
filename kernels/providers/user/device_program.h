// The device code of a user's CUDA kernel for one architecture, with its launch description, as the
// daemon keeps it and a worker reads it. It lies beside the kernel's library.
#ifndef ASSAY_KERNELS_PROVIDERS_USER_DEVICE_PROGRAM_H_
#define ASSAY_KERNELS_PROVIDERS_USER_DEVICE_PROGRAM_H_

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace assay::inline kernels {

struct DeviceProgram {
  std::string name;                  // of the kernel, as its author calls it
  std::string symbol;                // as the compiler calls it
  std::string signature;             // what tells its parameters (kernel_signature.h)
  std::array<std::string, 3> grid;   // expressions, x first
  std::array<std::string, 3> block;  // expressions
  std::string shared;                // an expression [bytes]
  std::vector<std::string> args;     // one for each parameter
  std::string image;                 // what the driver loads: a cubin
};

// What the file begins with: its form has a number.
inline constexpr std::string_view kDeviceProgramMark = "assay device program 2";
// The beginning of the file's name.
inline constexpr std::string_view kDeviceProgramPrefix = "device.";

// The path of the file, beside `library`, for an architecture such as "sm_90".
std::string DeviceProgramFile(std::string_view library, std::string_view architecture);

// Whether there is a file for any architecture.
bool HasDeviceProgram(std::string_view library);

// The bytes of the file. Texts hold no ends of lines: CheckExpression and the compilers'
// symbols have none.
std::string ToBytes(const DeviceProgram& program);
// INVALID_ARGUMENT if the bytes are none of ToBytes.
absl::StatusOr<DeviceProgram> ReadDeviceProgram(std::string_view bytes);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_PROVIDERS_USER_DEVICE_PROGRAM_H_
