// One worker process, and the calls to it.
//
// During a call, the calling thread watches the process. It kills the process past the deadline,
// when the call is cancelled, or above the memory cap. A worker that did not answer is dead and
// must be buried. Burying it says what it died of.
//
// Thread-safety: one thread at a time makes calls. process() is as WorkerProcess says.
#ifndef ASSAY_SERVER_WORKER_WORKER_LINK_H_
#define ASSAY_SERVER_WORKER_WORKER_LINK_H_

#include <grpcpp/support/status.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "assay/worker/v1/worker.grpc.pb.h"
#include "server/process/process.h"
#include "server/worker/caller_link.h"
#include "server/worker/executor.h"

namespace assay::server {

// The largest message that is taken from a worker. The result of a case has some kilobytes, with
// all elements that it may show.
inline constexpr int kMostAnswerBytes = 64 << 20;

// How a call ended. After kDeviceLost the worker has answered and can do nothing more. After
// kTooLarge it has sent more than kMostAnswerBytes. After all others but kAnswered the worker is
// dead or dying.
enum class CallEnd { kAnswered, kBroken, kDeadline, kCancelled, kMemory, kDeviceLost, kTooLarge };

struct CallLimits {
  absl::Time deadline = absl::InfiniteFuture();
  const CancelToken* cancel = nullptr;  // may be null
  absl::Duration cancel_grace;          // for a cancelled call to be answered all the same
  std::int64_t resident_cap_bytes = 0;  // 0: none
};

struct CallResult {
  CallEnd end = CallEnd::kBroken;
  grpc::Status status;  // where it was answered
};

struct Death {
  v1::Finding finding;              // "worker killed by SIGSEGV (…) in the kernel under test"
  std::string_view restart_reason;  // of the counter: the finding's, exit, idle, start
  bool counts = true;               // towards quarantine
  bool planted = false;             // the kernel under test was a planted or a user's
  int turn = 0;                     // whose it was, and who was suspected before; PhasePage
  std::uint32_t suspects = 0;
};

// Who is to blame for a death, which has its phase, on a device such as "cuda:3".
v1::Blame BlameFor(const v1::Finding& death, std::string_view device);

class Bell;

class WorkerLink {
 public:
  static absl::StatusOr<std::unique_ptr<WorkerLink>> Start(const ProcessOptions& options);

  const WorkerProcess& process() const { return *process_; }
  // Whether the process has ended. If so, reaps it.
  bool Ended() { return process_->Wait(absl::InfinitePast()).has_value(); }

  CallResult Describe(const CallLimits& limits, const worker::v1::DescribeRequest& request,
                      worker::v1::DescribeResponse* response);
  // Runs a case. If other cases run together with it, each has the time until the deadline for
  // itself.
  CallResult RunCase(const CallLimits& limits, const worker::v1::RunCaseRequest& request,
                     worker::v1::RunCaseResponse* response);
  // Runs a case whose kernel is a function of the caller's process. The caller's turns do not count
  // towards the deadline. A caller that is too slow or has gone has a failure then, and the worker
  // has answered. `owes`: the caller has got a launch whose end has not come, so no other case can
  // ask it.
  CallResult RunElsewhere(const CallLimits& limits, const worker::v1::RunCaseRequest& request,
                          CallerLink& caller, worker::v1::RunCaseResponse* response, bool* owes);
  // Passes the header and the pieces on as they come. The worker has `limit` to take a piece, or
  // `idle` if that is longer. After the last piece it has `limit`. If no piece comes for `idle`,
  // the call ends with DEADLINE_EXCEEDED. If the sender of the pieces has gone, it ends with
  // CANCELLED. In both cases the worker has answered.
  CallResult CompareTensors(const CallLimits& limits, absl::Duration limit, absl::Duration idle,
                            const v1::CompareHeader& header, PieceSource& pieces,
                            worker::v1::RunCaseResponse* response);
  CallResult ReleaseArena(const CallLimits& limits, worker::v1::ReleaseArenaResponse* response);
  CallResult MeasureCeilings(const CallLimits& limits,
                             worker::v1::MeasureCeilingsResponse* response);

  // Call it after a call that was not answered. It kills and reaps the process and says what
  // happened. `limit` is how long the call had.
  Death Bury(CallEnd end, absl::Duration limit, const CallLimits& limits, std::string_view device);
  // Does the same between cases, after Ended.
  Death BuryIdle();
  // Ends a worker that is well, and waits until it is gone.
  void End();

 private:
  WorkerLink() = default;

  template <class Send>
  CallResult Call(const CallLimits& limits, Send send);
  // The same, for a call that is fed while it runs. Whenever `bell` was rung, `step` is called with
  // the limits and may change them. When the call is to end, `step` is called with `true`.
  template <class Send, class Step>
  CallResult Call(CallLimits limits, Bell& bell, Send send, Step step);
  // " in the kernel under test"; nothing where no case had begun.
  std::string Where() const;
  Death Autopsy(CallEnd end, absl::Duration limit, const CallLimits& limits);

  std::unique_ptr<WorkerProcess> process_;
  std::unique_ptr<worker::v1::WorkerService::Stub> stub_;
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_WORKER_WORKER_LINK_H_
