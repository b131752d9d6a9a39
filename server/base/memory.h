// The daemon's own memory, for a process that stays for months.
#ifndef ASSAY_SERVER_BASE_MEMORY_H_
#define ASSAY_SERVER_BASE_MEMORY_H_

namespace assay {

// Lets all threads take their memory from two pools. Each would have its own, of which what is
// used keeps the rest from the system: megabytes for every thread that happened to serve a
// large job. Before the first thread.
void ShareMemoryPools();

// Gives what the allocator holds and nobody uses back to the system: the pools of all
// threads, which else keep the size of the largest job that each happened to serve.
// Milliseconds; worth it after a large job.
void ReturnFreeMemory();

}  // namespace assay

#endif  // ASSAY_SERVER_BASE_MEMORY_H_
