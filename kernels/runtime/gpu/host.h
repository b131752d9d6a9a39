// Offers the runtime of a GPU toolkit as plain functions, for GpuDevice. host.cu is the one source
// for CUDA and HIP. The emulator has tests/simt/host_simt.cc, in which device memory is the heap.
//
// Every function returns the toolkit's code. If it is not kOk, the results are unchanged. A fault
// of a kernel shows at the next call that waits.
#ifndef ASSAY_KERNELS_RUNTIME_GPU_HOST_H_
#define ASSAY_KERNELS_RUNTIME_GPU_HOST_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/runtime/gpu/handles.h"

namespace assay::inline kernels::gpu {

struct Properties {
  std::string model;         // "NVIDIA H200"
  std::string uuid;          // "GPU-…"; empty if the toolkit does not tell
  std::string pci_id;        // "0000:1b:00.0"
  std::string architecture;  // "sm_90", "gfx942", "emulated"
  std::int64_t memory_bytes = 0;
  std::int64_t l2_bytes = 0;
  std::int64_t last_cache_bytes = 0;        // of the cache before memory
  std::int64_t shared_bytes_per_block = 0;  // the most that a kernel may opt in to
  int multiprocessors = 0;
  int wave_width = 32;
  int driver_version = 0;   // CUDA: 1000·major + 10·minor
  bool prohibited = false;  // the compute mode lets no process in
  bool exclusive = false;   // one process at a time
  bool integrated = false;  // the device's memory is the host's
};

// "cuda", "hip" or "simt".
const char* BackendName();

ErrorCode DeviceCount(int* count);
ErrorCode GetProperties(int ordinal, Properties* properties);
ErrorCode UseDevice(int ordinal);  // for the calling thread's later calls
ErrorCode MemoryInfo(std::int64_t* free_bytes, std::int64_t* total_bytes);

ErrorCode Allocate(std::int64_t bytes, void** data);
ErrorCode Free(void* data);
// Page-locked host memory, for results that a stream copies back.
ErrorCode AllocateHost(std::int64_t bytes, void** data);
ErrorCode FreeHost(void* data);

ErrorCode CreateStream(Stream* stream);
ErrorCode DestroyStream(Stream stream);
ErrorCode Wait(Stream stream);
ErrorCode CreateEvent(Event* event);
ErrorCode DestroyEvent(Event event);
ErrorCode Record(Event event, Stream stream);
// Waits for `end` and returns the time between the events [seconds].
ErrorCode Elapsed(Event begin, Event end, double* seconds);

// A recording is work that is recorded once and then enqueued as a whole: a graph. RecordWork calls
// `enqueue`, which puts work on the stream and returns whether it could; the work is not done. If
// work cannot be recorded, RecordWork returns an error, and the stream is as before. The emulator
// calls `enqueue` at each replay instead, so everything it refers to must live as long as the
// recording.
using Recording = void*;  // cudaGraphExec_t, hipGraphExec_t
ErrorCode RecordWork(Stream stream, std::function<bool()> enqueue, Recording* recording);
ErrorCode Replay(Recording recording, Stream stream);
ErrorCode DestroyRecording(Recording recording);

// Copies and sets are enqueued on the stream. Host memory that is not page-locked is copied before
// the call returns.
ErrorCode CopyToDevice(void* dst, const void* src, std::int64_t bytes, Stream stream);
ErrorCode CopyToHost(void* dst, const void* src, std::int64_t bytes, Stream stream);
ErrorCode CopyOnDevice(void* dst, const void* src, std::int64_t bytes, Stream stream);
ErrorCode Set(void* dst, unsigned char byte, std::int64_t bytes, Stream stream);

// Code that is loaded while the process runs: a module holds functions, which are kernels. The
// emulator loads none; the code is 801 there.
using Module = void*;    // cudaLibrary_t, hipModule_t
using Function = void*;  // cudaKernel_t, hipFunction_t
struct FunctionUse {
  int registers = 0;                          // of a thread
  int most_threads = 0;                       // of a block, as its registers allow
  std::int64_t shared_bytes = 0;              // of arrays of known size
  std::vector<std::int64_t> parameter_bytes;  // of each parameter; CUDA's runtime alone tells them
};
// `image` is what the toolkit's compiler made: a cubin, or a code object of AMD's. It must outlive
// the module.
ErrorCode LoadModule(const void* image, Module* module);
ErrorCode UnloadModule(Module module);
ErrorCode FindFunction(Module module, const std::string& symbol, Function* function);
ErrorCode DescribeFunction(Function function, FunctionUse* use);
// Lets launches ask for so much shared memory beside the arrays of known size.
ErrorCode AllowShared(Function function, std::int64_t bytes);
// `arguments` point at the words of each parameter, which are copied. Enqueues one launch.
ErrorCode LaunchFunction(Function function, const std::array<unsigned, 3>& grid,
                         const std::array<unsigned, 3>& block, std::size_t shared_bytes,
                         void** arguments, Stream stream);

// The name and the text of a code: "cudaErrorIllegalAddress: an illegal memory access was
// encountered".
std::string Describe(ErrorCode code);
// Whether the context is lost. Then every later call fails, and the process must end.
bool IsSticky(ErrorCode code);
bool IsOutOfMemory(ErrorCode code);
// The size of the last cache before memory: the L2, or a cache behind it that the toolkit does not
// report.
std::int64_t LastCacheBytes(std::string_view architecture, std::int64_t l2_bytes);
// Whether the backend is just not there: no driver, no device, or a driver older than the toolkit.
// Nothing is wrong then.
bool IsAbsent(ErrorCode code);

}  // namespace assay::kernels::gpu

#endif  // ASSAY_KERNELS_RUNTIME_GPU_HOST_H_
