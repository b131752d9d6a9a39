// Makes the errors that refuse a request. Clients read the messages of google.rpc that the status
// carries as payloads; the service passes them on unchanged.
#ifndef ASSAY_SERVER_BASE_REQUEST_ERRORS_H_
#define ASSAY_SERVER_BASE_REQUEST_ERRORS_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "google/rpc/error_details.pb.h"
#include "kernels/ops/field.h"
#include "server/base/error_info.h"

namespace assay::server {

// INVALID_ARGUMENT, reason BAD_REQUEST, with a google.rpc.BadRequest that names every field of
// `errors` (not empty; paths from the request), as far as trailing metadata has
// room; then the last one says how many are left out.
absl::Status BadRequestError(const std::vector<FieldError>& errors);
absl::Status BadRequestError(const google::rpc::BadRequest& errors);

// `status` with a google.rpc.RetryInfo.
absl::Status WithRetry(absl::Status status, absl::Duration delay);

}  // namespace assay::server

#endif  // ASSAY_SERVER_BASE_REQUEST_ERRORS_H_
