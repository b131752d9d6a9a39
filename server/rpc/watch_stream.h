// One call of WatchJob. It reads the events of the job's watch and writes them one by one, as fast
// as the client takes them. It holds one page of events, whatever the client does.
#ifndef ASSAY_SERVER_RPC_WATCH_STREAM_H_
#define ASSAY_SERVER_RPC_WATCH_STREAM_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "assay/v1/job.pb.h"
#include "assay/v1/service.pb.h"
#include "server/base/task_thread.h"
#include "server/jobs/job_manager.h"
#include "server/rpc/open_streams.h"

namespace assay::server {

// Keeps itself alive until gRPC is done with it. Lock order: the stream's mutex, then the watch's.
class WatchStream final : public grpc::ServerWriteReactor<v1::JobEvent>,
                          public OpenStream,
                          public std::enable_shared_from_this<WatchStream> {
 public:
  // Called once, when the call is over, with the status that the client gets.
  using Ended = std::function<void(const grpc::Status&)>;

  // Starts serving a call. `pump` reads the watch when the watch wakes it. It must outlive the
  // stream.
  static std::shared_ptr<WatchStream> Start(JobManager& jobs, TaskThread& pump,
                                            grpc::CallbackServerContext& context,
                                            const v1::WatchJobRequest& request, Ended ended);

  // After it the client comes again with the number of the last event that it has.
  std::optional<std::string> DropIfStalledSince(absl::Time time) override;

  void Abort(const absl::Status& status) override;

 private:
  WatchStream(TaskThread& pump, grpc::CallbackServerContext& context, Ended ended)
      : pump_(pump), context_(&context), ended_(std::move(ended)) {}

  void Pump();
  void PumpLocked();
  void FinishLocked(const grpc::Status& status);

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  TaskThread& pump_;
  grpc::CallbackServerContext* context_;  // mutex_; until OnDone
  Ended ended_;
  std::shared_ptr<WatchStream> self_;  // until OnDone

  std::mutex mutex_;
  bool writing_ = false;
  absl::Time write_began_;
  bool begun_ = false;  // an event was given to gRPC
  bool dropped_ = false;
  bool finished_ = false;
  std::optional<grpc::Status> abort_;
  grpc::Status status_;
  v1::JobEvent event_;
  std::unique_ptr<JobWatch> watch_;
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_RPC_WATCH_STREAM_H_
