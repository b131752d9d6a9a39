#include "kernels/judge/ended.h"

#include <utility>

#include "kernels/runtime/kernel_failure.h"
#include "kernels/text/cat.h"

namespace assay {

namespace {

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
