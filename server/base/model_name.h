// The model of a device. Devices with the same model are compared with one another.
#ifndef ASSAY_SERVER_BASE_MODEL_NAME_H_
#define ASSAY_SERVER_BASE_MODEL_NAME_H_

#include <string>

#include "assay/v1/device.pb.h"

namespace assay::server {

// The model, such as "NVIDIA H200". For a CPU it includes the number of cores, because the speed
// depends on it: "AMD EPYC 9755 (2 cores)".
std::string ModelName(const v1::Device& device);

}  // namespace assay::server

#endif  // ASSAY_SERVER_BASE_MODEL_NAME_H_
