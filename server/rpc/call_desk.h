// Where calls come in: who calls and whether they may, what counts against their limits, and, when
// a call is over, its metrics and its line in the audit log. Every handler of the service begins
// and ends here.
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

// One call, from its beginning.
struct Call {
  Call(grpc::CallbackServerContext* from, std::string_view name,
       const google::protobuf::Message* asked = nullptr,
       const google::protobuf::Message* answered = nullptr)
      : context(from), method(name), request(asked), response(answered) {}

  grpc::CallbackServerContext* context;
  std::string_view method;
  std::string_view needs = method;  // as NeededRoles() names it
  const google::protobuf::Message* request;
  const google::protobuf::Message* response;
  absl::Time begin = EvenTime();
  std::string target;            // for the log, if neither message names what the call is about
  std::optional<Caller> caller;  // nothing: it is not asked who calls, or they may not
};

// Thread-safe. What it is made of must outlive it.
class CallDesk {
 public:
  // Each may be null: then everybody may make every call, without limits, and nothing is counted.
  // `largest_request` as WaitingRequests takes it, `parsed_bytes` as ServiceOptions has it.
  CallDesk(Access* access, ClientLimits* limits, Metrics* metrics, std::int64_t largest_request,
           std::int64_t parsed_bytes)
      : access_(access),
        limits_(limits),
        metrics_(metrics),
        parsed_bytes_(parsed_bytes),
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
  // Ends the connection of a client that takes nothing.
  void CutConnection(const std::string& peer);
  // Counts a call that is over, and writes its line of the log.
  void Close(const Call& call, const grpc::Status& status);

  // Answers a call on this thread with what `handler` returns, and counts it.
  template <class Handler>
  grpc::ServerUnaryReactor* Answer(Call call, Handler handler) {
    grpc::ServerUnaryReactor* reactor = call.context->DefaultReactor();
    if (absl::Status s = Admit(call); s.ok()) {
      End(reactor, call, handler());
    } else {
      End(reactor, call, s);
    }
    return reactor;
  }

  // The same, on a thread for long work.
  template <class Handler>
  grpc::ServerUnaryReactor* AnswerOn(TaskThread& thread, Call call, Handler handler) {
    grpc::ServerUnaryReactor* reactor = call.context->DefaultReactor();
    if (absl::Status s = Admit(call); !s.ok()) {
      End(reactor, call, s);
      return reactor;
    }
    RunOn(thread, reactor, call,
          [handler = std::move(handler)](Call&) mutable { return handler(); });
    return reactor;
  }

  // The same for a request that comes unparsed: it is parsed on the thread. `handler` gets the call
  // and the request. gRPC owns `bytes` and uses it no more.
  template <class Request, class Handler>
  grpc::ServerUnaryReactor* AnswerRawOn(TaskThread& thread, Call call,
                                        const grpc::ByteBuffer* bytes, Handler handler) {
    grpc::ServerUnaryReactor* reactor = call.context->DefaultReactor();
    if (absl::Status s = Admit(call); !s.ok()) {
      End(reactor, call, s);
      return reactor;
    }
    absl::StatusOr<WaitingRequests::Request> kept =
        Keep(call, *const_cast<grpc::ByteBuffer*>(bytes));
    if (!kept.ok()) {
      End(reactor, call, kept.status());
      return reactor;
    }
    RunOn(thread, reactor, call,
          [this, kept = *std::move(kept), handler = std::move(handler)](Call& mine) mutable {
            Request request;
            absl::Status parsed = Parse(*kept, request);
            kept.reset();
            return parsed.ok() ? handler(mine, request) : parsed;
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
    if (!taken) End(reactor, call, TooManyWait());
  }
  void End(grpc::ServerUnaryReactor* reactor, const Call& call, const absl::Status& status);
  static absl::Status TooManyWait();

  Access* const access_;
  ClientLimits* const limits_;
  Metrics* const metrics_;
  const std::int64_t parsed_bytes_;
  WaitingRequests waiting_;
};

}  // namespace assay::server

#endif  // ASSAY_SERVER_RPC_CALL_DESK_H_
