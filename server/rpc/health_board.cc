#include "server/rpc/health_board.h"

#include <grpcpp/health_check_service_interface.h>

#include "absl/time/clock.h"
#include "kernels/text/cat.h"

namespace assay::server {
namespace {

bool InQuarantine(const v1::Device& device) {
  return device.state() == v1::DEVICE_STATE_QUARANTINED;
}

}  // namespace

void HealthBoard::Serve(grpc::Server& server, HealthServer* health_port) {
  {
    const std::lock_guard lock(mutex_);
    server_ = &server;
    health_port_ = health_port;
    if (health_port_ != nullptr) health_port_->SetServing(true);
  }
  for (const auto& executor : devices_.executors) DeviceChanged(executor->Describe());
}

void HealthBoard::Drain() {
  const std::lock_guard lock(mutex_);
  draining_ = true;
  if (health_port_ != nullptr) health_port_->SetServing(false);
  if (server_ != nullptr) server_->GetHealthCheckService()->SetServingStatus(false);
}

void HealthBoard::DeviceChanged(const v1::Device& device) {
  const std::lock_guard lock(mutex_);
  if (server_ == nullptr || draining_) return;
  const std::string name = Cat("devices/", device.id());
  server_->GetHealthCheckService()->SetServingStatus(name, !InQuarantine(device));
  if (health_port_ != nullptr) health_port_->SetDevice(name, !InQuarantine(device));
}

void HealthBoard::StoreChanged(const StoreState& state) {
  const std::lock_guard lock(mutex_);
  store_ = state;
}

bool HealthBoard::draining() const {
  const std::lock_guard lock(mutex_);
  return draining_;
}

Health HealthBoard::Now() const {
  Health health;
  StoreState store;
  {
    const std::lock_guard lock(mutex_);
    health.serving = server_ != nullptr && !draining_;
    health.status = draining_ ? "draining" : health.serving ? "serving" : "starting";
    store = store_;
  }
  if (!store.full.empty()) {
    health.warnings.push_back(Cat("the store is full: ", store.full, "; ", store.held,
                                  " updates of jobs wait for room, and no new job is taken"));
  }
  if (store.damaged) {
    health.warnings.emplace_back(
        "the store was found damaged: the log says where (store.damaged and what begins like it)");
  }
  for (const auto& executor : devices_.executors) {
    const v1::Device device = executor->Describe();
    const std::string state = v1::DeviceState_Name(device.state());
    health.devices[device.id()] = state.substr(sizeof "DEVICE_STATE_" - 1);
    if (!InQuarantine(device)) continue;
    health.warnings.push_back(Cat("device ", device.id(),
                                  " is in quarantine: ", device.quarantine_reason(),
                                  " (assay devices release ", device.id(), ")"));
  }
  WarnOfAccess(health.warnings);
  return health;
}

void HealthBoard::WarnOfAccess(std::vector<std::string>& warnings) const {
  // The daemon would not start with such files.
  const auto refused = [&](const std::string& why, std::string_view used) {
    if (!why.empty())
      warnings.push_back(Cat(why, "; ", used, " of before count until it is mended"));
  };
  if (access_ != nullptr) refused(access_->Refused(), "the roles");
  if (certificates_ == nullptr) return;
  refused(certificates_->Refused(), "the TLS files");
  const std::shared_ptr<const TlsMaterial> now = certificates_->Current();
  const auto date = [](absl::Time time) {
    return absl::FormatTime("%Y-%m-%d %H:%M UTC", time, absl::UTCTimeZone());
  };
  const absl::Time expires = absl::FromUnixSeconds(now->expires);
  if (expires <= absl::Now() + absl::FromChrono(kExpiresSoon)) {
    warnings.push_back(
        Cat("the certificate of ", certificates_->files().cert, " expires on ", date(expires)));
  }
  const absl::Time list = absl::FromUnixSeconds(now->list_expires);
  if (now->list_expires != 0 && list <= absl::Now()) {
    warnings.push_back(Cat("the list of revoked certificates in ",
                           certificates_->files().client_crl, " has expired on ", date(list),
                           ": it counts, and may lack newer ones"));
  }
}

}  // namespace assay::server
