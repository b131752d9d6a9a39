#include "kernels/judge/ended.h"

#include <utility>

#include "kernels/runtime/kernel_failure.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

Reason ReasonOf(const KernelFailure& failure) {
  if (failure.cause == DeathCause::kDeadline) return Reason::kTimeout;
  if (failure.cause != DeathCause::kNone) return Reason::kCrash;
  switch (failure.error) {
    case KernelError::kRaised:
      return Reason::kCrash;
    case KernelError::kUnsupported:
      return Reason::kUnsupported;
    case KernelError::kLost:
      return Reason::kCancelled;
    case KernelError::kNoTime:
      return Reason::kTimeout;
    case KernelError::kWroteOutside:
      return Reason::kGuard;
    case KernelError::kUnwritten:
      return Reason::kUnwritten;
    case KernelError::kVaries:
      return Reason::kNondeterministic;
    case KernelError::kNotNumber:
      return Reason::kClass;
    case KernelError::kNotStarted:
    case KernelError::kProtocol:
    case KernelError::kUnusable:
      break;
  }
  return Reason::kFault;
}

Blame BlameOf(const KernelFailure& failure, Reason reason) {
  // Somebody else killed it, as the system does when memory is short.
  if (failure.cause == DeathCause::kKilled) return Blame::kHost;
  if (failure.cause == DeathCause::kNone &&
      (failure.error == KernelError::kNoTime || failure.error == KernelError::kNotStarted)) {
    return Blame::kHost;
  }
  if (failure.error == KernelError::kProtocol) return Blame::kCaller;
  if (failure.reference) return Blame::kCaller;  // it is the caller's word of what is right
  return reason == Reason::kFault ? Blame::kKernel : UsualBlame(reason);
}

// Whether the kernel has shown itself to be wrong: it leaves its memory, or its result depends on
// the order of its threads.
bool IsWrong(const KernelFailure& failure, Reason reason) {
  return !failure.reference && (reason == Reason::kGuard || reason == Reason::kNondeterministic);
}

// A kernel in another process: what it does is no fault of the device.
Ended EndedBy(const KernelFailure& failure, const absl::Status& status) {
  Finding finding{ReasonOf(failure), Cat(status.message())};
  finding.blame = BlameOf(failure, finding.reason);
  finding.failure = failure;
  const Verdict verdict = finding.reason == Reason::kUnsupported ? Verdict::kUnsupported
                          : IsWrong(failure, finding.reason)     ? Verdict::kFailed
                                                                 : Verdict::kError;
  return {verdict, std::move(finding)};
}

}  // namespace

Ended EndedBy(const absl::Status& status, std::string_view what) {
  if (const auto failure = FailureOf(status)) return EndedBy(*failure, status);
  const bool memory = status.code() == absl::StatusCode::kResourceExhausted;
  return {memory ? Verdict::kInconclusive : Verdict::kError,
          {memory ? Reason::kMemory : Reason::kFault, Cat(what, ": ", status.message())}};
}

Ended RefusedBy(const absl::Status& status, std::string_view what) {
  if (status.code() == absl::StatusCode::kUnimplemented) {
    return {Verdict::kUnsupported, {Reason::kUnsupported, Cat(status.message())}};
  }
  return EndedBy(status, what);
}

}  // namespace assay::kernels
