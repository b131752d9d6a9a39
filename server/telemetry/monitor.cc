#include "server/telemetry/monitor.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/time/time.h"
#include "kernels/text/cat.h"
#include "server/base/even_time.h"
#include "server/base/log.h"
#include "server/process/output_pump.h"
#include "server/process/process.h"
#include "server/telemetry/accumulator.h"
#include "server/telemetry/sample_stream.h"

namespace assay::server {
namespace {

class Monitor final : public TelemetryMonitor {
 public:
  explicit Monitor(TelemetryOptions options)
      : options_(std::move(options)), wake_(eventfd(0, EFD_CLOEXEC)) {
    for (const DeviceAddress& device : options_.devices) {
      known_[device.id].telemetry.set_unavailable_reason("no sample has come yet");
    }
    if (options_.path.empty()) {
      Forget("there is no assay-telemetry beside the worker program");
      Log(LogLevel::kWarn, "telemetry.missing",
          {{"reason", "there is no assay-telemetry beside the worker program"}});
      return;
    }
    if (!options_.devices.empty()) thread_ = std::thread([this] { Loop(); });
  }

  ~Monitor() override {
    if (thread_.joinable()) {
      eventfd_write(wake_, 1);
      thread_.join();
    }
    close(wake_);
  }

  v1::Telemetry Latest(std::string_view device) override {
    const std::lock_guard lock(mutex_);
    const auto it = known_.find(device);
    if (it == known_.end()) return {};
    const Known& known = it->second;
    if (known.telemetry.unavailable_reason().empty() &&
        EvenTime() - known.received > options_.stale) {
      v1::Telemetry none;
      none.set_unavailable_reason("the newest sample is too old");
      return none;
    }
    return known.telemetry;
  }

 private:
  struct Known {
    v1::Telemetry telemetry;
    TelemetryAccumulator counters;
    absl::Time received;
  };

  void Loop() {
    absl::Duration backoff = options_.least_backoff;
    for (;;) {
      const absl::Time began = EvenTime();
      const std::string reason = RunProcess();
      if (stopping_) return;
      Log(LogLevel::kWarn, "telemetry.ended", {{"reason", reason}});
      Forget(reason);
      // The process worked for a while, so it ended by accident.
      if (EvenTime() - began > options_.most_backoff) backoff = options_.least_backoff;
      if (Woken(backoff)) return;
      backoff = std::min(backoff * 2, options_.most_backoff);
    }
  }

  // Runs one process from start to end. Returns why it ended.
  std::string RunProcess() {
    OutputPump errors("telemetry");
    int out[2];
    if (pipe2(out, O_CLOEXEC) != 0) return "no pipe for the telemetry process";
    ProcessOptions process_options;
    process_options.path = options_.path;
    process_options.args = {Cat("--parent-pid=", getpid()),
                            Cat("--period-ms=", absl::ToInt64Milliseconds(options_.period))};
    for (const DeviceAddress& device : options_.devices) {
      process_options.args.push_back("--device");
      process_options.args.push_back(Cat(device.id, ",", device.uuid, ",", device.pci_id));
    }
    process_options.environment = options_.environment;
    process_options.stdout_fd = out[1];
    process_options.output_fd = errors.write_fd();
    process_options.with_channel = false;
    auto process = WorkerProcess::Start(process_options);
    close(out[1]);
    if (!process.ok()) {
      close(out[0]);
      return std::string(process.status().message());
    }
    Log(LogLevel::kInfo, "telemetry.started", {{"pid", (*process)->pid()}});
    {
      const std::lock_guard lock(mutex_);
      for (auto& [id, known] : known_) known.counters.ProcessStarted();
    }
    std::string reason = Read(out[0]);
    close(out[0]);
    // The process has closed its stdout. It is about to end, or it is killed.
    if (reason.empty() && !stopping_) {
      const auto cause = (*process)->Wait(EvenTime() + absl::Seconds(1));
      reason = Cat("the telemetry process ended: ", cause ? cause->Text() : "it closed its output");
    }
    return reason;
  }

  // Reads samples until the end of the file, and returns "". Else returns why there are no more.
  std::string Read(int fd) {
    std::string pending;
    std::array<char, 65536> buffer;
    absl::Time newest = EvenTime();
    for (;;) {
      const absl::Duration left = newest + options_.stale - EvenTime();
      if (left <= absl::ZeroDuration()) {
        return Cat("the telemetry process said nothing for ", absl::FormatDuration(options_.stale));
      }
      std::array<pollfd, 2> fds = {{{fd, POLLIN, 0}, {wake_, POLLIN, 0}}};
      const auto milliseconds = static_cast<int>(absl::ToInt64Milliseconds(left)) + 1;
      if (poll(fds.data(), fds.size(), milliseconds) < 0 && errno != EINTR) return "poll failed";
      if ((fds[1].revents & POLLIN) != 0) {
        stopping_ = true;
        return "";
      }
      if (fds[0].revents == 0) continue;
      const ssize_t n = read(fd, buffer.data(), buffer.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return "";
      pending.append(buffer.data(), static_cast<std::size_t>(n));
      std::size_t used = 0;
      while (const std::optional<v1::Device> sample = NextSample(pending, &used)) {
        newest = EvenTime();
        Take(*sample);
      }
      if (used == pending.npos) return "the telemetry process wrote what is no sample";
      pending.erase(0, used);
    }
  }

  void Take(v1::Device sample) {
    {
      const std::lock_guard lock(mutex_);
      const auto it = known_.find(sample.id());
      if (it == known_.end()) return;
      it->second.counters.Apply(sample.mutable_telemetry());
      it->second.telemetry = sample.telemetry();
      it->second.received = EvenTime();
    }
    if (options_.on_sample) options_.on_sample(sample);
  }

  void Forget(const std::string& reason) {
    for (const DeviceAddress& address : options_.devices) {
      v1::Device device;
      device.set_id(address.id);
      device.mutable_telemetry()->set_unavailable_reason(reason);
      {
        const std::lock_guard lock(mutex_);
        known_[address.id].telemetry = device.telemetry();
      }
      if (options_.on_sample) options_.on_sample(device);
    }
  }

  // Waits. Returns whether the monitor was asked to end meanwhile.
  bool Woken(absl::Duration time) {
    pollfd fd{wake_, POLLIN, 0};
    return poll(&fd, 1, static_cast<int>(absl::ToInt64Milliseconds(time))) > 0;
  }

  const TelemetryOptions options_;
  const int wake_;
  bool stopping_ = false;  // used by the thread only
  std::mutex mutex_;
  std::map<std::string, Known, std::less<>> known_;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<TelemetryMonitor> TelemetryMonitor::Start(TelemetryOptions options) {
  return std::make_unique<Monitor>(std::move(options));
}

std::string FindTelemetry(const std::string& worker_path) {
  std::error_code error;
  const std::filesystem::path path =
      std::filesystem::path(worker_path).parent_path() / "assay-telemetry";
  return std::filesystem::exists(path, error) ? path.string() : "";
}

}  // namespace assay::server
