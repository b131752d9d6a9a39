// A vendor's shared library, opened by name when it is first needed, so that Assay runs
// where it is not installed.
//
// Never closed: kernels hold its functions until the process ends. Thread-safe.
#ifndef ASSAY_KERNELS_PROVIDERS_VENDOR_LIBRARY_H_
#define ASSAY_KERNELS_PROVIDERS_VENDOR_LIBRARY_H_

#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace assay {

class VendorLibrary {
 public:
  // The file that the environment's `variable` names, which is then the only one tried;
  // else the first of `names` that loads. UNAVAILABLE with every file tried and the
  // loader's last message.
  static absl::StatusOr<VendorLibrary> Open(std::string_view what, const char* variable,
                                            std::span<const char* const> names);

  // Sets *function to the symbol's address; nullptr where there is none, and the first such
  // name is kept for status().
  template <class F>
  void Find(const char* name, F** function) {
    *function = reinterpret_cast<F*>(Symbol(name));
  }

  // UNAVAILABLE with the first symbol that was not found.
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

}  // namespace assay

#endif  // ASSAY_KERNELS_PROVIDERS_VENDOR_LIBRARY_H_
