// Rerun: chooses the devices on which a failed case runs again, and makes the job that runs it.
#ifndef ASSAY_CLIENT_BLAME_RERUN_H_
#define ASSAY_CLIENT_BLAME_RERUN_H_

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "assay/v1/device.pb.h"
#include "assay/v1/job.pb.h"

namespace assay::client {

// The ids of at most `most` other devices of the same node and backend that can run a case of
// `device` now and that `admits` accepts. If some are of the device's model, only those count. The
// devices listed after `device` come first, so that the reruns of a whole node spread over it.
std::vector<std::string> SiblingsOf(
    const std::vector<v1::Device>& devices, const v1::Device& device, std::size_t most,
    const std::function<bool(const v1::Device&)>& admits = [](const auto&) { return true; });

// A job of this one case on this device. The daemon names the case.
v1::JobSpec RerunSpec(const v1::CaseSpec& failed, std::string_view device);

}  // namespace assay::client

#endif  // ASSAY_CLIENT_BLAME_RERUN_H_
