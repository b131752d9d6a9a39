// The programs that read compiled code: LLVM's and the CUDA toolkit's.
#ifndef ASSAY_CLIENT_LINT_TOOLS_H_
#define ASSAY_CLIENT_LINT_TOOLS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace assay::client {

// The path of LLVM's program, the newest one of this machine: "llvm-objdump" may be installed as
// llvm-objdump-19. NOT_FOUND says what to install.
absl::StatusOr<std::string> FindLlvm(const std::string& name);

// The path of ptxas. NOT_FOUND says what to install.
absl::StatusOr<std::string> FindPtxas();

// What llvm-objdump writes of the code and the kernel descriptors of a file.
absl::StatusOr<std::string> Disassemble(const std::string& path);

// One section of an ELF file.
struct ElfSection {
  std::string name;
  std::int64_t size = 0;  // [bytes], also where the file holds none
  std::string bytes;      // empty where the file holds none
};
struct ElfView {
  std::uint32_t flags = 0;              // e_flags
  std::vector<std::string> flag_names;  // those that LLVM knows: "EF_AMDGPU_MACH_AMDGCN_GFX942"
  std::uint32_t abi_version = 0;        // of e_ident
  std::vector<ElfSection> sections;

  // nullptr where there is none.
  const ElfSection* Find(std::string_view name) const;
};

// The header and all sections, as llvm-readobj reads them.
absl::StatusOr<ElfView> ReadElf(const std::string& path);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_LINT_TOOLS_H_
