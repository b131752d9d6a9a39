#include <string>
#include <vector>

#include "kernels/providers/user/amd_code_object.h"
#include "kernels/providers/user/code_object.h"
#include "kernels/providers/user/device_program.h"
#include "kernels/providers/user/kernel_signature.h"
#include "tests/fuzz/fuzz.h"

namespace assay::fuzz {
namespace {

void Look(const absl::StatusOr<std::vector<std::string>>& symbols, std::string_view entry) {
  if (!symbols.ok()) {
    Require(absl::IsInvalidArgument(symbols.status()), symbols.status().ToString());
    return;
  }
  const auto chosen = ChooseKernel(*symbols, entry);
  if (!chosen.ok()) return;
  Require(chosen->find('\n') == chosen->npos, "a symbol has two lines");
  const auto parameters = ParametersOf(*chosen);
  if (!parameters.ok() || !*parameters) return;
  for (const simt::Parameter& parameter : **parameters) {
    Require(SizeOf(parameter) >= 1 && SizeOf(parameter) <= 8, "a parameter has no size");
  }
}

void LookAtAmd(std::string_view code, std::string_view entry) {
  const auto objects = AmdCodeObjects(code);
  if (!objects.ok()) {
    Require(absl::IsInvalidArgument(objects.status()), objects.status().ToString());
    return;
  }
  for (const AmdCodeObject& object : *objects) {
    Require(IsFor(object.architecture, object.architecture), "code is not for its own device");
    std::vector<std::string> symbols;
    for (const AmdKernel& kernel : object.kernels) symbols.push_back(kernel.symbol);
    Look(symbols, entry);
  }
}

}  // namespace

// A device program, or the name of a kernel, an end of line, and PTX, a cubin or AMD's code.
void FuzzCode(std::string_view bytes) {
  if (const auto program = ReadDeviceProgram(bytes); program.ok()) {
    Require(ToBytes(*program) == bytes, "a device program is not written as it was read");
  }
  const std::size_t end = bytes.find('\n');
  if (end == bytes.npos) return;
  const std::string_view entry = bytes.substr(0, end), code = bytes.substr(end + 1);
  Look(KernelsOfPtx(code), entry);
  Look(KernelsOfCubin(code), entry);
  LookAtAmd(code, entry);
}

}  // namespace assay::fuzz
