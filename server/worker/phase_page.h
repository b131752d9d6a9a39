// One page of memory that a worker and its daemon share: where the worker stands.
//
// The worker writes, the daemon reads. It outlives the worker, so that a death can
// be reported with what the worker was doing ("in the kernel under test") and with
// what it found out last (it was out of memory). All members are lock-free atomics:
// a page half-written by a worker that dies is still a page.
#ifndef ASSAY_SERVER_WORKER_PHASE_PAGE_H_
#define ASSAY_SERVER_WORKER_PHASE_PAGE_H_

#include <atomic>
#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "kernels/validate/phase.h"

namespace assay {

// Why a worker ended itself.
enum class LastWords : std::uint32_t { kNone = 0, kOutOfMemory = 1 };

struct PhasePage {
  std::atomic<std::uint32_t> phase{0};       // Phase
  std::atomic<std::uint32_t> last_words{0};  // LastWords
  std::atomic<std::uint64_t> cases{0};       // begun since the worker started
  // Of cases that run beside one another; see PhaseObserver.
  std::atomic<std::int32_t> turn{0};       // whose phase it is
  std::atomic<std::uint32_t> turns{0};     // begun since the worker started
  std::atomic<std::uint32_t> suspects{0};  // bit i: the one at place i

  void Turn(int place) {
    turn.store(place, std::memory_order_relaxed);
    turns.fetch_add(1, std::memory_order_relaxed);
  }

  void Enter(Phase p) { phase.store(static_cast<std::uint32_t>(p), std::memory_order_relaxed); }
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(std::atomic<std::int32_t>::is_always_lock_free);

// Descriptors a worker is started with.
inline constexpr int kWorkerSocketFd = 3;
inline constexpr int kWorkerPageFd = 4;

// Exit status of a worker that ran out of memory.
inline constexpr int kExitOutOfMemory = 70;

// Completes "worker killed by SIGSEGV in …": "the kernel under test". A value that
// is no Phase (the page is the worker's to scribble on) gives "an unknown phase".
std::string_view PhaseText(std::uint32_t phase);
// PhaseName of a case's phase; empty for no case, and where it is no Phase.
std::string_view PhaseWord(std::uint32_t phase);

// A new page; its descriptor has CLOEXEC. The caller closes it.
absl::StatusOr<int> MakePhasePageFd();

// Maps the page of `fd`, to be unmapped with UnmapPhasePage; nullptr where it is none.
PhasePage* MapPhasePage(int fd);
void UnmapPhasePage(PhasePage* page);

}  // namespace assay

#endif  // ASSAY_SERVER_WORKER_PHASE_PAGE_H_
