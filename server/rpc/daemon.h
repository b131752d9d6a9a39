// The parts of the daemon, put together. They start in this order: ports and access, store, health
// port, devices, metrics, jobs, gRPC.
#ifndef ASSAY_SERVER_RPC_DAEMON_H_
#define ASSAY_SERVER_RPC_DAEMON_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/text/cat.h"
#include "server/auth/access.h"
#include "server/auth/audit_trail.h"
#include "server/auth/client_limits.h"
#include "server/auth/credentials.h"
#include "server/base/config.h"
#include "server/base/service_manager.h"
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

inline constexpr int kExitUsage = 2;
inline constexpr int kExitEnvironment = 3;

// A failure at the start: the text to print and the exit code.
struct StartFailure {
  int exit_code;
  std::string message;
};

// Of a wrong request: kExitUsage. Of all else: kExitEnvironment.
StartFailure Fail(const absl::Status& status, std::string_view context = "");

// The parts of a running daemon. Each outlives those after it.
class Daemon {
 public:
  Daemon(std::string version, Config config, ServiceManager manager)
      : version_(std::move(version)), manager_(std::move(manager)), config_(std::move(config)) {}

  const Config& config() const { return config_; }
  std::optional<StartFailure> Start();
  // Starts the jobs that the configuration asks for.
  void StartJobs();
  // The line that says where the daemon serves.
  std::string ReadyLine() const;
  // Tells the service manager that the daemon serves, and begins the heartbeats. They also look at
  // the certificates, with or without a watchdog.
  void TellReady();
  // Takes over what can change while the daemon runs, of `read`, and looks at the files of roles
  // and certificates.
  void Reload(const absl::StatusOr<ParsedArguments>& read);
  // Finishes the running jobs, within the time for draining.
  void Drain();

 private:
  std::optional<StartFailure> CheckPorts();
  std::optional<StartFailure> OpenAccess();
  std::optional<StartFailure> CheckSuites() const;
  // Waits while the disk is full.
  std::optional<StartFailure> OpenStore();
  std::optional<StartFailure> StartHealth();
  std::optional<StartFailure> OpenKernels();
  // What device code of users is for.
  DeviceTargets TargetsOfDevices() const;
  std::vector<std::string> Secrets() const;
  std::string KernelsFolder() const { return Cat(config_.state_dir, "/kernels"); }
  std::optional<StartFailure> StartDevices();
  void StartTelemetry(const std::string& worker_path);
  std::optional<StartFailure> CheckNamedDevices() const;
  std::optional<StartFailure> CheckContainment() const;
  JobOptions OptionsOfJobs();
  RetentionOptions OptionsOfRetention() const;
  std::optional<StartFailure> StartJobManager();
  void MakeService();
  std::optional<StartFailure> StartServing();
  std::optional<StartFailure> StartMetrics();
  // The parts that a watchdog waits for.
  void AddWatched(std::vector<Heartbeat::Ask>& parts);

  const std::string version_;
  const ServiceManager manager_;
  Config config_;
  std::shared_ptr<grpc::Channel> channel_;  // to itself
  std::string metrics_address_ = "off";
  std::shared_ptr<CertificateStore> certificates_;
  std::unique_ptr<Access> access_;
  std::unique_ptr<AuditTrail> audit_;
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

}  // namespace assay::server

#endif  // ASSAY_SERVER_RPC_DAEMON_H_
