// Implements host.h for the runtimes of CUDA and HIP. Their functions differ in their prefix, and
// their codes are the same numbers. The emulator has its own functions in tests/simt/host_simt.cc
// and shares only the meaning of the codes.
#include "kernels/runtime/gpu/host.h"

#include <dlfcn.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "kernels/runtime/gpu/port.h"

namespace assay::inline kernels::gpu {

bool IsSticky(ErrorCode code) {
  switch (code) {
    case 214:   // an uncorrectable error of memory
    case 220:   // or of a link
    case 226:   // a contained error of memory
    case 700:   // illegal address
    case 702:   // launch timeout
    case 709:   // the context is destroyed
    case 710:   // assert
    case 714:   // hardware stack error
    case 715:   // illegal instruction
    case 716:   // misaligned address
    case 717:   // invalid address space
    case 718:   // invalid program counter
    case 719:   // launch failure
    case 721:   // tensor memory left behind
    case 810:   // CUDA MPS: its client is ended
    case 999:   // unknown
    case 1053:  // HIP: an error of its lower layer
      return true;
    default:
      return false;
  }
}

// HIP has its own number for errors of its lower layer.
bool IsOutOfMemory(ErrorCode code) { return code == 2 || code == 1052; }

std::int64_t LastCacheBytes(std::string_view architecture, std::int64_t l2_bytes) {
  // The size of AMD's Infinity Cache, which serves the whole device (AMD, CDNA 3 and CDNA 4
  // architecture white papers: 256 MB). The toolkit reports only one die's L2.
  constexpr std::pair<std::string_view, std::int64_t> kBehindL2[] = {
      {"gfx940", std::int64_t{256} << 20},
      {"gfx941", std::int64_t{256} << 20},
      {"gfx942", std::int64_t{256} << 20},
      {"gfx950", std::int64_t{256} << 20},
  };
  for (const auto& [name, bytes] : kBehindL2) {
    if (architecture.starts_with(name)) return std::max(bytes, l2_bytes);
  }
  return l2_bytes;
}

bool IsAbsent(ErrorCode code) {
  switch (code) {
    case 34:   // the driver is a stub
    case 35:   // older than the toolkit, or none
    case 100:  // no device
    case 803:  // the driver's parts do not match
      return true;
    default:
      return false;
  }
}

#if !defined(ASSAY_GPU_EMULATED)

#if defined(ASSAY_GPU_CUDA)
#define ASSAY_API(name) cuda##name
const char* BackendName() { return "cuda"; }
#else
#define ASSAY_API(name) hip##name
const char* BackendName() { return "hip"; }
#endif

namespace {

constexpr ErrorCode kInvalidValue = 1;

using ApiError = ASSAY_API(Error_t);
using ApiStream = ASSAY_API(Stream_t);
using ApiEvent = ASSAY_API(Event_t);

// Returns a failure once. If it stayed the thread's last error, the next launch would report it.
ErrorCode Result(ApiError code) {
  if (code != ASSAY_API(Success)) (void)ASSAY_API(GetLastError)();
  return static_cast<ErrorCode>(code);
}

ApiStream StreamOf(Stream stream) { return static_cast<ApiStream>(stream); }
ApiEvent EventOf(Event event) { return static_cast<ApiEvent>(event); }

// GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx
[[maybe_unused]] std::string UuidText(const char* bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text = "GPU";
  for (int i = 0; i < 16; ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    const auto byte = static_cast<unsigned char>(bytes[i]);
    text += kDigits[byte >> 4];
    text += kDigits[byte & 0xf];
  }
  return text;
}

#if defined(ASSAY_GPU_CUDA)
constexpr auto kSharedBytes = cudaDevAttrMaxSharedMemoryPerBlockOptin;
constexpr auto kComputeMode = cudaDevAttrComputeMode;
constexpr auto kIntegrated = cudaDevAttrIntegrated;
constexpr auto kProhibited = cudaComputeModeProhibited;
constexpr auto kExclusive = cudaComputeModeExclusiveProcess;
std::string ArchitectureOf(const cudaDeviceProp& p) {
  return "sm_" + std::to_string(p.major * 10 + p.minor);
}
std::string UuidOf(const cudaDeviceProp& p) { return UuidText(p.uuid.bytes); }
using ApiProperties = cudaDeviceProp;
#else
constexpr auto kSharedBytes = hipDeviceAttributeMaxSharedMemoryPerBlock;
constexpr auto kComputeMode = hipDeviceAttributeComputeMode;
constexpr auto kIntegrated = hipDeviceAttributeIntegrated;
constexpr auto kProhibited = hipComputeModeProhibited;
constexpr auto kExclusive = hipComputeModeExclusiveProcess;
std::string ArchitectureOf(const hipDeviceProp_t& p) { return p.gcnArchName; }
std::string UuidOf(const hipDeviceProp_t&) { return ""; }
using ApiProperties = hipDeviceProp_t;
#endif

}  // namespace

ErrorCode DeviceCount(int* count) {
  int found = 0;
  const ErrorCode code = Result(ASSAY_API(GetDeviceCount)(&found));
  if (code == kOk) *count = found;
  return code;
}

ErrorCode GetProperties(int ordinal, Properties* properties) {
  ApiProperties of = {};
  char pci_id[32] = "";
  int shared_bytes = 0;
  int compute_mode = 0;
  int integrated = 0;
  Properties p;
  ErrorCode code = Result(ASSAY_API(GetDeviceProperties)(&of, ordinal));
  if (code == kOk) code = Result(ASSAY_API(DeviceGetPCIBusId)(pci_id, sizeof(pci_id), ordinal));
  if (code == kOk)
    code = Result(ASSAY_API(DeviceGetAttribute)(&shared_bytes, kSharedBytes, ordinal));
  if (code == kOk)
    code = Result(ASSAY_API(DeviceGetAttribute)(&compute_mode, kComputeMode, ordinal));
  if (code == kOk) code = Result(ASSAY_API(DeviceGetAttribute)(&integrated, kIntegrated, ordinal));
  if (code == kOk) code = Result(ASSAY_API(DriverGetVersion)(&p.driver_version));
  if (code != kOk) return code;
  p.model = of.name;
  p.uuid = UuidOf(of);
  p.pci_id = pci_id;
  p.architecture = ArchitectureOf(of);
  p.memory_bytes = static_cast<std::int64_t>(of.totalGlobalMem);
  p.l2_bytes = of.l2CacheSize;
  p.last_cache_bytes = LastCacheBytes(p.architecture, p.l2_bytes);
  p.shared_bytes_per_block = shared_bytes;
  p.multiprocessors = of.multiProcessorCount;
  p.wave_width = of.warpSize;
  p.prohibited = compute_mode == kProhibited;
  p.exclusive = compute_mode == kExclusive;
  p.integrated = integrated != 0;
  *properties = p;
  return kOk;
}

ErrorCode UseDevice(int ordinal) { return Result(ASSAY_API(SetDevice)(ordinal)); }

ErrorCode MemoryInfo(std::int64_t* free_bytes, std::int64_t* total_bytes) {
  std::size_t free = 0;
  std::size_t total = 0;
  const ErrorCode code = Result(ASSAY_API(MemGetInfo)(&free, &total));
  if (code != kOk) return code;
  *free_bytes = static_cast<std::int64_t>(free);
  *total_bytes = static_cast<std::int64_t>(total);
  return kOk;
}

ErrorCode Allocate(std::int64_t bytes, void** data) {
  void* made = nullptr;
  const ErrorCode code = Result(ASSAY_API(Malloc)(&made, static_cast<std::size_t>(bytes)));
  if (code == kOk) *data = made;
  return code;
}

ErrorCode Free(void* data) { return Result(ASSAY_API(Free)(data)); }

ErrorCode AllocateHost(std::int64_t bytes, void** data) {
  void* made = nullptr;
#if defined(ASSAY_GPU_CUDA)
  const ErrorCode code = Result(cudaMallocHost(&made, static_cast<std::size_t>(bytes)));
#else
  const ErrorCode code = Result(hipHostMalloc(&made, static_cast<std::size_t>(bytes), 0));
#endif
  if (code == kOk) *data = made;
  return code;
}

ErrorCode FreeHost(void* data) {
#if defined(ASSAY_GPU_CUDA)
  return Result(cudaFreeHost(data));
#else
  return Result(hipHostFree(data));
#endif
}

ErrorCode CreateStream(Stream* stream) {
  ApiStream made = nullptr;
  // The stream waits for no other stream, not even for the default one.
  const ErrorCode code =
      Result(ASSAY_API(StreamCreateWithFlags)(&made, ASSAY_API(StreamNonBlocking)));
  if (code == kOk) *stream = made;
  return code;
}

ErrorCode DestroyStream(Stream stream) {
  return Result(ASSAY_API(StreamDestroy)(StreamOf(stream)));
}

ErrorCode Wait(Stream stream) { return Result(ASSAY_API(StreamSynchronize)(StreamOf(stream))); }

ErrorCode CreateEvent(Event* event) {
  ApiEvent made = nullptr;
  const ErrorCode code = Result(ASSAY_API(EventCreate)(&made));
  if (code == kOk) *event = made;
  return code;
}

ErrorCode DestroyEvent(Event event) { return Result(ASSAY_API(EventDestroy)(EventOf(event))); }

ErrorCode Record(Event event, Stream stream) {
  return Result(ASSAY_API(EventRecord)(EventOf(event), StreamOf(stream)));
}

ErrorCode Elapsed(Event begin, Event end, double* seconds) {
  float milliseconds = 0.0F;
  ErrorCode code = Result(ASSAY_API(EventSynchronize)(EventOf(end)));
  if (code == kOk) {
    code = Result(ASSAY_API(EventElapsedTime)(&milliseconds, EventOf(begin), EventOf(end)));
  }
  if (code == kOk) *seconds = static_cast<double>(milliseconds) * 1e-3;
  return code;
}

ErrorCode RecordWork(Stream stream, std::function<bool()> enqueue, Recording* recording) {
  ErrorCode code = Result(
      ASSAY_API(StreamBeginCapture)(StreamOf(stream), ASSAY_API(StreamCaptureModeThreadLocal)));
  if (code != kOk) return code;
  const bool enqueued = enqueue();
  // This also ends a recording that failed.
  ASSAY_API(Graph_t) graph = nullptr;
  code = Result(ASSAY_API(StreamEndCapture)(StreamOf(stream), &graph));
  if (code == kOk && !enqueued) code = kInvalidValue;
  ASSAY_API(GraphExec_t) made = nullptr;
  if (code == kOk) code = Result(ASSAY_API(GraphInstantiateWithFlags)(&made, graph, 0));
  if (graph != nullptr) (void)Result(ASSAY_API(GraphDestroy)(graph));
  if (code == kOk) *recording = made;
  return code;
}

ErrorCode Replay(Recording recording, Stream stream) {
  return Result(
      ASSAY_API(GraphLaunch)(static_cast<ASSAY_API(GraphExec_t)>(recording), StreamOf(stream)));
}

ErrorCode DestroyRecording(Recording recording) {
  return Result(ASSAY_API(GraphExecDestroy)(static_cast<ASSAY_API(GraphExec_t)>(recording)));
}

ErrorCode CopyToDevice(void* dst, const void* src, std::int64_t bytes, Stream stream) {
  return Result(ASSAY_API(MemcpyAsync)(dst, src, static_cast<std::size_t>(bytes),
                                       ASSAY_API(MemcpyHostToDevice), StreamOf(stream)));
}
ErrorCode CopyToHost(void* dst, const void* src, std::int64_t bytes, Stream stream) {
  return Result(ASSAY_API(MemcpyAsync)(dst, src, static_cast<std::size_t>(bytes),
                                       ASSAY_API(MemcpyDeviceToHost), StreamOf(stream)));
}
ErrorCode CopyOnDevice(void* dst, const void* src, std::int64_t bytes, Stream stream) {
  return Result(ASSAY_API(MemcpyAsync)(dst, src, static_cast<std::size_t>(bytes),
                                       ASSAY_API(MemcpyDeviceToDevice), StreamOf(stream)));
}
ErrorCode Set(void* dst, unsigned char byte, std::int64_t bytes, Stream stream) {
  return Result(
      ASSAY_API(MemsetAsync)(dst, byte, static_cast<std::size_t>(bytes), StreamOf(stream)));
}

#if defined(ASSAY_GPU_CUDA) && CUDART_VERSION >= 13000

ErrorCode LoadModule(const void* image, Module* module) {
  cudaLibrary_t library = nullptr;
  const ErrorCode code =
      Result(cudaLibraryLoadData(&library, image, nullptr, nullptr, 0, nullptr, nullptr, 0));
  if (code == kOk) *module = library;
  return code;
}

ErrorCode UnloadModule(Module module) {
  return Result(cudaLibraryUnload(static_cast<cudaLibrary_t>(module)));
}

ErrorCode FindFunction(Module module, const std::string& symbol, Function* function) {
  cudaKernel_t kernel = nullptr;
  const ErrorCode code =
      Result(cudaLibraryGetKernel(&kernel, static_cast<cudaLibrary_t>(module), symbol.c_str()));
  if (code == kOk) *function = kernel;
  return code;
}

ErrorCode DescribeFunction(Function function, FunctionUse* use) {
  cudaFuncAttributes attributes = {};
  const ErrorCode code = Result(cudaFuncGetAttributes(&attributes, function));
  if (code != kOk) return code;
  use->registers = attributes.numRegs;
  use->most_threads = attributes.maxThreadsPerBlock;
  use->shared_bytes = static_cast<std::int64_t>(attributes.sharedSizeBytes);
  use->parameter_bytes.clear();
  // Behind the last parameter it is an invalid value.
  for (std::size_t i = 0, offset = 0, bytes = 0;
       Result(cudaFuncGetParamInfo(function, i, &offset, &bytes)) == kOk; ++i) {
    use->parameter_bytes.push_back(static_cast<std::int64_t>(bytes));
  }
  return kOk;
}

ErrorCode AllowShared(Function function, std::int64_t bytes) {
  return Result(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     static_cast<int>(bytes)));
}

ErrorCode LaunchFunction(Function function, const std::array<unsigned, 3>& grid,
                         const std::array<unsigned, 3>& block, std::size_t shared_bytes,
                         void** arguments, Stream stream) {
  return Result(cudaLaunchKernel(function, dim3(grid[0], grid[1], grid[2]),
                                 dim3(block[0], block[1], block[2]), arguments, shared_bytes,
                                 StreamOf(stream)));
}

#elif defined(ASSAY_GPU_HIP)

ErrorCode LoadModule(const void* image, Module* module) {
  hipModule_t loaded = nullptr;
  const ErrorCode code = Result(hipModuleLoadData(&loaded, image));
  if (code == kOk) *module = loaded;
  return code;
}

ErrorCode UnloadModule(Module module) {
  return Result(hipModuleUnload(static_cast<hipModule_t>(module)));
}

ErrorCode FindFunction(Module module, const std::string& symbol, Function* function) {
  hipFunction_t found = nullptr;
  const ErrorCode code =
      Result(hipModuleGetFunction(&found, static_cast<hipModule_t>(module), symbol.c_str()));
  if (code == kOk) *function = found;
  return code;
}

ErrorCode DescribeFunction(Function function, FunctionUse* use) {
  int shared = 0;
  ErrorCode code = kOk;
  const std::pair<hipFunction_attribute, int*> attributes[] = {
      {HIP_FUNC_ATTRIBUTE_NUM_REGS, &use->registers},
      {HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &use->most_threads},
      {HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, &shared}};
  for (const auto& [attribute, value] : attributes) {
    if (code != kOk) return code;
    code = Result(hipFuncGetAttribute(value, attribute, static_cast<hipFunction_t>(function)));
  }
  use->shared_bytes = shared;
  return code;
}

// A launch may ask for all that a block can have.
ErrorCode AllowShared(Function, std::int64_t) { return kOk; }

ErrorCode LaunchFunction(Function function, const std::array<unsigned, 3>& grid,
                         const std::array<unsigned, 3>& block, std::size_t shared_bytes,
                         void** arguments, Stream stream) {
  return Result(hipModuleLaunchKernel(
      static_cast<hipFunction_t>(function), grid[0], grid[1], grid[2], block[0], block[1], block[2],
      static_cast<unsigned>(shared_bytes), StreamOf(stream), arguments, nullptr));
}

#else

namespace {
constexpr ErrorCode kNotSupported = 801;
}  // namespace

ErrorCode LoadModule(const void*, Module*) { return kNotSupported; }
ErrorCode UnloadModule(Module) { return kNotSupported; }
ErrorCode FindFunction(Module, const std::string&, Function*) { return kNotSupported; }
ErrorCode DescribeFunction(Function, FunctionUse*) { return kNotSupported; }
ErrorCode AllowShared(Function, std::int64_t) { return kNotSupported; }
ErrorCode LaunchFunction(Function, const std::array<unsigned, 3>&, const std::array<unsigned, 3>&,
                         std::size_t, void**, Stream) {
  return kNotSupported;
}

#endif

std::string Describe(ErrorCode code) {
  const auto error = static_cast<ApiError>(code);
  const std::string name = ASSAY_API(GetErrorName)(error);
  const std::string words = ASSAY_API(GetErrorString)(error);
  // For some codes HIP has only the name.
  std::string all = name == words ? name : name + ": " + words;
#if defined(ASSAY_GPU_CUDA)
  // If there is no driver, the toolkit says that the driver is too old.
  constexpr const char* kDriver = "libcuda.so.1";
  if (error == cudaErrorInsufficientDriver && dlopen(kDriver, RTLD_LAZY) == nullptr) {
    all += std::string("; there is no driver: ") + kDriver + " cannot be loaded";
  }
#endif
  return all;
}

#endif

}  // namespace assay::kernels::gpu
