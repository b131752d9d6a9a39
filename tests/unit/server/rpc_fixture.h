// The service over a real server and channel, and what its answers hold.
#ifndef ASSAY_TESTS_UNIT_SERVER_RPC_FIXTURE_H_
#define ASSAY_TESTS_UNIT_SERVER_RPC_FIXTURE_H_

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "assay/v1/service.grpc.pb.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "kernels/text/cat.h"
#include "server/base/request_errors.h"
#include "server/rpc/error_mapping.h"
#include "server/rpc/request_parsing.h"
#include "server/rpc/validation_service.h"
#include "tests/unit/server/counting_metrics.h"
#include "tests/unit/server/eventually.h"
#include "tests/unit/server/fake_executor.h"

namespace assay::server {

inline constexpr std::int64_t kRequestBytes = 3'500'000;  // of the largest request

inline google::rpc::ErrorInfo InfoOf(const grpc::Status& status) {
  google::rpc::Status details;
  google::rpc::ErrorInfo info;
  EXPECT_TRUE(details.ParseFromString(status.error_details()));
  for (const auto& any : details.details()) {
    if (any.UnpackTo(&info)) return info;
  }
  ADD_FAILURE() << "no ErrorInfo: " << details.ShortDebugString();
  return info;
}

// The service over a real server and channel, in this process.
class ServiceTest : public testing::Test {
 protected:
  ServiceTest() {
    char path[] = "/tmp/assay-rpc-XXXXXX";
    folder_ = mkdtemp(path);
    std::ofstream(folder_ + "/small.toml")
        << "name = \"small\"\ntitle = \"One\"\nversion = \"3\"\n"
           "[[case]]\nop = \"copy\"\ncount = 8\ndtype = \"fp32\"\n";
    std::ofstream(folder_ + "/broken.toml") << "name = \n";
    auto executor = std::make_unique<FakeExecutor>("cpu:0");
    cpu_ = executor.get();
    cpu_->AddKernel("copy", "builtin");
    cpu_->AddKernel("copy", "other");
    cpu_->AddKernel("copy", "planted/wrong");
    devices_.executors.push_back(std::move(executor));
    v1::Device& cuda = devices_.unavailable.emplace_back();
    cuda.set_id("cuda");
    cuda.set_backend("cuda");
    cuda.set_unavailable_reason("no driver");
    store_ = *Store::Open({.folder = folder_ + "/state"});
    JobOptions options;
    options.suites_folder = folder_;
    jobs_ = JobManager::Make(*store_, devices_, &metrics_, options);
    EXPECT_TRUE(jobs_->Start().ok());
    ServiceOptions service_options;
    service_options.info.set_version("1.2.3");
    service_options.limits = &limits_;
    service_options.request_bytes = kRequestBytes;
    service_ = std::make_unique<ValidationService>(*jobs_, devices_, &metrics_, service_options);
    grpc::ServerBuilder builder;
    builder.RegisterService(service_.get());
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    server_ = builder.BuildAndStart();
    stub_ = v1::ValidationService::NewStub(server_->InProcessChannel({}));
  }
  ~ServiceTest() override {
    jobs_->Drain(absl::ZeroDuration());
    service_->Stop();
    server_->Shutdown();
    server_->Wait();
    service_.reset();
    jobs_.reset();
    store_.reset();
    std::filesystem::remove_all(folder_);
  }

  template <class Request, class Response>
  grpc::Status Call(grpc::Status (v1::ValidationService::Stub::*method)(grpc::ClientContext*,
                                                                        const Request&, Response*),
                    const Request& request, Response* response) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(120));
    return (stub_.get()->*method)(&context, request, response);
  }
  using Stub = v1::ValidationService::Stub;

  static v1::CreateJobRequest Copies(int cases) {
    v1::CreateJobRequest request;
    for (int n = 0; n < cases; ++n) {
      v1::CaseSpec& c = *request.mutable_spec()->mutable_cases()->add_cases();
      c.mutable_copy()->set_count(8);
      c.set_dtype(v1::DTYPE_FP32);
      c.set_provider("builtin");
    }
    return request;
  }
  std::string Create(const v1::CreateJobRequest& request) {
    v1::Job job;
    const grpc::Status status = Call(&Stub::CreateJob, request, &job);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return job.name();
  }
  // All events and the status of the call.
  std::pair<std::vector<v1::JobEvent>, grpc::Status> Watch(const std::string& name,
                                                           std::int64_t after = 0) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(120));
    v1::WatchJobRequest request;
    request.set_name(name);
    request.set_after_sequence(after);
    const auto reader = stub_->WatchJob(&context, request);
    std::vector<v1::JobEvent> events;
    for (v1::JobEvent event; reader->Read(&event);) {
      if (event.sequence() > 0) events.push_back(event);
    }
    return {events, reader->Finish()};
  }

  std::string folder_;
  CountingMetrics metrics_;
  ClientLimits limits_{{.refused = [this](Limit limit) { metrics_.LimitReached(limit); }}};
  int port_ = 0;
  DeviceSet devices_;
  FakeExecutor* cpu_ = nullptr;
  std::unique_ptr<Store> store_;
  std::unique_ptr<JobManager> jobs_;
  std::unique_ptr<ValidationService> service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::ValidationService::Stub> stub_;
};

// Whether the details hold a message of a type, and which.
template <class Message>
bool Holds(const google::rpc::Status& details, Message* found = nullptr) {
  return std::any_of(details.details().begin(), details.details().end(), [&](const auto& detail) {
    return detail.template Is<Message>() && (found == nullptr || detail.UnpackTo(found));
  });
}

inline std::string LimitIn(const grpc::Status& status) {
  google::rpc::Status details;
  if (!details.ParseFromString(status.error_details())) return "";
  if (!Holds<google::rpc::RetryInfo>(details) || !Holds<google::rpc::QuotaFailure>(details)) {
    return "";
  }
  const google::rpc::ErrorInfo info = InfoOf(status);
  return info.reason() == "LIMIT_REACHED" ? info.metadata().at("limit") : "";
}

// The answers to calls that are made without waiting, in the order in which they come. It waits for
// those that are missing before it is gone.
class Answers {
 public:
  ~Answers() { Await(taken_); }

  // What gRPC calls with the next answer.
  std::function<void(grpc::Status)> Take() {
    ++taken_;
    return [this](grpc::Status status) {
      const std::lock_guard lock(mutex_);
      came_.push_back(std::move(status));
      changed_.notify_all();
    };
  }
  // Until so many have come; false after two minutes.
  bool Await(std::size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(120),
                             [&] { return came_.size() >= count; });
  }
  std::vector<grpc::Status> came() {
    const std::lock_guard lock(mutex_);
    return came_;
  }

 private:
  std::size_t taken_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<grpc::Status> came_;
};

}  // namespace assay::server

#endif  // ASSAY_TESTS_UNIT_SERVER_RPC_FIXTURE_H_
