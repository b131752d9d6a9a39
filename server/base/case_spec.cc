#include "server/base/case_spec.h"

#include "kernels/cheats/cheats.h"
#include "kernels/providers/provider.h"

namespace assay::server {

std::string OpOf(const v1::CaseSpec& spec) {
  const auto* field = v1::CaseSpec::descriptor()->FindFieldByNumber(spec.problem_case());
  return field == nullptr ? "" : field->name();
}

bool IsPlanted(std::string_view provider) {
  return provider.starts_with(kPlantedPrefix) || provider.starts_with(kCheatPrefix);
}

std::string_view ExternalProvider() { return kExternalProvider; }

bool IsExternal(std::string_view provider) { return provider == kExternalProvider; }

static_assert(kUserKernelPrefix == kUserPrefix);

bool IsUserKernel(std::string_view provider) {
  return provider.starts_with(kUserPrefix) || provider.starts_with(kCheatPrefix);
}

bool RunsOnHost(std::string_view device) {
  return device.starts_with("cpu") || device.starts_with("simt");
}

}  // namespace assay::server
