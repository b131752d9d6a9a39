// The ports of the daemon, and who may use them.
#include <string>

#include "kernels/text/cat.h"
#include "server/auth/http_caller.h"
#include "server/base/health.h"
#include "server/base/log.h"
#include "server/rpc/daemon.h"

namespace assay::server {

std::optional<StartFailure> Daemon::CheckPorts() {
  if (!config_.tls_cert.empty()) {
    auto certificates = CertificateStore::Open(
        {config_.tls_cert, config_.tls_key, config_.tls_client_ca, config_.tls_client_crl});
    if (!certificates.ok())
      return StartFailure{kExitUsage, std::string(certificates.status().message())};
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

std::optional<StartFailure> Daemon::OpenAccess() {
  absl::StatusOr<std::unique_ptr<Access>> access = Access::Open(config_.roles_file);
  if (!access.ok()) return StartFailure{kExitUsage, std::string(access.status().message())};
  access_ = *std::move(access);
  if (!config_.tls_client_ca.empty()) {
    access_->AskWhetherVoid(
        [this](const std::string& certificate) { return certificates_->IsVoid(certificate); });
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
std::optional<StartFailure> Daemon::StartHealth() {
  if (config_.health_listen.empty()) return std::nullopt;
  absl::StatusOr<std::unique_ptr<HealthServer>> health = HealthServer::Start(config_.health_listen);
  if (!health.ok()) return Fail(health.status(), "--health-listen");
  health_ = *std::move(health);
  return std::nullopt;
}

std::optional<StartFailure> Daemon::StartMetrics() {
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

}  // namespace assay::server
