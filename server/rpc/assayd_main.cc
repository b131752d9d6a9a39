// assayd: the daemon of a node. It starts its parts in this order: configuration, log, store,
// health port, devices, metrics, jobs, gRPC. When it is ready, it prints one line on stdout. Then
// it waits for a signal and drains.
//
// SIGHUP makes it read its configuration, certificates and roles again; it never ends the daemon.
// systemd is told when the daemon is ready, reloads and stops, and gets heartbeats
// (service_manager.h, heartbeat.h).
//
// Exit codes: 0 after a signal and a drain; 2 wrong usage or configuration; 3 a wrong environment
// (a port in use, a state folder that is locked or cannot be written, no worker); 128 + n after a
// second signal n, which ends the daemon at once.
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "google/protobuf/util/time_util.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "kernels/text/cat.h"
#include "server/auth/access.h"
#include "server/auth/client_limits.h"
#include "server/auth/credentials.h"
#include "server/auth/http_caller.h"
#include "server/base/config.h"
#include "server/base/health.h"
#include "server/base/log.h"
#include "server/base/memory.h"
#include "server/base/paths.h"
#include "server/base/service_manager.h"
#include "server/containment/containment.h"
#include "server/jobs/job_manager.h"
#include "server/jobs/retention.h"
#include "server/kernels/user_kernels.h"
#include "server/metrics/http_server.h"
#include "server/metrics/metrics.h"
#include "server/rpc/grpc_server.h"
#include "server/rpc/health_board.h"
#include "server/rpc/health_server.h"
#include "server/rpc/heartbeat.h"
#include "server/rpc/validation_service.h"
#include "server/store/store.h"
#include "server/telemetry/monitor.h"
#include "server/worker/device_set.h"

namespace assay::server {
namespace {

constexpr int kExitUsage = 2;
constexpr int kExitEnvironment = 3;

// Opens a descriptor for signals, so that one poll can wait for a signal and for the end of the
// drain. The signals are blocked before the first thread starts.
int OpenSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGHUP);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  return signalfd(-1, &set, SFD_CLOEXEC);
}

// Waits for the next signal. Returns nothing when `other` is readable.
std::optional<int> WaitForSignal(int signals, int other) {
  for (;;) {
    pollfd fds[2] = {{signals, POLLIN, 0}, {other, POLLIN, 0}};
    if (poll(fds, 2, -1) < 0) continue;  // EINTR: a stopped process that goes on
    if ((fds[0].revents & POLLIN) != 0) {
      signalfd_siginfo info{};
      if (read(signals, &info, sizeof info) == sizeof info) {
        return static_cast<int>(info.ssi_signo);
      }
    }
    if ((fds[1].revents & POLLIN) != 0) return std::nullopt;
  }
}

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "";
}

// A failure at the start: the text to print and the exit code.
struct Failure {
  int exit_code;
  std::string message;
};

Failure Fail(const absl::Status& status, std::string_view context = "") {
  const bool usage = status.code() == absl::StatusCode::kInvalidArgument;
  return {usage ? kExitUsage : kExitEnvironment,
          Cat(context, context.empty() ? "" : ": ", std::string(status.message()))};
}

RetentionOptions RetentionOf(const Config& config) {
  RetentionOptions options{.keep = config.store_keep, .bytes = config.store_keep_bytes};
  // A store that is full takes no jobs: the oldest go before that.
  const std::int64_t most = config.store_max_bytes / 10 * 9;
  if (most > 0 && options.bytes > 0) options.bytes = std::min(options.bytes, most);
  return options;
}

// The parts of a running daemon. Each outlives those after it.
class Daemon {
 public:
  Daemon(Config config, ServiceManager manager)
      : manager_(std::move(manager)), config_(std::move(config)) {}

  const Config& config() const { return config_; }
  std::optional<Failure> Start();
  // Starts the jobs that the configuration asks for.
  void StartJobs();
  // The line that says where the daemon serves.
  std::string ReadyLine() const;
  // Tells the service manager that the daemon serves, and begins the heartbeats.
  void TellReady();
  // Takes over what can change while the daemon runs, of `read`, and looks at the files of roles
  // and certificates.
  void Reload(const absl::StatusOr<ParsedArguments>& read);
  // Finishes the running jobs, within the time for draining.
  void Drain() {
    manager_.Notify("STOPPING=1\nSTATUS=draining");
    board_->Drain();
    jobs_->Drain(config_.drain_timeout);
    service_->Stop();
    grpc_.unix_listeners.clear();
    grpc_.tcp_listeners.clear();
    // The streams have ended. Calls that are still open are cut.
    grpc_.server->Shutdown(absl::ToChronoTime(absl::Now() + absl::Milliseconds(500)));
  }

 private:
  std::optional<Failure> CheckPorts();
  std::optional<Failure> OpenAccess();
  std::optional<Failure> CheckSuites() const;
  std::optional<Failure> StartHealth();
  std::optional<Failure> OpenKernels();
  std::vector<std::string> Secrets() const;
  std::string KernelsFolder() const { return Cat(config_.state_dir, "/kernels"); }
  std::optional<Failure> StartDevices();
  void StartTelemetry(const std::string& worker_path);
  std::optional<Failure> CheckNamedDevices() const;
  std::optional<Failure> CheckContainment() const;
  std::optional<Failure> StartServing();
  std::optional<Failure> StartMetrics();

  const ServiceManager manager_;
  Config config_;
  std::shared_ptr<grpc::Channel> channel_;  // to itself
  std::string metrics_address_ = "off";
  std::shared_ptr<CertificateStore> certificates_;
  std::unique_ptr<Access> access_;
  std::unique_ptr<Metrics> metrics_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<UserKernels> kernels_;
  std::unique_ptr<HealthBoard> board_;
  DeviceSet devices_;
  std::unique_ptr<TelemetryMonitor> telemetry_;
  std::unique_ptr<JobManager> jobs_;
  std::unique_ptr<Retention> retention_;
  std::unique_ptr<ClientLimits> limits_;
  std::unique_ptr<ValidationService> service_;
  std::unique_ptr<HealthServer> health_;
  GrpcServer grpc_;
  std::unique_ptr<MetricsServer> metrics_server_;
  std::unique_ptr<Heartbeat> heartbeat_;
};

std::optional<Failure> Daemon::CheckPorts() {
  if (!config_.tls_cert.empty()) {
    auto certificates = CertificateStore::Open(
        {config_.tls_cert, config_.tls_key, config_.tls_client_ca, config_.tls_client_crl});
    if (!certificates.ok())
      return Failure{kExitUsage, std::string(certificates.status().message())};
    certificates_ = *std::move(certificates);
  }
  for (const std::string& address : config_.listen) {
    const auto credentials = PortCredentials(address, certificates_, config_.insecure);
    if (!credentials.ok()) return Fail(credentials.status());
    if (absl::Status s = CheckAddress(address); !s.ok()) return Fail(s, "--listen");
  }
  if (!config_.metrics_listen.empty()) {
    if (absl::Status s =
            CheckMetricsPort(config_.metrics_listen, config_.metrics_tls, config_.insecure);
        !s.ok()) {
      return Fail(s);
    }
    if (absl::Status s = CheckAddress(config_.metrics_listen); !s.ok()) {
      return Fail(s, "--metrics-listen");
    }
  }
  if (!config_.health_listen.empty()) {
    if (absl::Status s = CheckHealthPort(config_.health_listen, config_.insecure); !s.ok()) {
      return Fail(s);
    }
  }
  return std::nullopt;
}

std::optional<Failure> Daemon::OpenAccess() {
  absl::StatusOr<std::unique_ptr<Access>> access = Access::Open(config_.roles_file);
  if (!access.ok()) return Failure{kExitUsage, std::string(access.status().message())};
  access_ = *std::move(access);
  if (!config_.tls_client_crl.empty()) {
    access_->AskWhetherRevoked(
        [this](const std::string& certificate) { return certificates_->IsRevoked(certificate); });
  }
  if (config_.roles_file.empty()) {
    Log(LogLevel::kInfo, "access.default",
        {{"admin", "callers from this node without TLS"}, {"operator", "all others"}});
  } else {
    Log(LogLevel::kInfo, "access.roles", {{"file", config_.roles_file}});
  }
  if (config_.insecure) {
    Log(LogLevel::kWarn, "access.insecure",
        {{"reason",
          certificates_ == nullptr
              ? "--insecure: whoever reaches a port reads and writes in plaintext"
              : "--insecure: ports without certificates, such as the health port, are plaintext"}});
  }
  return std::nullopt;
}

// Comes early. While the daemon looks for devices, the port says NOT_SERVING.
std::optional<Failure> Daemon::StartHealth() {
  if (config_.health_listen.empty()) return std::nullopt;
  absl::StatusOr<std::unique_ptr<HealthServer>> health = HealthServer::Start(config_.health_listen);
  if (!health.ok()) return Fail(health.status(), "--health-listen");
  health_ = *std::move(health);
  return std::nullopt;
}

// The files and folders that nothing which the daemon starts may read.
std::vector<std::string> Daemon::Secrets() const {
  std::vector<std::string> secrets;
  for (const std::string* secret :
       {&config_.state_dir, &config_.tls_key, &config_.roles_file, &config_.config_file}) {
    std::error_code error;
    const auto kind = std::filesystem::status(*secret, error).type();
    // A configuration may be /dev/null, which workers need.
    if (kind == std::filesystem::file_type::regular ||
        kind == std::filesystem::file_type::directory) {
      secrets.push_back(*secret);
    }
  }
  return secrets;
}

std::optional<Failure> Daemon::OpenKernels() {
  const auto takes = [this](std::string_view form) {
    return std::find(config_.user_kernels.begin(), config_.user_kernels.end(), form) !=
           config_.user_kernels.end();
  };
  UserKernelOptions options;
  options.library = takes("library");
  options.source = takes("source");
  options.node_folders = config_.user_kernel_dirs;
  options.most_bytes = config_.user_kernel_bytes;
  options.folder.path = KernelsFolder();
  options.folder.most_bytes = config_.user_kernels_keep_bytes;
  options.folder.most_count = config_.user_kernels_keep;
  options.folder.named = [this] { return store_->UserKernels(); };
  options.compiler.include_folder = FindKernelHeader();
  options.compiler.simt_folder = FindSimt();
  options.compiler.forbidden = Secrets();
  options.compiler.library_bytes = config_.user_kernel_bytes;
  options.cheats_folder = FindCheats();
  absl::StatusOr<std::unique_ptr<UserKernels>> kernels = UserKernels::Open(std::move(options));
  if (!kernels.ok()) return Fail(kernels.status(), "users' kernels");
  kernels_ = *std::move(kernels);
  return std::nullopt;
}

std::optional<Failure> Daemon::StartDevices() {
  DiscoverOptions options;
  options.worker_path = config_.worker.empty() ? FindWorker() : config_.worker;
  if (options.worker_path.empty()) {
    return Failure{kExitEnvironment,
                   "there is no assay-worker beside this program; say where it is with --worker"};
  }
  options.devices = config_.devices;
  options.arena_bytes = config_.arena_bytes;
  options.state_dir = config_.state_dir;
  options.idle_release = config_.idle_release;
  options.containment.off = config_.no_containment;
  options.containment.readable = config_.worker_read;
  options.containment.forbidden = Secrets();
  if (kernels_->on()) options.containment.granted = {KernelsFolder()};
  if (const std::string cheats = FindCheats(); !cheats.empty()) {
    options.containment.granted.push_back(cheats);
  }
  options.kernel_file = [this](std::string_view provider) { return kernels_->LibraryOf(provider); };
  options.on_restart = [this](std::string_view device, std::string_view reason) {
    metrics_->WorkerRestarted(device, reason);
  };
  options.on_change = [this](const v1::Device& device) {
    metrics_->DeviceChanged(device);
    board_->DeviceChanged(device);
  };
  absl::StatusOr<DeviceSet> found = DiscoverDevices(options);
  if (!found.ok()) return Fail(found.status());
  devices_ = *std::move(found);
  if (std::optional<Failure> failure = CheckNamedDevices()) return failure;
  if (std::optional<Failure> failure = CheckContainment()) return failure;
  for (const auto& executor : devices_.executors) {
    metrics_->AddDevice(executor->Describe(), executor->Kernels());
  }
  StartTelemetry(options.worker_path);
  return std::nullopt;
}

void Daemon::StartTelemetry(const std::string& worker_path) {
  TelemetryOptions options;
  options.path = FindTelemetry(worker_path);
  for (const auto& executor : devices_.executors) {
    const v1::Device device = executor->Describe();
    const auto property = [&](const char* key) {
      const auto it = device.properties().find(key);
      return it == device.properties().end() ? "" : it->second;
    };
    options.devices.push_back({device.id(), property("uuid"), property("pci_id")});
  }
  options.on_sample = [this](const v1::Device& device) { metrics_->TelemetryChanged(device); };
  telemetry_ = TelemetryMonitor::Start(std::move(options));
}

// A daemon without devices is a failure. A daemon that lacks only a device that was named logs an
// error and goes on.
std::optional<Failure> Daemon::CheckNamedDevices() const {
  std::vector<std::string> missing;
  for (const v1::Device& device : devices_.unavailable) {
    const std::string why = Cat(device.id(), ": ", device.unavailable_reason());
    missing.push_back(why);
    for (const std::string& wanted : config_.devices) {
      if (wanted != device.id()) continue;
      Log(LogLevel::kError, "device.missing",
          {{"device", device.id()}, {"reason", device.unavailable_reason()}});
    }
  }
  if (!devices_.executors.empty()) return std::nullopt;
  return Failure{kExitUsage, Cat("--devices: none of ", absl::StrJoin(config_.devices, ", "),
                                 " can be used: ", absl::StrJoin(missing, "; "))};
}

// Logs for each device what keeps its workers from the rest of the node. With
// --require-containment, a measure that does not hold is a failure.
std::optional<Failure> Daemon::CheckContainment() const {
  for (const auto& executor : devices_.executors) {
    const v1::Device device = executor->Describe();
    std::vector<std::string> applied, lacking;
    for (const v1::ContainmentMeasure& measure : device.containment()) {
      if (measure.applied()) {
        applied.push_back(measure.measure());
        continue;
      }
      lacking.push_back(Cat(measure.measure(), ": ", measure.detail()));
      if (config_.require_containment && IsRequired(measure.measure())) {
        return Failure{kExitEnvironment,
                       Cat("--require-containment: ", measure.measure(), " is not available for ",
                           device.id(), ": ", measure.detail())};
      }
    }
    Log(LogLevel::kInfo, "worker.containment",
        {{"device", device.id()},
         {"applied", absl::StrJoin(applied, ",")},
         {"lacking", absl::StrJoin(lacking, "; ")}});
  }
  return std::nullopt;
}

std::optional<Failure> Daemon::CheckSuites() const {
  const bool given = !config_.suites_dir.empty();
  const std::string folder = given ? config_.suites_dir : FindSuites();
  std::error_code error;
  if (!folder.empty() && std::filesystem::is_directory(folder, error)) return std::nullopt;
  if (given)
    return Failure{kExitUsage,
                   Cat("--suites-dir: ", folder, " is no folder; name the folder of the suites")};
  Log(LogLevel::kError, "suites.missing",
      {{"reason",
        "there is no ../share/assay/suites beside this program; name it with "
        "--suites-dir"}});
  return std::nullopt;
}

std::optional<Failure> Daemon::StartServing() {
  JobOptions job_options;
  job_options.suites_folder = config_.suites_dir.empty() ? FindSuites() : config_.suites_dir;
  job_options.case_deadline = config_.case_deadline;
  job_options.max_cases = static_cast<int>(config_.max_cases);
  job_options.max_waiting_jobs = static_cast<int>(config_.max_waiting_jobs);
  job_options.probes = {config_.probe_share, config_.probe_interval,
                        [this](std::string_view device) {
                          // A CPU is always shared. If it is not known whether a GPU is, it counts
                          // as shared.
                          if (device.starts_with("cpu:")) return false;
                          const v1::Telemetry latest = telemetry_->Latest(device);
                          return !latest.has_others_bytes() || latest.others_bytes() > 0;
                        },
                        config_.idle_release};
  job_options.others_bytes = [this](std::string_view device) {
    const v1::Telemetry latest = telemetry_->Latest(device);
    return latest.has_others_bytes() ? std::optional(latest.others_bytes()) : std::nullopt;
  };
  job_options.check_kernel = [this](std::string_view provider) {
    return kernels_->CheckProvider(provider);
  };
  job_options.store_changed = [this](const StoreState& state) { board_->StoreChanged(state); };
  job_options.environment = {{"host", HostName()}, {"assayd", ASSAY_VERSION}};
  for (const auto& executor : devices_.executors) {
    for (const v1::Kernel& kernel : executor->Kernels()) {
      if (!kernel.version().empty()) job_options.environment[kernel.provider()] = kernel.version();
    }
  }
  jobs_ = JobManager::Make(*store_, devices_, metrics_.get(), job_options);
  if (absl::Status s = jobs_->Start(); !s.ok()) return Fail(s, "jobs of an earlier run");
  retention_ = Retention::Start(*jobs_, *store_, RetentionOf(config_));

  ServiceOptions service_options;
  service_options.access = access_.get();
  service_options.limits = limits_.get();
  service_options.watch_stall = config_.watch_stall;
  service_options.store = store_.get();
  service_options.kernels = kernels_.get();
  v1::ServerInfo& info = service_options.info;
  info.set_version(ASSAY_VERSION);
  info.set_host(HostName());
  *info.mutable_start_time() = google::protobuf::util::TimeUtil::GetCurrentTime();
  for (const auto& executor : devices_.executors) {
    const std::string backend = executor->Describe().backend();
    if (std::find(info.backends().begin(), info.backends().end(), backend) ==
        info.backends().end()) {
      info.add_backends(backend);
    }
    for (const v1::Kernel& kernel : executor->Kernels()) {
      if (!kernel.version().empty()) {
        (*info.mutable_versions())[kernel.provider()] = kernel.version();
      }
    }
  }
  service_options.telemetry = [this](std::string_view device) {
    return telemetry_->Latest(device);
  };
  service_ = std::make_unique<ValidationService>(*jobs_, devices_, metrics_.get(), service_options);
  GrpcServerOptions grpc_options;
  grpc_options.listen = config_.listen;
  grpc_options.certificates = certificates_;
  grpc_options.insecure = config_.insecure;
  grpc_options.reflection = !config_.no_reflection;
  grpc_options.max_request_bytes = config_.max_request_bytes;
  grpc_options.transport_bytes = config_.transport_bytes;
  grpc_options.max_streams = config_.max_streams;
  grpc_options.keepalive_time = config_.keepalive_time;
  grpc_options.keepalive_timeout = config_.keepalive_timeout;
  grpc_options.access = access_.get();
  grpc_options.limits = limits_.get();
  absl::StatusOr<GrpcServer> started = StartGrpcServer(*service_, grpc_options);
  if (!started.ok()) return Fail(started.status(), "--listen");
  grpc_ = *std::move(started);
  return std::nullopt;
}

std::optional<Failure> Daemon::StartMetrics() {
  if (config_.metrics_listen.empty()) return std::nullopt;
  const absl::StatusOr<HostPort> at = ParseHostPort(config_.metrics_listen);
  if (!at.ok()) return Fail(at.status(), "--metrics-listen");
  MetricsServerOptions options;
  options.host = at->host;
  options.port = at->port;
  options.admit = [this](const std::string& call, const SSL* connection, const std::string& address,
                         int port, const std::string& authorization) {
    return access_->Admit(ShownOverHttp(connection, address, port, authorization), call).status();
  };
  options.healthy = [this] { return !board_->draining(); };
  options.health = [this] { return HealthJson(board_->Now()); };
  if (config_.metrics_tls) {
    options.setup_tls = [this](SSL_CTX* context) {
      return UseCertificates(*certificates_, context);
    };
  }
  absl::StatusOr<std::unique_ptr<MetricsServer>> server =
      StartMetricsServer(*metrics_, std::move(options));
  if (!server.ok()) return Fail(server.status(), "--metrics-listen");
  metrics_server_ = *std::move(server);
  const std::string& given = config_.metrics_listen;
  metrics_address_ = Cat(given.substr(0, given.rfind(':')), ":", metrics_server_->port());
  return std::nullopt;
}

std::optional<Failure> Daemon::Start() {
  if (std::optional<Failure> failure = CheckPorts()) return failure;
  if (std::optional<Failure> failure = OpenAccess()) return failure;
  if (std::optional<Failure> failure = CheckSuites()) return failure;
  metrics_ = MakeMetrics(ASSAY_VERSION);
  limits_ = std::make_unique<ClientLimits>(ClientLimitOptions{
      .values = config_.limits, .refused = [this](Limit limit) { metrics_->LimitReached(limit); }});
  StoreOptions store_options;
  store_options.folder = config_.state_dir;
  store_options.sync = config_.store_sync == "normal" ? StoreSync::kNormal : StoreSync::kFull;
  store_options.max_bytes = config_.store_max_bytes;
  absl::StatusOr<std::unique_ptr<Store>> store = Store::Open(store_options);
  if (!store.ok()) return Failure{kExitEnvironment, std::string(store.status().message())};
  store_ = *std::move(store);
  if (certificates_ != nullptr) {
    certificates_->TellOfNew([this](const TlsMaterial& now) {
      metrics_->CertificateExpires(static_cast<double>(now.expires));
    });
  }
  board_ = std::make_unique<HealthBoard>(devices_, certificates_.get());
  if (std::optional<Failure> failure = StartHealth()) return failure;
  if (std::optional<Failure> failure = OpenKernels()) return failure;
  if (std::optional<Failure> failure = StartDevices()) return failure;
  // The metrics port comes first, so that the first answer to a client can name both addresses.
  if (std::optional<Failure> failure = StartMetrics()) return failure;
  if (std::optional<Failure> failure = StartServing()) return failure;
  service_->SetAddresses(grpc_.addresses.front(), metrics_address_);
  board_->Serve(*grpc_.server, health_.get());
  return std::nullopt;
}

void Daemon::TellReady() {
  manager_.Notify(Cat("READY=1\nSTATUS=serving ", absl::StrJoin(grpc_.addresses, ", ")));
  if (!manager_.watchdog()) return;
  channel_ = grpc_.server->InProcessChannel({});
  std::vector<Heartbeat::Ask> parts;
  // gRPC's threads, the thread that feeds the watchers, the queue of jobs and the store's reader.
  parts.emplace_back([this] {
    grpc::ClientContext context;
    grpc::health::v1::HealthCheckResponse answer;
    grpc::health::v1::Health::NewStub(channel_)->Check(&context, {}, &answer);
  });
  parts.emplace_back([this] { service_->AskPump(); });
  parts.emplace_back([this] { jobs_->Get("jobs/none").IgnoreError(); });
  heartbeat_ = std::make_unique<Heartbeat>(*manager_.watchdog(), std::move(parts),
                                           [this] { manager_.Notify("WATCHDOG=1"); });
}

void Daemon::Reload(const absl::StatusOr<ParsedArguments>& read) {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  manager_.Notify(Cat("RELOADING=1\nMONOTONIC_USEC=",
                      absl::ToInt64Microseconds(absl::DurationFromTimespec(now))));
  if (!read.ok()) {
    Log(LogLevel::kError, "config.reload_refused",
        {{"reason", std::string(read.status().message())}, {"using", "the configuration before"}});
  } else {
    const ConfigChanges changes = ChangesTo(read->config, config_);
    SetLogLevel(config_.log_level);
    limits_->Set(config_.limits);
    service_->SetWatchStall(config_.watch_stall);
    retention_->Set(RetentionOf(config_));
    Log(LogLevel::kInfo, "config.reloaded",
        {{"file", config_.config_file}, {"changed", absl::StrJoin(changes.taken, ",")}});
    if (!changes.need_restart.empty()) {
      Log(LogLevel::kWarn, "config.needs_restart",
          {{"options", absl::StrJoin(changes.need_restart, ",")}});
    }
  }
  if (certificates_ != nullptr) certificates_->LookNow();
  access_->LookNow();
  manager_.Notify("READY=1");
}

void Daemon::StartJobs() {
  if (!config_.selftest_on_start) return;
  for (const auto& executor : devices_.executors) {
    v1::JobSpec spec;
    spec.set_suite("selftest");
    spec.set_device(executor->device_id());
    (*spec.mutable_labels())["origin"] = "selftest-on-start";
    const absl::StatusOr<v1::Job> job = jobs_->Create(spec, /*request_id=*/"");
    if (job.ok()) continue;
    Log(LogLevel::kError, "selftest.refused",
        {{"device", executor->device_id()}, {"reason", std::string(job.status().message())}});
  }
}

std::string Daemon::ReadyLine() const {
  return Cat("assayd ready: grpc ", absl::StrJoin(grpc_.addresses, ", "), ", metrics ",
             metrics_address_, health_ == nullptr ? "" : Cat(", health ", health_->address()),
             ", state in ", config_.state_dir);
}

// Waits for a signal that ends the daemon. A signal to reload is obeyed meanwhile.
int WaitForEnd(int signals, Daemon& daemon,
               const std::function<absl::StatusOr<ParsedArguments>()>& read) {
  for (;;) {
    const std::optional<int> signal = WaitForSignal(signals, -1);
    if (*signal != SIGHUP) return *signal;
    daemon.Reload(read());
  }
}

// Waits for a second signal that ends the daemon at once. Returns nothing when `drained` is
// readable.
std::optional<int> WaitForSecond(int signals, int drained) {
  for (;;) {
    const std::optional<int> signal = WaitForSignal(signals, drained);
    if (signal != SIGHUP) return signal;
    Log(LogLevel::kInfo, "config.not_reloaded", {{"reason", "the daemon stops"}});
  }
}

int Main(int argc, char** argv) {
  const int signals = OpenSignals();
  ServiceManager manager = ServiceManager::FromEnvironment();
  ShareMemoryPools();
  absl::StatusOr<ParsedArguments> arguments = ParseArguments(argc, argv, ASSAY_VERSION);
  if (!arguments.ok()) {
    std::fprintf(stderr, "assayd: %s\n", std::string(arguments.status().message()).c_str());
    return kExitUsage;
  }
  if (!arguments->print.empty()) {
    std::fputs(arguments->print.c_str(), stdout);
    return 0;
  }
  SetLogLevel(arguments->config.log_level);
  RedirectGrpcLog();
  ContainDaemon();
  umask(0077);  // only the daemon's user may use its state and its unix sockets

  manager.Notify("STATUS=looking for devices");
  Daemon daemon(arguments->config, std::move(manager));
  if (const std::optional<Failure> failure = daemon.Start()) {
    std::fprintf(stderr, "assayd: %s\n", failure->message.c_str());
    return failure->exit_code;
  }
  daemon.StartJobs();
  std::printf("%s\n", daemon.ReadyLine().c_str());
  std::fflush(stdout);
  daemon.TellReady();

  const int drained = eventfd(0, EFD_CLOEXEC);
  const int first =
      WaitForEnd(signals, daemon, [&] { return ParseArguments(argc, argv, ASSAY_VERSION); });
  Log(LogLevel::kInfo, "daemon.draining",
      {{"signal", sigabbrev_np(first)},
       {"timeout", absl::FormatDuration(daemon.config().drain_timeout)}});
  std::thread drain([&] {
    daemon.Drain();
    eventfd_write(drained, 1);
  });
  if (const std::optional<int> second = WaitForSecond(signals, drained)) {
    Log(LogLevel::kWarn, "daemon.ended_at_once", {{"signal", sigabbrev_np(*second)}});
    _exit(128 + *second);
  }
  drain.join();
  Log(LogLevel::kInfo, "daemon.ended");
  return 0;
}

}  // namespace
}  // namespace assay::server

int main(int argc, char** argv) { return assay::server::Main(argc, argv); }
