// Turns the core's errors into gRPC's. No other file does. An absl::Status with its payloads
// becomes a grpc::Status whose details (grpc-status-details-bin) hold a google.rpc.Status.
#ifndef ASSAY_SERVER_RPC_ERROR_MAPPING_H_
#define ASSAY_SERVER_RPC_ERROR_MAPPING_H_

#include <grpcpp/support/status.h>

#include <string_view>

#include "absl/status/status.h"

namespace assay::server {

// A code keeps its name, except that UNKNOWN and DATA_LOSS become INTERNAL, because the caller can
// do nothing about them. Payloads become details. Every error gets a google.rpc.ErrorInfo: if the
// payloads hold none, its reason is the name of the code.
grpc::Status ToGrpcStatus(const absl::Status& status);

// The code's name, such as "INVALID_ARGUMENT". Metrics have it as a label.
std::string_view CodeName(grpc::StatusCode code);

}  // namespace assay::server

#endif  // ASSAY_SERVER_RPC_ERROR_MAPPING_H_
