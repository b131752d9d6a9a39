// A worker without kernels: does what the case's name says, so that the supervisor
// can be tried against every way in which a worker can end.
//
//   answer   noisy   crash   exit   abort   hang   allocate   last-words   close   lease
//   crash-early (before its page says that a case began), corrupt (a crash; in turn with others
//   when all of them have ended)
//   socket (tries to open one), socket-crash (crashes after that)
//   garbage (writes into its connection, and goes on), nonsense (a verdict that there is not),
//   no-verdict
//   fork (answers with the process id of a child that stays)
//   flood (answers with 100 MiB)
//   late (answers after FAKE_WORKER_SECONDS), too-late (after a minute)
//   beyond-memory, beyond-compute (103 % of that ceiling)
//   refuse (the call), slow (four seconds, where it follows), suspect (beside others it has no
//   result) share-crash (in a step that it shares), lost (takes the device with it)
//
// Cases that follow run beside the first, each in its own turn.
//
// FAKE_WORKER in its environment: die-at-start ends before it answers, slow-start takes
// FAKE_WORKER_SECONDS to begin, hang-ceilings never has them measured, in-turn runs the cases that
// follow after the first, up to one called last.
#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/server_posix.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "assay/worker/v1/worker.grpc.pb.h"
#include "server/base/finding.h"
#include "server/process/phase_page.h"

namespace assay::server {
namespace {

std::string Wish() {
  const char* wish = std::getenv("FAKE_WORKER");
  return wish == nullptr ? "" : wish;
}

// How long "slow", "late" and "slow-start" take [s].
unsigned WishedSeconds() {
  const char* seconds = std::getenv("FAKE_WORKER_SECONDS");
  return seconds == nullptr ? 3 : static_cast<unsigned>(std::atoi(seconds));
}

class FakeService final : public worker::v1::WorkerService::Service {
 public:
  explicit FakeService(PhasePage* page) : page_(page) {}

  grpc::Status Describe(grpc::ServerContext*, const worker::v1::DescribeRequest*,
                        worker::v1::DescribeResponse* response) override {
    response->mutable_device()->set_id("cpu:0");
    response->set_pid(getpid());
    return grpc::Status::OK;
  }

  grpc::Status RunCase(grpc::ServerContext* context, const worker::v1::RunCaseRequest* request,
                       worker::v1::RunCaseResponse* response) override {
    const std::string& mode = request->spec().name();
    if (mode == "garbage") WriteGarbage();
    context->AddTrailingMetadata(kAnsweredKey, "1");
    if (mode == "crash-early") raise(SIGSEGV);  // before the page says that a case began
    page_->turn.store(0);
    page_->suspects.store(0);
    page_->Enter(Phase::kKernel);
    if (Wish() == "in-turn" && !request->following().empty()) return RunInTurn(*request, *response);
    for (int i = 0; i < request->following_size(); ++i) {
      const std::string& next = request->following(i).name();
      page_->Turn(next == "share-crash" ? -1 : i + 1);
      if (next == "crash" || next == "share-crash") raise(SIGSEGV);
      if (next == "hang") pause();
      if (next == "refuse") return {grpc::StatusCode::INTERNAL, "refused"};
      worker::v1::FollowingResult& beside = *response->add_following();
      beside.set_place(i + 1);
      if (next == "suspect" || next == "lost") {
        beside.set_suspicion("bound: odd");
        page_->suspects.fetch_or(1U << (i + 1));
        if (next == "suspect") continue;
        response->set_device_lost("gone");
        return grpc::Status::OK;
      }
      if (next == "slow") sleep(WishedSeconds());
      beside.mutable_result()->set_verdict(v1::VERDICT_PASSED);
      beside.mutable_result()->set_implementation("beside");
      v1::PhaseTime& phase = *beside.mutable_result()->add_phases();
      phase.set_phase("kernel");
      phase.set_seconds(0.25);
    }
    page_->Turn(0);
    if (mode == "crash" || mode == "corrupt") raise(SIGSEGV);
    if (mode == "abort") raise(SIGABRT);
    if (mode == "kill") raise(SIGKILL);
    if (mode == "terminate") raise(SIGTERM);
    if (mode == "exit") _exit(3);
    if (mode == "hang") pause();
    if (mode == "late") sleep(WishedSeconds());
    if (mode == "too-late") sleep(60);
    if (mode == "close") close(kWorkerSocketFd);
    if (mode == "last-words") {
      page_->last_words.store(static_cast<std::uint32_t>(LastWords::kOutOfMemory));
      _exit(kExitOutOfMemory);
    }
    if (mode == "allocate") Allocate();
    if (mode == "socket" || mode == "socket-crash") close(socket(AF_INET, SOCK_STREAM, 0));
    if (mode == "socket-crash") raise(SIGSEGV);
    if (mode == "noisy") {
      for (int i = 0; i < 100'000; ++i) std::fprintf(stderr, "line %d\n", i);
    }
    if (mode == "refuse") return {grpc::StatusCode::INTERNAL, "refused"};
    if (mode == "flood") response->mutable_result()->set_name(std::string(100 << 20, 'x'));
    page_->Enter(Phase::kIdle);
    if (mode == "silent") return grpc::Status::OK;
    response->mutable_result()->set_verdict(v1::VERDICT_PASSED);
    response->mutable_result()->set_implementation(std::to_string(getpid()));
    if (mode == "nonsense") response->mutable_result()->set_verdict(static_cast<v1::Verdict>(77));
    if (mode == "no-verdict") response->mutable_result()->clear_verdict();
    if (mode == "fork") {
      const pid_t child = fork();
      while (child == 0) pause();
      response->mutable_result()->set_implementation(std::to_string(child));
    }
    if (mode == "timed" || mode == "beyond") {
      v1::Ceiling* copy = response->add_ceilings();
      copy->set_kind(v1::CEILING_KIND_COPY);
      copy->set_bytes_per_second(1.5e9);
      copy->set_suspect(mode == "beyond");
    }
    response->set_leased_bytes(mode == "lease" ? 4096 : 0);
    return grpc::Status::OK;
  }

  // As the header's device says: answer (with the bytes that came), refuse, crash, hang,
  // silent.
  grpc::Status CompareTensors(grpc::ServerContext* context,
                              grpc::ServerReader<v1::CompareTensorsRequest>* reader,
                              worker::v1::RunCaseResponse* response) override {
    context->AddTrailingMetadata(kAnsweredKey, "1");
    v1::CompareTensorsRequest message;
    if (!reader->Read(&message)) return {grpc::StatusCode::INVALID_ARGUMENT, "header: missing"};
    const std::string mode = message.header().device();
    if (mode == "refuse") {
      auto* violation = response->mutable_refused()->add_field_violations();
      violation->set_field("chunk");
      violation->set_description("refused");
      return grpc::Status::OK;
    }
    std::int64_t bytes = 0;
    while (reader->Read(&message)) {
      bytes += static_cast<std::int64_t>(message.chunk().data().size());
      if (mode == "crash") raise(SIGSEGV);
    }
    page_->Enter(Phase::kCompare);
    if (mode == "hang") pause();
    page_->Enter(Phase::kIdle);
    if (mode == "silent") return grpc::Status::OK;
    response->mutable_result()->set_verdict(v1::VERDICT_PASSED);
    response->mutable_result()->mutable_stats()->set_count(bytes);
    response->mutable_result()->set_implementation(std::to_string(getpid()));
    return grpc::Status::OK;
  }

  // Asks for one launch, and answers with what came back: PASSED, or ERROR if nothing did. As the
  // case's name says: crash, hang, silent. After the first message of an answer: crash-inside,
  // end-inside.
  grpc::Status RunElsewhere(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<worker::v1::RunElsewhereResponse, worker::v1::RunElsewhereRequest>*
          stream) override {
    context->AddTrailingMetadata(kAnsweredKey, "1");
    worker::v1::RunElsewhereRequest message;
    if (!stream->Read(&message)) return {grpc::StatusCode::INVALID_ARGUMENT, "no case"};
    const std::string mode = message.run().spec().name();
    page_->Enter(Phase::kKernel);
    worker::v1::RunElsewhereResponse ask;
    v1::TensorHeader& output =
        *ask.mutable_ask()->mutable_kernel()->mutable_output()->mutable_tensor();
    output.set_dtype(v1::DTYPE_FP32);
    output.add_shape(1);
    stream->Write(ask);
    ask.mutable_ask()->mutable_launch();
    stream->Write(ask);
    bool launched = false;
    while (!launched && stream->Read(&message)) {
      launched = message.answer().has_launched();
      if (mode == "crash-inside") raise(SIGSEGV);
      if (mode == "end-inside") break;
    }
    if (mode == "crash") raise(SIGSEGV);
    if (mode == "hang") pause();
    page_->Enter(Phase::kIdle);
    if (mode == "silent") return grpc::Status::OK;
    worker::v1::RunElsewhereResponse last;
    v1::CaseResult& result = *last.mutable_end()->mutable_result();
    result.set_verdict(launched ? v1::VERDICT_PASSED : v1::VERDICT_ERROR);
    if (mode == "end-inside") {
      *result.add_findings() = MakeFinding(v1::REASON_FAULT, "not an answer");
    } else if (!launched) {
      *result.add_findings() = MakeFinding(v1::REASON_CANCELLED, "lost");
    }
    result.set_implementation(std::to_string(getpid()));
    stream->Write(last);
    return grpc::Status::OK;
  }

  grpc::Status ReleaseArena(grpc::ServerContext*, const worker::v1::ReleaseArenaRequest*,
                            worker::v1::ReleaseArenaResponse* response) override {
    response->set_released_bytes(4096);
    return grpc::Status::OK;
  }

  grpc::Status MeasureCeilings(grpc::ServerContext*, const worker::v1::MeasureCeilingsRequest*,
                               worker::v1::MeasureCeilingsResponse* response) override {
    if (Wish() == "hang-ceilings") pause();
    v1::Ceiling* copy = response->add_ceilings();
    copy->set_kind(v1::CEILING_KIND_COPY);
    copy->set_bytes_per_second(1e9);
    v1::Ceiling* fma = response->add_ceilings();
    fma->set_kind(v1::CEILING_KIND_FMA);
    fma->set_dtype(v1::DTYPE_FP32);
    fma->set_flops_per_second(2e9);
    fma->set_noise(0.05);
    return grpc::Status::OK;
  }

 private:
  grpc::Status RunInTurn(const worker::v1::RunCaseRequest& request,
                         worker::v1::RunCaseResponse& response) {
    bool corrupt = false;
    for (int i = 0; i <= request.following_size(); ++i) {
      const std::string& mode = i == 0 ? request.spec().name() : request.following(i - 1).name();
      page_->Turn(i);
      if (mode == "crash") raise(SIGSEGV);
      if (mode == "hang") pause();
      if (mode == "refuse") return {grpc::StatusCode::INTERNAL, "refused"};
      v1::CaseResult* result = response.mutable_result();
      if (i > 0) {
        response.add_following()->set_place(i);
        result = response.mutable_following(i - 1)->mutable_result();
      }
      result->set_verdict(v1::VERDICT_PASSED);
      result->set_implementation("in turn");
      result->mutable_start_time()->set_seconds(1000 + i);
      result->mutable_duration()->set_seconds(i + 1);
      corrupt = corrupt || mode == "corrupt";
      if (mode == "last") break;
    }
    page_->Enter(Phase::kIdle);
    if (corrupt) raise(SIGSEGV);
    return grpc::Status::OK;
  }

  static void WriteGarbage() {
    const std::string garbage(1 << 16, '\xA5');
    send(kWorkerSocketFd, garbage.data(), garbage.size(), MSG_NOSIGNAL);
    pause();
  }

  // Until it is killed, but never so much that the machine is in danger.
  static void Allocate() {
    std::vector<char*> blocks;
    for (int i = 0; i < 64; ++i) {
      constexpr std::size_t kBytes = 16 << 20;
      blocks.push_back(static_cast<char*>(std::malloc(kBytes)));
      std::memset(blocks.back(), 1, kBytes);
    }
    pause();
  }

  PhasePage* page_;
};

int Main() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (Wish() == "die-at-start") return 9;
  if (Wish() == "slow-start") sleep(WishedSeconds());
  FakeService service(MapPhasePage(kWorkerPageFd));
  grpc::ServerBuilder builder;
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  fcntl(kWorkerSocketFd, F_SETFL, fcntl(kWorkerSocketFd, F_GETFL) | O_NONBLOCK);
  grpc::AddInsecureChannelFromFd(server.get(), kWorkerSocketFd);
  server->Wait();
  return 0;
}

}  // namespace
}  // namespace assay::server

#ifdef __SANITIZE_THREAD__
// It crashes on purpose, and races of its own are nobody's concern.
extern "C" const char* __tsan_default_options() {
  return "report_bugs=0:handle_segv=0:atexit_sleep_ms=0";
}
#endif

int main() { return assay::server::Main(); }
