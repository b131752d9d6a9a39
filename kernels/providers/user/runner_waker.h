// Lets a stopped runner go on, and says when.
//
// A signal to a process whose processor sleeps first wakes that processor. That takes 5 to 30 µs,
// never the same, and so it cannot be taken off a kernel's time. Here a thread of the judge keeps
// the runner's processor awake until the signal is sent. Then it makes way, and what is between the
// signal and the runner is the same few µs each time.
//
// Nothing of the runner runs before the signal, so all time until then is the judge's own. Only the
// caller's thread sends it, once: a runner that is stopped again stays so.
#ifndef ASSAY_KERNELS_PROVIDERS_USER_RUNNER_WAKER_H_
#define ASSAY_KERNELS_PROVIDERS_USER_RUNNER_WAKER_H_

#include <sys/types.h>

#include <cstdint>

namespace assay::inline kernels {

// The thread's name in /proc. It waits while the runner has its processor, and that is no sign of
// other programs.
inline constexpr char kWakerName[] = "assay-waker";

// Sends SIGCONT to a process of which all threads are stopped, once the thread has the processor,
// or after a millisecond. Returns the time just before the signal (NanosecondsNow). Thread-safe.
std::int64_t WakeStopped(pid_t pid);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_PROVIDERS_USER_RUNNER_WAKER_H_
