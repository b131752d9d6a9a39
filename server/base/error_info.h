// The details that a failing status carries beside its message, for programs to read.
#ifndef ASSAY_SERVER_BASE_ERROR_INFO_H_
#define ASSAY_SERVER_BASE_ERROR_INFO_H_

#include <string_view>

#include "absl/status/status.h"
#include "assay/v1/types.pb.h"
#include "google/protobuf/message.h"

namespace assay::server {

// Adds a message of google.rpc to the status as a payload; replaces one of its type. An error
// keeps it on its way to gRPC.
void Attach(const google::protobuf::Message& detail, absl::Status& status);

// `status` with a google.rpc.ErrorInfo of this reason. `field` is the path of the request's
// field that the error is about, such as "spec.device"; it may be empty.
absl::Status WithReason(absl::Status status, v1::ErrorReason reason, std::string_view field = "");

// The word of a reason, "JOB_NOT_FOUND".
std::string_view Word(v1::ErrorReason reason);

// The domain of every reason.
inline constexpr char kErrorDomain[] = "assay";
// The key of ErrorInfo's metadata under which `field` stands.
inline constexpr char kFieldKey[] = "field";

}  // namespace assay::server

#endif  // ASSAY_SERVER_BASE_ERROR_INFO_H_
