// One page of memory that a worker and its daemon share. It says what the worker is doing.
//
// The worker writes and the daemon reads. The page outlives the worker. So the report of a death
// can say what the worker was doing ("in the kernel under test") and what it found out last (that
// it was out of memory). All members are lock-free atomics, so the page is valid whenever the
// worker dies.
#ifndef ASSAY_SERVER_PROCESS_PHASE_PAGE_H_
#define ASSAY_SERVER_PROCESS_PHASE_PAGE_H_

#include <atomic>
#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "assay/v1/case.pb.h"
#include "kernels/judge/phase.h"

namespace assay::server {

// The reason for which a worker ended itself.
enum class LastWords : std::uint32_t { kNone = 0, kOutOfMemory = 1 };

struct PhasePage {
  std::atomic<std::uint32_t> phase{0};       // Phase
  std::atomic<std::uint32_t> last_words{0};  // LastWords
  std::atomic<std::uint64_t> cases{0};       // cases begun since the worker started
  // For cases that run together; see PhaseObserver.
  std::atomic<std::int32_t> turn{0};       // the place of the case whose phase it is
  std::atomic<std::uint32_t> turns{0};     // phases of a case begun since the start
  std::atomic<std::uint32_t> suspects{0};  // bit i: the case at place i

  void Turn(int place) {
    turn.store(place, std::memory_order_relaxed);
    turns.fetch_add(1, std::memory_order_relaxed);
  }

  void Enter(Phase p) { phase.store(static_cast<std::uint32_t>(p), std::memory_order_relaxed); }
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(std::atomic<std::int32_t>::is_always_lock_free);

// The descriptors that a worker starts with.
inline constexpr int kWorkerSocketFd = 3;
inline constexpr int kWorkerPageFd = 4;

// A worker ends each of its answers with this trailing metadata. An answer without it was made up
// by the transport: the connection broke.
inline constexpr char kAnsweredKey[] = "assay-answered";

// The exit status of a worker that ran out of memory.
inline constexpr int kExitOutOfMemory = 70;

// The end of a sentence "worker killed by SIGSEGV in …", such as "the kernel under test". A value
// that is no Phase gives "an unknown phase": a kernel may overwrite the page.
std::string_view PhaseText(std::uint32_t phase);
// The same on the wire. Unspecified between cases, and if the value is no Phase.
v1::Phase PhaseOf(std::uint32_t phase);

// Makes a page and returns its descriptor, which has CLOEXEC. The caller closes it.
absl::StatusOr<int> MakePhasePageFd();

// Maps the page of `fd`. The caller unmaps it with UnmapPhasePage. nullptr if `fd` is no page.
PhasePage* MapPhasePage(int fd);
void UnmapPhasePage(PhasePage* page);

}  // namespace assay::server

#endif  // ASSAY_SERVER_PROCESS_PHASE_PAGE_H_
