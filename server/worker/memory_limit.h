// Keeps a kernel under test from taking the node's memory.
//
// The whole process has a hard limit of data, for the arena, the libraries and the cases. While a
// kernel is made or runs, a lower limit holds: the data that the process has at that moment, plus a
// fixed allowance. A kernel that allocates without end is stopped after the allowance.
#ifndef ASSAY_SERVER_WORKER_MEMORY_LIMIT_H_
#define ASSAY_SERVER_WORKER_MEMORY_LIMIT_H_

#include <cstdint>

namespace assay::server {

class MemoryLimit {
 public:
  // No limits.
  MemoryLimit() = default;
  // Sets the hard limit [bytes]. 0 means no limits. Under a sanitizer there are no limits, because
  // its shadow memory is data too.
  MemoryLimit(std::int64_t hard_bytes, std::int64_t kernel_allowance_bytes);

  void EnterKernel();
  void LeaveKernel();

  // The memory that a kernel may take beside its operands, on a machine of this size [bytes].
  static std::int64_t KernelAllowance(std::int64_t memory_bytes, int cores);

 private:
  void Set(std::int64_t soft_bytes) const;

  std::int64_t hard_bytes_ = 0;
  std::int64_t allowance_bytes_ = 0;
  bool in_kernel_ = false;
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_WORKER_MEMORY_LIMIT_H_
