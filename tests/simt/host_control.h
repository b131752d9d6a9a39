// Lets tests control and observe the emulator's host functions (kernels/runtime/gpu/host.h): the
// properties of the device, faults like those of a driver, and resources that are still held. Any
// thread may call these functions.
#ifndef ASSAY_TESTS_SIMT_HOST_CONTROL_H_
#define ASSAY_TESTS_SIMT_HOST_CONTROL_H_

#include <cstdint>
#include <functional>
#include <string>

#include "kernels/runtime/gpu/handles.h"
#include "kernels/runtime/gpu/host.h"

namespace assay::inline kernels::simt {

struct HostConfig {
  int devices = 1;
  gpu::ErrorCode absent = gpu::kOk;  // the code of DeviceCount if it is not kOk
  std::int64_t memory_bytes = std::int64_t{1} << 30;
  std::int64_t largest_block_bytes = 0;  // the largest block of Allocate; 0: all that is free
  bool prohibited = false;
  bool exclusive = false;
};

// Sets the configuration from now on. It removes faults and restores the context. Resources that
// are held stay held.
void ResetHost(const HostConfig& config = {});

// Makes the next call that waits (Wait, Elapsed, a copy to the host) return this code. If the code
// is sticky, every later call returns it, too. A fault of a kernel is 719.
void InjectFault(gpu::ErrorCode code);

// Makes RecordWork return this code until ResetHost, like a stream that cannot record. kOk: it
// records.
void RefuseRecordings(gpu::ErrorCode code);

// Makes LoadModule return this code until ResetHost, like a driver that does not take an image.
// kOk: it takes them.
void RefuseModules(gpu::ErrorCode code);

// A function that LoadModule finds. Each thread of a launch calls `thread` with the launch's
// arguments.
struct EmulatedFunction {
  gpu::FunctionUse use;
  std::function<void(void** arguments)> thread;
};
// Makes LoadModule take the text `image` for a module with this function, and with those that it
// got before.
void AddFunction(const std::string& image, const std::string& symbol, EmulatedFunction function);

struct HostUse {
  std::int64_t device_bytes = 0;
  std::int64_t device_blocks = 0;
  std::int64_t host_blocks = 0;
  std::int64_t streams = 0;
  std::int64_t events = 0;
  std::int64_t modules = 0;
  // Wrong calls since ResetHost: memory, streams or events that were freed twice or never made, and
  // copies outside a block.
  std::int64_t misuses = 0;
  // Since the process began.
  std::int64_t allocations = 0;  // of device and of host memory
  std::int64_t copies_to_host = 0;
  std::int64_t bytes_to_host = 0;
  std::int64_t copies_to_device = 0;
  std::int64_t bytes_to_device = 0;
};
HostUse InUse();

}  // namespace assay::kernels::simt

#endif  // ASSAY_TESTS_SIMT_HOST_CONTROL_H_
