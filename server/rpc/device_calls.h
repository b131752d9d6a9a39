// The calls about devices and the kernels that they have.
#ifndef ASSAY_SERVER_RPC_DEVICE_CALLS_H_
#define ASSAY_SERVER_RPC_DEVICE_CALLS_H_

#include <functional>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "assay/v1/service.pb.h"
#include "server/jobs/job_manager.h"
#include "server/worker/executor.h"

namespace assay::server {

// Returns what a device reports about itself.
using TelemetryOf = std::function<v1::Telemetry(std::string_view device)>;

// Thread-safe. Jobs and devices must outlive it. Errors are those of service.proto.
class DeviceCalls {
 public:
  // `telemetry` may be empty.
  DeviceCalls(JobManager& jobs, DeviceSet& devices, TelemetryOf telemetry)
      : jobs_(jobs), devices_(devices), telemetry_(std::move(telemetry)) {}

  // Takes seconds if ceilings are to be measured. UNAVAILABLE after EndMeasuring().
  absl::Status ListDevices(const v1::ListDevicesRequest& request,
                           v1::ListDevicesResponse& response);
  // Waits for the device.
  absl::Status ReleaseDevice(const v1::ReleaseDeviceRequest& request, v1::Device& device);
  absl::Status ListKernels(const v1::ListKernelsRequest& request,
                           v1::ListKernelsResponse& response);
  // Ends the calls that measure ceilings, because the daemon stops. Call it once.
  void EndMeasuring() { stopping_.Cancel(); }

 private:
  v1::Device Describe(CaseExecutor& executor);

  JobManager& jobs_;
  DeviceSet& devices_;
  const TelemetryOf telemetry_;
  CancelToken stopping_;
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_RPC_DEVICE_CALLS_H_
