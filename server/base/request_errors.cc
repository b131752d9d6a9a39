#include "server/base/request_errors.h"

#include <cstddef>
#include <string>

#include "kernels/text/cat.h"

namespace assay::server {
namespace {

// gRPC refuses trailing metadata above 8 KiB: base64 makes 4 of 3 bytes, and the
// status's message needs room, too.
constexpr std::size_t kDetailBytes = 4096;
constexpr std::size_t kMessageBytes = 768;
constexpr std::size_t kFieldBytes = 512;  // of one description: it may quote the client

std::string Shortened(const std::string& text) {
  if (text.size() <= kFieldBytes) return text;
  std::size_t end = kFieldBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // whole UTF-8
  return text.substr(0, end) + "…";
}

}  // namespace

absl::Status BadRequestError(const std::vector<FieldError>& errors) {
  google::rpc::BadRequest request;
  std::string message;
  std::size_t said = 0;
  for (std::size_t n = 0; n < errors.size(); ++n) {
    const std::string field = Shortened(errors[n].field);
    const std::string description = Shortened(errors[n].message);
    if (request.ByteSizeLong() + field.size() + description.size() > kDetailBytes) {
      google::rpc::BadRequest::FieldViolation* rest = request.add_field_violations();
      rest->set_field("spec");
      rest->set_description(Cat("and ", errors.size() - n, " more"));
      break;
    }
    google::rpc::BadRequest::FieldViolation* violation = request.add_field_violations();
    violation->set_field(field);
    violation->set_description(description);
    if (message.size() + field.size() + description.size() <= kMessageBytes && said == n) {
      Append(&message, message.empty() ? "" : "; ", field, ": ", description);
      ++said;
    }
  }
  if (said < errors.size()) {
    Append(&message, message.empty() ? "" : "; and ", errors.size() - said,
           said == 0 ? " bad fields" : " more");
  }
  absl::Status status =
      WithReason(absl::InvalidArgumentError(message), v1::ERROR_REASON_BAD_REQUEST);
  Attach(request, status);
  return status;
}

absl::Status BadRequestError(const google::rpc::BadRequest& errors) {
  std::vector<FieldError> list;
  for (const auto& violation : errors.field_violations()) {
    list.push_back({violation.field(), violation.description()});
  }
  return BadRequestError(list);
}

absl::Status WithRetry(absl::Status status, absl::Duration delay) {
  google::rpc::RetryInfo info;
  const std::int64_t seconds = absl::ToInt64Seconds(delay);
  info.mutable_retry_delay()->set_seconds(seconds);
  info.mutable_retry_delay()->set_nanos(
      static_cast<std::int32_t>(absl::ToInt64Nanoseconds(delay - absl::Seconds(seconds))));
  Attach(info, status);
  return status;
}

}  // namespace assay::server
