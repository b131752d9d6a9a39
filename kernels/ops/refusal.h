// A refusal: an INVALID_ARGUMENT status that knows the field of the request that it is about, so
// that nobody has to read its message.
#ifndef ASSAY_KERNELS_OPS_REFUSAL_H_
#define ASSAY_KERNELS_OPS_REFUSAL_H_

#include "absl/status/status.h"
#include "kernels/ops/field.h"

namespace assay::inline kernels {

// The message of the status is "field: message".
absl::Status Refusal(const FieldError& error);

// What Refusal was given. If the status is no refusal, its field is empty and its message is the
// status's.
FieldError FieldErrorOf(const absl::Status& status);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_OPS_REFUSAL_H_
