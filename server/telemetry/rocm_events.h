// Counts the faults of AMD GPUs from ROCm SMI's event notifications: page faults of a process
// ("vm-fault") and resets ("gpu-reset"). The library gives the events of all devices to any caller,
// so one counter serves all devices. Not thread-safe.
#ifndef ASSAY_SERVER_TELEMETRY_ROCM_EVENTS_H_
#define ASSAY_SERVER_TELEMETRY_ROCM_EVENTS_H_

#include <cstdint>
#include <map>
#include <string>

namespace assay::server {

struct RocmApi;

class RocmEvents {
 public:
  explicit RocmEvents(const RocmApi& api) : api_(api) {}
  ~RocmEvents();
  RocmEvents(const RocmEvents&) = delete;
  RocmEvents& operator=(const RocmEvents&) = delete;

  // The number of faults by code, since the first call for this device. Each code begins at 0.
  // Empty if the library or the driver reports no events. Does not wait.
  std::map<std::string, std::int64_t> Counts(std::uint32_t device);

 private:
  void Collect();

  const RocmApi& api_;
  // A device that reports no events has no codes.
  std::map<std::uint32_t, std::map<std::string, std::int64_t>> counts_;
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_TELEMETRY_ROCM_EVENTS_H_
