#include "kernels/providers/planted/faults.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <new>
#include <string>
#include <utility>

namespace assay::inline kernels::planted {
namespace {

constexpr std::size_t kChunk = 16ULL << 20;  // [bytes] taken each time

void Hang() {
  const std::atomic<bool> never{false};
  while (!never.load(std::memory_order_relaxed)) {
  }
}

void Crash() {
  int* volatile nowhere = nullptr;
  // NOLINTNEXTLINE(clang-analyzer-core.NullDereference): on purpose
  *static_cast<volatile int*>(nowhere) = 1;
}

void Exit() { _exit(3); }

void TakeAllMemory() {
  // It is never freed. The limit counts what is taken, and the node has other uses for what would
  // be written, so only a page of each chunk is.
  for (;;) *static_cast<volatile char*>(::operator new(kChunk)) = 1;
}

// Writes what no protocol knows into every socket of the process, and keeps it from saying more.
void WriteGarbage() {
  constexpr int kMostDescriptors = 256;
  const std::string garbage(1 << 16, '\xA5');
  for (int fd = 0; fd < kMostDescriptors; ++fd) {
    struct stat found {};
    if (fstat(fd, &found) != 0 || !S_ISSOCK(found.st_mode)) continue;
    send(fd, garbage.data(), garbage.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  Hang();
}

using Fault = void (*)();

class FaultKernel : public Kernel {
 public:
  explicit FaultKernel(Fault fault) : fault_(fault) {}

  absl::Status Launch(std::span<const TensorView>, const TensorView&) override {
    fault_();
    return absl::InternalError("the fault did not happen");
  }

 private:
  Fault fault_;
};

}  // namespace

std::unique_ptr<Kernel> MakeFault(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, Fault>, 6> kFaults = {{
      {"hang", &Hang},
      {"crash", &Crash},
      {"abort", &std::abort},
      {"exit", &Exit},
      {"alloc", &TakeAllMemory},
      {"garbage", &WriteGarbage},
  }};
  for (const auto& [word, fault] : kFaults) {
    if (word == name) return std::make_unique<FaultKernel>(fault);
  }
  return nullptr;
}

}  // namespace assay::kernels::planted
