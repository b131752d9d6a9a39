// Serves the calls of ValidateExternal. A call makes a job of the caller's cases, carries the
// messages between the cases' worker and the caller, and sends the events of the job.
#ifndef ASSAY_SERVER_RPC_EXTERNAL_STREAM_H_
#define ASSAY_SERVER_RPC_EXTERNAL_STREAM_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "assay/v1/external.pb.h"
#include "server/base/task_thread.h"
#include "server/jobs/job_manager.h"
#include "server/rpc/open_streams.h"
#include "server/rpc/waiting_requests.h"
#include "server/worker/caller_link.h"
#include "server/worker/duplex_stream.h"

namespace assay::server {

// How long a launch may take if the caller does not say.
inline constexpr absl::Duration kLaunchDeadline = absl::Seconds(30);

// One call. It keeps itself alive until gRPC is done with it, and its job keeps it as long as there
// are cases for it. The device's thread takes and gives messages, `pump` reads the events. Messages
// come as bytes, because a few bytes may grow to gigabytes. The first one waits for `writes`
// unparsed, and the next one is read when there is a job.
class ExternalStream final
    : public DuplexStream<v1::ValidateExternalRequest, v1::ValidateExternalResponse,
                          grpc::ByteBuffer, grpc::ByteBuffer>,
      public OpenStream,
      public std::enable_shared_from_this<ExternalStream> {
 public:
  struct Options {
    JobManager* jobs = nullptr;
    TaskThread* writes = nullptr;  // where the job is made
    TaskThread* pump = nullptr;    // where its events are read
    grpc::CallbackServerContext* context = nullptr;
    // Moves the first message out of gRPC's memory, if there is room.
    std::function<absl::StatusOr<WaitingRequests::Request>(grpc::ByteBuffer&)> keep;
    // Parses it, on `writes`.
    std::function<absl::Status(std::string_view, v1::ValidateExternalRequest&)> parse;
    // Makes the job, on `writes`.
    std::function<absl::StatusOr<v1::Job>(const v1::ExternalJob&, std::shared_ptr<CallerLink>)>
        make;
    // Called once, when the call is over, with the status that the client gets.
    std::function<void(const grpc::Status&)> ended;
  };

  static std::shared_ptr<ExternalStream> Start(Options options);

  // Ends the call. The cases that are left end, too.
  void Abort(const absl::Status& status) override;
  std::optional<std::string> DropIfStalledSince(absl::Time time) override;

 private:
  // The stream, for the code that runs the cases.
  class Link;

  explicit ExternalStream(Options options) : options_(std::move(options)) {}

  void OnFirst(bool ok);
  void Accept(WaitingRequests::Request kept);
  absl::Status MakeJob(const v1::ExternalJob& asked);
  // Sends events while there is room.
  void PumpEvents();
  void AskPump();
  bool Give(v1::ValidateExternalResponse* ask);
  std::optional<v1::Finding> failure();
  void Fail(v1::Finding why);
  void Lose();
  void Conclude(const absl::Status& status);

  void OnReadDone(bool ok) override;
  void OnRoom() override;
  void OnCancel() override;
  void OnDone() override;

  const Options options_;
  std::shared_ptr<ExternalStream> self_;  // until OnDone
  bool first_seen_ = false;               // used by the read callbacks, which come one by one
  absl::Duration launch_deadline_ = kLaunchDeadline;  // set before the job exists

  // Guards what follows. Not held when gRPC or the manager is called, but for the context.
  std::mutex state_mutex_;
  std::string job_;  // its name; empty: there is none yet
  std::optional<v1::Finding> failure_;
  bool lost_ = false;  // the caller has gone
  bool dropped_ = false;
  bool done_ = false;  // gRPC is done with the call, and its context is gone
  grpc::Status status_;

  // Used on the pump's thread alone, once the job exists.
  std::unique_ptr<JobWatch> watch_;
  std::optional<v1::ValidateExternalResponse> waiting_;  // an event that found no room
  std::atomic<bool> event_waits_{false};
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_RPC_EXTERNAL_STREAM_H_
