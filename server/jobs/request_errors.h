// Refusals of a request in the form clients read: a status with the messages of
// google.rpc as payloads. The service passes them on as they are.
#ifndef ASSAY_SERVER_JOBS_REQUEST_ERRORS_H_
#define ASSAY_SERVER_JOBS_REQUEST_ERRORS_H_

#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "kernels/ops/field.h"

namespace assay {

// Type URLs of payloads begin so.
inline constexpr std::string_view kPayloadPrefix = "type.googleapis.com/";

// INVALID_ARGUMENT with a google.rpc.BadRequest that names every field of
// `errors` (not empty; paths from the request), as far as trailing metadata has
// room; then the last one says how many are left out.
absl::Status BadRequestError(const std::vector<FieldError>& errors);

// `status` with a google.rpc.RetryInfo.
absl::Status WithRetry(absl::Status status, absl::Duration delay);

}  // namespace assay

#endif  // ASSAY_SERVER_JOBS_REQUEST_ERRORS_H_
