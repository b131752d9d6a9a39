#include "client/lib/shown.h"

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace assay::client {
namespace {

// No daemon gives it to an error.
constexpr char kDomain[] = "assay.client";

struct Name {
  Shown shown;
  const char* reason;
};
constexpr Name kNames[] = {{Shown::kPlaintext, "SHOWN_PLAINTEXT"},
                           {Shown::kTls, "SHOWN_TLS"},
                           {Shown::kCertificate, "SHOWN_CERTIFICATE"},
                           {Shown::kExpired, "SHOWN_EXPIRED"}};

}  // namespace

void NoteShown(Shown shown, grpc::Status& status) {
  if (!status.error_details().empty()) return;
  for (const Name& name : kNames) {
    if (name.shown != shown) continue;
    google::rpc::ErrorInfo info;
    info.set_domain(kDomain);
    info.set_reason(name.reason);
    google::rpc::Status details;
    details.add_details()->PackFrom(info);
    status = {status.error_code(), status.error_message(), details.SerializeAsString()};
  }
}

Shown ShownOf(const grpc::Status& status) {
  google::rpc::Status details;
  google::rpc::ErrorInfo info;
  if (!details.ParseFromString(status.error_details())) return Shown::kUnknown;
  for (const auto& any : details.details()) {
    if (!any.UnpackTo(&info) || info.domain() != kDomain) continue;
    for (const Name& name : kNames) {
      if (info.reason() == name.reason) return name.shown;
    }
  }
  return Shown::kUnknown;
}

}  // namespace assay::client
