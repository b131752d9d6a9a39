// A backend: one kind of device with everything that comes with it. The CPU's is linked
// in; those of GPUs are shared libraries beside the worker, loaded when they are asked
// for, so that one set of programs runs on every node.
//
// A library exports assay_backend (see kBackendSymbol), built from the same version of
// the sources as the program that loads it: their interfaces are C++.
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

namespace assay {

class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string_view name() const = 0;  // "cpu", "cuda", "hip"

  // How many devices there are. UNAVAILABLE with the reason where there can be none: no
  // driver, a driver older than the toolkit.
  virtual absl::StatusOr<int> DeviceCount() const = 0;

  // UNAVAILABLE with the reason where the device is not there or lets no process in.
  virtual absl::StatusOr<std::unique_ptr<Device>> MakeDevice(int ordinal,
                                                             const ArenaOptions& options) const = 0;

  // Adds every kernel this backend has, those that cannot run here with the reason.
  virtual void Register(Registry& registry) const = 0;

  // What the device's memory and arithmetic reach, measured when asked for; `device` is
  // one of this backend's, and outlives them.
  virtual std::unique_ptr<Ceilings> MakeCeilings(Device& device) const = 0;
};

const Backend& CpuBackend();

// The version of the program that asks; the library answers nullptr to another's.
inline constexpr char kBackendSymbol[] = "assay_backend";
using BackendEntry = const Backend* (*)(const char* version);

// The backend of a name: the CPU's, or that of libassay_<name>.so, which is looked for
// where the program's run path says. NOT_FOUND where there is no such library;
// UNAVAILABLE with the loader's message where it cannot be loaded. Loaded once, never
// unloaded.
absl::StatusOr<const Backend*> FindBackend(std::string_view name);

}  // namespace assay

#endif  // ASSAY_KERNELS_BACKENDS_BACKEND_H_
