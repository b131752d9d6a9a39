// The jobs of the daemon, and the service that takes them.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "google/protobuf/util/time_util.h"
#include "kernels/text/cat.h"
#include "server/base/log.h"
#include "server/base/paths.h"
#include "server/rpc/daemon.h"

namespace assay::server {
namespace {

// A request may take so many times its largest size in memory, or so much for each of the most
// cases [bytes]. A usual case takes a third of that.
constexpr std::int64_t kParsedOfRequest = 8;
constexpr std::int64_t kParsedOfCase = 4096;

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "";
}

}  // namespace

std::optional<StartFailure> Daemon::CheckSuites() const {
  const bool given = !config_.suites_dir.empty();
  const std::string folder = given ? config_.suites_dir : FindSuites();
  std::error_code error;
  if (!folder.empty() && std::filesystem::is_directory(folder, error)) return std::nullopt;
  if (given)
    return StartFailure{
        kExitUsage, Cat("--suites-dir: ", folder, " is no folder; name the folder of the suites")};
  Log(LogLevel::kError, "suites.missing",
      {{"reason",
        "there is no ../share/assay/suites beside this program; name it with "
        "--suites-dir"}});
  return std::nullopt;
}

JobOptions Daemon::OptionsOfJobs() {
  JobOptions job_options;
  job_options.suites_folder = config_.suites_dir.empty() ? FindSuites() : config_.suites_dir;
  job_options.case_deadline = config_.case_deadline;
  job_options.max_cases = static_cast<int>(config_.max_cases);
  job_options.max_waiting_jobs = static_cast<int>(config_.max_waiting_jobs);
  job_options.idle_check = {config_.probe_share, config_.probe_interval,
                            [this](std::string_view device) {
                              // A CPU is always shared. If it is not known whether a GPU is, it
                              // counts as shared.
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
  job_options.environment = {{"host", HostName()}, {"assayd", version_}};
  for (const auto& executor : devices_.executors) {
    for (const v1::Kernel& kernel : executor->Kernels()) {
      if (!kernel.version().empty()) job_options.environment[kernel.provider()] = kernel.version();
    }
  }
  return job_options;
}

std::optional<StartFailure> Daemon::StartJobManager() {
  jobs_ = JobManager::Make(*store_, devices_, metrics_.get(), OptionsOfJobs());
  if (absl::Status s = jobs_->Start(); !s.ok()) return Fail(s, "jobs of an earlier run");
  retention_ = Retention::Start(*jobs_, *store_, OptionsOfRetention());
  return std::nullopt;
}

void Daemon::MakeService() {
  ServiceOptions service_options;
  service_options.access = access_.get();
  audit_ = std::make_unique<AuditTrail>(config_.state_dir);
  service_options.audit = audit_.get();
  service_options.limits = limits_.get();
  service_options.watch_stall = config_.watch_stall;
  service_options.request_bytes = config_.max_request_bytes;
  service_options.parsed_bytes =
      std::max(kParsedOfRequest * config_.max_request_bytes, kParsedOfCase * config_.max_cases);
  service_options.store = store_.get();
  service_options.kernels = kernels_.get();
  v1::ServerInfo& info = service_options.info;
  info.set_version(version_);
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
}

std::optional<StartFailure> Daemon::StartServing() {
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

}  // namespace assay::server
