// Lint: finds faults in the compiled code of a GPU kernel before the kernel runs. It compares the
// registers, the shared memory and the scratch that a kernel has with those that its instructions
// use.
//
// A file is a code object for AMD's cards (ELF, or an offload bundle of several), a cubin or PTX
// for NVIDIA's. The readers of LLVM and the CUDA toolkit do the reading, so these must be on this
// machine; a missing one is NOT_FOUND with the name of its package.
#ifndef ASSAY_CLIENT_LINT_LINT_H_
#define ASSAY_CLIENT_LINT_LINT_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace assay::client {

enum class LintSeverity : std::uint8_t { kNote, kWarning, kError };

struct LintFinding {
  LintSeverity severity = LintSeverity::kNote;
  std::string rule;     // a stable word: "vgprs"
  std::string message;  // a sentence with the figures, and what to do
};

struct LintedKernel {
  std::string name;    // demangled
  std::string target;  // "gfx942", "sm_90"
  // What the kernel is granted and what it uses, by name, in registers a thread or wave and in
  // bytes: "vgprs_granted", "vgprs_used", "shared_bytes".
  std::map<std::string, std::int64_t> resources;
  std::vector<LintFinding> findings;  // errors first
};

struct LintReport {
  std::string file;    // as the caller named it
  std::string target;  // of all kernels; several with commas between
  std::vector<LintedKernel> kernels;
};

// Reads the file. `arch` is the card that the kernels are for, such as "gfx942" or "sm_90"; empty:
// whatever the file was compiled for. INVALID_ARGUMENT says what is wrong with the file or with
// `arch`. NOT_FOUND: a program that must read it is missing. UNAVAILABLE: that program failed.
absl::StatusOr<LintReport> Lint(const std::string& path, const std::string& arch);

std::string_view Word(LintSeverity severity);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_LINT_LINT_H_
