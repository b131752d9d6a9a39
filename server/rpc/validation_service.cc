#include "server/rpc/validation_service.h"

#include <algorithm>
#include <condition_variable>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "google/protobuf/util/time_util.h"
#include "kernels/text/cat.h"
#include "server/base/case_spec.h"
#include "server/base/error_info.h"
#include "server/base/even_time.h"
#include "server/base/request_errors.h"
#include "server/plan/suite_list.h"
#include "server/rpc/backup_stream.h"
#include "server/rpc/compare_stream.h"
#include "server/rpc/error_mapping.h"
#include "server/rpc/external_stream.h"
#include "server/rpc/request_parsing.h"
#include "server/rpc/task_thread.h"
#include "server/rpc/upload_stream.h"
#include "server/rpc/watch_stream.h"

namespace assay::server {
namespace {

// The most calls that wait for a thread. They hold their requests in memory.
constexpr std::size_t kMostCallsWaiting = 64;
// The most kernels that wait for the compiler, and the most libraries that wait to be checked.
constexpr std::size_t kMostCompilesWaiting = 16;
// How often watchers are looked at: a quarter of the time that they have, within these.
constexpr absl::Duration kLeastLook = absl::Milliseconds(10);
constexpr absl::Duration kMostLook = absl::Seconds(1);

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

// The name of the resource that a message is about, "jobs/k3v9x2mp"; empty if it has none.
std::string NameIn(const google::protobuf::Message& message) {
  const google::protobuf::FieldDescriptor* name = message.GetDescriptor()->FindFieldByName("name");
  return name == nullptr ? "" : message.GetReflection()->GetString(message, name);
}

}  // namespace

class ValidationService::Impl {
 public:
  Impl(JobManager& jobs, DeviceSet& devices, Metrics* metrics, ServiceOptions options)
      : jobs_(jobs),
        devices_(devices),
        metrics_(metrics),
        telemetry_(std::move(options.telemetry)),
        access_(options.access),
        limits_(options.limits),
        store_(options.store),
        kernels_(options.kernels),
        info_(std::move(options.info)),
        stall_(options.watch_stall),
        comparisons_(jobs, devices, options.upload),
        stall_thread_([this](const std::stop_token& stop) { DropStalled(stop); }) {}

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

  // The same, on a thread for long work: writes() or long_work().
  template <class Handler>
  grpc::ServerUnaryReactor* AnswerOn(TaskThread& thread, Call call, Handler handler) {
    grpc::ServerUnaryReactor* reactor = call.context->DefaultReactor();
    if (absl::Status s = Admit(call); !s.ok()) {
      End(reactor, call, s);
      return reactor;
    }
    const bool taken = thread.TryRun([this, reactor, call, handler = std::move(handler)] {
      if constexpr (std::is_invocable_v<Handler, const Call&>) {
        End(reactor, call, handler(call));
      } else {
        End(reactor, call, handler());
      }
    });
    if (!taken) {
      End(reactor, call,
          WithRetry(absl::ResourceExhaustedError(
                        Cat(kMostCallsWaiting, " calls wait before this one; call again later")),
                    absl::Seconds(1)));
    }
    return reactor;
  }

  // Finds out who calls, and whether they may.
  absl::Status Admit(Call& call) {
    if (limits_ != nullptr) {
      if (absl::Status s = limits_->CheckConnection(call.context->peer()); !s.ok()) return s;
    }
    if (access_ == nullptr) return absl::OkStatus();
    absl::StatusOr<Caller> caller = access_->Admit(access_->ShownBy(*call.context), call.needs);
    if (caller.ok()) call.caller = *std::move(caller);
    return caller.status();
  }

  // Whose limits a call counts against.
  static std::string ClientOf(const Call& call) {
    return call.caller ? server::ClientOf(*call.caller) : ClientAt(call.context->peer());
  }

  // Counts a call that is over, and writes its line of the log.
  void Close(const Call& call, const grpc::Status& status) {
    const Needed* needed = FindNeeded(call.needs);
    if (call.caller && needed != nullptr && needed->audited) {
      const std::string request = call.request == nullptr ? call.target : NameIn(*call.request);
      Audit(*call.caller, call.needs,
            request.empty() && call.response != nullptr ? NameIn(*call.response) : request,
            CodeName(status.error_code()));
    }
    if (metrics_ == nullptr) return;
    metrics_->RpcFinished(call.method, CodeName(status.error_code()),
                          absl::ToDoubleSeconds(EvenTime() - call.begin));
  }

  grpc::ServerReadReactor<v1::CompareTensorsRequest>* Compare(Call call, v1::CaseResult* response) {
    if (absl::Status s = Admit(call); !s.ok()) {
      return Refuse<grpc::ServerReadReactor<v1::CompareTensorsRequest>>(call, s);
    }
    // The stream owns itself until gRPC is done with it. That is after this function returns.
    return comparisons_
        .Start(response, [this, call](const grpc::Status& status) { Close(call, status); })
        .get();
  }

  grpc::ServerBidiReactor<v1::ValidateExternalRequest, v1::ValidateExternalResponse>* External(
      Call call) {
    using Reactor =
        grpc::ServerBidiReactor<v1::ValidateExternalRequest, v1::ValidateExternalResponse>;
    if (absl::Status s = Admit(call); !s.ok()) return Refuse<Reactor>(call, s);
    Place place;
    if (limits_ != nullptr) {  // the caller watches its job
      absl::StatusOr<Place> given = limits_->AdmitWatcher(ClientOf(call));
      if (!given.ok()) return Refuse<Reactor>(call, given.status());
      place = *std::move(given);
    }
    const std::shared_ptr<ExternalStream> stream = ExternalStream::Start(
        {.jobs = &jobs_,
         .writes = &writes_,
         .pump = &pump_,
         .context = call.context,
         .make =
             [this, client = ClientOf(call)](const v1::ExternalJob& job,
                                             std::shared_ptr<CallerLink> caller) {
               return MakeAdmitted(client, [&](const AdmitJob& admit) {
                 return jobs_.CreateElsewhere(job, std::move(caller), admit);
               });
             },
         .ended =
             [this, call, place = std::move(place)](const grpc::Status& status) mutable {
               place.reset();
               Close(call, status);
             }});
    const std::lock_guard guard(mutex_);
    std::erase_if(external_streams_, [](const auto& s) { return s.expired(); });
    if (stopped_) {
      stream->Abort(Stopping());
    } else {
      external_streams_.push_back(stream);
    }
    return stream.get();  // it owns itself, as that of Compare does
  }

  grpc::ServerWriteReactor<v1::JobEvent>* Watch(Call call, const v1::WatchJobRequest& request) {
    if (absl::Status s = Admit(call); !s.ok()) {
      return Refuse<grpc::ServerWriteReactor<v1::JobEvent>>(call, s);
    }
    Place place;
    if (limits_ != nullptr) {
      absl::StatusOr<Place> given = limits_->AdmitWatcher(ClientOf(call));
      if (!given.ok()) {
        return Refuse<grpc::ServerWriteReactor<v1::JobEvent>>(call, given.status());
      }
      place = *std::move(given);
    }
    // gRPC has let go of the stream when it has ended, so the place is free before the call is
    // counted.
    auto ended = [this, call, place = std::move(place)](const grpc::Status& status) mutable {
      place.reset();
      Close(call, status);
    };
    std::shared_ptr<WatchStream> stream =
        WatchStream::Start(jobs_, pump_, *call.context, request, std::move(ended));
    const std::lock_guard guard(mutex_);
    std::erase_if(streams_, [](const auto& s) { return s.expired(); });
    if (stopped_) {
      stream->Abort(Stopping());
    } else {
      streams_.push_back(stream);
    }
    return stream.get();  // it owns itself, as that of Compare does
  }

  grpc::ServerWriteReactor<v1::BackupStoreResponse>* Backup(Call call) {
    absl::Status refused = Admit(call);
    if (refused.ok() && store_ == nullptr) {
      refused = absl::UnimplementedError("this daemon cannot copy its store");
    }
    if (!refused.ok()) {
      return Refuse<grpc::ServerWriteReactor<v1::BackupStoreResponse>>(call, refused);
    }
    const std::shared_ptr<BackupStream> stream = BackupStream::Start(
        {.store = store_,
         .thread = &backups_,
         .context = call.context,
         .cut =
             [this, peer = call.context->peer()] {
               if (limits_ != nullptr) limits_->CutConnection(peer);
             },
         .ended = [this, call](const grpc::Status& status) { Close(call, status); }});
    const std::lock_guard guard(mutex_);
    std::erase_if(backup_streams_, [](const auto& s) { return s.expired(); });
    if (stopped_) {
      stream->Abort(Stopping());
    } else {
      backup_streams_.push_back(stream);
    }
    return stream.get();  // it owns itself, as that of Compare does
  }

  using UploadReactor = grpc::ServerBidiReactor<v1::UploadKernelRequest, v1::UploadKernelResponse>;

  UploadReactor* Upload(Call call) {
    absl::Status refused = Admit(call);
    if (refused.ok() && kernels_ == nullptr) {
      refused = absl::UnimplementedError("this daemon takes no users' kernels");
    }
    Place place;
    if (refused.ok() && limits_ != nullptr) {
      absl::StatusOr<Place> given = limits_->AdmitUpload(ClientOf(call));
      refused = given.status();
      if (given.ok()) place = *std::move(given);
    }
    if (!refused.ok()) return Refuse<UploadReactor>(call, refused);
    const std::shared_ptr<UploadStream> stream = UploadStream::Start(
        {.kernels = kernels_,
         .compiles = &compiles_,
         .libraries = &libraries_,
         .context = call.context,
         .ended = [this, call, place = std::move(place)](const grpc::Status& status,
                                                         const std::string& provider) mutable {
           place.reset();
           call.target = provider;
           Close(call, status);
         }});
    const std::lock_guard guard(mutex_);
    std::erase_if(upload_streams_, [](const auto& s) { return s.expired(); });
    if (stopped_) {
      stream->Abort(Stopping());
    } else {
      upload_streams_.push_back(stream);
    }
    return stream.get();  // it owns itself, as that of Compare does
  }

  void Stop() {
    comparisons_.Stop();
    std::vector<std::weak_ptr<WatchStream>> streams;
    {
      const std::lock_guard guard(mutex_);
      stopped_ = true;
      streams.swap(streams_);
      for (const auto& weak : external_streams_) {
        if (const auto external = weak.lock()) external->Abort(Stopping());
      }
      for (const auto& weak : backup_streams_) {
        if (const auto backup = weak.lock()) backup->Abort(Stopping());
      }
      for (const auto& weak : upload_streams_) {
        if (const auto upload = weak.lock()) upload->Abort(Stopping());
      }
    }
    for (const auto& weak : streams) {
      if (const std::shared_ptr<WatchStream> stream = weak.lock()) {
        stream->Abort(Stopping());
      }
    }
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

  absl::Status CreateJob(const Call& call, const v1::CreateJobRequest& request, v1::Job& job) {
    absl::StatusOr<v1::Job> created = MakeAdmitted(ClientOf(call), [&](const AdmitJob& admit) {
      return jobs_.Create(request.spec(), request.request_id(), admit);
    });
    if (created.ok()) job = *std::move(created);
    return created.status();
  }

  void SetWatchStall(absl::Duration stall) {
    {
      const std::lock_guard guard(mutex_);
      stall_ = stall;
    }
    stall_changed_.notify_all();
  }

  v1::Device Describe(CaseExecutor& executor) {
    v1::Device device = executor.Describe();
    device.set_queue_depth(jobs_.QueueDepth(executor.device_id()));
    if (telemetry_) *device.mutable_telemetry() = telemetry_(executor.device_id());
    return device;
  }

  absl::Status ListJobs(const v1::ListJobsRequest& request, v1::ListJobsResponse& response) {
    absl::StatusOr<JobQuery> query = ParseJobFilter(request.filter());
    if (!query.ok()) return query.status();
    const absl::StatusOr<int> size = ParsePageSize(request.page_size());
    if (!size.ok()) return size.status();
    const std::string scope = Cat("ListJobs\n", request.filter());
    const absl::StatusOr<std::int64_t> position = ParsePageToken(scope, request.page_token());
    if (!position.ok()) return position.status();
    query->before = *position;
    query->limit = *size;
    absl::StatusOr<JobPage> page = jobs_.List(*query);
    if (!page.ok()) return page.status();
    for (v1::Job& job : page->jobs) *response.add_jobs() = std::move(job);
    if (page->next != 0) response.set_next_page_token(MakePageToken(scope, page->next));
    return absl::OkStatus();
  }

  absl::Status ListCaseResults(const v1::ListCaseResultsRequest& request,
                               v1::ListCaseResultsResponse& response) {
    if (absl::Status s = CheckJobName("job", request.job()); !s.ok()) return s;
    const absl::StatusOr<int> size = ParsePageSize(request.page_size());
    if (!size.ok()) return size.status();
    const std::string scope = Cat("ListCaseResults\n", request.job());
    const absl::StatusOr<std::int64_t> from = ParsePageToken(scope, request.page_token());
    if (!from.ok()) return from.status();
    absl::StatusOr<std::vector<v1::CaseResult>> results =
        jobs_.Results(request.job(), static_cast<std::int32_t>(*from), *size);
    if (!results.ok()) return results.status();
    if (results->empty()) return absl::OkStatus();
    // A page may end because of its size in bytes. Only the store knows whether there is more.
    const std::int32_t next = results->back().index() + 1;
    const auto more = jobs_.Results(request.job(), next, 1);
    if (!more.ok()) return more.status();
    if (!more->empty()) response.set_next_page_token(MakePageToken(scope, next));
    for (v1::CaseResult& result : *results) *response.add_results() = std::move(result);
    return absl::OkStatus();
  }

  absl::Status ListBaselines(const v1::ListBaselinesRequest& request,
                             v1::ListBaselinesResponse& response) {
    const absl::StatusOr<int> size = ParsePageSize(request.page_size());
    if (!size.ok()) return size.status();
    const std::string_view scope = "ListBaselines";
    const absl::StatusOr<std::int64_t> before = ParsePageToken(scope, request.page_token());
    if (!before.ok()) return before.status();
    absl::StatusOr<BaselinePage> page = jobs_.baselines().List(*before, *size);
    if (!page.ok()) return page.status();
    for (v1::Baseline& baseline : page->baselines) {
      *response.add_baselines() = std::move(baseline);
    }
    if (page->next != 0) response.set_next_page_token(MakePageToken(scope, page->next));
    return absl::OkStatus();
  }

  absl::Status ListDevices(const v1::ListDevicesRequest& request,
                           v1::ListDevicesResponse& response) {
    for (const auto& executor : devices_.executors) {
      // A device that is busy or cannot measure is listed without ceilings.
      if (request.measure_ceilings()) executor->MeasureCeilings().IgnoreError();
      *response.add_devices() = Describe(*executor);
    }
    for (const v1::Device& device : devices_.unavailable) *response.add_devices() = device;
    return absl::OkStatus();
  }

  absl::Status ReleaseDevice(const v1::ReleaseDeviceRequest& request, v1::Device& device) {
    const absl::StatusOr<std::string> id = ParseDeviceName("name", request.name());
    if (!id.ok()) return id.status();
    for (const auto& executor : devices_.executors) {
      if (executor->device_id() != *id) continue;
      absl::Status s = request.keep_quarantine() ? executor->GiveBack() : executor->Release();
      if (s.ok()) device = Describe(*executor);
      return s;
    }
    return WithReason(absl::NotFoundError(Cat("no device \"", *id, "\" on this daemon")),
                      v1::ERROR_REASON_DEVICE_NOT_FOUND);
  }

  absl::Status ListKernels(const v1::ListKernelsRequest& request,
                           v1::ListKernelsResponse& response) {
    // Devices of one backend have the same kernels. List each kernel once.
    std::map<std::tuple<std::string, std::string, std::string>, v1::Kernel> kernels;
    for (const auto& executor : devices_.executors) {
      for (const v1::Kernel& kernel : executor->Kernels()) {
        if (!request.show_planted() && IsPlanted(kernel.provider())) continue;
        auto key = std::make_tuple(kernel.op(), kernel.provider(), kernel.backend());
        kernels.try_emplace(std::move(key), kernel);
      }
    }
    for (auto& [key, kernel] : kernels) *response.add_kernels() = std::move(kernel);
    // The kernels of a backend that could not be loaded are not known.
    for (const v1::Device& device : devices_.unavailable) {
      if (device.id() != device.backend()) continue;
      v1::Kernel& none = *response.add_kernels();
      none.set_op("*");
      none.set_provider("*");
      none.set_backend(device.backend());
      none.set_unavailable_reason(device.unavailable_reason());
    }
    return absl::OkStatus();
  }

  void GetServerInfo(v1::ServerInfo& info) {
    {
      const std::lock_guard guard(mutex_);
      info = info_;
    }
    info.set_draining(jobs_.draining());
    *info.mutable_default_case_deadline() = google::protobuf::util::TimeUtil::NanosecondsToDuration(
        absl::ToInt64Nanoseconds(jobs_.options().case_deadline));
    info.set_max_cases_per_job(jobs_.options().max_cases);
  }

  void SetAddresses(const std::string& address, const std::string& metrics_address) {
    const std::lock_guard guard(mutex_);
    info_.set_address(address);
    info_.set_metrics_address(metrics_address);
  }

  JobManager& jobs() { return jobs_; }
  DeviceSet& devices() { return devices_; }
  TaskThread& writes() { return writes_; }
  TaskThread& pump() { return pump_; }
  TaskThread& long_work() { return long_work_; }

 private:
  template <class Stream>
  void DropStalledOf(const std::vector<std::weak_ptr<Stream>>& streams, absl::Time before) {
    for (const auto& weak : streams) {
      const std::shared_ptr<Stream> stream = weak.lock();
      if (stream == nullptr) continue;
      const std::optional<std::string> cut = stream->DropIfStalledSince(before);
      if (cut && limits_ != nullptr) limits_->CutConnection(*cut);
    }
  }

  // Ends the streams of watchers that take nothing, until `stop`.
  void DropStalled(const std::stop_token& stop) {
    std::unique_lock guard(mutex_);
    while (!stop.stop_requested()) {
      const absl::Duration stall = stall_;
      if (stall > absl::ZeroDuration()) {
        const absl::Time before = EvenTime() - stall;
        const std::vector<std::weak_ptr<WatchStream>> streams = streams_;
        const std::vector<std::weak_ptr<ExternalStream>> external_streams = external_streams_;
        guard.unlock();
        DropStalledOf(streams, before);
        DropStalledOf(external_streams, before);
        guard.lock();
      }
      const absl::Duration look =
          stall > absl::ZeroDuration() ? std::clamp(stall / 4, kLeastLook, kMostLook) : kMostLook;
      stall_changed_.wait_for(guard, stop, absl::ToChronoNanoseconds(look),
                              [&] { return stall != stall_; });
    }
  }

  void End(grpc::ServerUnaryReactor* reactor, const Call& call, const absl::Status& status) {
    const grpc::Status answer = ToGrpcStatus(status);
    Close(call, answer);
    reactor->Finish(answer);
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

  JobManager& jobs_;
  DeviceSet& devices_;
  Metrics* const metrics_;
  const std::function<v1::Telemetry(std::string_view)> telemetry_;
  Access* const access_;
  ClientLimits* const limits_;
  Store* const store_;
  UserKernels* const kernels_;

  std::mutex mutex_;
  v1::ServerInfo info_;                              // mutex_
  bool stopped_ = false;                             // mutex_
  std::vector<std::weak_ptr<WatchStream>> streams_;  // mutex_; some have ended
  absl::Duration stall_;                             // mutex_
  std::condition_variable_any stall_changed_;
  std::vector<std::weak_ptr<BackupStream>> backup_streams_;  // mutex_; some have ended

  std::vector<std::weak_ptr<ExternalStream>> external_streams_;  // mutex_; some have ended
  std::vector<std::weak_ptr<UploadStream>> upload_streams_;      // mutex_; some have ended

  TaskThread pump_;                             // reads the streams of WatchJob; writes_ uses it
  TaskThread compiles_{kMostCompilesWaiting};   // users' kernels that come as source
  TaskThread libraries_{kMostCompilesWaiting};  // users' kernels that come as libraries
  TaskThread backups_{1};                       // one copy of the store; another may wait
  TaskThread writes_{kMostCallsWaiting};        // plans and commits
  TaskThread long_work_{kMostCallsWaiting};     // calls that wait for a device or read many files
  Comparisons comparisons_;
  std::jthread stall_thread_;  // last: stopped and joined before what it uses ends
};

namespace {

// Moves the answer of the core into the response.
template <class Message>
absl::Status Fill(absl::StatusOr<Message> answer, Message& response) {
  if (answer.ok()) response = *std::move(answer);
  return answer.status();
}

}  // namespace

ValidationService::ValidationService(JobManager& jobs, DeviceSet& devices, Metrics* metrics,
                                     ServiceOptions options)
    : impl_(std::make_unique<Impl>(jobs, devices, metrics, std::move(options))) {}

ValidationService::~ValidationService() = default;

void ValidationService::SetAddresses(const std::string& address,
                                     const std::string& metrics_address) {
  impl_->SetAddresses(address, metrics_address);
}

void ValidationService::AskPump() {
  std::promise<void> answer;
  impl_->pump().Run([&] { answer.set_value(); });
  answer.get_future().wait();
}

void ValidationService::SetWatchStall(absl::Duration stall) { impl_->SetWatchStall(stall); }

void ValidationService::Stop() { impl_->Stop(); }

grpc::ServerUnaryReactor* ValidationService::CreateJob(grpc::CallbackServerContext* context,
                                                       const v1::CreateJobRequest* request,
                                                       v1::Job* response) {
  // Planning and storing ten thousand cases takes a while.
  return impl_->AnswerOn(impl_->writes(), {context, "CreateJob", request, response},
                         [this, request, response](const Call& call) {
                           return impl_->CreateJob(call, *request, *response);
                         });
}

grpc::ServerUnaryReactor* ValidationService::GetJob(grpc::CallbackServerContext* context,
                                                    const v1::GetJobRequest* request,
                                                    v1::Job* response) {
  return impl_->Answer({context, "GetJob", request, response}, [&] {
    if (absl::Status s = CheckJobName("name", request->name()); !s.ok()) return s;
    return Fill(impl_->jobs().Get(request->name()), *response);
  });
}

grpc::ServerUnaryReactor* ValidationService::ListJobs(grpc::CallbackServerContext* context,
                                                      const v1::ListJobsRequest* request,
                                                      v1::ListJobsResponse* response) {
  return impl_->Answer({context, "ListJobs", request, response},
                       [&] { return impl_->ListJobs(*request, *response); });
}

grpc::ServerUnaryReactor* ValidationService::CancelJob(grpc::CallbackServerContext* context,
                                                       const v1::CancelJobRequest* request,
                                                       v1::Job* response) {
  return impl_->Answer({context, "CancelJob", request, response}, [&] {
    if (absl::Status s = CheckJobName("name", request->name()); !s.ok()) return s;
    return Fill(impl_->jobs().Cancel(request->name()), *response);
  });
}

grpc::ServerUnaryReactor* ValidationService::DeleteJob(grpc::CallbackServerContext* context,
                                                       const v1::DeleteJobRequest* request,
                                                       google::protobuf::Empty*) {
  return impl_->AnswerOn(impl_->writes(), {context, "DeleteJob", request}, [this, request] {
    if (absl::Status s = CheckJobName("name", request->name()); !s.ok()) return s;
    return impl_->jobs().Delete(request->name());
  });
}

grpc::ServerWriteReactor<v1::JobEvent>* ValidationService::WatchJob(
    grpc::CallbackServerContext* context, const v1::WatchJobRequest* request) {
  return impl_->Watch({context, "WatchJob", request}, *request);
}

grpc::ServerUnaryReactor* ValidationService::ListCaseResults(
    grpc::CallbackServerContext* context, const v1::ListCaseResultsRequest* request,
    v1::ListCaseResultsResponse* response) {
  return impl_->Answer({context, "ListCaseResults", request, response},
                       [&] { return impl_->ListCaseResults(*request, *response); });
}

grpc::ServerReadReactor<v1::CompareTensorsRequest>* ValidationService::CompareTensors(
    grpc::CallbackServerContext* context, v1::CaseResult* response) {
  return impl_->Compare({context, "CompareTensors"}, response);
}

grpc::ServerBidiReactor<v1::ValidateExternalRequest, v1::ValidateExternalResponse>*
ValidationService::ValidateExternal(grpc::CallbackServerContext* context) {
  return impl_->External({context, "ValidateExternal"});
}

grpc::ServerUnaryReactor* ValidationService::ListDevices(grpc::CallbackServerContext* context,
                                                         const v1::ListDevicesRequest* request,
                                                         v1::ListDevicesResponse* response) {
  const auto list = [this, request, response] { return impl_->ListDevices(*request, *response); };
  Call call(context, "ListDevices");
  if (request->measure_ceilings()) call.needs = "ListDevices.measure_ceilings";
  // Measuring takes seconds. Without measuring, nothing waits.
  return request->measure_ceilings() ? impl_->AnswerOn(impl_->long_work(), call, list)
                                     : impl_->Answer(call, list);
}

grpc::ServerUnaryReactor* ValidationService::ReleaseDevice(grpc::CallbackServerContext* context,
                                                           const v1::ReleaseDeviceRequest* request,
                                                           v1::Device* response) {
  return impl_->AnswerOn(
      impl_->long_work(), {context, "ReleaseDevice", request, response},
      [this, request, response] { return impl_->ReleaseDevice(*request, *response); });
}

grpc::ServerUnaryReactor* ValidationService::ListKernels(grpc::CallbackServerContext* context,
                                                         const v1::ListKernelsRequest* request,
                                                         v1::ListKernelsResponse* response) {
  return impl_->Answer({context, "ListKernels", request, response},
                       [&] { return impl_->ListKernels(*request, *response); });
}

grpc::ServerUnaryReactor* ValidationService::ListSuites(grpc::CallbackServerContext* context,
                                                        const v1::ListSuitesRequest* request,
                                                        v1::ListSuitesResponse* response) {
  return impl_->AnswerOn(
      impl_->long_work(), {context, "ListSuites", request, response}, [this, request, response] {
        for (v1::Suite& suite :
             DescribeSuites(impl_->devices(), impl_->jobs().options(), request->full())) {
          *response->add_suites() = std::move(suite);
        }
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* ValidationService::GetServerInfo(grpc::CallbackServerContext* context,
                                                           const v1::GetServerInfoRequest*,
                                                           v1::ServerInfo* response) {
  return impl_->Answer({context, "GetServerInfo"}, [&] {
    impl_->GetServerInfo(*response);
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* ValidationService::CreateBaseline(
    grpc::CallbackServerContext* context, const v1::CreateBaselineRequest* request,
    v1::Baseline* response) {
  return impl_->AnswerOn(impl_->writes(), {context, "CreateBaseline", request, response},
                         [this, request, response] {
                           return Fill(impl_->jobs().baselines().Create(*request), *response);
                         });
}

grpc::ServerUnaryReactor* ValidationService::GetBaseline(grpc::CallbackServerContext* context,
                                                         const v1::GetBaselineRequest* request,
                                                         v1::Baseline* response) {
  return impl_->Answer({context, "GetBaseline", request, response}, [&] {
    return Fill(impl_->jobs().baselines().Get(request->name()), *response);
  });
}

grpc::ServerUnaryReactor* ValidationService::ListBaselines(grpc::CallbackServerContext* context,
                                                           const v1::ListBaselinesRequest* request,
                                                           v1::ListBaselinesResponse* response) {
  return impl_->Answer({context, "ListBaselines", request, response},
                       [&] { return impl_->ListBaselines(*request, *response); });
}

grpc::ServerUnaryReactor* ValidationService::DeleteBaseline(
    grpc::CallbackServerContext* context, const v1::DeleteBaselineRequest* request,
    google::protobuf::Empty*) {
  return impl_->AnswerOn(impl_->writes(), {context, "DeleteBaseline", request}, [this, request] {
    return impl_->jobs().baselines().Delete(request->name());
  });
}

grpc::ServerUnaryReactor* ValidationService::CompareBaselines(
    grpc::CallbackServerContext* context, const v1::CompareBaselinesRequest* request,
    v1::CompareBaselinesResponse* response) {
  // It may read ten thousand results and hold them against as many.
  return impl_->AnswerOn(impl_->long_work(), {context, "CompareBaselines", request, response},
                         [this, request, response] {
                           return Fill(impl_->jobs().baselines().Compare(*request), *response);
                         });
}

grpc::ServerWriteReactor<v1::BackupStoreResponse>* ValidationService::BackupStore(
    grpc::CallbackServerContext* context, const v1::BackupStoreRequest*) {
  return impl_->Backup({context, "BackupStore"});
}

grpc::ServerBidiReactor<v1::UploadKernelRequest, v1::UploadKernelResponse>*
ValidationService::UploadKernel(grpc::CallbackServerContext* context) {
  return impl_->Upload({context, "UploadKernel"});
}

}  // namespace assay::server
