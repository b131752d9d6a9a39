// Counts the XIDs of one GPU. A thread waits for them on NVML's event set.
#ifndef ASSAY_SERVER_TELEMETRY_XID_COUNTER_H_
#define ASSAY_SERVER_TELEMETRY_XID_COUNTER_H_

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "server/telemetry/nvml_source.h"

namespace assay::server {

class XidCounter {
 public:
  // Starts counting. Null if the device or the driver reports no events.
  static std::unique_ptr<XidCounter> Start(std::shared_ptr<NvmlLibrary> library,
                                           nvml::Device device);
  ~XidCounter();
  XidCounter(const XidCounter&) = delete;
  XidCounter& operator=(const XidCounter&) = delete;

  // The number of XIDs since the start, by code. Known codes are there from the start, with 0.
  std::map<std::string, std::int64_t> Counts();

 private:
  XidCounter(std::shared_ptr<NvmlLibrary> library, nvml::EventSet set);
  void Loop();

  const std::shared_ptr<NvmlLibrary> library_;
  const nvml::EventSet set_;
  std::mutex mutex_;
  std::condition_variable ending_;
  bool ended_ = false;
  std::map<std::string, std::int64_t> counts_;
  std::thread thread_;
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_TELEMETRY_XID_COUNTER_H_
