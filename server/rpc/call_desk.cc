#include "server/rpc/call_desk.h"

#include "google/protobuf/message.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "server/auth/role.h"
#include "server/base/limit.h"
#include "server/rpc/message_weight.h"

namespace assay::server {
namespace {

// The name of the resource that a message is about, "jobs/k3v9x2mp"; empty if it has none.
std::string NameIn(const google::protobuf::Message& message) {
  const google::protobuf::FieldDescriptor* name = message.GetDescriptor()->FindFieldByName("name");
  return name == nullptr ? "" : message.GetReflection()->GetString(message, name);
}

// The limit that refused a call, if one did that is counted now, and not where it was reached.
std::optional<Limit> UncountedLimitOf(const grpc::Status& status) {
  google::rpc::Status details;
  if (status.error_code() != grpc::StatusCode::RESOURCE_EXHAUSTED ||
      !details.ParseFromString(status.error_details())) {
    return std::nullopt;
  }
  for (const google::protobuf::Any& detail : details.details()) {
    google::rpc::ErrorInfo info;
    if (!detail.UnpackTo(&info)) continue;
    const auto named = info.metadata().find("limit");
    if (named == info.metadata().end()) continue;
    for (const Limit limit : Limits()) {
      if (IsCountedAtEnd(limit) && named->second == Setting(limit)) return limit;
    }
  }
  return std::nullopt;
}

}  // namespace

absl::Status TooManyCallsWait() {
  return LimitReached(
      {.limit = Limit::kWaitingCalls, .value = kMostCallsWaiting, .again = absl::Seconds(1)});
}

absl::Status CallDesk::Admit(Call& call) {
  if (limits_ != nullptr) {
    if (absl::Status s = limits_->CheckConnection(call.context->peer()); !s.ok()) return s;
  }
  if (access_ == nullptr) return absl::OkStatus();
  absl::StatusOr<Caller> caller = access_->Admit(access_->ShownBy(*call.context), call.needs);
  call.caller.reset();  // of a call that was admitted before it was known to need more
  if (!caller.ok()) return caller.status();
  call.caller = *std::move(caller);
  return absl::OkStatus();
}

std::string CallDesk::ClientOf(const Call& call) {
  return call.caller ? server::ClientOf(*call.caller) : ClientAt(call.context->peer());
}

absl::StatusOr<Place> CallDesk::AdmitWatcher(const Call& call) {
  return limits_ == nullptr ? Place() : limits_->AdmitWatcher(ClientOf(call));
}

absl::StatusOr<Place> CallDesk::AdmitUpload(const Call& call) {
  return limits_ == nullptr ? Place() : limits_->AdmitUpload(ClientOf(call));
}

absl::StatusOr<Place> CallDesk::AdmitComparison(const Call& call) {
  return limits_ == nullptr ? Place() : limits_->AdmitComparison(ClientOf(call));
}

absl::StatusOr<WaitingRequests::Request> CallDesk::Keep(const Call& call, grpc::ByteBuffer& bytes) {
  absl::StatusOr<WaitingRequests::Request> kept =
      waiting_.Take(PrintableClient(ClientOf(call)), bytes);
  if (!kept.ok() && metrics_ != nullptr) metrics_->LimitReached(Limit::kRequestBytes);
  return kept;
}

absl::Status CallDesk::Parse(std::string_view bytes, google::protobuf::Message& request) {
  return Counted(ParseWeighed(bytes, parsed_bytes_, request));
}

absl::Status CallDesk::Open(Call& call, const grpc::ByteBuffer* bytes,
                            google::protobuf::Message& request) {
  auto& mine = *const_cast<grpc::ByteBuffer*>(bytes);
  absl::Status status = Admit(call);
  if (status.ok()) status = Counted(ParseWeighed(mine, small_bytes_, request));
  mine.Clear();
  if (status.ok()) call.target = NameIn(request);
  return status;
}

absl::Status CallDesk::Counted(absl::Status parsed) const {
  if (absl::IsResourceExhausted(parsed) && metrics_ != nullptr) {
    metrics_->LimitReached(Limit::kRequestBytes);
  }
  return parsed;
}

void CallDesk::CutConnection(const std::string& peer) {
  if (limits_ != nullptr) limits_->CutConnection(peer);
}

void CallDesk::Close(const Call& call, const grpc::Status& status) {
  const Needed* needed = FindNeeded(call.needs);
  if (call.caller && needed != nullptr && needed->audited) {
    const v1::AuditEvent event =
        Audit(*call.caller, call.needs, call.target, CodeName(status.error_code()));
    if (audit_ != nullptr) audit_->Add(event);
  }
  if (metrics_ == nullptr) return;
  if (const std::optional<Limit> limit = UncountedLimitOf(status)) metrics_->LimitReached(*limit);
  metrics_->RpcFinished(call.method, CodeName(status.error_code()),
                        absl::ToDoubleSeconds(EvenTime() - call.begin));
}

void CallDesk::End(grpc::ServerUnaryReactor* reactor, const Call& call,
                   const absl::Status& status) {
  const grpc::Status answer = ToGrpcStatus(status);
  Close(call, answer);
  reactor->Finish(answer);
}

}  // namespace assay::server
