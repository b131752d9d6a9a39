// Carries the messages of RunElsewhere between a worker and the caller whose function it validates,
// and watches how long the caller takes.
#ifndef ASSAY_SERVER_WORKER_FERRY_H_
#define ASSAY_SERVER_WORKER_FERRY_H_

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/client_callback.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>

#include "absl/time/time.h"
#include "assay/worker/v1/worker.pb.h"
#include "server/worker/caller_link.h"

namespace assay::server {

// The daemon's half of one call. All functions but gRPC's own are for the thread of the call. It
// holds a few messages of the worker and one of the caller. If the caller is too slow, or has gone,
// the worker gets no more answers, and the case ends.
class Ferry final : public grpc::ClientBidiReactor<worker::v1::RunElsewhereRequest,
                                                   worker::v1::RunElsewhereResponse> {
 public:
  // `ring` is called whenever Step has something to do. All must outlive the call.
  Ferry(std::function<void()> ring, CallerLink& caller, const worker::v1::RunCaseRequest& request,
        worker::v1::RunCaseResponse* response);

  void Begin(std::function<void(grpc::Status)> done);
  // Carries what can be carried now. `give_up`: the call ends without an answer. The case's time
  // stands still while it is the caller's turn: `deadline` is infinite then, and later by the turn
  // afterwards. If the caller fails, the worker gets some time to answer.
  void Step(absl::Time* deadline, bool give_up);

  // Whether the caller has got a launch whose end has not come. Once the call has ended, nobody can
  // tell the answers that may still come from those to another case.
  bool owes() const { return owes_; }

 private:
  // Carries one message to the caller; false: there is none, or no room.
  bool TakeFromWorker(absl::Time* deadline);
  void ReadLocked();
  void TakeFromCaller(absl::Time* deadline);
  void CheckTime(absl::Time* deadline);
  void BeginTurn(absl::Time* deadline);
  void EndTurn(absl::Time* deadline);
  void FailCaller(v1::Finding why, absl::Time* deadline);
  void StopAnswers();
  void Close();

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override { done_(status); }

  const std::function<void()> ring_;
  CallerLink& caller_;
  worker::v1::RunCaseResponse* const response_;
  std::function<void(grpc::Status)> done_;
  worker::v1::RunElsewhereRequest outgoing_;   // gRPC's while `writing_`
  worker::v1::RunElsewhereResponse incoming_;  // gRPC's while `reading_`
  std::mutex mutex_;
  std::deque<worker::v1::RunElsewhereResponse> came_;  // mutex_; read ahead, at most kAhead
  bool reading_ = false;                               // mutex_
  std::atomic<bool> writing_{false};
  std::atomic<bool> over_{false};  // the worker sends no more
  std::atomic<bool> deaf_{false};  // the worker takes no more
  bool closed_ = false;
  bool no_answers_ = false;
  // The caller's turn: from when it gets inputs, or takes no message, until its launch has ended.
  bool asked_ = false;
  absl::Time asked_at_;
  absl::Duration left_;        // of the case's time, when the turn began
  bool of_reference_ = false;  // the last launch that was asked for
  bool owes_ = false;          // the end of a launch
  std::int64_t bytes_ = 0;     // of the operands of the kernel
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_WORKER_FERRY_H_
