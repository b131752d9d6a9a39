// The public service. Each handler parses its request, calls the core and maps the answer. Only
// error_mapping.h maps errors.
//
// Thread-safe, as gRPC requires. The arguments of the constructor must outlive the service. One
// pump thread reads the streams of WatchJob, and gRPC's threads write them. The pump never waits
// for a client. A client that takes nothing for too long loses its stream. Call Stop() before the
// server shuts down. It ends the streams.
#ifndef ASSAY_SERVER_RPC_VALIDATION_SERVICE_H_
#define ASSAY_SERVER_RPC_VALIDATION_SERVICE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "assay/v1/service.pb.h"
#include "google/protobuf/empty.pb.h"
#include "server/auth/access.h"
#include "server/auth/audit_trail.h"
#include "server/auth/client_limits.h"
#include "server/jobs/job_manager.h"
#include "server/kernels/user_kernels.h"
#include "server/metrics/metrics.h"
#include "server/rpc/compare_stream.h"
#include "server/rpc/device_calls.h"
#include "server/rpc/raw_service.h"
#include "server/worker/executor.h"

namespace assay::server {

struct ServiceOptions {
  // Decides who may make a call; null: everybody may make every call. Must outlive the service.
  Access* access = nullptr;
  // Keeps the newest audited calls; null: ListAuditEvents is UNIMPLEMENTED. Must outlive the
  // service.
  AuditTrail* audit = nullptr;
  // Limits what one client may have; null: no limits. Must outlive the service.
  ClientLimits* limits = nullptr;
  // How long a watcher may take no event although there are some. 0: for ever.
  absl::Duration watch_stall = absl::Seconds(60);
  // The answer of GetServerInfo. The service fills in draining, default_case_deadline and
  // max_cases_per_job from the manager.
  v1::ServerInfo info;
  // Where users' kernels go; null: UploadKernel is UNIMPLEMENTED. Must outlive the service.
  UserKernels* kernels = nullptr;
  // What BackupStore copies; null: it is UNIMPLEMENTED. Must outlive the service.
  Store* store = nullptr;
  // The largest request [bytes].
  std::int64_t request_bytes = std::int64_t{32} << 20;
  // The most that a request with lists may take in memory [bytes]. CallDesk says what one without
  // lists may take.
  std::int64_t parsed_bytes = std::int64_t{256} << 20;
  // How fast the tensors of a comparison must come.
  UploadLimit upload;
  TelemetryOf telemetry;  // may be empty
};

// Requests come as bytes: a few bytes can grow to gigabytes. Each is parsed when it is known who
// calls and what it takes in memory, and those that a thread plans are parsed one at a time.
class ValidationService final : public RawService {
 public:
  // `metrics` may be null.
  ValidationService(JobManager& jobs, DeviceSet& devices, Metrics* metrics, ServiceOptions options);
  ~ValidationService() override;

  // Sets the addresses for GetServerInfo. Call it before the server takes requests.
  void SetAddresses(const std::string& address, const std::string& metrics_address);

  // Returns when the pump thread has answered.
  void AskPump();

  // As ServiceOptions::watch_stall, from now on.
  void SetWatchStall(absl::Duration stall);

  // Ends calls that measure ceilings with UNAVAILABLE and refuses new ones. Such a call keeps a
  // device from the jobs, so call it before the jobs are drained.
  void EndMeasuring();

  // Ends open streams with UNAVAILABLE and refuses new ones.
  void Stop();

 private:
  // The calls of service.proto.
  grpc::ServerUnaryReactor* CreateJob(Context*, const Bytes*, Bytes*);
  grpc::ServerUnaryReactor* GetJob(Context*, const Bytes*, v1::Job*);
  grpc::ServerUnaryReactor* ListJobs(Context*, const Bytes*, v1::ListJobsResponse*);
  grpc::ServerUnaryReactor* CancelJob(Context*, const Bytes*, v1::Job*);
  grpc::ServerUnaryReactor* DeleteJob(Context*, const Bytes*, google::protobuf::Empty*);
  grpc::ServerWriteReactor<v1::JobEvent>* WatchJob(Context*, const Bytes*);
  grpc::ServerUnaryReactor* ListCaseResults(Context*, const Bytes*, v1::ListCaseResultsResponse*);
  grpc::ServerReadReactor<Bytes>* CompareTensors(Context*, Bytes*);
  grpc::ServerBidiReactor<Bytes, Bytes>* ValidateExternal(Context*);
  grpc::ServerUnaryReactor* ListDevices(Context*, const Bytes*, v1::ListDevicesResponse*);
  grpc::ServerUnaryReactor* ReleaseDevice(Context*, const Bytes*, v1::Device*);
  grpc::ServerUnaryReactor* ListKernels(Context*, const Bytes*, v1::ListKernelsResponse*);
  grpc::ServerUnaryReactor* ListSuites(Context*, const Bytes*, v1::ListSuitesResponse*);
  grpc::ServerUnaryReactor* GetServerInfo(Context*, const Bytes*, v1::ServerInfo*);
  grpc::ServerUnaryReactor* CreateBaseline(Context*, const Bytes*, Bytes*);
  grpc::ServerUnaryReactor* GetBaseline(Context*, const Bytes*, v1::Baseline*);
  grpc::ServerUnaryReactor* ListBaselines(Context*, const Bytes*, v1::ListBaselinesResponse*);
  grpc::ServerUnaryReactor* DeleteBaseline(Context*, const Bytes*, google::protobuf::Empty*);
  grpc::ServerUnaryReactor* CompareBaselines(Context*, const Bytes*, Bytes*);
  grpc::ServerWriteReactor<v1::BackupStoreResponse>* BackupStore(Context*, const Bytes*);
  grpc::ServerUnaryReactor* ListAuditEvents(Context*, const Bytes*, v1::ListAuditEventsResponse*);
  grpc::ServerBidiReactor<Bytes, v1::UploadKernelResponse>* UploadKernel(Context*);

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_RPC_VALIDATION_SERVICE_H_
