#include "server/rpc/validation_service.h"

#include <cstddef>
#include <mutex>
#include <string>
#include <utility>

#include "google/protobuf/util/time_util.h"
#include "server/base/task_thread.h"
#include "server/plan/suite_list.h"
#include "server/rpc/backup_stream.h"
#include "server/rpc/call_desk.h"
#include "server/rpc/compare_stream.h"
#include "server/rpc/device_calls.h"
#include "server/rpc/external_stream.h"
#include "server/rpc/open_streams.h"
#include "server/rpc/pages.h"
#include "server/rpc/request_parsing.h"
#include "server/rpc/upload_stream.h"
#include "server/rpc/watch_stream.h"

namespace assay::server {
namespace {

// The most kernels that wait for the compiler, and the most libraries that wait to be checked.
constexpr std::size_t kMostCompilesWaiting = 16;

}  // namespace

// What the calls share. The streams own themselves until gRPC is done with them, which is after the
// functions here have returned.
class ValidationService::Impl {
 public:
  Impl(JobManager& jobs, DeviceSet& devices, Metrics* metrics, ServiceOptions options)
      : jobs_(jobs),
        devices_(devices),
        store_(options.store),
        kernels_(options.kernels),
        desk_(options.access, options.limits, metrics),
        device_calls_(jobs, devices, std::move(options.telemetry)),
        info_(std::move(options.info)),
        comparisons_(jobs, devices, options.upload),
        streams_(options.watch_stall,
                 [this](const std::string& peer) { desk_.CutConnection(peer); }) {}

  grpc::ServerReadReactor<v1::CompareTensorsRequest>* Compare(Call call, v1::CaseResult* response) {
    if (absl::Status s = desk_.Admit(call); !s.ok()) {
      return desk_.Refuse<grpc::ServerReadReactor<v1::CompareTensorsRequest>>(call, s);
    }
    return Opened(comparisons_.Start(
        response, [this, call](const grpc::Status& status) { desk_.Close(call, status); }));
  }

  grpc::ServerBidiReactor<v1::ValidateExternalRequest, v1::ValidateExternalResponse>* External(
      Call call) {
    using Reactor =
        grpc::ServerBidiReactor<v1::ValidateExternalRequest, v1::ValidateExternalResponse>;
    if (absl::Status s = desk_.Admit(call); !s.ok()) return desk_.Refuse<Reactor>(call, s);
    absl::StatusOr<Place> place = desk_.AdmitWatcher(call);  // the caller watches its job
    if (!place.ok()) return desk_.Refuse<Reactor>(call, place.status());
    return Opened(ExternalStream::Start(
        {.jobs = &jobs_,
         .writes = &writes_,
         .pump = &pump_,
         .context = call.context,
         .make =
             [this, client = CallDesk::ClientOf(call)](const v1::ExternalJob& job,
                                                       std::shared_ptr<CallerLink> caller) {
               return desk_.MakeAdmitted(client, [&](const AdmitJob& admit) {
                 return jobs_.CreateElsewhere(job, std::move(caller), admit);
               });
             },
         .ended =
             [this, call, place = *std::move(place)](const grpc::Status& status) mutable {
               place.reset();
               desk_.Close(call, status);
             }}));
  }

  grpc::ServerWriteReactor<v1::JobEvent>* Watch(Call call, const v1::WatchJobRequest& request) {
    using Reactor = grpc::ServerWriteReactor<v1::JobEvent>;
    if (absl::Status s = desk_.Admit(call); !s.ok()) return desk_.Refuse<Reactor>(call, s);
    absl::StatusOr<Place> place = desk_.AdmitWatcher(call);
    if (!place.ok()) return desk_.Refuse<Reactor>(call, place.status());
    // gRPC has let go of the stream when it has ended, so the place is free before the call is
    // counted.
    auto ended = [this, call, place = *std::move(place)](const grpc::Status& status) mutable {
      place.reset();
      desk_.Close(call, status);
    };
    return Opened(WatchStream::Start(jobs_, pump_, *call.context, request, std::move(ended)));
  }

  grpc::ServerWriteReactor<v1::BackupStoreResponse>* Backup(Call call) {
    absl::Status refused = desk_.Admit(call);
    if (refused.ok() && store_ == nullptr) {
      refused = absl::UnimplementedError("this daemon cannot copy its store");
    }
    if (!refused.ok()) {
      return desk_.Refuse<grpc::ServerWriteReactor<v1::BackupStoreResponse>>(call, refused);
    }
    return Opened(BackupStream::Start(
        {.store = store_,
         .thread = &backups_,
         .context = call.context,
         .cut = [this, peer = call.context->peer()] { desk_.CutConnection(peer); },
         .ended = [this, call](const grpc::Status& status) { desk_.Close(call, status); }}));
  }

  using UploadReactor = grpc::ServerBidiReactor<v1::UploadKernelRequest, v1::UploadKernelResponse>;

  UploadReactor* Upload(Call call) {
    absl::Status refused = desk_.Admit(call);
    if (refused.ok() && kernels_ == nullptr) {
      refused = absl::UnimplementedError("this daemon takes no users' kernels");
    }
    if (!refused.ok()) return desk_.Refuse<UploadReactor>(call, refused);
    absl::StatusOr<Place> place = desk_.AdmitUpload(call);
    if (!place.ok()) return desk_.Refuse<UploadReactor>(call, place.status());
    return Opened(UploadStream::Start(
        {.kernels = kernels_,
         .compiles = &compiles_,
         .libraries = &libraries_,
         .context = call.context,
         .ended = [this, call, place = *std::move(place)](const grpc::Status& status,
                                                          const std::string& provider) mutable {
           place.reset();
           call.target = provider;
           desk_.Close(call, status);
         }}));
  }

  absl::Status CreateJob(const Call& call, const v1::CreateJobRequest& request, v1::Job& job) {
    absl::StatusOr<v1::Job> created =
        desk_.MakeAdmitted(CallDesk::ClientOf(call), [&](const AdmitJob& admit) {
          return jobs_.Create(request.spec(), request.request_id(), admit);
        });
    if (created.ok()) job = *std::move(created);
    return created.status();
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
  CallDesk& desk() { return desk_; }
  DeviceCalls& device_calls() { return device_calls_; }
  OpenStreams& streams() { return streams_; }
  TaskThread& writes() { return writes_; }
  TaskThread& pump() { return pump_; }
  TaskThread& long_work() { return long_work_; }

 private:
  template <class Stream>
  Stream* Opened(const std::shared_ptr<Stream>& stream) {
    streams_.Add(stream);
    return stream.get();
  }

  JobManager& jobs_;
  DeviceSet& devices_;
  Store* const store_;
  UserKernels* const kernels_;
  CallDesk desk_;
  DeviceCalls device_calls_;

  std::mutex mutex_;
  v1::ServerInfo info_;  // mutex_

  TaskThread pump_;                             // reads the streams of WatchJob; writes_ uses it
  TaskThread compiles_{kMostCompilesWaiting};   // users' kernels that come as source
  TaskThread libraries_{kMostCompilesWaiting};  // users' kernels that come as libraries
  TaskThread backups_{1};                       // one copy of the store; another may wait
  TaskThread writes_{kMostCallsWaiting};        // plans and commits
  TaskThread long_work_{kMostCallsWaiting};     // calls that wait for a device or read many files
  Comparisons comparisons_;
  OpenStreams streams_;  // last: its thread ends before what it uses
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
  impl_->pump().RunAndWait([] {});
}

void ValidationService::SetWatchStall(absl::Duration stall) { impl_->streams().SetStall(stall); }

void ValidationService::Stop() { impl_->streams().Stop(); }

grpc::ServerUnaryReactor* ValidationService::CreateJob(grpc::CallbackServerContext* context,
                                                       const v1::CreateJobRequest* request,
                                                       v1::Job* response) {
  // Planning and storing ten thousand cases takes a while.
  return impl_->desk().AnswerOn(impl_->writes(), {context, "CreateJob", request, response},
                                [this, request, response](const Call& call) {
                                  return impl_->CreateJob(call, *request, *response);
                                });
}

grpc::ServerUnaryReactor* ValidationService::GetJob(grpc::CallbackServerContext* context,
                                                    const v1::GetJobRequest* request,
                                                    v1::Job* response) {
  return impl_->desk().Answer({context, "GetJob", request, response}, [&] {
    if (absl::Status s = CheckJobName("name", request->name()); !s.ok()) return s;
    return Fill(impl_->jobs().Get(request->name()), *response);
  });
}

grpc::ServerUnaryReactor* ValidationService::ListJobs(grpc::CallbackServerContext* context,
                                                      const v1::ListJobsRequest* request,
                                                      v1::ListJobsResponse* response) {
  return impl_->desk().Answer({context, "ListJobs", request, response},
                              [&] { return server::ListJobs(impl_->jobs(), *request, *response); });
}

grpc::ServerUnaryReactor* ValidationService::CancelJob(grpc::CallbackServerContext* context,
                                                       const v1::CancelJobRequest* request,
                                                       v1::Job* response) {
  return impl_->desk().Answer({context, "CancelJob", request, response}, [&] {
    if (absl::Status s = CheckJobName("name", request->name()); !s.ok()) return s;
    return Fill(impl_->jobs().Cancel(request->name()), *response);
  });
}

grpc::ServerUnaryReactor* ValidationService::DeleteJob(grpc::CallbackServerContext* context,
                                                       const v1::DeleteJobRequest* request,
                                                       google::protobuf::Empty*) {
  return impl_->desk().AnswerOn(impl_->writes(), {context, "DeleteJob", request}, [this, request] {
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
  return impl_->desk().Answer({context, "ListCaseResults", request, response}, [&] {
    return server::ListCaseResults(impl_->jobs(), *request, *response);
  });
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
  const auto list = [this, request, response] {
    return impl_->device_calls().ListDevices(*request, *response);
  };
  Call call(context, "ListDevices");
  if (request->measure_ceilings()) call.needs = "ListDevices.measure_ceilings";
  // Measuring takes seconds. Without measuring, nothing waits.
  return request->measure_ceilings() ? impl_->desk().AnswerOn(impl_->long_work(), call, list)
                                     : impl_->desk().Answer(call, list);
}

grpc::ServerUnaryReactor* ValidationService::ReleaseDevice(grpc::CallbackServerContext* context,
                                                           const v1::ReleaseDeviceRequest* request,
                                                           v1::Device* response) {
  return impl_->desk().AnswerOn(impl_->long_work(), {context, "ReleaseDevice", request, response},
                                [this, request, response] {
                                  return impl_->device_calls().ReleaseDevice(*request, *response);
                                });
}

grpc::ServerUnaryReactor* ValidationService::ListKernels(grpc::CallbackServerContext* context,
                                                         const v1::ListKernelsRequest* request,
                                                         v1::ListKernelsResponse* response) {
  return impl_->desk().Answer({context, "ListKernels", request, response}, [&] {
    return impl_->device_calls().ListKernels(*request, *response);
  });
}

grpc::ServerUnaryReactor* ValidationService::ListSuites(grpc::CallbackServerContext* context,
                                                        const v1::ListSuitesRequest* request,
                                                        v1::ListSuitesResponse* response) {
  return impl_->desk().AnswerOn(
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
  return impl_->desk().Answer({context, "GetServerInfo"}, [&] {
    impl_->GetServerInfo(*response);
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* ValidationService::CreateBaseline(
    grpc::CallbackServerContext* context, const v1::CreateBaselineRequest* request,
    v1::Baseline* response) {
  return impl_->desk().AnswerOn(
      impl_->writes(), {context, "CreateBaseline", request, response}, [this, request, response] {
        return Fill(impl_->jobs().baselines().Create(*request), *response);
      });
}

grpc::ServerUnaryReactor* ValidationService::GetBaseline(grpc::CallbackServerContext* context,
                                                         const v1::GetBaselineRequest* request,
                                                         v1::Baseline* response) {
  return impl_->desk().Answer({context, "GetBaseline", request, response}, [&] {
    return Fill(impl_->jobs().baselines().Get(request->name()), *response);
  });
}

grpc::ServerUnaryReactor* ValidationService::ListBaselines(grpc::CallbackServerContext* context,
                                                           const v1::ListBaselinesRequest* request,
                                                           v1::ListBaselinesResponse* response) {
  return impl_->desk().Answer({context, "ListBaselines", request, response}, [&] {
    return server::ListBaselines(impl_->jobs(), *request, *response);
  });
}

grpc::ServerUnaryReactor* ValidationService::DeleteBaseline(
    grpc::CallbackServerContext* context, const v1::DeleteBaselineRequest* request,
    google::protobuf::Empty*) {
  return impl_->desk().AnswerOn(
      impl_->writes(), {context, "DeleteBaseline", request},
      [this, request] { return impl_->jobs().baselines().Delete(request->name()); });
}

grpc::ServerUnaryReactor* ValidationService::CompareBaselines(
    grpc::CallbackServerContext* context, const v1::CompareBaselinesRequest* request,
    v1::CompareBaselinesResponse* response) {
  // It may read ten thousand results and hold them against as many.
  return impl_->desk().AnswerOn(
      impl_->long_work(), {context, "CompareBaselines", request, response},
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
