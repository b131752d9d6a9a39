#include "kernels/judge/ended.h"

#include <string>
#include <utility>

#include "kernels/ops/launch_fault.h"
#include "kernels/runtime/kernel_failure.h"
#include "kernels/text/cat.h"

namespace assay {
namespace {

Ended EndedBy(LaunchFault fault, std::string message) {
  if (fault == LaunchFault::kUnsupported) {
    return {Verdict::kUnsupported, {Reason::kUnsupported, std::move(message)}};
  }
  const Reason reason = fault == LaunchFault::kRaised ? Reason::kCrash
                        : fault == LaunchFault::kLost ? Reason::kCancelled
                                                      : Reason::kFault;
  Ended end{Verdict::kError, {reason, std::move(message)}};
  if (fault == LaunchFault::kUnusable) end.finding.blame = Blame::kKernel;
  return end;
}

// A kernel in a process of its own: what it does is nobody else's fault.
Ended EndedBy(const KernelFailure& failure, const absl::Status& status, std::string_view what) {
  Reason reason = Reason::kCrash;
  if (failure.cause == DeathCause::kNone) reason = Reason::kFault;
  if (failure.cause == DeathCause::kDeadline) reason = Reason::kTimeout;
  Finding finding{reason, Cat(what, ": ", status.message())};
  finding.blame = Blame::kKernel;
  finding.failure = failure;
  return {Verdict::kError, std::move(finding)};
}

}  // namespace

Ended EndedBy(const absl::Status& status, std::string_view what) {
  if (const auto failure = FailureOf(status)) return EndedBy(*failure, status, what);
  if (const auto fault = LaunchFaultOf(status)) {
    return EndedBy(*fault, std::string(status.message()));
  }
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

}  // namespace assay
