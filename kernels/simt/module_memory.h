// The memory that a library of a CUDA program has of its own: its variables, and the shared memory
// of a block, which is the library's thread-local memory.
//
// In the source `__shared__` is `thread_local`. So an array in a function or a template needs no
// definition elsewhere, and the whole lies in one piece. What a launch asks for in bytes ("extern
// __shared__") has a fixed place in that piece.
#ifndef ASSAY_KERNELS_SIMT_MODULE_MEMORY_H_
#define ASSAY_KERNELS_SIMT_MODULE_MEMORY_H_

#include <cstddef>
#include <vector>

#include "kernels/simt/accesses.h"
#include "kernels/simt/limits.h"

namespace assay::inline kernels::simt {

// Adds the library's own memory. `dynamic_bytes` are those that the launch asks for. The constants
// of all libraries are let through.
void AddOwnMemory(std::size_t dynamic_bytes, std::vector<Memory>& memory, Accesses& accesses);

}  // namespace assay::kernels::simt

#endif  // ASSAY_KERNELS_SIMT_MODULE_MEMORY_H_
