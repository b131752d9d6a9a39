// The launch description of a CUDA kernel: what the author writes into my_gemm.toml.
//
//   entry = "gemm"                     # the kernel; needed if the file has several
//   grid = ["(n + 15) / 16", "(m + 15) / 16"]
//   block = [16, 16]
//   shared = "2 * 16 * 16 * 4"         # bytes of "extern __shared__"; without the key: 0
//   args = ["a", "b", "d", "m", "n", "k", "alpha"]
//
// What the names stand for, only a problem says. So a description is checked in two steps: here
// for its form, and by the kernel's library for its values (kernels/simt/program.cc).
#ifndef ASSAY_SERVER_KERNELS_LAUNCH_DESCRIPTION_H_
#define ASSAY_SERVER_KERNELS_LAUNCH_DESCRIPTION_H_

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace assay::server {

inline constexpr std::size_t kMostLaunchBytes = 16 << 10;
inline constexpr std::size_t kMostEntryBytes = 256;

struct LaunchDescription {
  std::string entry;                                // empty: not said
  std::array<std::string, 3> grid{"1", "1", "1"};   // expressions, x first
  std::array<std::string, 3> block{"1", "1", "1"};  // expressions
  std::string shared = "0";                         // an expression [bytes]
  std::vector<std::string> args;  // expressions, real numbers, names of operands and parameters
};

// INVALID_ARGUMENT names the line and the key, the value and what would be right.
absl::StatusOr<LaunchDescription> ParseLaunch(std::string_view text);

// Whether the text can name a kernel: "gemm", "lab::gemm<float, 16>". INVALID_ARGUMENT.
absl::Status CheckEntry(std::string_view entry);

}  // namespace assay::server

#endif  // ASSAY_SERVER_KERNELS_LAUNCH_DESCRIPTION_H_
