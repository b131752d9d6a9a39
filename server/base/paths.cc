#include "server/base/paths.h"

#include <filesystem>
#include <initializer_list>
#include <string_view>
#include <system_error>

namespace assay::server {
namespace {

// The first of `candidates`, relative to the program's folder, that exists.
std::string FirstBesideProgram(std::initializer_list<std::string_view> candidates) {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return {};
  for (const std::string_view candidate : candidates) {
    const std::filesystem::path path = (program.parent_path() / candidate).lexically_normal();
    if (std::filesystem::exists(path, error)) return path.string();
  }
  return {};
}

}  // namespace

std::string FindWorker() {
  return FirstBesideProgram({"../libexec/assay/assay-worker", "../worker/assay-worker"});
}

std::string FindKernelHeader() {
  const std::string header =
      FirstBesideProgram({"../include/assay/kernel.h", "../../../../kernels/sdk/assay/kernel.h"});
  constexpr std::string_view kHeader = "/assay/kernel.h";
  return header.empty() ? "" : header.substr(0, header.size() - kHeader.size());
}

std::string FindSimt() {
  const std::string header = FirstBesideProgram(
      {"../lib/assay/simt/cuda_runtime.h", "../../kernels/simt/device/cuda_runtime.h"});
  constexpr std::string_view kHeader = "/cuda_runtime.h";
  return header.empty() ? "" : header.substr(0, header.size() - kHeader.size());
}

std::string FindDeviceCompiler() {
  return FirstBesideProgram(
      {"../libexec/assay/assay-device-compiler", "../worker/assay-device-compiler"});
}

std::string FindCheats() {
  return FirstBesideProgram({"../libexec/assay/cheats", "../../kernels/cheats/lib"});
}

std::string FindSuites() {
  // In a build tree the program is in build/<preset>/server/rpc.
  return FirstBesideProgram({"../share/assay/suites", "../../../../kernels/suites"});
}

}  // namespace assay::server
