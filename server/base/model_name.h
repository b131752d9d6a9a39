// What devices are compared by: a device's model.
#ifndef ASSAY_SERVER_BASE_MODEL_NAME_H_
#define ASSAY_SERVER_BASE_MODEL_NAME_H_

#include <string>

#include "assay/v1/device.pb.h"

namespace assay {

// "NVIDIA H200"; of a processor, which is as fast as it has cores, "AMD EPYC 9755 (2 cores)".
std::string ModelName(const v1::Device& device);

}  // namespace assay

#endif  // ASSAY_SERVER_BASE_MODEL_NAME_H_
