// Says that a kernel that runs in another process failed, and how. It travels inside a status,
// from the provider to the verdict, so that nobody has to read the words of the message.
#ifndef ASSAY_KERNELS_RUNTIME_KERNEL_FAILURE_H_
#define ASSAY_KERNELS_RUNTIME_KERNEL_FAILURE_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/status/status.h"

namespace assay::inline kernels {

// How the process of a kernel ended. Values equal assay.v1.DeathCause's; a test holds them
// together.
enum class DeathCause : std::uint8_t {
  kNone = 0,  // it lives, or nobody knows: KernelError says what is wrong
  kSignal = 1,
  kKilled = 2,  // SIGKILL that the judge did not send
  kExit = 3,
  kMemory = 4,
  kDeadline = 5,  // the judge ended it
};

// What is wrong with a kernel whose process did not die.
enum class KernelError : std::uint8_t {
  kUnusable = 0,  // its library, or what it gave, cannot be used, or it returned an error code
  kRaised,        // it ended with an exception of its own
  kUnsupported,   // it says that it does not compute this case
  kLost,          // its process cannot be reached any more
  kNoTime,        // the case's deadline left it too little time to be judged by
  kNotStarted,    // this machine could not start its process; nothing of it was loaded
  kWroteOutside,  // it wrote outside of the memory that it was given
  kProtocol,      // the program that runs it for us sent what is no answer
  // Of a reference of the caller's alone:
  kUnwritten,  // it left elements unwritten
  kVaries,     // two runs on the same inputs gave different results
  kNotNumber,  // it is NaN where the kernel gives a number
};

struct KernelFailure {
  DeathCause cause = DeathCause::kNone;
  KernelError error = KernelError::kUnusable;
  int signal = 0;          // with kSignal and kKilled
  int exit_code = 0;       // with kExit
  bool preparing = false;  // no launch had begun
  bool reference = false;  // it is the caller's reference that failed, not the kernel under test

  friend bool operator==(const KernelFailure&, const KernelFailure&) = default;
};

// A status (INTERNAL) that carries the failure.
absl::Status FailedKernel(const KernelFailure& failure, std::string_view message);
// The failure that a status carries, if it carries one.
std::optional<KernelFailure> FailureOf(const absl::Status& status);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_RUNTIME_KERNEL_FAILURE_H_
