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

#include "assay/v1/service.grpc.pb.h"
#include "server/auth/access.h"
#include "server/auth/client_limits.h"
#include "server/jobs/job_manager.h"
#include "server/kernels/user_kernels.h"
#include "server/metrics/metrics.h"
#include "server/rpc/compare_stream.h"
#include "server/rpc/device_calls.h"
#include "server/worker/executor.h"

namespace assay::server {

struct ServiceOptions {
  // Decides who may make a call; null: everybody may make every call. Must outlive the service.
  Access* access = nullptr;
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
  // The most that a request may take in memory, of those that come unparsed [bytes].
  std::int64_t parsed_bytes = std::int64_t{256} << 20;
  // How fast the tensors of a comparison must come.
  UploadLimit upload;
  TelemetryOf telemetry;  // may be empty
};

// Requests that hold lists of large messages come unparsed: they can grow to gigabytes. Each is
// parsed when it is known who calls and what it takes in memory, and those that a thread plans are
// parsed one at a time. gRPC parses the others, before anything is known. What they do not have is
// kept, and so the largest of them may take a gigabyte for a moment.
using ServiceBase = v1::ValidationService::WithRawCallbackMethod_CreateJob<
    v1::ValidationService::WithRawCallbackMethod_CompareTensors<
        v1::ValidationService::WithRawCallbackMethod_CreateBaseline<
            v1::ValidationService::WithRawCallbackMethod_CompareBaselines<
                v1::ValidationService::CallbackService>>>>;

class ValidationService : public ServiceBase {
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

  grpc::ServerUnaryReactor* CreateJob(grpc::CallbackServerContext*, const grpc::ByteBuffer*,
                                      grpc::ByteBuffer*) override;
  grpc::ServerUnaryReactor* GetJob(grpc::CallbackServerContext*, const v1::GetJobRequest*,
                                   v1::Job*) override;
  grpc::ServerUnaryReactor* ListJobs(grpc::CallbackServerContext*, const v1::ListJobsRequest*,
                                     v1::ListJobsResponse*) override;
  grpc::ServerUnaryReactor* CancelJob(grpc::CallbackServerContext*, const v1::CancelJobRequest*,
                                      v1::Job*) override;
  grpc::ServerUnaryReactor* DeleteJob(grpc::CallbackServerContext*, const v1::DeleteJobRequest*,
                                      google::protobuf::Empty*) override;
  grpc::ServerWriteReactor<v1::JobEvent>* WatchJob(grpc::CallbackServerContext*,
                                                   const v1::WatchJobRequest*) override;
  grpc::ServerUnaryReactor* ListCaseResults(grpc::CallbackServerContext*,
                                            const v1::ListCaseResultsRequest*,
                                            v1::ListCaseResultsResponse*) override;
  grpc::ServerReadReactor<grpc::ByteBuffer>* CompareTensors(grpc::CallbackServerContext*,
                                                            grpc::ByteBuffer*) override;
  // ValidateExternal, unparsed. The generated class for that has the same function with another
  // type, so it cannot stand above the others' class.
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* ValidateRawExternal(
      grpc::CallbackServerContext*);
  grpc::ServerUnaryReactor* ListDevices(grpc::CallbackServerContext*, const v1::ListDevicesRequest*,
                                        v1::ListDevicesResponse*) override;
  grpc::ServerUnaryReactor* ReleaseDevice(grpc::CallbackServerContext*,
                                          const v1::ReleaseDeviceRequest*, v1::Device*) override;
  grpc::ServerUnaryReactor* ListKernels(grpc::CallbackServerContext*, const v1::ListKernelsRequest*,
                                        v1::ListKernelsResponse*) override;
  grpc::ServerUnaryReactor* ListSuites(grpc::CallbackServerContext*, const v1::ListSuitesRequest*,
                                       v1::ListSuitesResponse*) override;
  grpc::ServerUnaryReactor* GetServerInfo(grpc::CallbackServerContext*,
                                          const v1::GetServerInfoRequest*,
                                          v1::ServerInfo*) override;
  grpc::ServerUnaryReactor* CreateBaseline(grpc::CallbackServerContext*, const grpc::ByteBuffer*,
                                           grpc::ByteBuffer*) override;
  grpc::ServerUnaryReactor* GetBaseline(grpc::CallbackServerContext*, const v1::GetBaselineRequest*,
                                        v1::Baseline*) override;
  grpc::ServerUnaryReactor* ListBaselines(grpc::CallbackServerContext*,
                                          const v1::ListBaselinesRequest*,
                                          v1::ListBaselinesResponse*) override;
  grpc::ServerUnaryReactor* DeleteBaseline(grpc::CallbackServerContext*,
                                           const v1::DeleteBaselineRequest*,
                                           google::protobuf::Empty*) override;
  grpc::ServerUnaryReactor* CompareBaselines(grpc::CallbackServerContext*, const grpc::ByteBuffer*,
                                             grpc::ByteBuffer*) override;
  grpc::ServerWriteReactor<v1::BackupStoreResponse>* BackupStore(
      grpc::CallbackServerContext*, const v1::BackupStoreRequest*) override;
  grpc::ServerBidiReactor<v1::UploadKernelRequest, v1::UploadKernelResponse>* UploadKernel(
      grpc::CallbackServerContext*) override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_RPC_VALIDATION_SERVICE_H_
