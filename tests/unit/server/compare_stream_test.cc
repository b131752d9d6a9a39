// CompareTensors on its way through the daemon: the stream of a client up to a device,
// and from there to a worker that ends in every way a worker can.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "assay/v1/service.grpc.pb.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "kernels/ops/comparison.h"
#include "server/base/log.h"
#include "server/base/request_errors.h"
#include "server/rpc/validation_service.h"
#include "server/worker/supervisor.h"
#include "server/worker/turn_lock.h"
#include "tests/unit/server/counting_metrics.h"

namespace assay::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr absl::Duration kSoon = absl::Seconds(120);

v1::CompareHeader Header(std::vector<std::int64_t> shape = {2, 3}) {
  v1::CompareHeader header;
  for (v1::TensorHeader* tensor : {header.mutable_actual(), header.mutable_expected()}) {
    tensor->set_dtype(v1::DTYPE_FP32);
    for (const std::int64_t extent : shape) tensor->add_shape(extent);
  }
  return header;
}

// A device that keeps the bytes it is sent, and waits where a test says.
class RecordingDevice final : public CaseExecutor {
 public:
  const std::string& device_id() const override { return id_; }
  v1::CaseResult Execute(const v1::CaseSpec&, int, absl::Duration, const CancelToken&) override {
    return {};
  }
  absl::StatusOr<v1::CaseResult> Compare(const v1::CompareHeader& header, PieceSource& pieces,
                                         absl::Duration, const CancelToken& cancel) override {
    {
      const std::lock_guard lock(mutex_);
      ++begun_;
      changed_.notify_all();
    }
    v1::CompareTensorsRequest piece;
    for (;;) {
      if (cancel.cancelled()) {
        ++cancelled;
        return absl::CancelledError("cancelled");
      }
      // A token wakes nobody.
      if (hold.load()) {
        absl::SleepFor(absl::Milliseconds(1));
        continue;
      }
      const PieceSource::Next next = pieces.Take(&piece);
      if (next == PieceSource::Next::kPiece) {
        received += piece.chunk().data();
      } else if (next == PieceSource::Next::kGone) {
        return absl::CancelledError("the sender has given up");
      } else if (next == PieceSource::Next::kEnd) {
        break;
      } else {
        absl::SleepFor(absl::Milliseconds(1));
      }
    }
    if (!answer.ok()) return answer;
    v1::CaseResult result;
    result.set_device(id_);
    result.set_verdict(v1::VERDICT_PASSED);
    result.mutable_stats()->set_count(header.actual().shape(0));
    return result;
  }
  v1::Device Describe() override {
    v1::Device device;
    device.set_id(id_);
    device.set_arena_bytes(1 << 20);
    return device;
  }
  const std::vector<v1::Kernel>& Kernels() const override { return kernels_; }
  absl::Status Release() override { return absl::OkStatus(); }
  absl::Status GiveBack() override { return absl::OkStatus(); }
  absl::Status MeasureCeilings(const CancelToken&) override { return absl::OkStatus(); }

  bool AwaitBegun(int calls) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, absl::ToChronoSeconds(kSoon), [&] { return begun_ >= calls; });
  }

  absl::Status answer;
  std::atomic<bool> hold{false};
  std::atomic<int> cancelled{0};
  std::string received;

 private:
  const std::string id_ = "cpu:0";
  std::mutex mutex_;
  std::condition_variable changed_;
  int begun_ = 0;
  const std::vector<v1::Kernel> kernels_ = {};
};

class CompareRpc : public testing::Test {
 protected:
  CompareRpc() {
    char path[] = "/tmp/assay-compare-XXXXXX";
    folder_ = mkdtemp(path);
    auto device = std::make_unique<RecordingDevice>();
    device_ = device.get();
    devices_.executors.push_back(std::move(device));
    devices_.unavailable.emplace_back().set_id("cuda");
    devices_.unavailable.back().set_unavailable_reason("no CUDA here");
    store_ = *Store::Open({.folder = folder_ + "/state"});
    jobs_ = JobManager::Make(*store_, devices_, &metrics_, JobOptions());
    EXPECT_TRUE(jobs_->Start().ok());
    Serve(ServiceOptions());
  }
  ~CompareRpc() override {
    device_->hold = false;
    jobs_->Drain(absl::ZeroDuration());
    EndService();
    jobs_.reset();
    store_.reset();
    std::filesystem::remove_all(folder_);
  }

  void Serve(ServiceOptions options) {
    options.limits = &limits_;
    service_ = std::make_unique<ValidationService>(*jobs_, devices_, &metrics_, std::move(options));
    grpc::ServerBuilder builder;
    builder.RegisterService(service_.get());
    server_ = builder.BuildAndStart();
    stub_ = v1::ValidationService::NewStub(server_->InProcessChannel({}));
  }
  void EndService() {
    service_->Stop();
    server_->Shutdown();
    server_->Wait();
    service_.reset();
  }

  // One call; `chunks` go to tensor 0.
  struct Call {
    explicit Call(v1::ValidationService::Stub& stub)
        : writer(stub.CompareTensors(&context, &result)) {}
    bool Write(const v1::CompareHeader& header) {
      v1::CompareTensorsRequest request;
      *request.mutable_header() = header;
      return writer->Write(request);
    }
    bool Write(const std::string& bytes, int tensor = 0) {
      v1::CompareTensorsRequest request;
      request.mutable_chunk()->set_tensor(tensor);
      request.mutable_chunk()->set_data(bytes);
      return writer->Write(request);
    }
    grpc::Status Finish() {
      writer->WritesDone();
      return writer->Finish();
    }

    grpc::ClientContext context;
    v1::CaseResult result;
    std::unique_ptr<grpc::ClientWriter<v1::CompareTensorsRequest>> writer;
  };

  grpc::Status Refusal(const v1::CompareHeader& header) {
    Call call(*stub_);
    call.Write(header);
    return call.Finish();
  }

  // Fields of a refusal, in order.
  static std::vector<std::string> Fields(const grpc::Status& status) {
    std::vector<std::string> fields;
    google::rpc::Status details;
    details.ParseFromString(status.error_details());
    google::rpc::BadRequest request;
    for (const auto& detail : details.details()) {
      if (detail.Is<google::rpc::BadRequest>()) detail.UnpackTo(&request);
    }
    for (const auto& violation : request.field_violations()) fields.push_back(violation.field());
    return fields;
  }

  // Waits for the call's end, of which the client may know before it is counted.
  bool Counted(const std::string& key) {
    const absl::Time end = absl::Now() + kSoon;
    while (metrics_.calls(key) == 0 && absl::Now() < end) absl::SleepFor(absl::Milliseconds(1));
    return metrics_.calls(key) == 1;
  }

  std::string folder_;
  CountingMetrics metrics_;
  ClientLimits limits_{{.values = {.comparisons = 0}}};
  DeviceSet devices_;
  RecordingDevice* device_ = nullptr;
  std::unique_ptr<Store> store_;
  std::unique_ptr<JobManager> jobs_;
  std::unique_ptr<ValidationService> service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::ValidationService::Stub> stub_;
};

TEST_F(CompareRpc, PiecesReachTheDeviceInOrderAndItsResultTheClient) {
  Call call(*stub_);
  ASSERT_TRUE(call.Write(Header()));
  std::string sent;
  for (int i = 0; i < 100; ++i) {
    const std::string piece(1000 + static_cast<std::size_t>(i), static_cast<char>(i));
    ASSERT_TRUE(call.Write(piece));
    sent += piece;
  }
  const grpc::Status status = call.Finish();
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(device_->received, sent);
  EXPECT_EQ(call.result.verdict(), v1::VERDICT_PASSED);
  EXPECT_EQ(call.result.stats().count(), 2);
  EXPECT_TRUE(Counted("CompareTensors OK"));
  EXPECT_EQ(metrics_.cases, 0) << "a comparison is no case";
}

TEST_F(CompareRpc, EveryBadFieldOfTheHeaderIsNamed) {
  v1::CompareHeader header = Header({-1});
  header.mutable_actual()->set_dtype(v1::DTYPE_UNSPECIFIED);
  header.mutable_expected()->set_shape(0, 7);
  header.set_atol(-1);
  const grpc::Status status = Refusal(header);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(Fields(status), ElementsAre("header.actual.dtype", "header.actual.shape",
                                          "header.expected.shape", "header.atol"));
  EXPECT_TRUE(Counted("CompareTensors INVALID_ARGUMENT"));

  header = Header();
  header.mutable_operation()->mutable_gemm()->set_m(0);
  header.mutable_operation()->set_dtype(v1::DTYPE_FP32);
  *header.add_inputs() = header.actual();
  EXPECT_THAT(Fields(Refusal(header)), testing::Contains("header.operation.gemm.m"));
  header.mutable_operation()->mutable_gemm()->set_m(2);
  header.mutable_operation()->mutable_gemm()->set_n(3);
  header.mutable_operation()->mutable_gemm()->set_k(4);
  EXPECT_THAT(Fields(Refusal(header)), ElementsAre("header.inputs"));
  *header.add_inputs() = header.actual();
  header.mutable_inputs(0)->set_shape(1, 4);
  const grpc::Status wrong = Refusal(header);
  EXPECT_THAT(Fields(wrong), ElementsAre("header.inputs[1].shape"));
  EXPECT_THAT(wrong.error_message(), HasSubstr("shape: b must be [4,3], got [2,3]"));
}

TEST_F(CompareRpc, MoreOperandsThanAnyOperatorTakesAreRefused) {
  v1::CompareHeader header = Header();
  header.mutable_operation()->mutable_gemm()->set_m(2);
  header.mutable_operation()->mutable_gemm()->set_n(3);
  header.mutable_operation()->mutable_gemm()->set_k(4);
  header.mutable_operation()->set_dtype(v1::DTYPE_FP32);
  for (int i = 0; i < 16; ++i) *header.add_inputs() = header.actual();
  EXPECT_THAT(Refusal(header).error_message(), HasSubstr("gemm takes 2 here (a, b), got 16"));
  *header.add_inputs() = header.actual();
  const grpc::Status status = Refusal(header);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(Fields(status), ElementsAre("header.inputs"));
  EXPECT_THAT(status.error_message(), HasSubstr("must be at most 16, got 17"));
}

// A header of 1.2 MB that would take 60 MB in memory.
TEST_F(CompareRpc, AHeaderThatGrowsTooMuchIsRefusedUnparsed) {
  v1::CompareHeader header = Header();
  for (int i = 0; i < 600'000; ++i) header.add_inputs();
  const grpc::Status status = Refusal(header);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(Fields(status), ElementsAre("header"));
  EXPECT_THAT(status.error_message(), HasSubstr("in memory"));
}

// What a call sends behind its header stays with the client while the call waits.
TEST_F(CompareRpc, NothingIsReadBehindTheHeaderOfACallThatWaits) {
  device_->hold = true;
  Call first(*stub_);
  first.Write(Header());
  ASSERT_TRUE(device_->AwaitBegun(1));
  Call waits(*stub_);
  waits.Write(Header());
  std::atomic<bool> sent{false};
  std::thread sender([&] {
    waits.Write(std::string((1 << 20) + 1, 'x'));  // too large, which is said when it is read
    sent = true;
    waits.writer->WritesDone();
  });
  Call other(*stub_);
  other.Write("no header");
  EXPECT_EQ(other.Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_FALSE(sent);
  device_->hold = false;
  EXPECT_TRUE(first.Finish().ok());
  sender.join();
  EXPECT_THAT(Fields(waits.writer->Finish()), ElementsAre("chunk.data"));
}

TEST_F(CompareRpc, WhatIsNoHeaderIsRefused) {
  Call none(*stub_);
  EXPECT_THAT(Fields(none.Finish()), ElementsAre("header"));
  Call chunk(*stub_);
  chunk.Write("bytes");
  EXPECT_THAT(Fields(chunk.Finish()), ElementsAre("header"));
}

TEST_F(CompareRpc, DevicesThatAreNotThereOrTooSmall) {
  v1::CompareHeader header = Header();
  header.set_device("cpu:9");
  grpc::Status status = Refusal(header);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(status.error_message(), HasSubstr("this daemon has cpu:0"));
  EXPECT_THAT(status.error_details(), HasSubstr("DEVICE_NOT_FOUND"));
  header.set_device("cuda");
  EXPECT_THAT(Refusal(header).error_message(), HasSubstr("no CUDA here"));
  EXPECT_THAT(Refusal(header).error_details(), HasSubstr("DEVICE_UNUSABLE"));
  status = Refusal(Header({1 << 20}));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("the arena of cpu:0 has 1048576"));
  EXPECT_EQ(Refusal(Header({std::int64_t{1} << 45})).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Refusal(Header({std::int64_t{1} << 40})).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
}

TEST_F(CompareRpc, WhatTheDeviceRefusesIsTheAnswer) {
  device_->answer = BadRequestError({{"chunk", "tensor 0 has 24 bytes by its header"}});
  EXPECT_THAT(Fields(Refusal(Header())), ElementsAre("chunk"));
  device_->answer = absl::ResourceExhaustedError("no memory");
  EXPECT_EQ(Refusal(Header()).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
}

TEST_F(CompareRpc, PiecesOfNoUseAreRefusedBeforeAnyWorkerSeesThem) {
  const auto refusal = [&](const std::string& bytes, int tensor) {
    Call call(*stub_);
    call.Write(Header());
    call.Write("whole");
    call.Write(bytes, tensor);
    const grpc::Status status = call.Finish();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    // What is too large is refused before a device takes what came before it.
    const std::string received = std::exchange(device_->received, "");
    if (bytes.size() <= kMostPieceBytes) {
      EXPECT_EQ(received, "whole");
    }
    return status;
  };
  // An endless stream of these would hold the device for ever.
  EXPECT_THAT(Fields(refusal("", 0)), ElementsAre("chunk.data"));
  EXPECT_THAT(refusal("", 0).error_message(), HasSubstr("must have 1 to 1048576 bytes, got 0"));
  EXPECT_THAT(Fields(refusal(std::string((1 << 20) + 1, 'x'), 1)), ElementsAre("chunk.data"));
  EXPECT_THAT(Fields(refusal("x", 2)), ElementsAre("chunk.tensor"));
  EXPECT_THAT(Fields(refusal("x", -1)), ElementsAre("chunk.tensor"));

  Call twice(*stub_);
  twice.Write(Header());
  twice.Write(Header());
  EXPECT_THAT(Fields(twice.Finish()), ElementsAre("chunk"));
}

// A busy device takes nothing for as long as it likes, and what is read ahead is in memory
// meanwhile.
TEST_F(CompareRpc, APieceThatIsTooLargeIsRefusedBeforeADeviceTakesIt) {
  device_->hold = true;
  Call call(*stub_);
  call.Write(Header());
  call.Write(std::string(2 << 20, 'x'));
  const grpc::Status status = call.Finish();
  EXPECT_THAT(Fields(status), ElementsAre("chunk.data"));
  device_->hold = false;
  EXPECT_EQ(device_->received, "");
}

TEST_F(CompareRpc, AnUploadThatTricklesEnds) {
  EndService();
  ServiceOptions options;
  options.upload = {.base = absl::Milliseconds(200), .bytes_per_second = 1'000'000};
  Serve(options);
  Call call(*stub_);
  ASSERT_TRUE(call.Write(Header({50'000})));  // no whole second of bytes
  bool open = true;
  while (open) open = call.Write("x");  // never silent, never done
  grpc::Status status = call.writer->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(status.error_message(),
            "the tensors, 400000 bytes, did not come within 200ms, which is 200ms and their time "
            "at 1 MB/s");
  EXPECT_TRUE(Counted("CompareTensors DEADLINE_EXCEEDED"));

  Call silent(*stub_);
  ASSERT_TRUE(silent.Write(Header()));
  status = silent.writer->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);

  Call without_header(*stub_);
  status = without_header.writer->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(status.error_message(), "the header did not come within 200ms");
}

TEST_F(CompareRpc, AClientThatGoesIsNoticed) {
  device_->hold = true;
  {
    Call call(*stub_);
    call.Write(Header());
    ASSERT_TRUE(device_->AwaitBegun(1));
    call.context.TryCancel();
    EXPECT_EQ(call.Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  EXPECT_TRUE(Counted("CompareTensors CANCELLED"));
  EXPECT_EQ(device_->cancelled, 1);
}

TEST_F(CompareRpc, StoppingEndsWhatRunsAndRefusesWhatComes) {
  device_->hold = true;
  Call call(*stub_);
  call.Write(Header());
  ASSERT_TRUE(device_->AwaitBegun(1));
  service_->Stop();
  EXPECT_EQ(call.Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  const grpc::Status refusal = Refusal(Header());
  EXPECT_EQ(refusal.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(refusal.error_details(), HasSubstr("STOPPING"));
}

TEST_F(CompareRpc, OneAtATimeAndOnlySoManyWait) {
  device_->hold = true;
  std::vector<std::unique_ptr<Call>> calls;
  for (int i = 0; i < 34; ++i) {
    calls.push_back(std::make_unique<Call>(*stub_));
    calls.back()->Write(Header());
    calls.back()->writer->WritesDone();  // so that none waits for another's turn to be asked
    if (i == 0) {
      ASSERT_TRUE(device_->AwaitBegun(1));
    }
  }
  // One runs and 32 wait; which one came too late the order of writing does not say.
  ASSERT_TRUE(Counted("CompareTensors RESOURCE_EXHAUSTED"));
  device_->hold = false;
  int refused = 0;
  for (const auto& call : calls) {
    const grpc::Status status = call->writer->Finish();
    if (status.ok()) continue;
    ++refused;
    EXPECT_EQ(status.error_message(),
              "a limit is reached: all clients together may have 32 comparisons that wait for "
              "cpu:0 (waiting-comparisons, which is fixed); try again in 1s");
    for (const char* detail :
         {"LIMIT_REACHED", "google.rpc.QuotaFailure", "google.rpc.RetryInfo"}) {
      EXPECT_THAT(status.error_details(), HasSubstr(detail));
    }
  }
  EXPECT_EQ(refused, 1);
  EXPECT_EQ(metrics_.calls("limit waiting-comparisons"), 1);
}

TEST_F(CompareRpc, AClientHasOnlySoManyAndGivesThemBack) {
  limits_.Set({.comparisons = 1});
  device_->hold = true;
  Call first(*stub_);
  first.Write(Header());
  ASSERT_TRUE(device_->AwaitBegun(1));
  const grpc::Status refusal = Refusal(Header());
  EXPECT_EQ(refusal.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refusal.error_details(), HasSubstr("client-max-comparisons"));
  device_->hold = false;
  EXPECT_TRUE(first.Finish().ok());
  ASSERT_TRUE(Counted("CompareTensors OK"));  // the place is free before the call is counted
  EXPECT_TRUE(Refusal(Header()).ok());
}

// The other half: a supervisor and its worker.
class Pieces final : public PieceSource {
 public:
  explicit Pieces(int count, bool gone = false) : left_(count), gone_(gone) {}
  Next Take(v1::CompareTensorsRequest* piece) override {
    if (left_ == 0) return gone_ ? Next::kGone : Next::kEnd;
    --left_;
    piece->mutable_chunk()->set_data(std::string(1000, 'x'));
    return Next::kPiece;
  }
  void SetWake(std::function<void()>) override {}

 private:
  int left_;
  const bool gone_;
};

class CompareInWorker : public testing::Test {
 protected:
  CompareInWorker() {
    SetLogLevel("error");
    SupervisorOptions options;
    options.device_id = "cpu:0";
    options.worker_path = FAKE_WORKER_PATH;
    options.on_restart = [this](std::string_view reason) {
      const std::lock_guard lock(mutex_);
      restarts_.emplace_back(reason);
    };
    executor_ = MakeSupervisor(std::move(options));
  }

  absl::StatusOr<v1::CaseResult> Run(const std::string& mode, int pieces = 50, bool gone = false,
                                     absl::Duration limit = kSoon) {
    v1::CompareHeader header = Header();
    header.set_device(mode);
    Pieces source(pieces, gone);
    return executor_->Compare(header, source, limit, cancel_);
  }
  std::vector<std::string> restarts() {
    const std::lock_guard lock(mutex_);
    return restarts_;
  }

  CancelToken cancel_;
  std::mutex mutex_;
  std::vector<std::string> restarts_;
  std::unique_ptr<CaseExecutor> executor_;
};

TEST_F(CompareInWorker, AllPiecesArriveAndTheWorkerStays) {
  const auto first = Run("answer");
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->verdict(), v1::VERDICT_PASSED);
  EXPECT_EQ(first->stats().count(), 50'000);
  EXPECT_GT(first->start_time().seconds(), 0);
  EXPECT_EQ(Run("answer", 0)->implementation(), first->implementation());
  EXPECT_THAT(restarts(), ElementsAre());
}

TEST_F(CompareInWorker, ARefusalIsAnAnswer) {
  const auto refused = Run("refuse");
  EXPECT_TRUE(absl::IsInvalidArgument(refused.status())) << refused.status();
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("chunk: refused"));
  EXPECT_TRUE(Run("answer").ok());
  EXPECT_THAT(restarts(), ElementsAre());
}

TEST_F(CompareInWorker, AnAnswerWithoutAResultIsAFault) {
  const auto silent = Run("silent");
  ASSERT_TRUE(silent.ok()) << silent.status();
  EXPECT_EQ(silent->verdict(), v1::VERDICT_ERROR);
  ASSERT_EQ(silent->findings_size(), 1);
  EXPECT_THAT(silent->findings(0).message(), HasSubstr("answered without a result"));
}

TEST_F(CompareInWorker, ACrashIsAnErrorAndTheNextOneRuns) {
  const auto crashed = Run("crash");
  ASSERT_TRUE(crashed.ok()) << crashed.status();
  EXPECT_EQ(crashed->verdict(), v1::VERDICT_ERROR);
  ASSERT_EQ(crashed->findings_size(), 1);
  EXPECT_EQ(crashed->findings(0).reason(), "crash");
  EXPECT_THAT(crashed->findings(0).message(), HasSubstr("SIGSEGV"));
  EXPECT_EQ(crashed->repro(), "") << "the client knows its own files";
  EXPECT_THAT(crashed->name(), HasSubstr("fp32 [2,3] against fp32"));
  EXPECT_EQ(crashed->criterion(), v1::CRITERION_DERIVED);
  EXPECT_EQ(Run("answer")->verdict(), v1::VERDICT_PASSED);
  EXPECT_THAT(restarts(), ElementsAre("crash"));
}

TEST_F(CompareInWorker, TheTimeCountsOnceAllPiecesHaveCome) {
  const auto hung = Run("hang", 5, false, absl::Milliseconds(50));
  ASSERT_TRUE(hung.ok()) << hung.status();
  EXPECT_EQ(hung->findings(0).reason(), "timeout");
  EXPECT_THAT(restarts(), ElementsAre("timeout"));
}

TEST_F(CompareInWorker, ASenderThatGoesCostsNoWorker) {
  const std::string worker = Run("answer")->implementation();
  EXPECT_TRUE(absl::IsCancelled(Run("answer", 3, /*gone=*/true).status()));
  EXPECT_EQ(Run("answer")->implementation(), worker);
  EXPECT_THAT(restarts(), ElementsAre());
}

TEST_F(CompareInWorker, CancelledBeforeItBegan) {
  cancel_.Cancel();
  EXPECT_TRUE(absl::IsCancelled(Run("answer").status()));
}

// Who takes the lock again and again does not keep another one out.
TEST(TurnLock, GivesTheDeviceInTheOrderOfAsking) {
  TurnLock turn;
  turn.lock();
  std::vector<int> order;
  std::thread other([&] {
    const std::unique_lock<TurnLock> held(turn);
    order.push_back(1);
  });
  while (turn.waiting() == 0) std::this_thread::yield();
  EXPECT_FALSE(turn.try_lock());
  turn.unlock();
  turn.lock();  // asked for later
  order.push_back(2);
  turn.unlock();
  other.join();
  EXPECT_THAT(order, ElementsAre(1, 2));
}

TEST(TurnLock, WhoGivesUpLeavesTheQueue) {
  TurnLock turn;
  turn.lock();
  CancelToken cancel;
  bool locked = true;
  std::thread other([&] { locked = turn.LockUnless(&cancel); });
  while (turn.waiting() == 0) std::this_thread::yield();
  cancel.Cancel();
  other.join();
  EXPECT_FALSE(locked);
  turn.unlock();
  EXPECT_TRUE(turn.try_lock());
}

}  // namespace
}  // namespace assay::server
