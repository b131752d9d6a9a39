#include "server/telemetry/rocm_events.h"

#include <array>
#include <cstring>
#include <string_view>

#include "server/base/fault_codes.h"
#include "server/telemetry/rocm_source.h"

namespace assay::server {
namespace {

// rsmi_evt_notification_type_t, and the mask of one.
constexpr int kVmFault = 1, kPreReset = 3;
constexpr std::uint64_t MaskOf(int event) { return std::uint64_t{1} << (event - 1); }

// The most events that one call takes. The next call takes the rest.
constexpr int kMostEvents = 1024;

// The beginning of rsmi_evt_notification_data_t. A message follows it, and later versions have a
// longer one. So only one event at a time is asked for.
struct EventHead {
  std::uint32_t device;
  std::int32_t event;
};

std::string_view CodeOf(int event) {
  return event == kVmFault ? kVmFaultCode : event == kPreReset ? kGpuResetCode : "";
}

}  // namespace

RocmEvents::~RocmEvents() {
  if (api_.EventStop == nullptr) return;
  for (const auto& [device, codes] : counts_) {
    if (!codes.empty()) api_.EventStop(device);
  }
}

std::map<std::string, std::int64_t> RocmEvents::Counts(std::uint32_t device) {
  if (api_.EventInit == nullptr || api_.EventMask == nullptr || api_.EventGet == nullptr) return {};
  if (!counts_.contains(device)) {
    auto& codes = counts_[device];
    if (api_.EventInit(device) == 0) {
      if (api_.EventMask(device, MaskOf(kVmFault) | MaskOf(kPreReset)) == 0) {
        for (const std::string_view code : kAmdFaultCodes) codes[std::string(code)] = 0;
      } else if (api_.EventStop != nullptr) {
        api_.EventStop(device);
      }
    }
  }
  Collect();
  return counts_[device];
}

void RocmEvents::Collect() {
  for (int n = 0; n < kMostEvents; ++n) {
    alignas(8) std::array<unsigned char, 4096> data = {};  // longer than any version's
    std::uint32_t count = 1;
    if (api_.EventGet(0, &count, data.data()) != 0 || count == 0) return;
    EventHead head;
    std::memcpy(&head, data.data(), sizeof head);
    const auto device = counts_.find(head.device);
    if (device == counts_.end()) continue;
    const auto code = device->second.find(std::string(CodeOf(head.event)));
    if (code != device->second.end()) ++code->second;
  }
}

}  // namespace assay::server
