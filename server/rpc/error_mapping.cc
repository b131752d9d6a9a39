#include "server/rpc/error_mapping.h"

#include <array>
#include <string>

#include "absl/strings/cord.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "server/base/error_info.h"

namespace assay::server {
namespace {

// Names by the number of the code. gRPC and abseil have the same numbers.
constexpr std::array<std::string_view, 17> kNames = {
    "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
    "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
    "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
    "DATA_LOSS", "UNAUTHENTICATED"};

grpc::StatusCode ToGrpcCode(absl::StatusCode code) {
  if (code == absl::StatusCode::kUnknown || code == absl::StatusCode::kDataLoss) {
    return grpc::StatusCode::INTERNAL;
  }
  return static_cast<grpc::StatusCode>(code);
}

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const grpc::StatusCode code = ToGrpcCode(status.code());
  google::rpc::Status details;
  bool has_reason = false;
  status.ForEachPayload([&](absl::string_view type_url, const absl::Cord& payload) {
    google::protobuf::Any* detail = details.add_details();
    detail->set_type_url(std::string(type_url));
    detail->set_value(std::string(payload));
    has_reason |= detail->Is<google::rpc::ErrorInfo>();
  });
  const std::string message(status.message());
  if (!has_reason) {
    google::rpc::ErrorInfo info;
    info.set_domain(kErrorDomain);
    info.set_reason(std::string(CodeName(code)));
    details.add_details()->PackFrom(info);
  }
  // The details do not repeat the message. Both travel in the trailing metadata, which is small.
  details.set_code(code);
  return grpc::Status(code, message, details.SerializeAsString());
}

std::string_view CodeName(grpc::StatusCode code) {
  const auto number = static_cast<std::size_t>(code);
  return number < kNames.size() ? kNames[number] : kNames[2];
}

}  // namespace assay::server
