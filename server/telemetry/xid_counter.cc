#include "server/telemetry/xid_counter.h"

#include <chrono>
#include <utility>

#include "kernels/text/cat.h"
#include "server/base/fault_codes.h"

namespace assay::server {
namespace {

constexpr unsigned int kWaitMilliseconds = 500;

}  // namespace

std::unique_ptr<XidCounter> XidCounter::Start(std::shared_ptr<NvmlLibrary> library,
                                              nvml::Device device) {
  const nvml::Api& api = library->api();
  if (api.EventSetCreate == nullptr || api.RegisterEvents == nullptr ||
      api.EventSetWait == nullptr || api.EventSetFree == nullptr) {
    return nullptr;
  }
  nvml::EventSet set = nullptr;
  if (api.EventSetCreate(&set) != nvml::kSuccess) return nullptr;
  if (api.RegisterEvents(device, nvml::kEventXid, set) != nvml::kSuccess) {
    api.EventSetFree(set);
    return nullptr;
  }
  return std::unique_ptr<XidCounter>(new XidCounter(std::move(library), set));
}

XidCounter::XidCounter(std::shared_ptr<NvmlLibrary> library, nvml::EventSet set)
    : library_(std::move(library)), set_(set) {
  for (const std::string_view code : kXidCodes) counts_[std::string(code)] = 0;
  thread_ = std::thread([this] { Loop(); });
}

XidCounter::~XidCounter() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    ending_.notify_all();
  }
  thread_.join();
  library_->api().EventSetFree(set_);
}

std::map<std::string, std::int64_t> XidCounter::Counts() {
  const std::lock_guard lock(mutex_);
  return counts_;
}

void XidCounter::Loop() {
  for (;;) {
    nvml::EventData event = {};
    const int code = library_->api().EventSetWait(set_, &event, kWaitMilliseconds);
    std::unique_lock lock(mutex_);
    if (ended_) return;
    if (code == nvml::kSuccess) {
      if (event.event_type == nvml::kEventXid) ++counts_[Cat("xid-", event.event_data)];
    } else if (code != nvml::kTimeout) {
      // The call failed at once and may fail again. The sampling thread notices a lost device.
      ending_.wait_for(lock, std::chrono::seconds(1), [this] { return ended_; });
      if (ended_) return;
    }
  }
}

}  // namespace assay::server
