// Requests that wait, that are too large, or that are none.
#include <grpcpp/generic/generic_stub.h>
#include <sys/resource.h>

#include <array>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kernels/confine/sanitized.h"
#include "server/rpc/backup_stream.h"
#include "server/rpc/upload_stream.h"
#include "tests/unit/server/rpc_fixture.h"

namespace assay::server {
namespace {

using testing::HasSubstr;

// Says which fixed limit, whose, its value and when to come again. `may`: "64 calls that wait".
void ExpectFixed(const grpc::Status& status, const std::string& limit, const std::string& may) {
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << status.error_message();
  EXPECT_THAT(status.error_message(),
              HasSubstr(Cat("a limit is reached: all clients together may have ", may, " (", limit,
                            ", which is fixed); try again in ")));
  ASSERT_EQ(LimitIn(status), limit) << "with QuotaFailure and RetryInfo";
  const google::rpc::ErrorInfo info = InfoOf(status);
  EXPECT_EQ(info.metadata().at("value"), may.substr(0, may.find(' ')));
  EXPECT_EQ(info.metadata().at("fixed"), "true");
  EXPECT_EQ(info.metadata().count("client"), 0u) << "it is that of all";
}

TEST_F(ServiceTest, CallsThatWaitAreBoundedAndTheRestAskedToRetry) {
  constexpr std::size_t kCalls = 100;
  constexpr std::size_t kHeld = 65;  // one in work, the others waiting
  struct Call {
    grpc::ClientContext context;
    v1::CreateJobRequest request;
    v1::Job job;
  };
  std::vector<Call> calls(kCalls);
  Answers answers;
  HeldPlans plans(*cpu_);  // nothing moves
  for (Call& call : calls) {
    call.request = Copies(1);
    stub_->async()->CreateJob(&call.context, &call.request, &call.job, answers.Take());
  }
  EXPECT_TRUE(answers.Await(kCalls - kHeld));
  plans.Release();
  ASSERT_TRUE(answers.Await(kCalls));
  std::size_t refused = 0;
  for (const grpc::Status& status : answers.came()) {
    if (status.error_code() != grpc::StatusCode::RESOURCE_EXHAUSTED) continue;
    ++refused;
    ExpectFixed(status, "waiting-calls", "64 calls that wait for the same thread");
  }
  EXPECT_GE(refused, kCalls - kHeld);
  EXPECT_LT(refused, kCalls);
  EXPECT_EQ(metrics_.calls("limit waiting-calls"), static_cast<int>(refused));
}

TEST_F(ServiceTest, ACallersJobThatFindsNoPlaceIsToldTheLimit) {
  struct Call {
    grpc::ClientContext context;
    v1::CreateJobRequest request = Copies(1);
    v1::Job job;
  };
  std::vector<Call> calls(66);
  Answers answers;
  HeldPlans plans(*cpu_);
  for (Call& call : calls) {
    stub_->async()->CreateJob(&call.context, &call.request, &call.job, answers.Take());
    // If it still waited, more than one of the others could be refused, and a place be free.
    if (&call == &calls.front()) {
      ASSERT_TRUE(plans.AwaitBegun());
    }
  }
  ASSERT_TRUE(answers.Await(1)) << "one is in work, and 64 wait";
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(120));
  const auto stream = stub_->ValidateExternal(&context);
  v1::ValidateExternalRequest first;
  *first.mutable_job()->mutable_spec() = Copies(1).spec();
  stream->Write(first);
  ExpectFixed(stream->Finish(), "waiting-calls", "64 calls that wait for the same thread");
  EXPECT_TRUE(Eventually([&] { return metrics_.calls("limit waiting-calls") == 2; }));
}

// One more service of the same jobs.
struct Served {
  Served(JobManager& jobs, DeviceSet& devices, Metrics& metrics, const ServiceOptions& options)
      : service(jobs, devices, &metrics, options) {
    grpc::ServerBuilder builder;
    builder.RegisterService(&service);
    server = builder.BuildAndStart();
    stub = v1::ValidationService::NewStub(server->InProcessChannel({}));
  }
  ~Served() {
    service.Stop();
    server->Shutdown();
    server->Wait();
  }

  ValidationService service;
  std::unique_ptr<grpc::Server> server;
  std::unique_ptr<v1::ValidationService::Stub> stub;
};

TEST_F(ServiceTest, AKernelThatFindsNoPlaceIsToldTheLimit) {
  limits_.Set({.uploads = 0});
  std::promise<void> begun, released;
  UserKernelOptions kernel_options;
  kernel_options.code_object = true;
  kernel_options.folder.path = folder_ + "/kernels";
  kernel_options.targets = [&, once = std::make_shared<std::once_flag>(),
                            release = released.get_future().share()] {
    std::call_once(*once, [&] { begun.set_value(); });
    release.wait();
    return DeviceTargets();  // and so no kernel is taken in the end
  };
  const std::unique_ptr<UserKernels> kernels = *UserKernels::Open(kernel_options);
  ServiceOptions options;
  options.limits = &limits_;
  options.kernels = kernels.get();
  Served served(*jobs_, devices_, metrics_, options);
  struct Upload {
    explicit Upload(v1::ValidationService::Stub& stub) : stream(stub.UploadKernel(&context)) {
      v1::UploadKernelRequest request;
      v1::KernelHeader& header = *request.mutable_header();
      header.set_file_name("k.ptx");
      header.set_size_bytes(1);
      header.set_form(v1::KERNEL_FORM_PTX);
      header.set_launch("grid = 1\nblock = 1\nargs = []");
      stream->Write(request);
      request.set_chunk("x");
      stream->Write(request);
      stream->WritesDone();
    }
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReaderWriter<v1::UploadKernelRequest, v1::UploadKernelResponse>>
        stream;
  };
  std::vector<std::unique_ptr<Upload>> uploads;
  for (std::size_t n = 0; n < kMostKernelsWaiting + 2; ++n) {
    uploads.push_back(std::make_unique<Upload>(*served.stub));
    if (n == 0) begun.get_future().wait_for(std::chrono::seconds(120));
  }
  EXPECT_TRUE(Eventually([&] { return metrics_.calls("UploadKernel RESOURCE_EXHAUSTED") == 1; }));
  released.set_value();
  int refused = 0;
  for (const auto& upload : uploads) {
    const grpc::Status status = upload->stream->Finish();
    if (status.error_code() == grpc::StatusCode::FAILED_PRECONDITION) continue;
    ++refused;
    ExpectFixed(status, "waiting-kernels", "16 kernels that wait for the compiler");
  }
  EXPECT_EQ(refused, 1);
  EXPECT_EQ(metrics_.calls("limit waiting-kernels"), 1);
}

// The first copy stands still while its client reads nothing.
TEST_F(ServiceTest, ABackupThatFindsNoPlaceIsToldTheLimit) {
  ServiceOptions options;
  options.store = store_.get();
  Served served(*jobs_, devices_, metrics_, options);
  struct Backup {
    explicit Backup(v1::ValidationService::Stub& stub) : stream(stub.BackupStore(&context, {})) {}
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<v1::BackupStoreResponse>> stream;
  };
  std::array<std::unique_ptr<Backup>, kMostBackups + 1> backups;
  for (auto& backup : backups) backup = std::make_unique<Backup>(*served.stub);
  EXPECT_TRUE(Eventually([&] { return metrics_.calls("BackupStore RESOURCE_EXHAUSTED") >= 1; }));
  std::vector<std::future<grpc::Status>> ends;
  for (const auto& backup : backups) {
    ends.push_back(std::async(std::launch::async, [&backup] {
      for (v1::BackupStoreResponse piece; backup->stream->Read(&piece);) continue;
      return backup->stream->Finish();
    }));
  }
  int whole = 0;
  for (auto& end : ends) {
    const grpc::Status status = end.get();
    whole += status.ok() ? 1 : 0;
    if (status.ok()) continue;
    ExpectFixed(status, "backups", "2 backups, one being made and the others waiting");
  }
  EXPECT_GE(whole, 1);
  const int refused = static_cast<int>(backups.size()) - whole;
  EXPECT_TRUE(Eventually([&] { return metrics_.calls("limit backups") == refused; }));
}

// Calls of CreateJob, each as large as a request may be. Their names are too long for a job.
struct LargeCalls {
  explicit LargeCalls(v1::ValidationService::Stub& stub) {
    request.set_request_id(std::string(kRequestBytes - 100, 'x'));
    for (One& one : calls) {
      stub.async()->CreateJob(&one.context, &request, &one.job, answers.Take());
    }
  }
  struct One {
    grpc::ClientContext context;
    v1::Job job;
  };
  v1::CreateJobRequest request;
  std::array<One, 3> calls;
  Answers answers;
};

TEST_F(ServiceTest, BytesThatWaitAreBoundedForEachClient) {
  std::jthread creator;
  std::optional<LargeCalls> large;
  HeldPlans plans(*cpu_);
  creator = std::jthread([&] { Create(Copies(1)); });
  ASSERT_TRUE(plans.AwaitBegun());
  large.emplace(*stub_);
  ASSERT_TRUE(large->answers.Await(1)) << "it does not wait";
  const grpc::Status refused = large->answers.came().front();
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(LimitIn(refused), "max-request-bytes");
  EXPECT_EQ(metrics_.calls("limit max-request-bytes"), 1);
  plans.Release();
  ASSERT_TRUE(large->answers.Await(3));
  EXPECT_EQ(large->answers.came().back().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  LargeCalls again(*stub_);
  EXPECT_TRUE(again.answers.Await(3));
}

// The service may learn that a client has gone only after its turn has come, so this tries again.
TEST_F(ServiceTest, ACallWhoseClientHasGoneIsSkipped) {
  std::jthread creator;
  std::optional<LargeCalls> large;
  HeldPlans plans(*cpu_);
  EXPECT_TRUE(Eventually([&] {
    plans.Hold();
    creator = std::jthread([&] { Create(Copies(1)); });
    if (!plans.AwaitBegun()) return true;
    large.emplace(*stub_);
    large->answers.Await(1);  // so the other two wait
    for (LargeCalls::One& one : large->calls) one.context.TryCancel();
    large->answers.Await(3);
    plans.Release();
    creator.join();
    Create(Copies(1));  // behind them
    return metrics_.calls("CreateJob CANCELLED") > 0;
  }));
  EXPECT_GT(metrics_.calls("CreateJob CANCELLED"), 0);
}

TEST_F(ServiceTest, RefusalsCarryTheirDetailsOverTheWire) {
  v1::CreateJobRequest request = Copies(2);
  request.mutable_spec()->mutable_cases()->mutable_cases(1)->mutable_copy()->set_count(0);
  v1::Job job;
  const grpc::Status status = Call(&Stub::CreateJob, request, &job);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  google::rpc::Status details;
  google::rpc::BadRequest bad;
  ASSERT_TRUE(details.ParseFromString(status.error_details()));
  EXPECT_TRUE(Holds<google::rpc::ErrorInfo>(details));
  ASSERT_TRUE(Holds<google::rpc::BadRequest>(details, &bad));
  EXPECT_EQ(bad.field_violations(0).field(), "spec.cases[1].copy.count");

  request = Copies(9000);
  for (v1::CaseSpec& c : *request.mutable_spec()->mutable_cases()->mutable_cases()) {
    c.set_provider("no such provider at all");
  }
  EXPECT_EQ(Call(&Stub::CreateJob, request, &job).error_code(), grpc::StatusCode::INVALID_ARGUMENT)
      << "however many fields are wrong, the client gets the reason";
}

// 3 MB of empty messages, in a field of a message in a field of ... `path`.
grpc::ByteBuffer MillionsOfEmpty(const google::protobuf::Descriptor* type,
                                 std::vector<std::string> path) {
  std::vector<int> numbers;
  for (const std::string& name : path) {
    const google::protobuf::FieldDescriptor* field = type->FindFieldByName(name);
    numbers.push_back(field->number());
    type = field->message_type();
  }
  const auto within = [](int number, const std::string& bytes) {
    std::string made;
    const auto put = [&](std::size_t value) {
      for (; value > 0x7f; value >>= 7) made += static_cast<char>((value & 0x7f) | 0x80);
      made += static_cast<char>(value);
    };
    put(static_cast<std::size_t>(number) << 3 | 2);
    put(bytes.size());
    return made + bytes;
  };
  const std::string empty = within(numbers.back(), "");
  std::string bytes;
  while (bytes.size() < 3'000'000) bytes += empty;
  numbers.pop_back();
  for (; !numbers.empty(); numbers.pop_back()) bytes = within(numbers.back(), bytes);
  const grpc::Slice slice(bytes);
  return {&slice, 1};
}

long PeakMebibytes() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return used.ru_maxrss >> 10;
}

TEST_F(ServiceTest, ARequestThatGrowsTooMuchIsRefusedUnparsed) {
  struct Row {
    std::string method;
    const google::protobuf::Descriptor* type;
    std::vector<std::string> path;
  };
  const std::vector<Row> rows = {
      {"CreateJob", v1::CreateJobRequest::descriptor(), {"spec", "cases", "cases"}},
      {"CreateJob", v1::CreateJobRequest::descriptor(), {"spec", "inline_baseline", "results"}},
      {"CreateBaseline", v1::CreateBaselineRequest::descriptor(), {"baseline", "results"}},
      {"CompareBaselines",
       v1::CompareBaselinesRequest::descriptor(),
       {"current", "inline", "results"}},
      {"ValidateExternal",
       v1::ValidateExternalRequest::descriptor(),
       {"job", "spec", "cases", "cases"}},
      {"ValidateExternal",
       v1::ValidateExternalRequest::descriptor(),
       {"job", "spec", "inline_baseline", "results"}},
  };
  grpc::GenericStub stub(server_->InProcessChannel({}));
  const long before = PeakMebibytes();
  for (const Row& row : rows) {
    const grpc::ByteBuffer sent = MillionsOfEmpty(row.type, row.path);
    Answers answers;
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(120));
    grpc::ByteBuffer answer;
    // To a stream, one request is its first message and its end.
    stub.UnaryCall(&context, "/assay.v1.ValidationService/" + row.method, {}, &sent, &answer,
                   answers.Take());
    ASSERT_TRUE(answers.Await(1)) << row.method;
    const grpc::Status status = answers.came().front();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED)
        << row.method << ": " << status.error_message();
    EXPECT_THAT(status.error_message(), HasSubstr("in memory"));
    EXPECT_EQ(InfoOf(status).metadata().at("limit"), "max-request-bytes");
  }
  if (!kSanitized) {
    EXPECT_LT(PeakMebibytes() - before, 100) << "[MiB]";
  }
  EXPECT_EQ(metrics_.calls("limit max-request-bytes"), static_cast<int>(rows.size()));
  Watch(Create(Copies(1)));
}

TEST_F(ServiceTest, WhatIsNoMessageIsNamed) {
  const grpc::Slice slice("\x0a\x7f and so on");
  const grpc::ByteBuffer sent(&slice, 1);
  grpc::GenericStub stub(server_->InProcessChannel({}));
  for (const char* method : {"CreateJob", "CreateBaseline", "ValidateExternal", "CompareTensors"}) {
    Answers answers;
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(120));
    grpc::ByteBuffer answer;
    stub.UnaryCall(&context, std::string("/assay.v1.ValidationService/") + method, {}, &sent,
                   &answer, answers.Take());
    ASSERT_TRUE(answers.Await(1)) << method;
    const grpc::Status status = answers.came().front();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << method;
    EXPECT_THAT(status.error_message(), HasSubstr("is no assay.v1."));
    EXPECT_THAT(status.error_details(), HasSubstr("BadRequest"));
  }
}

// The caller's first message waits as bytes for the thread that plans.
TEST_F(ServiceTest, ACallersFirstMessageWaitsUnparsed) {
  v1::ValidateExternalRequest request;
  *request.mutable_job()->mutable_spec() = Copies(10'001).spec();
  request.mutable_job()->mutable_spec()->set_suite_file(std::string(kRequestBytes / 2, 'x'));
  std::jthread creator;
  HeldPlans plans(*cpu_);
  creator = std::jthread([&] { Create(Copies(1)); });
  ASSERT_TRUE(plans.AwaitBegun());
  struct One {
    explicit One(v1::ValidationService::Stub& stub) : stream(stub.ValidateExternal(&context)) {
      context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(120));
    }
    grpc::ClientContext context;
    std::unique_ptr<
        grpc::ClientReaderWriter<v1::ValidateExternalRequest, v1::ValidateExternalResponse>>
        stream;
  };
  std::vector<std::unique_ptr<One>> calls;
  for (int n = 0; n < 4; ++n) {
    calls.push_back(std::make_unique<One>(*stub_));
    calls.back()->stream->Write(request);
  }
  EXPECT_TRUE(Eventually([&] {
    return metrics_.calls("ValidateExternal RESOURCE_EXHAUSTED") == 1;
  })) << "three have twice the bytes of a request";
  plans.Release();
  int told = 0;
  for (const auto& call : calls) {
    const grpc::Status status = call->stream->Finish();
    told += status.error_code() == grpc::StatusCode::INVALID_ARGUMENT &&
                    status.error_message().find("at most 10000 cases") != std::string::npos
                ? 1
                : 0;
  }
  EXPECT_EQ(told, 3);
}

TEST_F(ServiceTest, ACallersJobIsAcceptedAndItsEventsCome) {
  v1::ValidateExternalRequest request;
  *request.mutable_job()->mutable_spec() = Copies(1).spec();
  request.mutable_job()->mutable_spec()->mutable_cases()->mutable_cases(0)->clear_provider();
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(120));
  const auto stream = stub_->ValidateExternal(&context);
  stream->Write(request);
  v1::ValidateExternalResponse first, last;
  ASSERT_TRUE(stream->Read(&first)) << stream->Finish().error_message();
  EXPECT_THAT(first.job().name(), HasSubstr("jobs/"));
  for (v1::ValidateExternalResponse next; stream->Read(&next);) last = next;
  EXPECT_TRUE(last.event().has_finished()) << last.ShortDebugString();
  const grpc::Status status = stream->Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
}

TEST_F(ServiceTest, DrainEndsTheMeasuringOfCeilings) {
  const auto measuring = std::make_shared<std::atomic<bool>>(false);  // the device keeps the hook
  cpu_->on_measure = [measuring](const CancelToken& cancel) {
    *measuring = true;
    return Eventually([&] { return cancel.cancelled(); }) ? absl::CancelledError("cancelled")
                                                          : absl::OkStatus();
  };
  v1::ListDevicesRequest request;
  request.set_measure_ceilings(true);
  grpc::Status status;
  std::jthread caller([&] {
    v1::ListDevicesResponse devices;
    status = Call(&Stub::ListDevices, request, &devices);
  });
  EXPECT_TRUE(Eventually([&] { return measuring->load(); }));
  // Others do not wait for it: not even a job's prolog that takes another device's memory back.
  v1::ListSuitesResponse suites;
  EXPECT_TRUE(Call(&Stub::ListSuites, v1::ListSuitesRequest(), &suites).ok());
  v1::ReleaseDeviceRequest release;
  release.set_name("devices/cpu:0");  // which waits for nothing here
  v1::Device device;
  EXPECT_TRUE(Call(&Stub::ReleaseDevice, release, &device).ok());
  service_->EndMeasuring();
  caller.join();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE) << status.error_message();
  EXPECT_EQ(InfoOf(status).reason(), "STOPPING");
  v1::ListDevicesResponse devices;
  EXPECT_TRUE(Call(&Stub::ListDevices, v1::ListDevicesRequest(), &devices).ok());
}

}  // namespace
}  // namespace assay::server
