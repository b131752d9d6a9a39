#include "kernels/providers/vendor/library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {

absl::StatusOr<VendorLibrary> VendorLibrary::Open(std::string_view what, const char* variable,
                                                  std::span<const char* const> names) {
  const char* chosen = std::getenv(variable);
  const bool only = chosen != nullptr && *chosen != '\0';
  std::vector<const char*> files(names.begin(), names.end());
  if (only) files.assign(1, chosen);
  std::string tried;
  for (const char* file : files) {
    if (void* handle = dlopen(file, RTLD_NOW | RTLD_LOCAL)) {
      return VendorLibrary(what, file, handle);
    }
    const char* said = dlerror();
    Append(&tried, tried.empty() ? "" : "; ", said == nullptr ? file : said);
  }
  return absl::UnavailableError(
      Cat(what, " cannot be loaded (", tried, "); ",
          only ? "" : "install it where the loader looks, or set ", variable,
          only ? " names the only file tried" : " to its file",
          "; if its folder is not one of the system's, name the folder in "
          "assayd's --worker-read, too"));
}

absl::Status VendorLibrary::status() const {
  if (missing_.empty()) return absl::OkStatus();
  return absl::UnavailableError(Cat(what_, " (", file_, ") has no function ", missing_));
}

void* VendorLibrary::Symbol(const char* name) {
  void* symbol = dlsym(handle_, name);
  if (symbol == nullptr && missing_.empty()) missing_ = name;
  return symbol;
}

}  // namespace assay::kernels
