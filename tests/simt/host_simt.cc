// Implements host.h for the emulator. Device memory is the heap, work is done when it is enqueued,
// and codes are CUDA's numbers. If a driver would refuse a call or crash on it, the call is refused
// and counted.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "kernels/runtime/gpu/host.h"
#include "kernels/simt/engine.h"
#include "simt/host_control.h"

namespace assay::inline kernels::simt {
namespace {

constexpr gpu::ErrorCode kInvalidValue = 1;
constexpr gpu::ErrorCode kMemoryAllocation = 2;
constexpr gpu::ErrorCode kInvalidDevice = 101;
constexpr gpu::ErrorCode kInvalidImage = 200;
constexpr gpu::ErrorCode kInvalidHandle = 400;
constexpr gpu::ErrorCode kNotFound = 500;
constexpr gpu::ErrorCode kNotReady = 600;
constexpr gpu::ErrorCode kLaunchFailure = 719;
constexpr std::size_t kAlignment = 256;  // that of device memory [bytes]

struct EventRecord {
  bool recorded = false;
  std::chrono::steady_clock::time_point at;
};

// The state of the process. Every function of host.h holds the mutex.
struct Host {
  std::mutex mutex;
  HostConfig config;
  std::map<const unsigned char*, std::int64_t> device;  // blocks and their bytes
  std::set<const void*> pinned;
  std::set<const void*> streams;
  std::map<void*, EventRecord> events;
  std::map<void*, std::function<bool()>> recordings;
  std::map<std::string, std::map<std::string, EmulatedFunction>> images;
  std::map<void*, std::string> modules;  // and their images
  std::int64_t device_bytes = 0;
  std::int64_t misuses = 0;
  HostUse made;  // counts since the process began
  gpu::ErrorCode injected = gpu::kOk;
  gpu::ErrorCode unrecordable = gpu::kOk;
  gpu::ErrorCode unloadable = gpu::kOk;
  gpu::ErrorCode lost = gpu::kOk;  // the code of the lost context; kOk: it is not lost

  gpu::ErrorCode Misuse(gpu::ErrorCode code) {
    ++misuses;
    return code;
  }
  bool KnowsStream(gpu::Stream stream) const {
    return stream == nullptr || streams.contains(stream);
  }
  // Whether bytes lie in one block.
  bool Holds(const void* data, std::int64_t bytes) const {
    if (bytes == 0) return true;
    const auto* first = static_cast<const unsigned char*>(data);
    auto next = device.upper_bound(first);
    if (next == device.begin()) return false;
    const auto& [begin, length] = *std::prev(next);
    return bytes > 0 && first - begin <= length - bytes;
  }
  // The code that a waiting call returns.
  gpu::ErrorCode Waited() {
    if (lost != gpu::kOk) return lost;
    const gpu::ErrorCode code = HasFaults() ? kLaunchFailure : injected;
    injected = gpu::kOk;
    if (gpu::IsSticky(code)) lost = code;
    return code;
  }
};

// The host is never destroyed, because destructors of other objects may still free what they hold.
Host& TheHost() {
  static Host& host = *new Host;
  return host;
}

}  // namespace

void ResetHost(const HostConfig& config) {
  Host& host = TheHost();
  const std::lock_guard<std::mutex> lock(host.mutex);
  host.config = config;
  host.misuses = 0;
  host.injected = gpu::kOk;
  host.unrecordable = gpu::kOk;
  host.unloadable = gpu::kOk;
  host.lost = gpu::kOk;
}

void InjectFault(gpu::ErrorCode code) {
  Host& host = TheHost();
  const std::lock_guard<std::mutex> lock(host.mutex);
  host.injected = code;
}

void RefuseRecordings(gpu::ErrorCode code) {
  Host& host = TheHost();
  const std::lock_guard<std::mutex> lock(host.mutex);
  host.unrecordable = code;
}

void RefuseModules(gpu::ErrorCode code) {
  Host& host = TheHost();
  const std::lock_guard<std::mutex> lock(host.mutex);
  host.unloadable = code;
}

void AddFunction(const std::string& image, const std::string& symbol, EmulatedFunction function) {
  Host& host = TheHost();
  const std::lock_guard<std::mutex> lock(host.mutex);
  host.images[image][symbol] = std::move(function);
}

HostUse InUse() {
  Host& host = TheHost();
  const std::lock_guard<std::mutex> lock(host.mutex);
  const auto size = [](const auto& held) { return static_cast<std::int64_t>(held.size()); };
  HostUse use = host.made;
  use.device_bytes = host.device_bytes;
  use.device_blocks = size(host.device);
  use.host_blocks = size(host.pinned);
  use.streams = size(host.streams);
  use.events = size(host.events);
  use.modules = size(host.modules);
  use.misuses = host.misuses;
  return use;
}

}  // namespace assay::kernels::simt

namespace assay::inline kernels::gpu {
namespace {

using simt::Host;
using simt::TheHost;

// Calls f under the lock, unless the context is lost.
template <class F>
ErrorCode Call(F&& f) {
  Host& host = TheHost();
  const std::lock_guard<std::mutex> lock(host.mutex);
  return host.lost != kOk ? host.lost : f(host);
}

// The same for calls that give something back, which work in a lost context, too.
template <class F>
ErrorCode Release(F&& f) {
  Host& host = TheHost();
  const std::lock_guard<std::mutex> lock(host.mutex);
  const ErrorCode code = f(host);
  return host.lost != kOk ? host.lost : code;
}

}  // namespace

const char* BackendName() { return "simt"; }

ErrorCode DeviceCount(int* count) {
  return Call([count](const Host& host) {
    if (host.config.absent != kOk) return host.config.absent;
    *count = host.config.devices;
    return kOk;
  });
}

ErrorCode GetProperties(int ordinal, Properties* properties) {
  return Call([ordinal, properties](Host& host) {
    if (ordinal < 0 || ordinal >= host.config.devices) return host.Misuse(simt::kInvalidDevice);
    Properties p;
    p.model = "SIMT emulator";
    p.pci_id = "0000:0" + std::to_string(ordinal) + ":00.0";
    p.architecture = "emulated";
    p.memory_bytes = host.config.memory_bytes;
    p.l2_bytes = 1 << 20;
    p.last_cache_bytes = LastCacheBytes(p.architecture, p.l2_bytes);
    p.shared_bytes_per_block = static_cast<std::int64_t>(simt::CurrentConfig().shared_bytes);
    p.multiprocessors = 1;
    p.wave_width = simt::CurrentConfig().wave_width;
    p.prohibited = host.config.prohibited;
    p.exclusive = host.config.exclusive;
    p.integrated = true;
    *properties = p;
    return kOk;
  });
}

ErrorCode UseDevice(int ordinal) {
  return Call([ordinal](Host& host) {
    return ordinal < 0 || ordinal >= host.config.devices ? host.Misuse(simt::kInvalidDevice) : kOk;
  });
}

ErrorCode MemoryInfo(std::int64_t* free_bytes, std::int64_t* total_bytes) {
  return Call([free_bytes, total_bytes](const Host& host) {
    *free_bytes = std::max<std::int64_t>(0, host.config.memory_bytes - host.device_bytes);
    *total_bytes = host.config.memory_bytes;
    return kOk;
  });
}

ErrorCode Allocate(std::int64_t bytes, void** data) {
  return Call([bytes, data](Host& host) {
    if (bytes < 0) return host.Misuse(simt::kInvalidValue);
    if (bytes == 0) {
      *data = nullptr;
      return kOk;
    }
    void* made = nullptr;
    const std::int64_t together = host.config.largest_block_bytes;
    if (bytes > host.config.memory_bytes - host.device_bytes ||
        (together > 0 && bytes > together) ||
        posix_memalign(&made, simt::kAlignment, static_cast<std::size_t>(bytes)) != 0) {
      return simt::kMemoryAllocation;
    }
    host.device.emplace(static_cast<unsigned char*>(made), bytes);
    host.device_bytes += bytes;
    ++host.made.allocations;
    *data = made;
    return kOk;
  });
}

ErrorCode Free(void* data) {
  if (data == nullptr) return kOk;
  return Release([data](Host& host) {
    const auto block = host.device.find(static_cast<unsigned char*>(data));
    if (block == host.device.end()) return host.Misuse(simt::kInvalidValue);
    host.device_bytes -= block->second;
    host.device.erase(block);
    std::free(data);
    return kOk;
  });
}

ErrorCode AllocateHost(std::int64_t bytes, void** data) {
  return Call([bytes, data](Host& host) {
    void* made = nullptr;
    if (bytes <= 0) return host.Misuse(simt::kInvalidValue);
    if (posix_memalign(&made, simt::kAlignment, static_cast<std::size_t>(bytes)) != 0) {
      return simt::kMemoryAllocation;
    }
    host.pinned.insert(made);
    ++host.made.allocations;
    *data = made;
    return kOk;
  });
}

ErrorCode FreeHost(void* data) {
  if (data == nullptr) return kOk;
  return Release([data](Host& host) {
    if (host.pinned.erase(data) == 0) return host.Misuse(simt::kInvalidValue);
    std::free(data);
    return kOk;
  });
}

ErrorCode CreateStream(Stream* stream) {
  return Call([stream](Host& host) {
    *stream = new char;  // an address of its own
    host.streams.insert(*stream);
    return kOk;
  });
}

ErrorCode DestroyStream(Stream stream) {
  return Release([stream](Host& host) {
    if (host.streams.erase(stream) == 0) return host.Misuse(simt::kInvalidHandle);
    delete static_cast<char*>(stream);
    return kOk;
  });
}

ErrorCode Wait(Stream stream) {
  return Call([stream](Host& host) {
    return host.KnowsStream(stream) ? host.Waited() : host.Misuse(simt::kInvalidHandle);
  });
}

ErrorCode CreateEvent(Event* event) {
  return Call([event](Host& host) {
    *event = new char;
    host.events.emplace(*event, simt::EventRecord{});
    return kOk;
  });
}

ErrorCode DestroyEvent(Event event) {
  return Release([event](Host& host) {
    if (host.events.erase(event) == 0) return host.Misuse(simt::kInvalidHandle);
    delete static_cast<char*>(event);
    return kOk;
  });
}

ErrorCode Record(Event event, Stream stream) {
  return Call([event, stream](Host& host) {
    const auto found = host.events.find(event);
    if (found == host.events.end() || !host.KnowsStream(stream)) {
      return host.Misuse(simt::kInvalidHandle);
    }
    found->second = {true, std::chrono::steady_clock::now()};
    return kOk;
  });
}

ErrorCode Elapsed(Event begin, Event end, double* seconds) {
  return Call([begin, end, seconds](Host& host) {
    const auto first = host.events.find(begin);
    const auto last = host.events.find(end);
    if (first == host.events.end() || last == host.events.end()) {
      return host.Misuse(simt::kInvalidHandle);
    }
    if (!first->second.recorded || !last->second.recorded) return host.Misuse(simt::kNotReady);
    const ErrorCode code = host.Waited();
    if (code == kOk) {
      *seconds = std::chrono::duration<double>(last->second.at - first->second.at).count();
    }
    return code;
  });
}

ErrorCode RecordWork(Stream stream, std::function<bool()> enqueue, Recording* recording) {
  return Call([&](Host& host) {
    if (!host.KnowsStream(stream)) return host.Misuse(simt::kInvalidHandle);
    if (host.unrecordable != kOk) return host.unrecordable;
    *recording = new char;
    host.recordings.emplace(*recording, std::move(enqueue));
    return kOk;
  });
}

ErrorCode Replay(Recording recording, Stream stream) {
  std::function<bool()> enqueue;
  const ErrorCode code = Call([&](Host& host) {
    const auto found = host.recordings.find(recording);
    if (found == host.recordings.end() || !host.KnowsStream(stream)) {
      return host.Misuse(simt::kInvalidHandle);
    }
    enqueue = found->second;
    return kOk;
  });
  if (code != kOk) return code;
  return enqueue() ? kOk : simt::kLaunchFailure;
}

ErrorCode DestroyRecording(Recording recording) {
  return Release([recording](Host& host) {
    if (host.recordings.erase(recording) == 0) return host.Misuse(simt::kInvalidHandle);
    delete static_cast<char*>(recording);
    return kOk;
  });
}

ErrorCode LoadModule(const void* image, Module* module) {
  return Call([&](Host& host) {
    if (host.unloadable != kOk) return host.unloadable;
    const std::string name = static_cast<const char*>(image);
    if (!host.images.contains(name)) return simt::kInvalidImage;
    *module = new char;
    host.modules.emplace(*module, name);
    return kOk;
  });
}

ErrorCode UnloadModule(Module module) {
  return Release([module](Host& host) {
    if (host.modules.erase(module) == 0) return host.Misuse(simt::kInvalidHandle);
    delete static_cast<char*>(module);
    return kOk;
  });
}

ErrorCode FindFunction(Module module, const std::string& symbol, Function* function) {
  return Call([&](Host& host) {
    const auto found = host.modules.find(module);
    if (found == host.modules.end()) return host.Misuse(simt::kInvalidHandle);
    auto& functions = host.images[found->second];
    const auto named = functions.find(symbol);
    if (named == functions.end()) return simt::kNotFound;
    *function = &named->second;
    return kOk;
  });
}

ErrorCode DescribeFunction(Function function, FunctionUse* use) {
  return Call([&](const Host&) {
    *use = static_cast<simt::EmulatedFunction*>(function)->use;
    return kOk;
  });
}

ErrorCode AllowShared(Function, std::int64_t) {
  return Call([](const Host&) { return kOk; });
}

ErrorCode LaunchFunction(Function function, const std::array<unsigned, 3>& grid,
                         const std::array<unsigned, 3>& block, std::size_t shared_bytes,
                         void** arguments, Stream stream) {
  const ErrorCode code = Call([stream](Host& host) {
    return host.KnowsStream(stream) ? kOk : host.Misuse(simt::kInvalidHandle);
  });
  if (code != kOk) return code;
  const auto& thread = static_cast<simt::EmulatedFunction*>(function)->thread;
  simt::Launch({grid[0], grid[1], grid[2]}, {block[0], block[1], block[2]}, shared_bytes,
               [&] { thread(arguments); });
  return kOk;
}

ErrorCode CopyToDevice(void* dst, const void* src, std::int64_t bytes, Stream stream) {
  return Call([=](Host& host) {
    if (!host.Holds(dst, bytes)) return host.Misuse(simt::kInvalidValue);
    if (!host.KnowsStream(stream)) return host.Misuse(simt::kInvalidHandle);
    if (bytes > 0) std::memcpy(dst, src, static_cast<std::size_t>(bytes));
    ++host.made.copies_to_device;
    host.made.bytes_to_device += bytes;
    return kOk;
  });
}

ErrorCode CopyToHost(void* dst, const void* src, std::int64_t bytes, Stream stream) {
  return Call([=](Host& host) {
    if (!host.Holds(src, bytes)) return host.Misuse(simt::kInvalidValue);
    if (!host.KnowsStream(stream)) return host.Misuse(simt::kInvalidHandle);
    const ErrorCode code = host.Waited();
    if (code == kOk && bytes > 0) std::memcpy(dst, src, static_cast<std::size_t>(bytes));
    ++host.made.copies_to_host;
    host.made.bytes_to_host += bytes;
    return code;
  });
}

ErrorCode CopyOnDevice(void* dst, const void* src, std::int64_t bytes, Stream stream) {
  return Call([=](Host& host) {
    if (!host.Holds(src, bytes) || !host.Holds(dst, bytes)) {
      return host.Misuse(simt::kInvalidValue);
    }
    if (!host.KnowsStream(stream)) return host.Misuse(simt::kInvalidHandle);
    if (bytes > 0) std::memmove(dst, src, static_cast<std::size_t>(bytes));
    return kOk;
  });
}

ErrorCode Set(void* dst, unsigned char byte, std::int64_t bytes, Stream stream) {
  return Call([=](Host& host) {
    if (!host.Holds(dst, bytes)) return host.Misuse(simt::kInvalidValue);
    if (!host.KnowsStream(stream)) return host.Misuse(simt::kInvalidHandle);
    if (bytes > 0) std::memset(dst, byte, static_cast<std::size_t>(bytes));
    return kOk;
  });
}

std::string Describe(ErrorCode code) {
  switch (code) {
    case kOk:
      return "success: no error";
    case simt::kInvalidValue:
      return "invalid value: memory that was not allocated, or is freed";
    case simt::kMemoryAllocation:
      return "memory allocation: out of memory";
    case simt::kInvalidDevice:
      return "invalid device: no such ordinal";
    case simt::kInvalidHandle:
      return "invalid handle: a stream or an event that is not there";
    case simt::kNotReady:
      return "not ready: an event that was not recorded";
    case simt::kLaunchFailure:
      return "launch failure: a kernel's fault under the emulator";
    case simt::kInvalidImage:
      return "invalid kernel image: it is not for this device";
    case simt::kNotFound:
      return "symbol not found: none of this name";
    case 209:
      return "no kernel image: none for the device";
    case 222:
      return "unsupported PTX version: of a later toolkit";
    case 900:
      return "capture unsupported: not while the stream records";
    case 35:
      return "insufficient driver: none, or older than the toolkit";
    case 100:
      return "no device: none is there";
    default:
      return "error " + std::to_string(code);
  }
}

}  // namespace assay::kernels::gpu
