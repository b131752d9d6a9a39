// The device whose built-in kernels a program of the scorecard runs. A program links one of
// cpu_device.cc and gpu_device.cc.
#ifndef ASSAY_TESTS_SCORECARD_DEVICE_H_
#define ASSAY_TESTS_SCORECARD_DEVICE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/backends/backend.h"
#include "kernels/runtime/device.h"

namespace assay::scorecard {

const Backend& TheBackend();
absl::StatusOr<std::unique_ptr<Device>> MakeDevice();

}  // namespace assay::scorecard

#endif  // ASSAY_TESTS_SCORECARD_DEVICE_H_
