// Binds the operands and numbers of a problem to the parameters of a CUDA kernel, as its launch
// description says, and checks the launch. Serves the emulator and cards.
//
// Stands on the standard library alone: it is also linked into users' kernels.
#ifndef ASSAY_KERNELS_SIMT_BINDING_H_
#define ASSAY_KERNELS_SIMT_BINDING_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/simt/cuda/assay_simt_program.h"

namespace assay::inline kernels::simt {

// What a device takes. 0: no limit but those of every GPU.
struct LaunchLimits {
  std::int64_t launch_threads = 0;
  std::int64_t operand_bytes = 0;  // of all operands together
  std::int64_t shared_bytes = 0;   // of a block, beside the arrays of known size
  std::string_view who;            // "the emulator", in messages
};

// The argument that is the debug buffer.
inline constexpr std::string_view kDebugName = "debug";
inline constexpr int kDebugBuffer = -2;  // in place of an operand's number

// One argument of the kernel.
struct Bound {
  int operand = -1;  // of the inputs in order, then the output; -1: a number
  Value value = {};
};

struct BoundLaunch {
  std::array<unsigned, 3> grid{1, 1, 1}, block{1, 1, 1};  // in x, y, z
  std::size_t shared_bytes = 0;
  std::vector<Bound> arguments;  // one for each parameter
};

// Why a launch is refused: a status of assay/kernel.h, ASSAY_OK if it is not.
struct Refusal {
  int status = ASSAY_OK;
  std::string message;
};

// ASSAY_FAILED: the description is wrong for this problem. ASSAY_UNSUPPORTED: the kernel takes
// another format, or the problem is beyond the limits. `text.call` is not used.
Refusal Bind(const assay_problem& problem, const ProgramText& text, const LaunchLimits& limits,
             BoundLaunch* launch);

}  // namespace assay::kernels::simt

#endif  // ASSAY_KERNELS_SIMT_BINDING_H_
