// What tests decide and see of the emulator's host functions (kernels/runtime/gpu/host.h):
// the device they tell of, faults that come as a driver's would, and what is still held.
// Thread-safety: any thread.
#ifndef ASSAY_TESTS_SIMT_HOST_CONTROL_H_
#define ASSAY_TESTS_SIMT_HOST_CONTROL_H_

#include <cstdint>

#include "kernels/runtime/gpu/handles.h"

namespace assay::simt {

struct HostConfig {
  int devices = 1;
  gpu::ErrorCode absent = gpu::kOk;  // what DeviceCount returns where it is not kOk
  std::int64_t memory_bytes = std::int64_t{1} << 30;
  std::int64_t largest_block_bytes = 0;  // that Allocate gives; 0: all that is free
  bool prohibited = false;
  bool exclusive = false;
};

// What there is from now on; no more faults, and the context is not lost. What is held
// stays so.
void ResetHost(const HostConfig& config = {});

// The next call that waits (Wait, Elapsed, a copy to the host) returns this code, and
// every call after it too where the code is sticky. A fault of a kernel is 719.
void InjectFault(gpu::ErrorCode code);

// RecordWork returns this code from now on, until ResetHost, as a stream does that cannot
// record; kOk: it records.
void RefuseRecordings(gpu::ErrorCode code);

struct HostUse {
  std::int64_t device_bytes = 0;
  std::int64_t device_blocks = 0;
  std::int64_t host_blocks = 0;
  std::int64_t streams = 0;
  std::int64_t events = 0;
  // Calls that were wrong since ResetHost: memory, streams or events freed twice or
  // never made, copies outside a block.
  std::int64_t misuses = 0;
  // Since the process began.
  std::int64_t allocations = 0;  // of device and of host memory
  std::int64_t copies_to_host = 0;
  std::int64_t bytes_to_host = 0;
  std::int64_t copies_to_device = 0;
  std::int64_t bytes_to_device = 0;
};
HostUse InUse();

}  // namespace assay::simt

#endif  // ASSAY_TESTS_SIMT_HOST_CONTROL_H_
