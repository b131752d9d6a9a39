#include "server/rpc/device_calls.h"

#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "absl/status/statusor.h"
#include "kernels/text/cat.h"
#include "server/base/case_spec.h"
#include "server/base/error_info.h"
#include "server/rpc/open_streams.h"
#include "server/rpc/request_parsing.h"

namespace assay::server {

v1::Device DeviceCalls::Describe(CaseExecutor& executor) {
  v1::Device device = executor.Describe();
  device.set_queue_depth(jobs_.QueueDepth(executor.device_id()));
  if (telemetry_) *device.mutable_telemetry() = telemetry_(executor.device_id());
  return device;
}

absl::Status DeviceCalls::ListDevices(const v1::ListDevicesRequest& request,
                                      v1::ListDevicesResponse& response) {
  for (const auto& executor : devices_.executors) {
    // A device that is busy or cannot measure is listed without ceilings.
    if (request.measure_ceilings()) {
      executor->MeasureCeilings(stopping_).IgnoreError();
      if (stopping_.cancelled()) return Stopping();
    }
    *response.add_devices() = Describe(*executor);
  }
  for (const v1::Device& device : devices_.unavailable) *response.add_devices() = device;
  return absl::OkStatus();
}

absl::Status DeviceCalls::ReleaseDevice(const v1::ReleaseDeviceRequest& request,
                                        v1::Device& device) {
  const absl::StatusOr<std::string> id = ParseDeviceName(request.name());
  if (!id.ok()) return id.status();
  for (const auto& executor : devices_.executors) {
    if (executor->device_id() != *id) continue;
    absl::Status s = request.keep_quarantine() ? executor->GiveBack() : executor->Release();
    if (s.ok()) device = Describe(*executor);
    return s;
  }
  return WithReason(absl::NotFoundError(Cat("no device \"", *id, "\" on this daemon")),
                    v1::ERROR_REASON_DEVICE_NOT_FOUND);
}

absl::Status DeviceCalls::ListKernels(const v1::ListKernelsRequest& request,
                                      v1::ListKernelsResponse& response) {
  // Devices of one backend have the same kernels. List each kernel once.
  std::map<std::tuple<std::string, std::string, std::string>, v1::Kernel> kernels;
  for (const auto& executor : devices_.executors) {
    for (const v1::Kernel& kernel : executor->Kernels()) {
      if (!request.show_planted() && IsPlanted(kernel.provider())) continue;
      auto key = std::make_tuple(kernel.op(), kernel.provider(), kernel.backend());
      kernels.try_emplace(std::move(key), kernel);
    }
  }
  for (auto& [key, kernel] : kernels) *response.add_kernels() = std::move(kernel);
  // The kernels of a backend that could not be loaded are not known.
  for (const v1::Device& device : devices_.unavailable) {
    if (device.id() != device.backend()) continue;
    v1::Kernel& none = *response.add_kernels();
    none.set_op("*");
    none.set_provider("*");
    none.set_backend(device.backend());
    none.set_unavailable_reason(device.unavailable_reason());
  }
  return absl::OkStatus();
}

}  // namespace assay::server
