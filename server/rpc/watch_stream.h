// One call of WatchJob. It reads the events of the job's watch and writes them one by one, as fast
// as the client takes them.
#ifndef ASSAY_SERVER_RPC_WATCH_STREAM_H_
#define ASSAY_SERVER_RPC_WATCH_STREAM_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "absl/status/status.h"
#include "assay/v1/job.pb.h"
#include "server/jobs/job_manager.h"
#include "server/rpc/task_thread.h"

namespace assay::server {

// Keeps itself alive until gRPC is done with it. Lock order: the stream's mutex, then the watch's.
class WatchStream final : public grpc::ServerWriteReactor<v1::JobEvent>,
                          public std::enable_shared_from_this<WatchStream> {
 public:
  // Called once, when the call is over, with the status that the client gets.
  using Ended = std::function<void(const grpc::Status&)>;

  // Starts serving a call. `pump` reads the watch when the watch wakes it. It must outlive the
  // stream.
  static std::shared_ptr<WatchStream> Start(JobManager& jobs, TaskThread& pump,
                                            const std::string& name, std::int64_t after_sequence,
                                            Ended ended);

  // Ends the call after the event that is being written.
  void Abort(const absl::Status& status);

 private:
  WatchStream(TaskThread& pump, Ended ended) : pump_(pump), ended_(std::move(ended)) {}

  void Pump();
  void PumpLocked();
  void FinishLocked(const grpc::Status& status);

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  TaskThread& pump_;
  const Ended ended_;
  std::shared_ptr<WatchStream> self_;  // until OnDone

  std::mutex mutex_;
  bool writing_ = false;
  bool begun_ = false;  // an event was given to gRPC
  bool finished_ = false;
  std::optional<grpc::Status> abort_;
  grpc::Status status_;
  v1::JobEvent event_;
  std::unique_ptr<JobWatch> watch_;
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_RPC_WATCH_STREAM_H_
