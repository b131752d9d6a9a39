#include "server/worker/compare_call.h"

#include <exception>
#include <string>
#include <vector>

#include "kernels/text/cat.h"
#include "kernels/validate/compare_tensors.h"
#include "server/base/compare_header.h"
#include "server/base/wire.h"

namespace assay::server {
namespace {

grpc::Status Error(const absl::Status& status) {
  return {static_cast<grpc::StatusCode>(status.code()), std::string(status.message())};
}

// The result of a comparison: a case's result without what only a case has.
v1::CaseResult Result(const Comparison& c, const CaseOutcome& outcome, std::string_view device) {
  v1::CaseResult result = ToResult(JudgedCase(c), outcome, device);
  *result.mutable_spec() = SpecOf(c);
  result.set_name(DefaultName(c));
  result.clear_repro();
  result.clear_bench();
  if (outcome.atol) result.mutable_spec()->set_atol(*outcome.atol);
  if (outcome.rtol) result.mutable_spec()->set_rtol(*outcome.rtol);
  if (!c.expected_digest.empty()) {
    // A digest compares bits only, so there are no statistics.
    result.clear_stats();
  } else if (!c.has_operation) {
    // Without operands there is no bound, so no error is a share of it.
    result.mutable_stats()->clear_rho();
    result.mutable_stats()->clear_rho_proven();
  }
  return result;
}

}  // namespace

void CompareCall::Run(PhaseObserver& observer) {
  grpc::Status status;
  try {
    status = Compare(observer);
  } catch (const std::exception& e) {
    status = {grpc::StatusCode::INTERNAL, Cat("exception: ", e.what())};
  }
  observer.Enter(Phase::kIdle);
  End(status);
}

grpc::Status CompareCall::Refuse(const FieldError& error) {
  auto* violation = response_->mutable_refused()->add_field_violations();
  violation->set_field(error.field);
  violation->set_description(error.message);
  return grpc::Status::OK;
}

grpc::Status CompareCall::Compare(PhaseObserver& observer) {
  grpc::Status gone(grpc::StatusCode::CANCELLED, "the sender has given up");
  v1::CompareTensorsRequest piece;
  Next next = Await(&piece);
  if (next == Next::kGone) return gone;
  if (next != Next::kPiece || !piece.has_header()) {
    return Refuse({"header", "must be the first message"});
  }
  std::vector<FieldError> errors;
  const Comparison comparison = FromProto(piece.header(), errors);
  if (!errors.empty()) return Refuse({Cat("header.", errors[0].field), errors[0].message});
  auto comparing = TensorComparison::Begin(comparison, device_, observer);
  if (absl::IsInvalidArgument(comparing.status())) {
    return Refuse(ErrorInHeader(comparing.status()));
  }
  if (!comparing.ok()) return Error(comparing.status());
  while ((next = Await(&piece)) == Next::kPiece) {
    if (!piece.has_chunk()) return Refuse({"chunk", "must be all but the first message"});
    const absl::Status status = (*comparing)->Add(piece.chunk().tensor(), piece.chunk().data());
    if (absl::IsInvalidArgument(status)) return Refuse({"chunk", Cat(status.message())});
    if (!status.ok()) return Error(status);
  }
  if (next == Next::kGone) return gone;
  const absl::StatusOr<CaseOutcome> outcome = (*comparing)->Finish();
  if (absl::IsInvalidArgument(outcome.status())) {
    return Refuse({"chunk", Cat(outcome.status().message())});
  }
  if (!outcome.ok()) return Error(outcome.status());
  *response_->mutable_result() = Result(comparison, *outcome, device_.info().id);
  response_->set_leased_bytes(device_.arena().leased_bytes());
  return grpc::Status::OK;
}

}  // namespace assay::server
