#include "server/worker/elsewhere_call.h"

#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_replace.h"
#include "kernels/providers/external/external_reference.h"
#include "kernels/providers/user/runner_reference.h"
#include "kernels/runtime/kernel_failure.h"
#include "kernels/text/cat.h"
#include "kernels/text/visible.h"
#include "server/base/case_spec.h"
#include "server/base/finding.h"
#include "server/base/wire.h"

namespace assay::server {
namespace {

void Fill(const Operand& operand, v1::ExternalOperand* out) {
  out->set_name(std::string(operand.name));
  out->mutable_tensor()->set_dtype(static_cast<v1::DType>(operand.dtype));
  for (const std::int64_t extent : operand.dims) out->mutable_tensor()->add_shape(extent);
}

// What a launch failed of, by the caller's word. Others see the message on their terminals.
absl::Status FaultOf(const v1::ExternalLaunched& launched) {
  const std::string message = Visible(absl::StrReplaceAll(launched.message(), {{"\n", " "}}));
  switch (launched.end()) {
    case v1::LAUNCH_END_RETURNED:
      return absl::OkStatus();
    case v1::LAUNCH_END_RAISED:
      return FailedKernel({.error = KernelError::kRaised}, message);
    case v1::LAUNCH_END_UNSUPPORTED:
      return FailedKernel({.error = KernelError::kUnsupported}, message);
    case v1::LAUNCH_END_WROTE_OUTSIDE:
      return FailedKernel({.error = KernelError::kWroteOutside}, message);
    case v1::LAUNCH_END_UNUSABLE:
      return FailedKernel({.error = KernelError::kUnusable}, message);
    default:
      return FailedKernel(
          {.error = KernelError::kProtocol},
          Cat("the caller ended a launch with launched.end = ", static_cast<int>(launched.end()),
              "; expected one of the values of LaunchEnd from ",
              static_cast<int>(v1::LAUNCH_END_RETURNED), " to ",
              static_cast<int>(v1::LaunchEnd_MAX)));
  }
}

}  // namespace

void ElsewhereCall::Run(PhaseObserver& observer, const Complete& complete) {
  grpc::Status status;
  try {
    status = RunCase(observer, complete);
  } catch (const std::exception& e) {
    status = {grpc::StatusCode::INTERNAL, Cat("exception: ", e.what())};
  }
  observer.Enter(Phase::kIdle);
  EndAfterWrites(status);
}

grpc::Status ElsewhereCall::RunCase(PhaseObserver& observer, const Complete& complete) {
  if (MessageReader::Await(&answer_) != Next::kPiece || !answer_.has_run()) {
    return {grpc::StatusCode::CANCELLED, "no case came"};
  }
  const v1::CaseSpec spec = answer_.run().spec();
  worker::v1::RunElsewhereResponse last;
  worker::v1::RunCaseResponse& end = *last.mutable_end();
  std::vector<FieldError> errors;
  Case c = FromProto(spec, errors);
  if (!errors.empty()) {
    v1::Finding finding = MakeFinding(
        v1::REASON_FAULT, Cat("not a valid case: ", errors[0].field, " ", errors[0].message));
    finding.set_blame(v1::BLAME_CALLER);
    *end.mutable_result() = ResultWithoutRun(spec, device_.info().id, v1::VERDICT_ERROR, finding);
  } else {
    c.elsewhere = this;
    const std::unique_ptr<OwnReference> reference = ReferenceOf(c);
    c.own_reference = reference.get();
    Registry registry;
    registry.Add(ExternalEntry(OpName(c.problem), device_.info().backend));
    CaseRunner runner(device_, registry, /*ceilings=*/nullptr);
    *end.mutable_result() = ToResult(c, runner.Run(c, observer), device_.info().id);
  }
  complete(end);
  Write(&last);
  return grpc::Status::OK;
}

// The caller's own, or one of the kernels that it has sent.
std::unique_ptr<OwnReference> ElsewhereCall::ReferenceOf(const Case& c) {
  if (c.reference.empty()) return nullptr;
  Elsewhere& caller = *this;
  if (IsExternal(c.reference)) return std::make_unique<ExternalReference>(caller, device_);
  return std::make_unique<RunnerReference>(answer_.run().reference_file(), device_);
}

absl::Status ElsewhereCall::Ask(worker::v1::RunElsewhereResponse message) {
  if (Write(&message)) return absl::OkStatus();
  return FailedKernel({.error = KernelError::kLost}, "the caller cannot be reached any more");
}

absl::Status ElsewhereCall::Describe(const Case& c, const Plan& plan) {
  worker::v1::RunElsewhereResponse message;
  v1::ExternalKernel& kernel = *message.mutable_ask()->mutable_kernel();
  *kernel.mutable_spec() = ToProtoResolved(c);
  for (const Operand& input : plan.inputs) Fill(input, kernel.add_inputs());
  Fill(plan.output, kernel.mutable_output());
  return Ask(std::move(message));
}

absl::Status ElsewhereCall::Send(int tensor, std::string_view bytes) {
  worker::v1::RunElsewhereResponse message;
  v1::TensorChunk& chunk = *message.mutable_ask()->mutable_chunk();
  chunk.set_tensor(tensor);
  chunk.set_data(std::string(bytes));
  return Ask(std::move(message));
}

absl::Status ElsewhereCall::Launch(std::uint64_t poison) {
  worker::v1::RunElsewhereResponse message;
  message.mutable_ask()->mutable_launch()->set_poison(poison);
  return Ask(std::move(message));
}

absl::Status ElsewhereCall::LaunchReference() {
  worker::v1::RunElsewhereResponse message;
  message.mutable_ask()->mutable_launch()->set_reference(true);
  return Ask(std::move(message));
}

absl::StatusOr<Elsewhere::Piece> ElsewhereCall::Await() {
  if (MessageReader::Await(&answer_) != Next::kPiece) {
    return FailedKernel({.error = KernelError::kLost}, "the caller cannot be reached any more");
  }
  const v1::ValidateExternalRequest& answer = answer_.answer();
  if (answer.has_chunk()) {
    return Piece{.end = false, .tensor = answer.chunk().tensor(), .bytes = answer.chunk().data()};
  }
  if (!answer.has_launched()) {
    return FailedKernel({.error = KernelError::kProtocol},
                        "the caller sent neither bytes nor the end of the launch");
  }
  if (absl::Status s = FaultOf(answer.launched()); !s.ok()) return s;
  return Piece{.end = true, .tensor = 0, .bytes = {}};
}

}  // namespace assay::server
