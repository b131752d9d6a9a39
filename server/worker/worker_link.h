// One worker process and the calls to it.
//
// While a call is under way the caller looks after the process: past the deadline,
// when it is cancelled, or above its memory cap it is killed. A worker that did not
// answer is dead and must be buried: that says what it died of.
//
// Thread-safety: calls by one thread at a time; process() as WorkerProcess says.
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
#include "server/worker/executor.h"
#include "server/worker/process.h"

namespace assay {

// How a call ended. In all cases but kAnswered the worker is dead or dying.
// kDeviceLost: it was answered, and nothing more can be.
enum class CallEnd { kAnswered, kBroken, kDeadline, kCancelled, kMemory, kDeviceLost };

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
  std::string_view finding;         // of a case's result: crash, timeout, memory, cancelled, fault
  std::string_view restart_reason;  // of the counter: those, exit, idle, start
  std::string message;              // "worker killed by SIGSEGV (…) in the kernel under test"
  bool counts = true;               // towards quarantine
  bool planted = false;             // a kernel under test that dies on purpose
  std::string_view phase{};         // PhaseName; empty: not known
  int turn = 0;                     // whose it was, and who was suspected before; PhasePage
  std::uint32_t suspects = 0;
};

class Bell;

class WorkerLink {
 public:
  static absl::StatusOr<std::unique_ptr<WorkerLink>> Start(const ProcessOptions& options);

  const WorkerProcess& process() const { return *process_; }
  // Whether the process has ended; reaps it.
  bool Ended() { return process_->Wait(absl::InfinitePast()).has_value(); }

  CallResult Describe(const CallLimits& limits, worker::v1::DescribeResponse* response);
  // Where cases follow, the time until the deadline is that of each turn.
  CallResult RunCase(const CallLimits& limits, const worker::v1::RunCaseRequest& request,
                     worker::v1::RunCaseResponse* response);
  // Passes the header and the pieces on as they come. The limits' deadline begins once
  // all were sent and is `limit` (or longer, `idle`, for each piece that the worker has
  // to take); without a piece for `idle` the call ends with
  // DEADLINE_EXCEEDED, and where the pieces' sender is gone with CANCELLED: then the
  // worker has answered.
  CallResult CompareTensors(const CallLimits& limits, absl::Duration limit, absl::Duration idle,
                            const v1::CompareHeader& header, PieceSource& pieces,
                            worker::v1::RunCaseResponse* response);
  CallResult ReleaseArena(const CallLimits& limits, worker::v1::ReleaseArenaResponse* response);
  CallResult MeasureCeilings(const CallLimits& limits,
                             worker::v1::MeasureCeilingsResponse* response);

  // After a call that was not answered: kills what is left, reaps it, and says what
  // happened. `limit` is how long the call had.
  Death Bury(CallEnd end, absl::Duration limit, const CallLimits& limits);
  // After Ended, between cases.
  Death BuryIdle();

 private:
  WorkerLink() = default;

  template <class Send>
  CallResult Call(const CallLimits& limits, Send send);
  // The same, for a call that is fed while it runs: `step` is called with the limits,
  // which it may change, whenever `bell` was rung, and with `true` once the call shall end.
  template <class Send, class Step>
  CallResult Call(CallLimits limits, Bell& bell, Send send, Step step);
  // " in the kernel under test"; nothing where no case had begun.
  std::string Where() const;
  Death Autopsy(CallEnd end, absl::Duration limit, const CallLimits& limits);

  std::unique_ptr<WorkerProcess> process_;
  std::unique_ptr<worker::v1::WorkerService::Stub> stub_;
};

}  // namespace assay

#endif  // ASSAY_SERVER_WORKER_WORKER_LINK_H_
