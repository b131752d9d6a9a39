#include "server/worker/memory_limit.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

#include "kernels/confine/sanitized.h"
#include "kernels/text/number_at.h"

namespace assay::server {
namespace {

// The data of the process, as RLIMIT_DATA counts it. Negative if it is not known. The file stays
// open, because a case reads it several times. A kernel under test may have closed it, or opened
// another file with its number. Then it is opened again.
std::int64_t DataBytes() {
  static int fd = -1;
  for (int attempt = 0; attempt < 2; ++attempt) {
    char text[256] = {};
    if (pread(fd, text, sizeof text - 1, 0) > 0) {
      if (const auto pages = NumberAt(text, 5)) return *pages * sysconf(_SC_PAGESIZE);
    }
    fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  }
  return -1;
}

}  // namespace

MemoryLimit::MemoryLimit(std::int64_t hard_bytes, std::int64_t kernel_allowance_bytes)
    : hard_bytes_(kSanitized ? 0 : hard_bytes), allowance_bytes_(kernel_allowance_bytes) {
  Set(hard_bytes_);
}

std::int64_t MemoryLimit::KernelAllowance(std::int64_t memory_bytes, int cores) {
  // The scratch space of libraries grows with the memory, and stacks grow with the cores.
  constexpr std::int64_t kLeast = std::int64_t{1} << 30;
  constexpr std::int64_t kCore = std::int64_t{16} << 20;
  return std::min(std::max(memory_bytes / 16, kLeast + kCore * cores), memory_bytes / 4);
}

void MemoryLimit::EnterKernel() {
  if (hard_bytes_ <= 0 || in_kernel_) return;
  const std::int64_t now = DataBytes();
  if (now < 0) return;
  in_kernel_ = true;
  Set(std::min(hard_bytes_, now + allowance_bytes_));
}

void MemoryLimit::LeaveKernel() {
  if (!in_kernel_) return;
  in_kernel_ = false;
  Set(hard_bytes_);
}

void MemoryLimit::Set(std::int64_t soft_bytes) const {
  if (hard_bytes_ <= 0) return;
  const rlimit limit{static_cast<rlim_t>(soft_bytes), static_cast<rlim_t>(hard_bytes_)};
  setrlimit(RLIMIT_DATA, &limit);
}

}  // namespace assay::server
