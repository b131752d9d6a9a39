// CompareTensors calls: the header checked, then the pieces passed to the device's
// worker as fast as that takes them, then the result.
#ifndef ASSAY_SERVER_RPC_COMPARE_STREAM_H_
#define ASSAY_SERVER_RPC_COMPARE_STREAM_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "assay/v1/compare.pb.h"
#include "server/jobs/job_manager.h"
#include "server/rpc/task_thread.h"
#include "server/worker/executor.h"
#include "server/worker/piece_reader.h"

namespace assay {

// How long a device waits for the bytes of a comparison, from when it could take the
// first: `base`, and their time at the least rate that is put up with.
struct UploadLimit {
  absl::Duration base = absl::Seconds(60);
  std::int64_t bytes_per_second = 10'000'000;
};

// Keeps itself alive until gRPC is done with it.
class CompareStream final : public PieceReader, public std::enable_shared_from_this<CompareStream> {
 public:
  struct Options {
    const DeviceSet* devices = nullptr;
    absl::Duration limit;  // for the device's worker, of a comparison that does not say
    UploadLimit upload;
    absl::Status refuse;  // not OK: why nothing new is taken
    // Runs a task on the device's thread for comparisons; false where too many wait.
    std::function<bool(CaseExecutor*, std::function<void()>)> run;
    // Called once, with the status the client gets, when the call is over.
    std::function<void(const grpc::Status&)> ended;
  };

  // `response` is the call's.
  static std::shared_ptr<CompareStream> Start(Options options, v1::CaseResult* response);

  // Ends the call; a worker that is at it is stopped.
  void Abort(const absl::Status& status);

 private:
  CompareStream(Options options, v1::CaseResult* response)
      : options_(std::move(options)), response_(response) {}

  // The first message has come, or none will.
  void OnFirst();
  absl::Status Accept(const v1::CompareTensorsRequest& first);
  void Run();
  // On the device's thread, as Run. What no worker should see ends the stream here.
  Next Take(v1::CompareTensorsRequest* piece) override;
  absl::Status CheckPiece(const v1::CompareTensorsRequest& piece) const;
  void Finished(const absl::Status& status);

  void OnReadDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  const Options options_;
  v1::CaseResult* const response_;
  std::shared_ptr<CompareStream> self_;  // until OnDone
  bool first_seen_ = false;              // of reading's callbacks, which come one by one
  v1::CompareHeader header_;
  absl::Duration limit_;
  CaseExecutor* device_ = nullptr;
  CancelToken cancel_;
  int numbers_ = 0;                // of tensors
  std::int64_t upload_bytes_ = 0;  // that the header announces
  absl::Duration upload_limit_;
  absl::Time upload_end_ = absl::InfiniteFuture();
  absl::Status refused_;  // what Take found; of the device's thread

  std::mutex mutex_;
  std::optional<absl::Status> abort_;  // mutex_
  grpc::Status status_;                // mutex_
};

// The calls of a daemon. One thread a device waits for it and feeds its worker; a few
// calls wait for the thread, with no more than their first messages in memory.
// Thread-safe. Jobs and devices must outlive it.
class Comparisons {
 public:
  // `ended` is called once a call, with when it began.
  Comparisons(JobManager& jobs, const DeviceSet& devices, UploadLimit upload,
              std::function<void(const grpc::Status&, absl::Time begin)> ended);

  std::shared_ptr<CompareStream> Start(v1::CaseResult* response);
  // Ends what runs with UNAVAILABLE and refuses what comes.
  void Stop();

 private:
  JobManager& jobs_;
  const DeviceSet& devices_;
  const UploadLimit upload_;
  const std::function<void(const grpc::Status&, absl::Time)> ended_;

  std::mutex mutex_;
  bool stopped_ = false;                               // mutex_
  std::vector<std::weak_ptr<CompareStream>> streams_;  // mutex_; some have ended
  std::map<CaseExecutor*, std::unique_ptr<TaskThread>> threads_;
};

}  // namespace assay

#endif  // ASSAY_SERVER_RPC_COMPARE_STREAM_H_
