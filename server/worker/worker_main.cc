// assay-worker: the process that owns one device. It runs the cases that its daemon sends, and it
// may be killed at any time. assayd starts it. A person starts it only as
//
//   assay-worker --once CASE.json      runs one case in the foreground, for a debugger; - is stdin
//   assay-worker --probe               describes the device, as a serialised message
//   assay-worker --list BACKEND        says how many devices there are, or why none, likewise
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "assay/worker/v1/worker.pb.h"
#include "kernels/backends/backend.h"
#include "kernels/bench/ceilings.h"
#include "kernels/providers/provider.h"
#include "kernels/runtime/device.h"
#include "server/base/wire.h"
#include "server/process/phase_page.h"
#include "server/worker/conditions_reader.h"
#include "server/worker/kept_ceilings.h"
#include "server/worker/memory_limit.h"
#include "server/worker/once.h"
#include "server/worker/worker_service.h"

namespace assay::server {
namespace {

struct Options {
  std::string device = "cpu:0";
  std::int64_t arena_bytes = 0;
  std::int64_t memory_cap = 0;
  int parent_pid = 0;
  bool probe = false;
  std::string list;
  std::string once;
  std::string kernel_file;
  std::string reference_file;
  std::string perf_control;
  bool driver_range = false;
};

constexpr int kExitUsage = 2;

// Where the handler of a failed allocation leaves its last words.
PhasePage* g_page = nullptr;

void SayOutOfMemory() {
  if (g_page != nullptr) {
    g_page->last_words.store(static_cast<std::uint32_t>(LastWords::kOutOfMemory));
  }
  _exit(kExitOutOfMemory);
}

// Makes this process die with its daemon, leave no core file, be killed first when memory is short,
// and stay the ancestor of every process that a kernel starts.
bool TieToParent(int parent_pid) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  // 1 and not 0, because 1 also stops a core_pattern that pipes to a program.
  const rlimit core{1, 1};
  setrlimit(RLIMIT_CORE, &core);
  if (std::FILE* adj = std::fopen("/proc/self/oom_score_adj", "we")) {
    std::fputs("700", adj);
    std::fclose(adj);
  }
  return getppid() == parent_pid;  // if not, the parent died before prctl
}

MemoryLimit MakeMemoryLimit(const Options& options, const Device& device) {
  return MemoryLimit(options.memory_cap, MemoryLimit::KernelAllowance(device.info().memory_bytes,
                                                                      device.info().compute_units));
}

// Returns 0 for every case that ran. The output says the verdict.
int RunOnce(const Options& options, const v1::CaseSpec& spec, Device& device,
            const Registry& registry, Ceilings* ceilings, ConditionsReader* conditions) {
  if (options.parent_pid != 0) EndWith(options.parent_pid);
  std::unique_ptr<PhaseObserver> watcher;
  if (!options.perf_control.empty()) watcher = MakePerfControl(options.perf_control);
  if (options.driver_range) watcher = MakeDriverRange();
  MemoryLimit limit = MakeMemoryLimit(options, device);
  const v1::CaseResult result =
      RunCaseSpec(spec, device, registry, ceilings, nullptr, &limit, conditions, /*draws=*/nullptr,
                  watcher.get(), options.kernel_file, options.reference_file);
  const absl::StatusOr<std::string> text = ResultText(result);
  if (!text.ok()) return 1;
  std::cout << *text << std::flush;
  return 0;
}

int ListDevices(std::string_view name) {
  worker::v1::DeviceList list;
  const absl::StatusOr<const Backend*> backend = FindBackend(name);
  const absl::StatusOr<int> count = backend.ok() ? (*backend)->DeviceCount() : backend.status();
  if (count.ok()) {
    list.set_count(*count);
    if (*count == 0) list.set_unavailable_reason("there is no such device on this node");
  } else {
    list.set_unavailable_reason(std::string(count.status().message()));
  }
  return list.SerializeToFileDescriptor(STDOUT_FILENO) ? 0 : 1;
}

struct OpenDevice {
  const Backend* backend;
  std::unique_ptr<Device> device;
};

// Opens the device of --device, such as cuda:1.
absl::StatusOr<OpenDevice> Open(const Options& options) {
  const std::size_t colon = options.device.find(':');
  int ordinal = 0;
  if (colon == std::string::npos || !absl::SimpleAtoi(options.device.substr(colon + 1), &ordinal)) {
    return absl::InvalidArgumentError("a device must be BACKEND:NUMBER, such as cpu:0");
  }
  const absl::StatusOr<const Backend*> backend = FindBackend(options.device.substr(0, colon));
  if (!backend.ok()) return backend.status();
  absl::StatusOr<std::unique_ptr<Device>> device =
      (*backend)->MakeDevice(ordinal, ArenaOptions{.max_bytes = options.arena_bytes});
  if (!device.ok()) return device.status();
  return OpenDevice{*backend, *std::move(device)};
}

// Reads the command line. Returns the exit code if the process is to end at once: after --help, and
// after a usage error.
std::optional<int> ReadOptions(int argc, char** argv, Options& options) {
  CLI::App app("Runs kernels on one device for assayd. The process may be killed at any time.");
  app.add_option("--device", options.device, "the device (default cpu:0)");
  app.add_option("--arena-bytes", options.arena_bytes,
                 "most bytes that the arena may take (default 0: half of the device's memory)");
  app.add_option("--memory-cap", options.memory_cap,
                 "most bytes of data that the process may hold (default 0: no limit)");
  app.add_option("--parent-pid", options.parent_pid, "the daemon's process id");
  app.add_flag("--probe", options.probe, "describe the device, as a serialised message, and end");
  app.add_option("--list", options.list,
                 "say how many devices this backend has, as a serialised message, and end");
  app.add_option(
      "--once", options.once,
      "run the case of this file (a CaseSpec as JSON; - means standard input), print its "
      "result, and end with 0, whatever the verdict");
  app.add_option("--kernel-file", options.kernel_file,
                 "with --once: the library of the kernel, if the case's provider is user/…");
  app.add_option("--reference-file", options.reference_file,
                 "with --once: the library of the reference, if the case names one");
  app.add_option("--perf-control", options.perf_control,
                 "with --once: the pipes CONTROL,ANSWER of perf stat --control=fifo:, so that perf "
                 "counts only while the kernel under test runs");
  app.add_flag("--driver-range", options.driver_range,
               "with --once: tell NVIDIA's driver when the kernel under test runs, for ncu "
               "--profile-from-start off, and take a small arena, because ncu saves all of it");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : kExitUsage;
  }
  return std::nullopt;
}

int Main(int argc, char** argv) {
  Options options;
  if (const std::optional<int> code = ReadOptions(argc, argv, options)) return *code;
  // With --once, a profiler may be the parent.
  if (options.parent_pid != 0 && !TieToParent(options.parent_pid) && options.once.empty()) return 1;
  if (!options.list.empty()) return ListDevices(options.list);

  absl::StatusOr<v1::CaseSpec> spec;
  if (!options.once.empty()) {
    spec = ReadCaseFile(options.once);
    if (!spec.ok()) {
      std::cerr << "assay-worker: " << spec.status().message() << "\n";
      return kExitUsage;
    }
  }
  if (options.driver_range && !options.once.empty()) {
    if (const std::optional<std::int64_t> small = SmallArena(*spec)) {
      options.arena_bytes =
          options.arena_bytes > 0 ? std::min(options.arena_bytes, *small) : *small;
    }
  }
  const absl::StatusOr<OpenDevice> open = Open(options);
  if (!open.ok()) {
    std::cerr << "assay-worker: no device " << options.device << ": " << open.status().message()
              << "\n";
    return kExitUsage;
  }
  const auto& [backend, device] = *open;
  Registry registry;
  backend->Register(registry);
  if (options.probe) {
    return DescribeDevice(*device, registry).SerializeToFileDescriptor(STDOUT_FILENO) ? 0 : 1;
  }
  const std::unique_ptr<KnownCeilings> ceilings = KeepCeilings(
      backend->MakeCeilings(*device), CeilingsKey(device->info(), ASSAY_VERSION, BootId()));
  TelemetrySamplerOptions telemetry = TelemetryOptionsFromEnvironment();
  telemetry.daemon_pid = options.parent_pid != 0 ? options.parent_pid : getppid();
  const std::unique_ptr<ConditionsReader> conditions =
      MakeConditionsReader(device->info(), std::move(telemetry));
  if (!options.once.empty()) {
    return RunOnce(options, *spec, *device, registry, ceilings.get(), conditions.get());
  }

  g_page = MapPhasePage(kWorkerPageFd);
  if (g_page == nullptr || options.parent_pid == 0) {
    std::cerr << "assay-worker: assayd starts this program; by hand, say --once or --probe\n";
    return kExitUsage;
  }
  std::set_new_handler(SayOutOfMemory);
  MemoryLimit limit = MakeMemoryLimit(options, *device);
  // A program that the kernel under test starts must not get the daemon's socket.
  fcntl(kWorkerSocketFd, F_SETFD, FD_CLOEXEC);
  fcntl(kWorkerPageFd, F_SETFD, FD_CLOEXEC);
  ServeWorker(kWorkerSocketFd, *device, registry, ceilings.get(), g_page, &limit, conditions.get());
}

}  // namespace
}  // namespace assay::server

// NOLINTNEXTLINE(bugprone-exception-escape): a worker that ends so is a result of its case
int main(int argc, char** argv) { return assay::server::Main(argc, argv); }
