// Counts the faults of AMD GPUs as ROCm SMI's event notifications tell of them: page faults
// of a process ("vm-fault") and resets ("gpu-reset"). The library hands out the events of
// all devices to whoever asks, so one counter serves them all. Not thread-safe.
#ifndef ASSAY_SERVER_TELEMETRY_ROCM_EVENTS_H_
#define ASSAY_SERVER_TELEMETRY_ROCM_EVENTS_H_

#include <cstdint>
#include <map>
#include <string>

namespace assay {

struct RocmApi;

class RocmEvents {
 public:
  explicit RocmEvents(const RocmApi& api) : api_(api) {}
  ~RocmEvents();
  RocmEvents(const RocmEvents&) = delete;
  RocmEvents& operator=(const RocmEvents&) = delete;

  // Since the device was first asked about, by code, each from 0; empty where the library
  // or its driver reports none. Does not wait.
  std::map<std::string, std::int64_t> Counts(std::uint32_t device);

 private:
  void Collect();

  const RocmApi& api_;
  // Of devices that report; those that do not have no codes.
  std::map<std::uint32_t, std::map<std::string, std::int64_t>> counts_;
};

}  // namespace assay

#endif  // ASSAY_SERVER_TELEMETRY_ROCM_EVENTS_H_
