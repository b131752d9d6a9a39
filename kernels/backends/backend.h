// Describes a backend: one kind of device with its devices, kernels and ceilings. The CPU's backend
// and the emulator's are linked into the program. The backends of GPUs are shared libraries beside
// the worker, which loads a library when its backend is first used. So one set of programs runs on
// every node.
//
// A library exports assay_backend (see kBackendSymbol). It must be built from the same version of
// the sources as the program that loads it, because their interface is C++.
#ifndef ASSAY_KERNELS_BACKENDS_BACKEND_H_
#define ASSAY_KERNELS_BACKENDS_BACKEND_H_

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/bench/ceilings.h"
#include "kernels/providers/provider.h"
#include "kernels/runtime/device.h"

namespace assay::inline kernels {

class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string_view name() const = 0;  // "cpu", "cuda", "hip"

  // The number of devices. UNAVAILABLE with the reason if there can be none: no driver, or a driver
  // older than the toolkit.
  virtual absl::StatusOr<int> DeviceCount() const = 0;

  // Makes a device. UNAVAILABLE with the reason if the device does not exist or lets no process in.
  virtual absl::StatusOr<std::unique_ptr<Device>> MakeDevice(int ordinal,
                                                             const ArenaOptions& options) const = 0;

  // Adds every kernel of this backend. A kernel that cannot run here has the reason in its entry.
  virtual void Register(Registry& registry) const = 0;

  // Makes the ceilings of a device, which are measured when they are first used. `device` must be
  // of this backend, and must outlive them.
  virtual std::unique_ptr<Ceilings> MakeCeilings(Device& device) const = 0;
};

const Backend& CpuBackend();

// The function that a library exports. `version` is that of the program that loads it. If the
// library has another version, the function returns nullptr.
inline constexpr char kBackendSymbol[] = "assay_backend";
using BackendEntry = const Backend* (*)(const char* version);

// Finds the backend of a name: the CPU's, the emulator's ("simt"), or that of the library
// libassay_<name>.so, which the loader looks for in the program's run path. NOT_FOUND if there is
// no such library. UNAVAILABLE with the loader's message if the library cannot be loaded, or if it
// has another version. A library is never unloaded.
absl::StatusOr<const Backend*> FindBackend(std::string_view name);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_BACKENDS_BACKEND_H_
