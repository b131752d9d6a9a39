// CallDesk: the place where calls come in. It finds out who calls, whether they may, and what
// counts against their limits. When a call is over, it adds the metrics and the line of the audit
// log. Every handler of the service begins and ends here.
#ifndef ASSAY_SERVER_RPC_CALL_DESK_H_
#define ASSAY_SERVER_RPC_CALL_DESK_H_

#include <grpcpp/grpcpp.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "assay/v1/job.pb.h"
#include "server/auth/access.h"
#include "server/auth/audit_trail.h"
#include "server/auth/client_limits.h"
#include "server/base/even_time.h"
#include "server/base/task_thread.h"
#include "server/jobs/job_manager.h"
#include "server/metrics/metrics.h"
#include "server/rpc/error_mapping.h"
#include "server/rpc/waiting_requests.h"

namespace assay::server {

// The most calls that wait for a thread. They hold their requests in memory.
inline constexpr std::size_t kMostCallsWaiting = 64;
// The error of a call that comes when so many wait.
absl::Status TooManyCallsWait();

// A request without lists may take the largest request's bytes divided by this in memory: 256 KiB
// of 32 MiB. The longest filter of ListJobs still passes if the largest request has 4 MiB.
inline constexpr std::int64_t kSmallPart = 128;

// One call, from its beginning.
struct Call {
  Call(grpc::CallbackServerContext* from, std::string_view name) : context(from), method(name) {}

  grpc::CallbackServerContext* context;
  std::string_view method;
  std::string_view needs = method;  // as NeededRoles() names it
  absl::Time begin = EvenTime();
  std::string target;            // what the call is about, for the log: "jobs/k3v9x2mp"
  std::optional<Caller> caller;  // nothing: it is not asked who calls, or they may not
};

// Thread-safe. What it is made of must outlive it.
class CallDesk {
 public:
  // Each may be null: then everybody may make every call, without limits, and nothing is counted.
  // `largest_request` as WaitingRequests takes it, `parsed_bytes` as ServiceOptions has it.
  CallDesk(Access* access, AuditTrail* audit, ClientLimits* limits, Metrics* metrics,
           std::int64_t largest_request, std::int64_t parsed_bytes)
      : access_(access),
        audit_(audit),
        limits_(limits),
        metrics_(metrics),
        parsed_bytes_(parsed_bytes),
        small_bytes_(largest_request / kSmallPart),
        waiting_(largest_request) {}

  // Finds out who calls, and whether they may.
  absl::Status Admit(Call& call);
  // Whose limits a call counts against.
  static std::string ClientOf(const Call& call);
  // A place among the watchers, the uploads or the comparisons, which is free again when the last
  // copy is gone.
  absl::StatusOr<Place> AdmitWatcher(const Call& call);
  absl::StatusOr<Place> AdmitUpload(const Call& call);
  absl::StatusOr<Place> AdmitComparison(const Call& call);
  // A request that waits for a thread: its bytes, moved out of gRPC's memory.
  absl::StatusOr<WaitingRequests::Request> Keep(const Call& call, grpc::ByteBuffer& bytes);
  // Parses such a request, as ParseWeighed does.
  absl::Status Parse(std::string_view bytes, google::protobuf::Message& request);
  // Admits a call and parses its request, which has no lists and so may take only kSmallPart in
  // memory. gRPC owns `bytes`. They are gone in any case.
  absl::Status Open(Call& call, const grpc::ByteBuffer* bytes, google::protobuf::Message& request);
  // Ends the connection of a client that takes nothing.
  void CutConnection(const std::string& peer);
  // Counts a call that is over, and writes its line of the log.
  void Close(const Call& call, const grpc::Status& status);

  // Answers a call on this thread with what `handler` returns for its request, and counts it.
  template <class Request, class Handler>
  grpc::ServerUnaryReactor* Answer(Call call, const grpc::ByteBuffer* bytes, Handler handler) {
    Request request;
    const absl::Status opened = Open(call, bytes, request);
    return AnswerOpened(call, opened, [&] { return handler(std::as_const(request)); });
  }

  // The same, on a thread for long work.
  template <class Request, class Handler>
  grpc::ServerUnaryReactor* AnswerOn(TaskThread& thread, Call call, const grpc::ByteBuffer* bytes,
                                     Handler handler) {
    Request request;
    const absl::Status opened = Open(call, bytes, request);
    return AnswerOpenedOn(
        thread, call, opened,
        [request = std::move(request), handler = std::move(handler)] { return handler(request); });
  }

  // Both, for a call that Open has opened, or refused. `handler` has the request.
  template <class Handler>
  grpc::ServerUnaryReactor* AnswerOpened(const Call& call, const absl::Status& opened,
                                         Handler handler) {
    grpc::ServerUnaryReactor* reactor = call.context->DefaultReactor();
    End(reactor, call, opened.ok() ? handler() : opened);
    return reactor;
  }
  template <class Handler>
  grpc::ServerUnaryReactor* AnswerOpenedOn(TaskThread& thread, const Call& call,
                                           const absl::Status& opened, Handler handler) {
    grpc::ServerUnaryReactor* reactor = call.context->DefaultReactor();
    if (opened.ok()) {
      RunOn(thread, reactor, call,
            [handler = std::move(handler)](Call&) mutable { return handler(); });
    } else {
      End(reactor, call, opened);
    }
    return reactor;
  }

  // The same for a request that may be large: it waits as bytes, and is parsed on the thread.
  // `handler` gets the call, too.
  template <class Request, class Handler>
  grpc::ServerUnaryReactor* AnswerLargeOn(TaskThread& thread, Call call,
                                          const grpc::ByteBuffer* bytes, Handler handler) {
    grpc::ServerUnaryReactor* reactor = call.context->DefaultReactor();
    auto& mine = *const_cast<grpc::ByteBuffer*>(bytes);
    if (absl::Status s = Admit(call); !s.ok()) {
      mine.Clear();
      End(reactor, call, s);
      return reactor;
    }
    absl::StatusOr<WaitingRequests::Request> kept = Keep(call, mine);
    if (!kept.ok()) {
      End(reactor, call, kept.status());
      return reactor;
    }
    RunOn(thread, reactor, call,
          [this, kept = *std::move(kept), handler = std::move(handler)](Call& late) mutable {
            Request request;
            absl::Status parsed = Parse(*kept, request);
            kept.reset();
            return parsed.ok() ? handler(late, std::as_const(request)) : parsed;
          });
    return reactor;
  }

  // Makes a job whose cases count for the client, unless the job is not taken.
  template <class Make>
  absl::StatusOr<v1::Job> MakeAdmitted(const std::string& client, Make make) {
    int counted = 0;
    const AdmitJob admit = [&](int cases) -> absl::StatusOr<Place> {
      if (limits_ == nullptr) return Place();
      absl::StatusOr<Place> place = limits_->AdmitJob(client, cases);
      if (place.ok()) counted = cases;
      return place;
    };
    absl::StatusOr<v1::Job> created = make(admit);
    if (!created.ok() && counted > 0) limits_->GiveBackCases(client, counted);
    return created;
  }

  // A stream that ends at once.
  template <class Reactor>
  Reactor* Refuse(const Call& call, const absl::Status& status) {
    class Refusal final : public Reactor {
     public:
      explicit Refusal(const grpc::Status& status) { this->Finish(status); }
      void OnDone() override { delete this; }
    };
    const grpc::Status answer = ToGrpcStatus(status);
    Close(call, answer);
    return new Refusal(answer);
  }

 private:
  // Ends the call on the thread with what `handler` returns. If nobody waits for the answer by
  // then, it does not ask.
  template <class Handler>
  void RunOn(TaskThread& thread, grpc::ServerUnaryReactor* reactor, const Call& call,
             Handler handler) {
    const bool taken =
        thread.TryRun([this, reactor, mine = call, handler = std::move(handler)]() mutable {
          if (mine.context->IsCancelled()) {
            End(reactor, mine, absl::CancelledError("the client has gone"));
          } else {
            End(reactor, mine, handler(mine));
          }
        });
    if (!taken) End(reactor, call, TooManyCallsWait());
  }
  void End(grpc::ServerUnaryReactor* reactor, const Call& call, const absl::Status& status);
  // Counts a request that was refused because of its size.
  absl::Status Counted(absl::Status parsed) const;

  Access* const access_;
  AuditTrail* const audit_;
  ClientLimits* const limits_;
  Metrics* const metrics_;
  const std::int64_t parsed_bytes_;
  const std::int64_t small_bytes_;
  WaitingRequests waiting_;
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_RPC_CALL_DESK_H_
