// The end of a case whose step failed: verdict, reason and blame of every failure.
#include "kernels/judge/ended.h"

#include <gtest/gtest.h>

#include "kernels/runtime/kernel_failure.h"

namespace assay {
namespace {

TEST(Ended, OfTheDeviceOrOfMemory) {
  Ended e = EndedBy(absl::InternalError("no answer"), "compare");
  EXPECT_EQ(e.verdict, Verdict::kError);
  EXPECT_EQ(e.finding.reason, Reason::kFault);
  EXPECT_EQ(e.finding.blame, Blame::kDevice);
  EXPECT_EQ(e.finding.message, "compare: no answer");
  EXPECT_FALSE(e.finding.failure.has_value());
  e = EndedBy(absl::ResourceExhaustedError("too large"), "operand a");
  EXPECT_EQ(e.verdict, Verdict::kInconclusive);
  EXPECT_EQ(e.finding.reason, Reason::kMemory);
  EXPECT_EQ(e.finding.blame, Blame::kHost);
  EXPECT_EQ(e.finding.message, "operand a: too large");
  e = EndedBy(absl::UnimplementedError("cannot"), "launch");
  EXPECT_EQ(e.verdict, Verdict::kError);
  EXPECT_EQ(e.finding.reason, Reason::kFault);
}

TEST(Ended, OnlyPlansKernelsAndReferencesAreUnsupported) {
  Ended e = RefusedBy(absl::UnimplementedError("no such format"), "kernel");
  EXPECT_EQ(e.verdict, Verdict::kUnsupported);
  EXPECT_EQ(e.finding.reason, Reason::kUnsupported);
  EXPECT_EQ(e.finding.message, "no such format");
  e = RefusedBy(absl::InternalError("broken"), "kernel");
  EXPECT_EQ(e.verdict, Verdict::kError);
  EXPECT_EQ(e.finding.message, "kernel: broken");
  e = RefusedBy(absl::ResourceExhaustedError("full"), "kernel");
  EXPECT_EQ(e.verdict, Verdict::kInconclusive);
}

TEST(Ended, OfAKernelInAnotherProcess) {
  const struct {
    DeathCause cause;
    KernelError error;
    Reason reason;
    Verdict verdict;
    Blame blame;
    Blame of_reference;  // where it is the caller's reference that failed
  } rows[] = {
      {DeathCause::kSignal, KernelError::kUnusable, Reason::kCrash, Verdict::kError, Blame::kKernel,
       Blame::kCaller},
      {DeathCause::kExit, KernelError::kNoTime, Reason::kCrash, Verdict::kError, Blame::kKernel,
       Blame::kCaller},
      {DeathCause::kMemory, KernelError::kNotStarted, Reason::kCrash, Verdict::kError,
       Blame::kKernel, Blame::kCaller},
      {DeathCause::kKilled, KernelError::kUnusable, Reason::kCrash, Verdict::kError, Blame::kHost,
       Blame::kHost},
      {DeathCause::kDeadline, KernelError::kUnusable, Reason::kTimeout, Verdict::kError,
       Blame::kKernel, Blame::kCaller},
      {DeathCause::kNone, KernelError::kUnusable, Reason::kFault, Verdict::kError, Blame::kKernel,
       Blame::kCaller},
      {DeathCause::kNone, KernelError::kRaised, Reason::kCrash, Verdict::kError, Blame::kKernel,
       Blame::kCaller},
      {DeathCause::kNone, KernelError::kUnsupported, Reason::kUnsupported, Verdict::kUnsupported,
       Blame::kLibrary, Blame::kCaller},
      {DeathCause::kNone, KernelError::kLost, Reason::kCancelled, Verdict::kError, Blame::kCaller,
       Blame::kCaller},
      {DeathCause::kNone, KernelError::kNoTime, Reason::kTimeout, Verdict::kError, Blame::kHost,
       Blame::kHost},
      {DeathCause::kNone, KernelError::kNotStarted, Reason::kFault, Verdict::kError, Blame::kHost,
       Blame::kHost},
      {DeathCause::kNone, KernelError::kWroteOutside, Reason::kGuard, Verdict::kFailed,
       Blame::kKernel, Blame::kCaller},
      {DeathCause::kNone, KernelError::kProtocol, Reason::kFault, Verdict::kError, Blame::kCaller,
       Blame::kCaller},
      {DeathCause::kNone, KernelError::kUnwritten, Reason::kUnwritten, Verdict::kError,
       Blame::kKernel, Blame::kCaller},
      {DeathCause::kNone, KernelError::kVaries, Reason::kNondeterministic, Verdict::kFailed,
       Blame::kKernel, Blame::kCaller},
      {DeathCause::kNone, KernelError::kNotNumber, Reason::kClass, Verdict::kError, Blame::kKernel,
       Blame::kCaller},
  };
  for (const auto& row : rows) {
    for (const bool reference : {false, true}) {
      SCOPED_TRACE(::testing::Message() << static_cast<int>(row.cause) << " "
                                        << static_cast<int>(row.error) << " " << reference);
      KernelFailure failure;
      failure.cause = row.cause;
      failure.error = row.error;
      failure.reference = reference;
      const Ended e = EndedBy(FailedKernel(failure, "it failed"), "launch");
      EXPECT_EQ(e.finding.reason, row.reason);
      EXPECT_EQ(e.finding.blame, reference ? row.of_reference : row.blame);
      EXPECT_EQ(e.finding.message, "it failed");
      EXPECT_EQ(e.finding.failure, failure);
      // A reference that is wrong proves no kernel wrong.
      const bool failed = row.verdict == Verdict::kFailed && !reference;
      EXPECT_EQ(e.verdict,
                failed || row.verdict == Verdict::kUnsupported ? row.verdict : Verdict::kError);
    }
  }
}

}  // namespace
}  // namespace assay
