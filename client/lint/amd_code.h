// Reads the disassembly of an AMD code object: the kernel descriptors, and the registers that the
// instructions of each function name.
#ifndef ASSAY_CLIENT_LINT_AMD_CODE_H_
#define ASSAY_CLIENT_LINT_AMD_CODE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace assay::client {

// An instruction that names a higher register than all before it.
struct RegisterUse {
  int highest = -1;         // the number of the register
  std::int64_t offset = 0;  // [bytes] from the beginning of the function
  std::string instruction;  // "v_mfma_f32_32x32x8_bf16"
};

// Register uses of one kind, in the order of the code. The last one is the highest.
using RegisterUses = std::vector<RegisterUse>;

// The highest register, -1 where there is none.
inline int Highest(const RegisterUses& uses) { return uses.empty() ? -1 : uses.back().highest; }

struct FunctionCode {
  RegisterUses vector, accumulator, scalar;  // v, a, s
  std::string scratch;                       // the first instruction that uses scratch; empty: none
  bool calls = false;                        // it calls functions, whose registers are not counted
};

struct AmdCode {
  std::map<std::string, FunctionCode> functions;
  // By kernel: the directives of its descriptor without ".amdhsa_", such as "next_free_vgpr".
  std::map<std::string, std::map<std::string, std::int64_t>> descriptors;
  // By kernel: why llvm-objdump could not decode the descriptor.
  std::map<std::string, std::string> undecoded;
};

// Reads what llvm-objdump -D wrote. Lines that it does not understand are left out.
AmdCode ReadAmdCode(absl::string_view disassembly);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_LINT_AMD_CODE_H_
