// The daemon's own memory, for a process that stays for months.
#ifndef ASSAY_SERVER_BASE_MEMORY_H_
#define ASSAY_SERVER_BASE_MEMORY_H_

namespace assay {

// Gives what the allocator holds and nobody uses back to the system: the pools of all
// threads, which else keep the size of the largest job that each happened to serve.
// Milliseconds; worth it after a large job.
void ReturnFreeMemory();

}  // namespace assay

#endif  // ASSAY_SERVER_BASE_MEMORY_H_
