// Opens a vendor's shared library by name when it is first needed, so that Assay also runs where
// the library is not installed.
//
// The library is never closed, because kernels hold its functions until the process ends. Any
// thread may use it.
#ifndef ASSAY_KERNELS_PROVIDERS_VENDOR_LIBRARY_H_
#define ASSAY_KERNELS_PROVIDERS_VENDOR_LIBRARY_H_

#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace assay::inline kernels {

class VendorLibrary {
 public:
  // Opens the library. If the environment's `variable` is set, only the file that it names is
  // tried. Otherwise the first of `names` that loads is used. UNAVAILABLE with the loader's message
  // for every file that was tried.
  static absl::StatusOr<VendorLibrary> Open(std::string_view what, const char* variable,
                                            std::span<const char* const> names);

  // Sets *function to the symbol's address, or to nullptr if there is none. status() reports the
  // first missing name.
  template <class F>
  void Find(const char* name, F** function) {
    *function = reinterpret_cast<F*>(Symbol(name));
  }

  // UNAVAILABLE with the first symbol that was not found; otherwise OK.
  absl::Status status() const;
  const std::string& file() const { return file_; }

 private:
  VendorLibrary(std::string_view what, std::string file, void* handle)
      : what_(what), file_(std::move(file)), handle_(handle) {}
  void* Symbol(const char* name);

  std::string what_;
  std::string file_;
  void* handle_;
  std::string missing_;
};

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_PROVIDERS_VENDOR_LIBRARY_H_
