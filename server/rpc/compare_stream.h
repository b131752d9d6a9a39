// Serves the calls of CompareTensors. It checks the header, passes the pieces to the device's
// worker as fast as the worker takes them, and returns the result.
#ifndef ASSAY_SERVER_RPC_COMPARE_STREAM_H_
#define ASSAY_SERVER_RPC_COMPARE_STREAM_H_

#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
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
#include "server/base/task_thread.h"
#include "server/jobs/job_manager.h"
#include "server/rpc/open_streams.h"
#include "server/worker/executor.h"
#include "server/worker/message_reader.h"
#include "server/worker/piece_source.h"

namespace assay::server {

// The most operands of a comparison. No operator takes more.
inline constexpr int kMostInputs = 16;

// How long a device waits for the bytes of a comparison, counted from when it could take the first
// byte: `base`, plus the time that the bytes take at `bytes_per_second`.
struct UploadLimit {
  absl::Duration base = absl::Seconds(60);
  std::int64_t bytes_per_second = 10'000'000;
};

using RawPieceReader = MessageReader<grpc::ServerReadReactor<grpc::ByteBuffer>,
                                     v1::CompareTensorsRequest, grpc::ByteBuffer>;

// One call. It keeps itself alive until gRPC is done with it. Messages come as bytes, because a few
// bytes may grow to gigabytes. Nothing is read behind the header until the device runs the call.
class CompareStream final : public OpenStream,
                            public RawPieceReader,
                            public std::enable_shared_from_this<CompareStream> {
 public:
  struct Options {
    const DeviceSet* devices = nullptr;
    absl::Duration limit;  // for the device's worker, if the comparison has no deadline
    UploadLimit upload;
    absl::Status refuse;  // not OK: why the daemon takes no new call
    // Runs a task on the device's thread for comparisons. Returns false if too many tasks wait.
    std::function<bool(CaseExecutor*, std::function<void()>)> run;
    // Called once, when the call is over, with the status that the client gets.
    std::function<void(const grpc::Status&)> ended;
  };

  // Starts serving a call. gRPC owns `response`.
  static std::shared_ptr<CompareStream> Start(Options options, grpc::ByteBuffer* response);

  // Ends the call. If a worker computes for it, the worker is stopped.
  void Abort(const absl::Status& status) override;

 private:
  CompareStream(Options options, grpc::ByteBuffer* response)
      : options_(std::move(options)), response_(response) {}

  // Ends the call if the first message does not come in time.
  void ExpectHeader();
  // Called when the first message has come, or when none will come.
  void OnFirst(bool ok);
  absl::Status Accept(const v1::CompareTensorsRequest& first);
  void Run();
  // Called on the device's thread, as Run is. A piece that no worker should see ends the stream.
  Next Take(v1::CompareTensorsRequest* piece) override;
  absl::Status CheckPiece(const v1::CompareTensorsRequest& piece) const;
  void Finished(const absl::Status& status);

  void OnReadDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  const Options options_;
  grpc::ByteBuffer* const response_;
  std::shared_ptr<CompareStream> self_;   // until OnDone
  std::atomic<bool> first_seen_ = false;  // the first message has come, or none will
  grpc::Alarm late_header_;
  v1::CompareHeader header_;
  absl::Duration limit_;
  CaseExecutor* device_ = nullptr;
  CancelToken cancel_;
  int numbers_ = 0;                // tensors have the numbers below
  std::int64_t upload_bytes_ = 0;  // announced by the header
  absl::Duration upload_limit_;
  absl::Time upload_end_ = absl::InfiniteFuture();
  absl::Status refused_;  // what Take found; used on the device's thread

  std::mutex mutex_;
  std::optional<absl::Status> abort_;  // mutex_
  grpc::Status status_;                // mutex_
};

// All calls of a daemon. Each device has one thread, which waits for the device and feeds its
// worker. A few calls wait for the thread, with only their headers in memory. Thread-safe.
// Jobs and devices must outlive it.
class Comparisons {
 public:
  Comparisons(JobManager& jobs, const DeviceSet& devices, UploadLimit upload);

  // `ended` is called once, when the call is over, with the status that the client gets.
  std::shared_ptr<CompareStream> Start(grpc::ByteBuffer* response,
                                       std::function<void(const grpc::Status&)> ended);

 private:
  JobManager& jobs_;
  const DeviceSet& devices_;
  const UploadLimit upload_;
  std::map<CaseExecutor*, std::unique_ptr<TaskThread>> threads_;
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_RPC_COMPARE_STREAM_H_
