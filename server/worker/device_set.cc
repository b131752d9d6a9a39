#include "server/worker/device_set.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "assay/worker/v1/worker.pb.h"
#include "kernels/text/cat.h"
#include "server/base/case_spec.h"
#include "server/base/even_time.h"
#include "server/base/log.h"
#include "server/process/process.h"
#include "server/worker/supervisor.h"

namespace assay::server {
namespace {

constexpr absl::Duration kProbeDeadline = absl::Seconds(60);

constexpr std::array<std::string_view, 4> kBackends = {"cpu", "cuda", "hip", "simt"};

bool Matches(std::string_view pattern, std::string_view id) {
  return fnmatch(std::string(pattern).c_str(), std::string(id).c_str(), 0) == 0;
}

// Whether the operator means the backend. Nobody has the emulator without naming it.
bool IsMeant(const std::string& pattern, std::string_view backend) {
  return backend == "simt" ? pattern == backend : Matches(pattern, backend);
}

// A worker that describes a device or a backend prints some kilobytes.
constexpr std::size_t kMostProbeBytes = std::size_t{1} << 20;
// No node has more of one backend.
constexpr int kMostDevices = 1024;

// Reads to the end of the file, until the deadline, or a little more than kMostProbeBytes.
std::string ReadAll(int fd, absl::Time deadline) {
  std::string all;
  std::array<char, 65536> buffer;
  while (all.size() <= kMostProbeBytes) {
    const absl::Duration left = std::max(deadline - EvenTime(), absl::ZeroDuration());
    pollfd poll_fd{fd, POLLIN, 0};
    if (poll(&poll_fd, 1, static_cast<int>(absl::ToInt64Milliseconds(left))) <= 0) return all;
    const ssize_t n = read(fd, buffer.data(), buffer.size());
    if (n <= 0) return all;
    all.append(buffer.data(), static_cast<std::size_t>(n));
  }
  return all;
}

std::vector<std::string> WorkerArgs(const DiscoverOptions& options, std::string_view device) {
  return {Cat("--device=", device), Cat("--arena-bytes=", options.arena_bytes)};
}

std::shared_ptr<Containment> Contain(const DiscoverOptions& options, std::string_view backend) {
  ContainmentOptions containment = options.containment;
  containment.worker = options.worker_path;
  containment.accelerators = !RunsOnHost(backend);
  return Containment::Make(containment);
}

// Starts a worker with `args` and reads the message that it prints. `what` is for errors.
template <class Message>
absl::StatusOr<Message> Ask(const DiscoverOptions& options, std::string_view backend,
                            std::vector<std::string> args, std::string_view what) {
  int out[2], err[2];
  if (pipe2(out, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "pipe for a probe");
  const absl::Cleanup close_out = [&] { close(out[0]); };
  if (pipe2(err, O_CLOEXEC) != 0) {
    close(out[1]);
    return absl::ErrnoToStatus(errno, "pipe for a probe");
  }
  const absl::Cleanup close_err = [&] { close(err[0]); };
  ProcessOptions process_options;
  process_options.path = options.worker_path;
  process_options.args = std::move(args);
  process_options.args.push_back(Cat("--parent-pid=", getpid()));
  process_options.environment = WorkerEnvironment();
  // A probe loads the same libraries as a worker, and shows that they work with fewer rights.
  const std::shared_ptr<Containment> containment = Contain(options, backend);
  process_options.containment = containment.get();
  for (const std::string& variable : containment->environment()) {
    process_options.environment.push_back(variable);
  }
  process_options.stdout_fd = out[1];
  process_options.output_fd = err[1];
  process_options.with_channel = false;
  absl::StatusOr<std::unique_ptr<WorkerProcess>> process = WorkerProcess::Start(process_options);
  close(out[1]);
  close(err[1]);
  if (!process.ok()) return process.status();

  const absl::Time deadline = EvenTime() + kProbeDeadline;
  const std::string answer = ReadAll(out[0], deadline);
  if (answer.size() > kMostProbeBytes) {
    (*process)->Kill();
    return absl::InternalError(
        Cat("the worker that describes ", what, " printed more than ", kMostProbeBytes, " bytes"));
  }
  const std::optional<ExitCause> cause = (*process)->Wait(deadline);
  if (!cause) {
    return absl::InternalError(Cat("the worker that describes ", what, " did not end within ",
                                   absl::FormatDuration(kProbeDeadline)));
  }
  Message message;
  if (cause->signal != 0 || cause->status != 0 || !message.ParseFromString(answer)) {
    const std::string said = ReadAll(err[0], EvenTime() + absl::Seconds(1));
    const std::vector<std::string> lines = absl::StrSplit(said, '\n', absl::SkipWhitespace());
    return absl::InternalError(Cat("the worker that describes ", what, " ", cause->Text(),
                                   lines.empty() ? "" : ": ", lines.empty() ? "" : lines.back()));
  }
  return message;
}

absl::StatusOr<worker::v1::DescribeResponse> Probe(const DiscoverOptions& options,
                                                   std::string_view device) {
  std::vector<std::string> args = WorkerArgs(options, device);
  args.emplace_back("--probe");
  return Ask<worker::v1::DescribeResponse>(options, device.substr(0, device.find(':')),
                                           std::move(args), device);
}

// Asks a worker how many devices a backend has here, or why it has none.
worker::v1::DeviceList List(const DiscoverOptions& options, std::string_view backend) {
  worker::v1::DeviceList answer;
  if (RunsOnHost(backend)) {  // one device, all cores of it
    answer.set_count(1);
    return answer;
  }
  auto list = Ask<worker::v1::DeviceList>(options, backend, {Cat("--list=", backend)},
                                          Cat("backend ", backend));
  if (list.ok() && list->count() >= 0 && list->count() <= kMostDevices) return *std::move(list);
  if (list.ok()) {
    answer.set_unavailable_reason(Cat("the worker that describes backend ", backend, " found ",
                                      list->count(), " devices; at most ", kMostDevices,
                                      " can be"));
    return answer;
  }
  answer.set_unavailable_reason(std::string(list.status().message()));
  return answer;
}

v1::Device Unavailable(std::string_view id, std::string_view backend, std::string_view reason) {
  v1::Device device;
  device.set_name(Cat("devices/", id));
  device.set_id(std::string(id));
  device.set_backend(std::string(backend));
  device.set_state(v1::DEVICE_STATE_UNAVAILABLE);
  device.set_unavailable_reason(std::string(reason));
  return device;
}

constexpr std::int64_t kGiB = std::int64_t{1} << 30;
constexpr std::int64_t kLeastArena = 1 << 20;  // [bytes]; less holds no case with its guard bands

// The most of a node's memory that one worker may hold.
std::int64_t LargestCap(const v1::Device& device) { return device.memory_bytes() / 100 * 95; }

// The most that a worker may hold: its arena, plus a quarter of the memory for code, threads and
// libraries. Together they are at most 95 % of the memory.
std::int64_t MemoryCap(const v1::Device& device) {
  if (!RunsOnHost(device.backend()) || device.memory_bytes() <= 0) return 0;
  const std::int64_t share = std::max(device.memory_bytes() / 4, kGiB);
  return std::min(device.arena_bytes() + share, LargestCap(device));
}

std::unique_ptr<CaseExecutor> Supervise(const DiscoverOptions& options,
                                        const worker::v1::DescribeResponse& found) {
  const std::string id = found.device().id();
  const std::int64_t cap = MemoryCap(found.device());
  SupervisorOptions s;
  s.device_id = id;
  s.worker_path = options.worker_path;
  s.worker_args = WorkerArgs(options, id);
  s.worker_args.push_back(Cat("--memory-cap=", cap));
  if (!options.state_dir.empty()) s.ceilings_file = Cat(options.state_dir, "/ceilings-", id);
  s.containment = Contain(options, found.device().backend());
  s.environment = WorkerEnvironment();
  s.idle_release = options.idle_release;
  s.resident_cap_bytes = cap;
  s.device = found.device();
  for (const Measure& measure : s.containment->measures()) {
    v1::ContainmentMeasure& told = *s.device.add_containment();
    told.set_measure(measure.name);
    told.set_applied(measure.applied);
    told.set_detail(measure.detail);
  }
  s.shares_launches = found.shares_launches();
  s.kernels.assign(found.kernels().begin(), found.kernels().end());
  if (options.on_restart) {
    s.on_restart = [id, tell = options.on_restart](std::string_view reason) { tell(id, reason); };
  }
  s.on_change = options.on_change;
  s.kernel_file = options.kernel_file;
  return MakeSupervisor(std::move(s));
}

}  // namespace

std::vector<CaseExecutor*> DeviceSet::Select(std::string_view selector) const {
  std::vector<CaseExecutor*> selected;
  for (const auto& executor : executors) {
    if (!selector.empty() && !Matches(selector, executor->device_id())) continue;
    selected.push_back(executor.get());
    if (selector.empty()) break;
  }
  return selected;
}

const v1::Device* DeviceSet::Unusable(std::string_view selector) const {
  const std::string_view backend = selector.substr(0, selector.find(':'));
  const bool whole = selector == backend && Select(Cat(backend, ":*")).empty();
  for (const v1::Device& device : unavailable) {
    // A device is listed by its number if the number is known, else by its backend.
    if (device.id() == backend || Matches(selector, device.id()) ||
        (whole && device.backend() == backend)) {
      return &device;
    }
  }
  return nullptr;
}

absl::Status CheckArenaBytes(const v1::Device& device, std::int64_t arena_bytes) {
  if (arena_bytes > 0 && arena_bytes < kLeastArena) {
    return absl::InvalidArgumentError(Cat("--arena-bytes must be at least ", kLeastArena,
                                          ", or 0 for half of the device's memory; got ",
                                          arena_bytes));
  }
  if (!RunsOnHost(device.backend()) || device.memory_bytes() <= 0) return absl::OkStatus();
  // The least that a worker needs beside its arena: a gibibyte, or less on a tiny node.
  const std::int64_t beside = std::min(device.memory_bytes() / 4, kGiB);
  const std::int64_t most = LargestCap(device) - beside;
  if (arena_bytes <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(Cat("--arena-bytes must be at most ", most, " on ", device.id(),
                                        ", got ", arena_bytes, ": of its ", device.memory_bytes(),
                                        " bytes of memory a worker may hold ", LargestCap(device),
                                        ", ", beside, " of them beside the arena; 0 takes half"));
}

std::vector<std::string> WorkerEnvironment() {
  std::vector<std::string> environment;
  const auto unless_set = [&](std::string_view name, std::string_view value) {
    if (std::getenv(std::string(name).c_str()) == nullptr) {
      environment.push_back(Cat(name, "=", value));
    }
  };
  // OpenBLAS before 0.3.22 takes newer processors with AVX-512 for Haswell. It then has half the
  // speed, and uses other kernels than a current version.
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
    unless_set("OPENBLAS_CORETYPE", "SkylakeX");
  }
  // Threads that spin between parallel regions are faster only on an idle machine. Beside other
  // work, the smoke suite took 2 to 6 times as long with spinning (libgomp's default) as without
  // it, and small kernels took twice as long.
  unless_set("OMP_WAIT_POLICY", "passive");
  // What a case has freed is the next one's, so that it has no new pages to touch: a sixth of
  // planted_test's processor time. An idle worker gives it back with its arena.
  unless_set("MALLOC_MMAP_THRESHOLD_", "33554432");
  unless_set("MALLOC_TRIM_THRESHOLD_", "268435456");
  return environment;
}

absl::StatusOr<DeviceSet> DiscoverDevices(const DiscoverOptions& options) {
  DeviceSet set;
  std::set<std::string> seen;
  std::map<std::string_view, worker::v1::DeviceList> lists;  // each backend is asked once
  const auto unavailable = [&](std::string_view id, std::string_view backend,
                               std::string_view reason) {
    if (!seen.emplace(id).second) return;
    set.unavailable.push_back(Unavailable(id, backend, reason));
  };
  for (const std::string& wanted : options.devices) {
    const std::string backend_name = wanted.substr(0, wanted.find(':'));
    bool known = false;
    for (const std::string_view backend : kBackends) {
      if (!IsMeant(backend_name, backend)) continue;
      known = true;
      if (!lists.contains(backend)) lists[backend] = List(options, backend);
      const worker::v1::DeviceList& list = lists[backend];
      if (list.count() == 0) {
        // A device that was named by its number is listed by it.
        const bool one = wanted.find_first_of("*?[") == wanted.npos && wanted != backend;
        unavailable(one ? std::string_view(wanted) : backend, backend, list.unavailable_reason());
        continue;
      }
      bool matched = false;
      for (int ordinal = 0; ordinal < list.count(); ++ordinal) {
        const std::string id = Cat(backend, ":", ordinal);
        if (backend_name != wanted && !Matches(wanted, id)) continue;
        matched = true;
        if (seen.contains(id)) continue;
        absl::StatusOr<worker::v1::DescribeResponse> found = Probe(options, id);
        if (!found.ok() && backend != "cpu") {
          unavailable(id, backend, std::string(found.status().message()));
          continue;
        }
        if (!found.ok()) return found.status();
        seen.insert(id);
        if (absl::Status s = CheckArenaBytes(found->device(), options.arena_bytes); !s.ok()) {
          return s;
        }
        Log(LogLevel::kInfo, "device.found",
            {{"device", id},
             {"model", found->device().model()},
             {"memory_bytes", found->device().memory_bytes()}});
        set.executors.push_back(Supervise(options, *found));
      }
      if (matched) continue;
      const std::string has = list.count() == 1
                                  ? Cat(backend, ":0")
                                  : Cat(backend, ":0 to ", backend, ":", list.count() - 1);
      return absl::InvalidArgumentError(
          Cat("--devices: there is no ", wanted, "; this node has ", has));
    }
    if (!known) {
      return absl::InvalidArgumentError(
          Cat("--devices: unknown backend in \"", wanted,
              "\"; known are cpu, cuda, hip, simt, as in cpu:0 or cuda:*"));
    }
  }
  return set;
}

}  // namespace assay::server
