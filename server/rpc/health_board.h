// Shows the daemon's health wherever it is asked for: grpc.health.v1 on the gRPC port and on the
// health port, by the names "" and "devices/cpu:0", and as words for people.
//
// Thread-safe. Devices, certificates and access must outlive it.
#ifndef ASSAY_SERVER_RPC_HEALTH_BOARD_H_
#define ASSAY_SERVER_RPC_HEALTH_BOARD_H_

#include <grpcpp/grpcpp.h>

#include <mutex>
#include <string>
#include <vector>

#include "server/auth/access.h"
#include "server/auth/certificate_store.h"
#include "server/base/health.h"
#include "server/rpc/health_server.h"
#include "server/store/store.h"
#include "server/worker/device_set.h"

namespace assay::server {

class HealthBoard {
 public:
  // `certificates` and `access` may be null.
  HealthBoard(const DeviceSet& devices, CertificateStore* certificates, Access* access = nullptr)
      : devices_(devices), certificates_(certificates), access_(access) {}

  // The daemon serves from now on. `health_port` may be null. Both must outlive what follows.
  void Serve(grpc::Server& server, HealthServer* health_port);
  // The daemon drains: everything is NOT_SERVING from now on.
  void Drain();
  // A device in quarantine is NOT_SERVING. Before Serve nothing is shown.
  void DeviceChanged(const v1::Device& device);

  // A store that is full or damaged is a warning: what needs no room is served.
  void StoreChanged(const StoreState& state);

  bool draining() const;
  Health Now() const;

 private:
  // Files of roles or certificates that are not taken, and what expires.
  void WarnOfAccess(std::vector<std::string>& warnings) const;

  const DeviceSet& devices_;
  CertificateStore* const certificates_;
  Access* const access_;
  mutable std::mutex mutex_;
  grpc::Server* server_ = nullptr;       // mutex_
  HealthServer* health_port_ = nullptr;  // mutex_
  bool draining_ = false;                // mutex_
  StoreState store_;                     // mutex_
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_RPC_HEALTH_BOARD_H_
