// Keeps a kernel under test from taking the node's memory.
//
// The process as a whole has a hard limit of data (arena, libraries, what cases
// need). While a kernel is made or runs, a lower one holds: what the process has at
// that moment, its operands included, and a fixed allowance. So a kernel that
// allocates without end is stopped after the allowance, not after the node's memory.
#ifndef ASSAY_SERVER_WORKER_MEMORY_LIMIT_H_
#define ASSAY_SERVER_WORKER_MEMORY_LIMIT_H_

#include <cstdint>

namespace assay {

class MemoryLimit {
 public:
  // No limits.
  MemoryLimit() = default;
  // Sets the hard limit [bytes]; 0: no limits. Under a sanitizer, whose shadow
  // memory is data too, none are set.
  MemoryLimit(std::int64_t hard_bytes, std::int64_t kernel_allowance_bytes);

  void EnterKernel();
  void LeaveKernel();

  // What a kernel may take beside its operands, for a machine of this size [bytes].
  static std::int64_t KernelAllowance(std::int64_t memory_bytes, int cores);

 private:
  void Set(std::int64_t soft_bytes) const;

  std::int64_t hard_bytes_ = 0;
  std::int64_t allowance_bytes_ = 0;
  bool in_kernel_ = false;
};

}  // namespace assay

#endif  // ASSAY_SERVER_WORKER_MEMORY_LIMIT_H_
