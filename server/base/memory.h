// Keeps the memory of a process small that runs for months.
#ifndef ASSAY_SERVER_BASE_MEMORY_H_
#define ASSAY_SERVER_BASE_MEMORY_H_

namespace assay::server {

// Makes all threads share two memory pools. With a pool for each thread, every thread that once
// served a large job would keep megabytes. Call it before the first thread starts.
void ShareMemoryPools();

// Gives memory back to the system that the allocator holds and nobody uses. Without it, a pool
// keeps the size of its largest job. The call takes milliseconds, so call it after a large job
// only.
void ReturnFreeMemory();

}  // namespace assay::server

#endif  // ASSAY_SERVER_BASE_MEMORY_H_
