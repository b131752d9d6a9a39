// Lets a stopped runner go on, and says when.
//
// A signal that comes from another processor first wakes the runner's processor. That takes 5 to 30
// µs, never the same, and so it cannot be taken off a kernel's time. Here a thread of the judge
// takes the runner's processor before, and sends the signal from there. Then it makes way, and what
// is between the signal and the runner is the same few µs each time.
//
// Nothing of the runner runs before the signal, so all time until then is the judge's own.
#ifndef ASSAY_KERNELS_PROVIDERS_USER_RUNNER_WAKER_H_
#define ASSAY_KERNELS_PROVIDERS_USER_RUNNER_WAKER_H_

#include <sys/types.h>

#include <cstdint>

namespace assay::inline kernels {

// The thread's name in /proc. It waits while the runner has its processor, and that is no sign of
// other programs.
inline constexpr char kWakerName[] = "assay-waker";

// Sends SIGCONT to a process of which all threads are stopped. If the thread does not get the
// processor within a millisecond, the caller's thread sends the signal. Returns the time just
// before the signal (NanosecondsNow). Thread-safe.
std::int64_t WakeStopped(pid_t pid);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_PROVIDERS_USER_RUNNER_WAKER_H_
