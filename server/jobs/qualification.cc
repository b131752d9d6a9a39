#include "server/jobs/qualification.h"

#include <cstdint>
#include <map>

#include "server/jobs/job_verdict.h"

namespace assay {

absl::StatusOr<std::vector<Qualification>> QualifyDevices(Store& store, const v1::Job& ended) {
  if (ended.devices_size() == 1) {
    return std::vector<Qualification>{{ended.devices(0), ended.verdict() == v1::VERDICT_PASSED}};
  }
  constexpr int kPage = 200;
  std::map<std::string, v1::Job> by_device;
  for (const std::string& device : ended.devices()) {
    *by_device[device].mutable_findings() = ended.findings();
  }
  for (std::int32_t from = 0;;) {
    const absl::StatusOr<std::vector<v1::CaseResult>> page =
        store.Results(ended.name(), from, kPage);
    if (!page.ok()) return page.status();
    if (page->empty()) break;
    for (const v1::CaseResult& result : *page) {
      CountVerdict(*by_device[result.device()].mutable_counts(), result.verdict());
    }
    from = page->back().index() + 1;
  }
  std::vector<Qualification> devices;
  for (const auto& [device, share] : by_device) {
    devices.push_back({device, JobVerdict(share, ended.state()) == v1::VERDICT_PASSED});
  }
  return devices;
}

}  // namespace assay
