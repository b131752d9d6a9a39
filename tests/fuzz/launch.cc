#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "kernels/simt/expression.h"
#include "server/kernels/cuda_program.h"
#include "server/kernels/launch_description.h"
#include "tests/fuzz/fuzz.h"

namespace assay::fuzz {
namespace {

// Every name is a small number, and 0 now and then.
void Evaluate(const std::string& expression) {
  const simt::Evaluated result =
      simt::Evaluate(expression, [](std::string_view name) -> std::optional<std::int64_t> {
        return static_cast<std::int64_t>(name.size() % 3) - 1;
      });
  Require(!result.unknown_name, "a name that has a value is unknown");
}

}  // namespace

// A launch description, a byte 0, and CUDA source.
void FuzzLaunch(std::string_view bytes) {
  const std::size_t end = std::min(bytes.find('\0'), bytes.size());
  const std::string_view source = end < bytes.size() ? bytes.substr(end + 1) : "";
  const auto launch = server::ParseLaunch(bytes.substr(0, end));
  if (!launch.ok()) {
    Require(absl::IsInvalidArgument(launch.status()), launch.status().ToString());
    return;
  }
  for (const std::string& expression : launch->grid) Evaluate(expression);
  for (const std::string& expression : launch->block) Evaluate(expression);
  Evaluate(launch->shared);
  const auto program = server::CudaProgram("k.cu", source, *launch, "");
  if (!program.ok()) {
    Require(absl::IsInvalidArgument(program.status()), program.status().ToString());
  }
}

}  // namespace assay::fuzz
