#include "server/worker/worker_service.h"

#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/server_posix.h>
#include <malloc.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "assay/worker/v1/worker.grpc.pb.h"
#include "kernels/bench/data_sheet.h"
#include "kernels/providers/user/runner_reference.h"
#include "kernels/text/cat.h"
#include "kernels/validate/runner.h"
#include "server/base/even_time.h"
#include "server/base/finding.h"
#include "server/base/wire.h"
#include "server/worker/cases_ahead.h"
#include "server/worker/compare_call.h"
#include "server/worker/elsewhere_call.h"
#include "server/worker/planted_info.h"

namespace assay::server {
namespace {

static_assert(kMostAhead + 1 == kMostTogether);

// Turns ceilings into messages and adds what the data sheet says.
void AddCeilings(const std::vector<Ceiling>& ceilings, const Device& device,
                 google::protobuf::RepeatedPtrField<v1::Ceiling>* to) {
  const DataSheet* const sheet = FindDataSheet(device.info().model, device.info().compute_units);
  for (const Ceiling& measured : ceilings) {
    v1::Ceiling* out = to->Add();
    out->set_kind(static_cast<v1::CeilingKind>(measured.kind));
    if (IsMemory(measured.kind)) {
      out->set_bytes_per_second(measured.per_second);
    } else {
      out->set_dtype(static_cast<v1::DType>(measured.dtype));
      out->set_flops_per_second(measured.per_second);
    }
    if (measured.noise) out->set_noise(*measured.noise);
    out->set_suspect(measured.suspect);
    if (sheet == nullptr) continue;
    if (const auto peak = sheet->PerSecond(measured.kind, measured.dtype)) {
      out->set_data_sheet_per_second(*peak);
      out->set_data_sheet_source(std::string(sheet->source));
    }
  }
}

// The work for the device's thread, in the order in which it came.
class WorkQueue {
 public:
  void Push(std::function<void()> job) {
    const std::lock_guard lock(mutex_);
    jobs_.push(std::move(job));
    changed_.notify_one();
  }

  std::function<void()> Pop() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !jobs_.empty(); });
    std::function<void()> job = std::move(jobs_.front());
    jobs_.pop();
    return job;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::queue<std::function<void()>> jobs_;
};

class PageObserver final : public PhaseObserver {
 public:
  PageObserver(PhasePage* page, MemoryLimit* limit, PhaseObserver* watcher = nullptr)
      : page_(page), limit_(limit), watcher_(watcher) {}
  ~PageObserver() override { limit_->LeaveKernel(); }
  void Enter(Phase phase) override {
    if (page_ != nullptr) page_->Enter(phase);
    if (phase == Phase::kPrepare || phase == Phase::kKernel || phase == Phase::kBench) {
      limit_->EnterKernel();
    } else {
      limit_->LeaveKernel();
    }
    if (watcher_ != nullptr) watcher_->Enter(phase);
  }
  void Turn(int place) override {
    if (page_ != nullptr) page_->Turn(place);
  }
  void Suspect(int place) override {
    if (page_ != nullptr) page_->suspects.fetch_or(1U << place, std::memory_order_relaxed);
  }

 private:
  PhasePage* page_;
  MemoryLimit* limit_;
  PhaseObserver* watcher_;
};

class Service final : public worker::v1::WorkerService::CallbackService {
 public:
  Service(WorkQueue& queue, Device& device, const Registry& registry, KnownCeilings* ceilings,
          PhasePage* page, MemoryLimit* limit, ConditionsReader* conditions)
      : queue_(queue),
        device_(device),
        registry_(registry),
        ceilings_(ceilings),
        page_(page),
        limit_(limit),
        conditions_(conditions) {}

  grpc::ServerUnaryReactor* Describe(grpc::CallbackServerContext* context,
                                     const worker::v1::DescribeRequest* request,
                                     worker::v1::DescribeResponse* response) override {
    return OnDeviceThread(context, [this, request, response] {
      if (ceilings_ != nullptr) ceilings_->Restore(request->kept_ceilings());
      *response = DescribeDevice(device_, registry_);
    });
  }

  grpc::ServerUnaryReactor* RunCase(grpc::CallbackServerContext* context,
                                    const worker::v1::RunCaseRequest* request,
                                    worker::v1::RunCaseResponse* response) override {
    return OnDeviceThread(context, [this, request, response] {
      if (page_ != nullptr) {
        page_->cases.fetch_add(1);
        page_->turn.store(0, std::memory_order_relaxed);
        page_->suspects.store(0, std::memory_order_relaxed);
      }
      // A user's kernel runs alone.
      if (request->following().empty() || !request->kernel_file().empty()) {
        *response->mutable_result() = RunCaseSpec(
            request->spec(), device_, registry_, ceilings_, page_, limit_, conditions_, &draws_,
            /*watcher=*/nullptr, request->kernel_file(), request->reference_file());
      } else if (device_.shares_launches()) {
        RunLeadingCases(*request, *response);
      } else {
        RunInTurn(
            *request, page_,
            [this](const v1::CaseSpec& spec) {
              return RunCaseSpec(spec, device_, registry_, ceilings_, page_, limit_, conditions_,
                                 &draws_);
            },
            *response);
      }
      if (ceilings_ != nullptr && response->result().has_bench()) {
        AddCeilings(ceilings_->Known(), device_, response->mutable_ceilings());
      }
      if (ceilings_ != nullptr) response->set_kept_ceilings(ceilings_->TakeText());
      response->set_leased_bytes(device_.arena().leased_bytes());
      // A kernel may have enqueued a fault before it returned its error.
      const int led = response->following_size();
      const v1::CaseResult& last =
          led == 0 ? response->result() : response->following(led - 1).result();
      if (last.verdict() == v1::VERDICT_ERROR) device_.Synchronize().IgnoreError();
      response->set_device_lost(std::string(device_.health().message()));
      if (page_ != nullptr) {
        page_->turn.store(0, std::memory_order_relaxed);
        page_->Enter(Phase::kIdle);
      }
    });
  }

  grpc::ServerBidiReactor<worker::v1::RunElsewhereRequest, worker::v1::RunElsewhereResponse>*
  RunElsewhere(grpc::CallbackServerContext* context) override {
    context->AddTrailingMetadata(kAnsweredKey, "1");
    auto* call = new ElsewhereCall(device_);
    queue_.Push([this, call] {
      if (page_ != nullptr) page_->cases.fetch_add(1);
      PageObserver observer(page_, limit_);
      call->Run(observer, [this](worker::v1::RunCaseResponse& response) {
        response.set_leased_bytes(device_.arena().leased_bytes());
        response.set_device_lost(std::string(device_.health().message()));
      });
    });
    return call;
  }

  grpc::ServerReadReactor<v1::CompareTensorsRequest>* CompareTensors(
      grpc::CallbackServerContext* context, worker::v1::RunCaseResponse* response) override {
    context->AddTrailingMetadata(kAnsweredKey, "1");
    auto* call = new CompareCall(device_, response);
    queue_.Push([this, call] {
      PageObserver observer(page_, limit_);
      call->Run(observer);
    });
    return call;
  }

  grpc::ServerUnaryReactor* ReleaseArena(grpc::CallbackServerContext* context,
                                         const worker::v1::ReleaseArenaRequest*,
                                         worker::v1::ReleaseArenaResponse* response) override {
    return OnDeviceThread(context, [this, response] {
      device_.arena().Reset();
      draws_.Clear();
      response->set_released_bytes(device_.arena().Release());
      malloc_trim(0);
    });
  }

  grpc::ServerUnaryReactor* MeasureCeilings(
      grpc::CallbackServerContext* context, const worker::v1::MeasureCeilingsRequest*,
      worker::v1::MeasureCeilingsResponse* response) override {
    return OnDeviceThread(context, [this, response] {
      if (ceilings_ == nullptr) return;
      server::MeasureCeilings(device_, *ceilings_, response);
      response->set_kept_ceilings(ceilings_->TakeText());
    });
  }

 private:
  // The case, and the cases that may run with it.
  void RunLeadingCases(const worker::v1::RunCaseRequest& request,
                       worker::v1::RunCaseResponse& response) {
    std::vector<FieldError> errors;
    std::vector<Case> cases{FromProto(request.spec(), errors)};
    for (const v1::CaseSpec& spec : request.following()) cases.push_back(FromProto(spec, errors));
    if (!errors.empty()) {  // it is reported when the case runs alone
      *response.mutable_result() = RunCaseSpec(request.spec(), device_, registry_, ceilings_, page_,
                                               limit_, conditions_, &draws_);
      return;
    }
    PageObserver observer(page_, limit_);
    CaseRunner runner(device_, registry_, ceilings_, conditions_, &draws_);
    const std::vector<LedOutcome> led = runner.RunLeading(cases, observer);
    const auto result = [&](std::size_t i) {
      return ToResult(cases[i], *led[i].outcome, device_.info().id);
    };
    if (led[0].outcome) *response.mutable_result() = result(0);
    response.set_suspicion(led[0].suspicion);
    for (std::size_t i = 1; i < led.size(); ++i) {
      worker::v1::FollowingResult* following = response.add_following();
      following->set_place(static_cast<int>(i));
      if (led[i].outcome) *following->mutable_result() = result(i);
      following->set_suspicion(led[i].suspicion);
    }
  }

  grpc::ServerUnaryReactor* OnDeviceThread(grpc::CallbackServerContext* context,
                                           std::function<void()> job) {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    context->AddTrailingMetadata(kAnsweredKey, "1");
    queue_.Push([reactor, job = std::move(job)] {
      // Exceptions of third parties' code end here, whatever module they passed through.
      try {
        job();
        reactor->Finish(grpc::Status::OK);
      } catch (const std::exception& e) {
        reactor->Finish({grpc::StatusCode::INTERNAL, Cat("exception: ", e.what())});
      } catch (...) {
        reactor->Finish({grpc::StatusCode::INTERNAL, "exception of an unknown type"});
      }
    });
    return reactor;
  }

  WorkQueue& queue_;
  Device& device_;
  const Registry& registry_;
  KnownCeilings* ceilings_;
  PhasePage* page_;
  MemoryLimit* limit_;
  ConditionsReader* conditions_;
  KeptDraws draws_;
};

}  // namespace

void MeasureCeilings(Device& device, Ceilings& ceilings,
                     worker::v1::MeasureCeilingsResponse* response) {
  const bool held = device.arena().leased_bytes() > 0;
  ceilings.MeasureDoubtful();
  AddCeilings(ceilings.All(), device, response->mutable_ceilings());
  device.arena().Reset();
  if (!held) device.arena().Release();
}

worker::v1::DescribeResponse DescribeDevice(Device& device, const Registry& registry) {
  const DeviceInfo& info = device.info();
  worker::v1::DescribeResponse response;
  response.set_pid(getpid());
  response.set_shares_launches(device.shares_launches());
  v1::Device* out = response.mutable_device();
  out->set_name(Cat("devices/", info.id));
  out->set_id(info.id);
  out->set_backend(info.backend);
  out->set_model(info.model);
  out->set_memory_bytes(info.memory_bytes);
  out->set_arena_bytes(device.arena().capacity_bytes());
  out->set_leased_bytes(device.arena().leased_bytes());
  out->set_compute_units(info.compute_units);
  out->mutable_properties()->insert(info.properties.begin(), info.properties.end());
  for (v1::Kernel& kernel : ListKernels(registry)) {
    if (kernel.backend() != info.backend) continue;
    DescribePlanted(kernel);
    *response.add_kernels() = std::move(kernel);
  }
  return response;
}

v1::CaseResult RunCaseSpec(const v1::CaseSpec& spec, Device& device, const Registry& registry,
                           Ceilings* ceilings, PhasePage* page, MemoryLimit* limit,
                           ConditionsReader* conditions, KeptDraws* draws, PhaseObserver* watcher,
                           const std::string& kernel_file, const std::string& reference_file) {
  std::vector<FieldError> errors;
  Case c = FromProto(spec, errors);
  c.kernel_file = kernel_file;
  std::optional<RunnerReference> reference;
  if (!reference_file.empty()) c.own_reference = &reference.emplace(reference_file, device);
  c.deadline_from =
      std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  if (!errors.empty()) {
    v1::Finding finding = MakeFinding(
        v1::REASON_FAULT, Cat("not a valid case: ", errors[0].field, " ", errors[0].message));
    finding.set_blame(v1::BLAME_CALLER);
    return ResultWithoutRun(spec, device.info().id, v1::VERDICT_ERROR, finding);
  }
  PageObserver observer(page, limit, watcher);
  CaseRunner runner(device, registry, ceilings, conditions, draws);
  return ToResult(c, runner.Run(c, observer), device.info().id);
}

void RunInTurn(const worker::v1::RunCaseRequest& request, PhasePage* page,
               absl::FunctionRef<v1::CaseResult(const v1::CaseSpec&)> run,
               worker::v1::RunCaseResponse& response) {
  const absl::Time begin = EvenTime();
  const auto goes_on = [&](const v1::CaseSpec& spec, v1::CaseResult& result) {
    const absl::Time start = EvenTime();
    result = run(spec);
    StampUntilNow(start, result);
    const bool harmless =
        result.verdict() == v1::VERDICT_PASSED || result.verdict() == v1::VERDICT_UNSUPPORTED;
    return harmless && EvenTime() - begin < kInTurnFor;
  };
  bool next = goes_on(request.spec(), *response.mutable_result());
  for (int i = 0; i < request.following_size() && next; ++i) {
    if (page != nullptr) {
      page->cases.fetch_add(1);
      page->Turn(i + 1);
    }
    worker::v1::FollowingResult& following = *response.add_following();
    following.set_place(i + 1);
    next = goes_on(request.following(i), *following.mutable_result());
  }
}

void ServeWorker(int fd, Device& device, const Registry& registry, KnownCeilings* ceilings,
                 PhasePage* page, MemoryLimit* limit, ConditionsReader* conditions) {
  WorkQueue queue;
  Service service(queue, device, registry, ceilings, page, limit, conditions);
  grpc::ServerBuilder builder;
  builder.RegisterService(&service);
  builder.SetMaxReceiveMessageSize(-1);
  builder.SetMaxSendMessageSize(-1);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  grpc::AddInsecureChannelFromFd(server.get(), fd);
  for (;;) queue.Pop()();
}

}  // namespace assay::server
