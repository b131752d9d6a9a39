#include "server/rpc/error_mapping.h"

#include <array>
#include <string>

#include "absl/strings/cord.h"
#include "google/rpc/status.pb.h"

namespace assay {
namespace {

// By the number of the code, which gRPC and abseil share.
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
  status.ForEachPayload([&details](absl::string_view type_url, const absl::Cord& payload) {
    google::protobuf::Any* detail = details.add_details();
    detail->set_type_url(std::string(type_url));
    detail->set_value(std::string(payload));
  });
  const std::string message(status.message());
  if (details.details().empty()) return grpc::Status(code, message);
  // The message is not repeated in the details: both travel in the trailing
  // metadata, which is small.
  details.set_code(code);
  return grpc::Status(code, message, details.SerializeAsString());
}

std::string_view CodeName(grpc::StatusCode code) {
  const auto number = static_cast<std::size_t>(code);
  return number < kNames.size() ? kNames[number] : kNames[2];
}

}  // namespace assay
