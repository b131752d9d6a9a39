#include "server/rpc/validation_service.h"

#include <cstddef>
#include <mutex>
#include <string>
#include <utility>

#include "assay/v1/service.grpc.pb.h"
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
#include "server/worker/raw_message.h"

namespace assay::server {
// What the calls share. The streams own themselves until gRPC is done with them, which is after the
// functions here have returned.
struct ValidationService::Impl {
  Impl(JobManager& job_manager, DeviceSet& device_set, Metrics* metrics, ServiceOptions options)
      : jobs(job_manager),
        devices(device_set),
        store(options.store),
        kernels(options.kernels),
        audit(options.audit),
        desk(options.access, options.audit, options.limits, metrics, options.request_bytes,
             options.parsed_bytes),
        device_calls(jobs, devices, std::move(options.telemetry)),
        info(std::move(options.info)),
        suites(devices, jobs.options()),
        comparisons(jobs, devices, options.upload),
        streams(options.watch_stall,
                [this](const std::string& peer) { desk.CutConnection(peer); }) {}

  template <class Stream>
  Stream* Opened(const std::shared_ptr<Stream>& stream) {
    streams.Add(stream);
    return stream.get();
  }

  JobManager& jobs;
  DeviceSet& devices;
  Store* const store;
  UserKernels* const kernels;
  AuditTrail* const audit;
  CallDesk desk;
  DeviceCalls device_calls;

  std::mutex mutex;
  v1::ServerInfo info;  // mutex

  SuiteList suites;                           // the thread of `reads`
  TaskThread pump;                            // reads the streams of WatchJob; writes uses it
  TaskThread compiles{kMostKernelsWaiting};   // users' kernels that come as source
  TaskThread libraries{kMostKernelsWaiting};  // users' kernels that come as libraries
  TaskThread backups{kMostBackups - 1};       // one copy of the store; the others wait
  TaskThread writes{kMostCallsWaiting};       // plans and commits
  TaskThread measures{kMostCallsWaiting};     // measures ceilings, which takes minutes
  TaskThread releases{kMostCallsWaiting};     // gives devices' memory back
  TaskThread reads{kMostCallsWaiting};        // calls that read many files or results
  Comparisons comparisons;
  OpenStreams streams;  // last: its thread ends before what it uses
};

namespace {

// Moves the answer of the core into the response.
template <class Message>
absl::Status Fill(absl::StatusOr<Message> answer, Message& response) {
  if (!answer.ok()) return answer.status();
  response = *std::move(answer);
  return absl::OkStatus();
}

// The same for a response that goes as bytes.
template <class Message>
absl::Status Send(const absl::StatusOr<Message>& answer, grpc::ByteBuffer& response) {
  if (answer.ok()) response = RawMessage(*answer);
  return answer.status();
}

}  // namespace

ValidationService::ValidationService(JobManager& jobs, DeviceSet& devices, Metrics* metrics,
                                     ServiceOptions options)
    : RawService(v1::ValidationService::service_full_name()),
      impl_(std::make_unique<Impl>(jobs, devices, metrics, std::move(options))) {
  Handle("CreateJob", &ValidationService::CreateJob);
  Handle("GetJob", &ValidationService::GetJob);
  Handle("ListJobs", &ValidationService::ListJobs);
  Handle("CancelJob", &ValidationService::CancelJob);
  Handle("DeleteJob", &ValidationService::DeleteJob);
  Handle("WatchJob", &ValidationService::WatchJob);
  Handle("ListCaseResults", &ValidationService::ListCaseResults);
  Handle("CompareTensors", &ValidationService::CompareTensors);
  Handle("ValidateExternal", &ValidationService::ValidateExternal);
  Handle("ListDevices", &ValidationService::ListDevices);
  Handle("ReleaseDevice", &ValidationService::ReleaseDevice);
  Handle("ListKernels", &ValidationService::ListKernels);
  Handle("ListSuites", &ValidationService::ListSuites);
  Handle("GetServerInfo", &ValidationService::GetServerInfo);
  Handle("CreateBaseline", &ValidationService::CreateBaseline);
  Handle("GetBaseline", &ValidationService::GetBaseline);
  Handle("ListBaselines", &ValidationService::ListBaselines);
  Handle("DeleteBaseline", &ValidationService::DeleteBaseline);
  Handle("CompareBaselines", &ValidationService::CompareBaselines);
  Handle("BackupStore", &ValidationService::BackupStore);
  Handle("ListAuditEvents", &ValidationService::ListAuditEvents);
  Handle("UploadKernel", &ValidationService::UploadKernel);
}

ValidationService::~ValidationService() = default;

void ValidationService::SetAddresses(const std::string& address,
                                     const std::string& metrics_address) {
  const std::lock_guard guard(impl_->mutex);
  impl_->info.set_address(address);
  impl_->info.set_metrics_address(metrics_address);
}

void ValidationService::AskPump() {
  impl_->pump.RunAndWait([] {});
}

void ValidationService::SetWatchStall(absl::Duration stall) { impl_->streams.SetStall(stall); }

void ValidationService::EndMeasuring() { impl_->device_calls.EndMeasuring(); }

void ValidationService::Stop() { impl_->streams.Stop(); }

grpc::ServerUnaryReactor* ValidationService::CreateJob(Context* context, const Bytes* bytes,
                                                       Bytes* response) {
  // Planning and storing ten thousand cases takes a while.
  return impl_->desk.AnswerLargeOn<v1::CreateJobRequest>(
      impl_->writes, {context, "CreateJob"}, bytes,
      [this, response](Call& call, const v1::CreateJobRequest& asked) {
        const absl::StatusOr<v1::Job> created =
            impl_->desk.MakeAdmitted(CallDesk::ClientOf(call), [&](const AdmitJob& admit) {
              return impl_->jobs.Create(asked.spec(), asked.request_id(), admit);
            });
        if (created.ok()) call.target = created->name();
        return Send(created, *response);
      });
}

grpc::ServerUnaryReactor* ValidationService::GetJob(Context* context, const Bytes* bytes,
                                                    v1::Job* response) {
  return impl_->desk.Answer<v1::GetJobRequest>(
      {context, "GetJob"}, bytes, [&](const auto& request) {
        if (absl::Status s = CheckJobName("name", request.name()); !s.ok()) return s;
        return Fill(impl_->jobs.Get(request.name()), *response);
      });
}

grpc::ServerUnaryReactor* ValidationService::ListJobs(Context* context, const Bytes* bytes,
                                                      v1::ListJobsResponse* response) {
  return impl_->desk.Answer<v1::ListJobsRequest>(
      {context, "ListJobs"}, bytes,
      [&](const auto& request) { return server::ListJobs(impl_->jobs, request, *response); });
}

grpc::ServerUnaryReactor* ValidationService::CancelJob(Context* context, const Bytes* bytes,
                                                       v1::Job* response) {
  return impl_->desk.Answer<v1::CancelJobRequest>(
      {context, "CancelJob"}, bytes, [&](const auto& request) {
        if (absl::Status s = CheckJobName("name", request.name()); !s.ok()) return s;
        return Fill(impl_->jobs.Cancel(request.name(), "a user cancelled the job"), *response);
      });
}

grpc::ServerUnaryReactor* ValidationService::DeleteJob(Context* context, const Bytes* bytes,
                                                       google::protobuf::Empty*) {
  return impl_->desk.AnswerOn<v1::DeleteJobRequest>(
      impl_->writes, {context, "DeleteJob"}, bytes, [this](const auto& request) {
        if (absl::Status s = CheckJobName("name", request.name()); !s.ok()) return s;
        return impl_->jobs.Delete(request.name());
      });
}

grpc::ServerWriteReactor<v1::JobEvent>* ValidationService::WatchJob(Context* context,
                                                                    const Bytes* bytes) {
  using Reactor = grpc::ServerWriteReactor<v1::JobEvent>;
  Call call(context, "WatchJob");
  CallDesk& desk = impl_->desk;
  v1::WatchJobRequest request;
  const absl::Status opened = desk.Open(call, bytes, request);
  if (!opened.ok()) return desk.Refuse<Reactor>(call, opened);
  absl::StatusOr<Place> place = desk.AdmitWatcher(call);
  if (!place.ok()) return desk.Refuse<Reactor>(call, place.status());
  // gRPC has let go of the stream when it has ended, so the place is free before the call is
  // counted.
  auto ended = [&desk, call, place = *std::move(place)](const grpc::Status& status) mutable {
    place.reset();
    desk.Close(call, status);
  };
  return impl_->Opened(
      WatchStream::Start(impl_->jobs, impl_->pump, *context, request, std::move(ended)));
}

grpc::ServerUnaryReactor* ValidationService::ListCaseResults(
    Context* context, const Bytes* bytes, v1::ListCaseResultsResponse* response) {
  return impl_->desk.Answer<v1::ListCaseResultsRequest>(
      {context, "ListCaseResults"}, bytes, [&](const auto& request) {
        return server::ListCaseResults(impl_->jobs, request, *response);
      });
}

grpc::ServerReadReactor<grpc::ByteBuffer>* ValidationService::CompareTensors(Context* context,
                                                                             Bytes* response) {
  Call call(context, "CompareTensors");
  CallDesk& desk = impl_->desk;
  using Reactor = grpc::ServerReadReactor<Bytes>;
  if (absl::Status s = desk.Admit(call); !s.ok()) return desk.Refuse<Reactor>(call, s);
  absl::StatusOr<Place> place = desk.AdmitComparison(call);
  if (!place.ok()) return desk.Refuse<Reactor>(call, place.status());
  return impl_->Opened(impl_->comparisons.Start(
      response, [&desk, call, place = *std::move(place)](const grpc::Status& status) mutable {
        place.reset();
        desk.Close(call, status);
      }));
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* ValidationService::ValidateExternal(
    Context* context) {
  using Reactor = grpc::ServerBidiReactor<Bytes, Bytes>;
  Call call(context, "ValidateExternal");
  CallDesk& desk = impl_->desk;
  if (absl::Status s = desk.Admit(call); !s.ok()) return desk.Refuse<Reactor>(call, s);
  absl::StatusOr<Place> place = desk.AdmitWatcher(call);  // the caller watches its job
  if (!place.ok()) return desk.Refuse<Reactor>(call, place.status());
  return impl_->Opened(ExternalStream::Start(
      {.jobs = &impl_->jobs,
       .writes = &impl_->writes,
       .pump = &impl_->pump,
       .context = context,
       .keep = [&desk, call](Bytes& bytes) { return desk.Keep(call, bytes); },
       .parse = [&desk](std::string_view bytes,
                        v1::ValidateExternalRequest& first) { return desk.Parse(bytes, first); },
       .make =
           [&desk, &jobs = impl_->jobs, client = CallDesk::ClientOf(call)](
               const v1::ExternalJob& job, std::shared_ptr<CallerLink> caller) {
             return desk.MakeAdmitted(client, [&](const AdmitJob& admit) {
               return jobs.CreateElsewhere(job, std::move(caller), admit);
             });
           },
       .ended =
           [&desk, call, place = *std::move(place)](const grpc::Status& status) mutable {
             place.reset();
             desk.Close(call, status);
           }}));
}

grpc::ServerUnaryReactor* ValidationService::ListDevices(Context* context, const Bytes* bytes,
                                                         v1::ListDevicesResponse* response) {
  Call call(context, "ListDevices");
  CallDesk& desk = impl_->desk;
  v1::ListDevicesRequest request;
  absl::Status opened = desk.Open(call, bytes, request);
  if (opened.ok() && request.measure_ceilings()) {
    call.needs = "ListDevices.measure_ceilings";
    opened = desk.Admit(call);
  }
  const auto list = [this, request, response] {
    return impl_->device_calls.ListDevices(request, *response);
  };
  // Measuring takes seconds. Without measuring, nothing waits.
  return request.measure_ceilings() ? desk.AnswerOpenedOn(impl_->measures, call, opened, list)
                                    : desk.AnswerOpened(call, opened, list);
}

grpc::ServerUnaryReactor* ValidationService::ReleaseDevice(Context* context, const Bytes* bytes,
                                                           v1::Device* response) {
  return impl_->desk.AnswerOn<v1::ReleaseDeviceRequest>(
      impl_->releases, {context, "ReleaseDevice"}, bytes, [this, response](const auto& request) {
        return impl_->device_calls.ReleaseDevice(request, *response);
      });
}

grpc::ServerUnaryReactor* ValidationService::ListKernels(Context* context, const Bytes* bytes,
                                                         v1::ListKernelsResponse* response) {
  return impl_->desk.Answer<v1::ListKernelsRequest>(
      {context, "ListKernels"}, bytes,
      [&](const auto& request) { return impl_->device_calls.ListKernels(request, *response); });
}

grpc::ServerUnaryReactor* ValidationService::ListSuites(Context* context, const Bytes* bytes,
                                                        v1::ListSuitesResponse* response) {
  return impl_->desk.AnswerOn<v1::ListSuitesRequest>(
      impl_->reads, {context, "ListSuites"}, bytes, [this, response](const auto& request) {
        for (v1::Suite& suite : impl_->suites.Describe(request.full())) {
          *response->add_suites() = std::move(suite);
        }
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* ValidationService::GetServerInfo(Context* context, const Bytes* bytes,
                                                           v1::ServerInfo* response) {
  return impl_->desk.Answer<v1::GetServerInfoRequest>(
      {context, "GetServerInfo"}, bytes, [&](const auto&) {
        {
          const std::lock_guard guard(impl_->mutex);
          *response = impl_->info;
        }
        response->set_draining(impl_->jobs.draining());
        *response->mutable_default_case_deadline() =
            google::protobuf::util::TimeUtil::NanosecondsToDuration(
                absl::ToInt64Nanoseconds(impl_->jobs.options().case_deadline));
        response->set_max_cases_per_job(impl_->jobs.options().max_cases);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* ValidationService::CreateBaseline(Context* context, const Bytes* bytes,
                                                            Bytes* response) {
  return impl_->desk.AnswerLargeOn<v1::CreateBaselineRequest>(
      impl_->writes, {context, "CreateBaseline"}, bytes,
      [this, response](Call& call, const v1::CreateBaselineRequest& asked) {
        const absl::StatusOr<v1::Baseline> created = impl_->jobs.baselines().Create(asked);
        if (created.ok()) call.target = created->name();
        return Send(created, *response);
      });
}

grpc::ServerUnaryReactor* ValidationService::GetBaseline(Context* context, const Bytes* bytes,
                                                         v1::Baseline* response) {
  return impl_->desk.Answer<v1::GetBaselineRequest>(
      {context, "GetBaseline"}, bytes, [&](const auto& request) {
        return Fill(impl_->jobs.baselines().Get(request.name()), *response);
      });
}

grpc::ServerUnaryReactor* ValidationService::ListBaselines(Context* context, const Bytes* bytes,
                                                           v1::ListBaselinesResponse* response) {
  return impl_->desk.Answer<v1::ListBaselinesRequest>(
      {context, "ListBaselines"}, bytes,
      [&](const auto& request) { return server::ListBaselines(impl_->jobs, request, *response); });
}

grpc::ServerUnaryReactor* ValidationService::DeleteBaseline(Context* context, const Bytes* bytes,
                                                            google::protobuf::Empty*) {
  return impl_->desk.AnswerOn<v1::DeleteBaselineRequest>(
      impl_->writes, {context, "DeleteBaseline"}, bytes,
      [this](const auto& request) { return impl_->jobs.baselines().Delete(request.name()); });
}

grpc::ServerUnaryReactor* ValidationService::CompareBaselines(Context* context, const Bytes* bytes,
                                                              Bytes* response) {
  // It may read ten thousand results and hold them against as many.
  return impl_->desk.AnswerLargeOn<v1::CompareBaselinesRequest>(
      impl_->reads, {context, "CompareBaselines"}, bytes,
      [this, response](Call&, const v1::CompareBaselinesRequest& asked) {
        return Send(impl_->jobs.baselines().Compare(asked), *response);
      });
}

grpc::ServerUnaryReactor* ValidationService::ListAuditEvents(
    Context* context, const Bytes* bytes, v1::ListAuditEventsResponse* response) {
  return impl_->desk.AnswerOn<v1::ListAuditEventsRequest>(
      impl_->reads, {context, "ListAuditEvents"}, bytes,
      [this, response](const auto& request) -> absl::Status {
        if (impl_->audit == nullptr)
          return absl::UnimplementedError("no audited call is kept here");
        const absl::StatusOr<int> size = ParsePageSize(request.page_size());
        if (!size.ok()) return size.status();
        for (v1::AuditEvent& event : impl_->audit->Newest(static_cast<std::size_t>(*size))) {
          *response->add_events() = std::move(event);
        }
        return absl::OkStatus();
      });
}

grpc::ServerWriteReactor<v1::BackupStoreResponse>* ValidationService::BackupStore(
    Context* context, const Bytes* bytes) {
  Call call(context, "BackupStore");
  CallDesk& desk = impl_->desk;
  v1::BackupStoreRequest request;
  absl::Status refused = desk.Open(call, bytes, request);
  if (refused.ok() && impl_->store == nullptr) {
    refused = absl::UnimplementedError("this daemon cannot copy its store");
  }
  if (!refused.ok()) {
    return desk.Refuse<grpc::ServerWriteReactor<v1::BackupStoreResponse>>(call, refused);
  }
  return impl_->Opened(BackupStream::Start(
      {.store = impl_->store,
       .thread = &impl_->backups,
       .context = context,
       .cut = [&desk, peer = context->peer()] { desk.CutConnection(peer); },
       .ended = [&desk, call](const grpc::Status& status) { desk.Close(call, status); }}));
}

grpc::ServerBidiReactor<grpc::ByteBuffer, v1::UploadKernelResponse>*
ValidationService::UploadKernel(Context* context) {
  using Reactor = grpc::ServerBidiReactor<Bytes, v1::UploadKernelResponse>;
  Call call(context, "UploadKernel");
  CallDesk& desk = impl_->desk;
  absl::Status refused = desk.Admit(call);
  if (refused.ok() && impl_->kernels == nullptr) {
    refused = absl::UnimplementedError("this daemon takes no users' kernels");
  }
  if (!refused.ok()) return desk.Refuse<Reactor>(call, refused);
  absl::StatusOr<Place> place = desk.AdmitUpload(call);
  if (!place.ok()) return desk.Refuse<Reactor>(call, place.status());
  return impl_->Opened(UploadStream::Start(
      {.kernels = impl_->kernels,
       .compiles = &impl_->compiles,
       .libraries = &impl_->libraries,
       .context = context,
       .ended = [&desk, call, place = *std::move(place)](const grpc::Status& status,
                                                         const std::string& provider) mutable {
         place.reset();
         call.target = provider;
         desk.Close(call, status);
       }}));
}

}  // namespace assay::server
