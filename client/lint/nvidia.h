// Lint of a cubin and of PTX, the compiled forms of NVIDIA's kernels.
#ifndef ASSAY_CLIENT_LINT_NVIDIA_H_
#define ASSAY_CLIENT_LINT_NVIDIA_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/lint/lint.h"
#include "client/lint/tools.h"

namespace assay::client {

// The kernels of the cubin at `path`. `arch` as Lint has it.
absl::StatusOr<std::vector<LintedKernel>> LintCubin(const std::string& path,
                                                    const std::string& arch);

// The kernels of the PTX at `path`, as ptxas compiles them for `arch`, or for its own target.
absl::StatusOr<std::vector<LintedKernel>> LintPtx(const std::string& path, const std::string& text,
                                                  const std::string& arch);

// The rules alone: the kernels of a cubin's sections.
absl::StatusOr<std::vector<LintedKernel>> HoldCubin(const ElfView& elf);

// What the comments of a cubin's compilation for `target` say; ptxas -v writes them.
std::vector<LintedKernel> HoldPtxas(absl::string_view said, const std::string& target);

// The target of PTX, such as "sm_90a". Empty: the text has none.
std::string TargetOfPtx(absl::string_view text);

// Why code for `target` does not run on `arch`: "sm_90" and "sm_80". Empty: it does. PTX runs on
// every later card, a cubin on later ones of its generation only.
std::string TargetFault(const std::string& target, const std::string& arch, bool ptx);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_LINT_NVIDIA_H_
