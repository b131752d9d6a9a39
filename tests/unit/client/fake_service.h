// A daemon of a test's making: answers what it was told to, and remembers what
// it was asked.
#ifndef ASSAY_TESTS_UNIT_CLIENT_FAKE_SERVICE_H_
#define ASSAY_TESTS_UNIT_CLIENT_FAKE_SERVICE_H_

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "assay/v1/service.grpc.pb.h"
#include "grpcpp/server.h"

namespace assay::client::testing {

// A result with every statistic, named after its op; FAILED ones carry findings,
// a worst element and two samples.
v1::CaseResult MakeResult(int index, v1::Verdict verdict);

// NOT_FOUND with the ErrorInfo that the daemon gives it.
grpc::Status NotFound(v1::ErrorReason reason, const std::string& message);

// The status a daemon sends for a malformed request.
grpc::Status BadRequest(const std::vector<std::pair<std::string, std::string>>& violations);

// Serves on an ephemeral port of the loopback interface while it lives.
// Thread-safe; members are set before the first call and read after the last.
class FakeService : public v1::ValidationService::Service {
 public:
  FakeService();
  ~FakeService() override;

  std::string target() const { return "127.0.0.1:" + std::to_string(port_); }

  // The script.
  grpc::Status create_status;                // of CreateJob
  std::vector<v1::CaseResult> results;       // what every job comes to
  v1::Verdict verdict = v1::VERDICT_PASSED;  // and its verdict
  v1::JobState end_state = v1::JOB_STATE_FINISHED;
  int drop_after = 0;  // end the first WatchJob with UNAVAILABLE after so many events; 0: never
  std::vector<grpc::Status> watch_refusals;  // of the first WatchJob, one each
  bool always_drop = false;                  // every WatchJob ends without an event
  bool hang = false;     // WatchJob sends its results but never finishes, until cancelled
  int die_after = 0;     // end every WatchJob with UNAVAILABLE after so many events; 0: never
  int lose_creates = 0;  // so many CreateJob are carried out, but answered "Socket closed"
  std::vector<v1::Finding> job_findings;
  std::vector<std::string> devices = {"cpu:0"};            // of every job
  v1::JobState start_state = v1::JOB_STATE_RUNNING;        // of a job that was just created
  v1::JobState known_state = v1::JOB_STATE_FINISHED;       // as GetJob tells it
  v1::JobState cancelled_state = v1::JOB_STATE_CANCELLED;  // as CancelJob tells it
  std::vector<v1::Job> other_jobs;                         // that ListJobs lists, by their state
  bool more_pages = false;                                 // of jobs than ListJobs lists
  std::string progress_phase;                              // not empty: the first case begins so
  bool late_progress = false;                              // WatchJob tells it after the end, too
  v1::ServerInfo more_info;                                // that GetServerInfo tells
  std::vector<v1::Device> more_devices;                    // that ListDevices lists
  std::vector<v1::Kernel> more_kernels;                    // … and ListKernels, planted ones

  // The record.
  std::vector<v1::CreateJobRequest> created() const;
  std::vector<std::int64_t> watched_after() const;
  std::vector<std::string> cancelled() const;
  int jobs_made() const;

  grpc::Status CreateJob(grpc::ServerContext*, const v1::CreateJobRequest*, v1::Job*) override;
  grpc::Status GetJob(grpc::ServerContext*, const v1::GetJobRequest*, v1::Job*) override;
  grpc::Status ListJobs(grpc::ServerContext*, const v1::ListJobsRequest*,
                        v1::ListJobsResponse*) override;
  grpc::Status CancelJob(grpc::ServerContext*, const v1::CancelJobRequest*, v1::Job*) override;
  grpc::Status WatchJob(grpc::ServerContext*, const v1::WatchJobRequest*,
                        grpc::ServerWriter<v1::JobEvent>*) override;
  grpc::Status ListCaseResults(grpc::ServerContext*, const v1::ListCaseResultsRequest*,
                               v1::ListCaseResultsResponse*) override;
  grpc::Status ListDevices(grpc::ServerContext*, const v1::ListDevicesRequest*,
                           v1::ListDevicesResponse*) override;
  grpc::Status ReleaseDevice(grpc::ServerContext*, const v1::ReleaseDeviceRequest*,
                             v1::Device*) override;
  grpc::Status ListKernels(grpc::ServerContext*, const v1::ListKernelsRequest*,
                           v1::ListKernelsResponse*) override;
  grpc::Status ListSuites(grpc::ServerContext*, const v1::ListSuitesRequest*,
                          v1::ListSuitesResponse*) override;
  grpc::Status GetServerInfo(grpc::ServerContext*, const v1::GetServerInfoRequest*,
                             v1::ServerInfo*) override;

 private:
  v1::Job Job(bool ended) const;
  std::vector<v1::JobEvent> Events() const;

  int port_ = 0;
  mutable std::mutex mutex_;
  std::vector<v1::CreateJobRequest> created_;
  std::map<std::string, int> request_ids_;
  std::vector<std::int64_t> watched_after_;
  std::vector<std::string> cancelled_;
  v1::JobSpec spec_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace assay::client::testing

#endif  // ASSAY_TESTS_UNIT_CLIENT_FAKE_SERVICE_H_
