// The one place where errors become gRPC's: the core's absl::Status, with its
// payloads, as a grpc::Status whose details (grpc-status-details-bin) hold a
// google.rpc.Status.
#ifndef ASSAY_SERVER_RPC_ERROR_MAPPING_H_
#define ASSAY_SERVER_RPC_ERROR_MAPPING_H_

#include <grpcpp/support/status.h>

#include <string_view>

#include "absl/status/status.h"

namespace assay {

// Codes keep their names, except that what the caller can do nothing about
// (UNKNOWN, DATA_LOSS) is INTERNAL. Payloads with a type URL of google.rpc become
// details.
grpc::Status ToGrpcStatus(const absl::Status& status);

// "INVALID_ARGUMENT": the label of metrics.
std::string_view CodeName(grpc::StatusCode code);

}  // namespace assay

#endif  // ASSAY_SERVER_RPC_ERROR_MAPPING_H_
