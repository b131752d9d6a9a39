#include "server/base/error_info.h"

#include <string>

#include "absl/strings/cord.h"
#include "google/rpc/error_details.pb.h"
#include "kernels/text/cat.h"

namespace assay::server {

void Attach(const google::protobuf::Message& detail, absl::Status& status) {
  status.SetPayload(Cat("type.googleapis.com/", detail.GetDescriptor()->full_name()),
                    absl::Cord(detail.SerializeAsString()));
}

absl::Status WithReason(absl::Status status, v1::ErrorReason reason, std::string_view field) {
  google::rpc::ErrorInfo info;
  info.set_domain(kErrorDomain);
  info.set_reason(std::string(Word(reason)));
  if (!field.empty()) (*info.mutable_metadata())[kFieldKey] = std::string(field);
  Attach(info, status);
  return status;
}

std::string_view Word(v1::ErrorReason reason) {
  constexpr std::string_view kPrefix = "ERROR_REASON_";
  return std::string_view(v1::ErrorReason_Name(reason)).substr(kPrefix.size());
}

}  // namespace assay::server
