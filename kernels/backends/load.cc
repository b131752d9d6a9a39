#include <dlfcn.h>

#include <string>

#include "absl/status/status.h"
#include "kernels/backends/backend.h"
#include "kernels/backends/simt_backend.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {

absl::StatusOr<const Backend*> FindBackend(std::string_view name) {
  if (name == CpuBackend().name()) return &CpuBackend();
  if (name == SimtBackend().name()) return &SimtBackend();
  const std::string file = Cat("libassay_", name, ".so");
  // RTLD_LOCAL keeps the library's symbols apart: it has its own copy of the code that it shares
  // with this program.
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const std::string_view said = dlerror();
    if (said.starts_with(file) && said.find("No such file") != said.npos) {
      return absl::NotFoundError(Cat("this build has no ", name, " backend (", file, ")"));
    }
    return absl::UnavailableError(Cat("the ", name, " backend cannot be loaded: ", said));
  }
  const auto entry = reinterpret_cast<BackendEntry>(dlsym(library, kBackendSymbol));
  const Backend* backend = entry == nullptr ? nullptr : entry(ASSAY_VERSION);
  if (backend == nullptr) {
    return absl::UnavailableError(Cat(file, " has another version than this program, which is ",
                                      ASSAY_VERSION, "; install both from the same build"));
  }
  return backend;
}

}  // namespace assay::kernels
