#include "server/process/phase_page.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "absl/status/status.h"

namespace assay::server {

std::string_view PhaseText(std::uint32_t phase) {
  switch (static_cast<Phase>(phase)) {
    case Phase::kIdle:
      return "no case";
    case Phase::kPlan:
      return "planning the case";
    case Phase::kFill:
      return "filling the inputs";
    case Phase::kPrepare:
      return "making the kernel (the provider's code)";
    case Phase::kKernel:
      return "the kernel under test";
    case Phase::kGuards:
      return "checking the guards";
    case Phase::kReference:
      return "the reference";
    case Phase::kCompare:
      return "comparing";
    case Phase::kRecheck:
      return "rechecking on the host";
    case Phase::kBench:
      return "timing the kernel under test";
  }
  return "an unknown phase";
}

v1::Phase PhaseOf(std::uint32_t phase) {
  return phase <= static_cast<std::uint32_t>(Phase::kBench) ? static_cast<v1::Phase>(phase)
                                                            : v1::PHASE_UNSPECIFIED;
}

absl::StatusOr<int> MakePhasePageFd() {
  const int fd = memfd_create("assay-phase", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return absl::ErrnoToStatus(errno, "memfd_create");
  // Its size stays. If a worker made it smaller, the daemon would die of its next look at it.
  if (ftruncate(fd, sizeof(PhasePage)) != 0 ||
      fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    const absl::Status error = absl::ErrnoToStatus(errno, "size and seals of the phase page");
    close(fd);
    return error;
  }
  return fd;
}

PhasePage* MapPhasePage(int fd) {
  void* at = mmap(nullptr, sizeof(PhasePage), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  // A new memfd holds zero bytes. They are the initial state of a PhasePage.
  return at == MAP_FAILED ? nullptr : static_cast<PhasePage*>(at);
}

void UnmapPhasePage(PhasePage* page) {
  if (page != nullptr) munmap(page, sizeof(PhasePage));
}

}  // namespace assay::server
