// Gives up the rights that the runner of a user's kernel does not need, before the runner loads the
// kernel's library.
//
// Afterwards the process reads the library, the system's libraries and what says how many
// processors there are. It opens no file for writing, makes no socket, starts no process, sends no
// signal but SIGABRT to itself, and reaches no other process. It may start threads. All that
// comes on top of what the worker that started it has given up.
#ifndef ASSAY_KERNELS_RUNNER_RUNNER_RIGHTS_H_
#define ASSAY_KERNELS_RUNNER_RUNNER_RIGHTS_H_

#include <cstdint>
#include <string>

namespace assay::inline kernels {

struct RunnerRights {
  std::string library;          // the kernel's
  std::uint64_t memory_bytes;   // private memory that it may take
  std::uint64_t operand_bytes;  // shared memory that it maps
  std::uint32_t thread_count;
};

// Restricts this process, for good. Returns what the platform does not allow to restrict, such as
// "landlock is switched off on this machine"; empty: everything holds.
std::string GiveUpRights(const RunnerRights& rights);

}  // namespace assay::kernels

#endif  // ASSAY_KERNELS_RUNNER_RUNNER_RIGHTS_H_
