#include "server/worker/once.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "google/protobuf/util/json_util.h"
#include "kernels/ops/criterion.h"
#include "kernels/ops/op.h"
#include "kernels/text/cat.h"
#include "server/base/wire.h"

namespace assay::server {
namespace {

constexpr int kAnswerMilliseconds = 1000;

class PerfControl final : public PhaseObserver {
 public:
  PerfControl(int control, int answer) : control_(control), answer_(answer) {}
  ~PerfControl() override {
    Enter(Phase::kIdle);
    for (const int fd : {control_, answer_}) {
      if (fd >= 0) close(fd);
    }
  }

  void Enter(Phase phase) override {
    const bool count = phase == Phase::kKernel;
    if (count == counting_ || done_ || control_ < 0 || answer_ < 0) return;
    counting_ = count;
    done_ = !count;
    const std::string_view command = count ? "enable\n" : "disable\n";
    if (write(control_, command.data(), command.size()) < 0) return;
    // Without waiting for the answer, perf might begin to count too late.
    pollfd ready{answer_, POLLIN, 0};
    std::array<char, 64> ignored;
    if (poll(&ready, 1, kAnswerMilliseconds) > 0) {
      [[maybe_unused]] const ssize_t n = read(answer_, ignored.data(), ignored.size());
    }
  }

 private:
  const int control_;
  const int answer_;
  bool counting_ = false;
  bool done_ = false;
};

class DriverRange final : public PhaseObserver {
 public:
  // cuProfilerStart and cuProfilerStop of the driver that the process uses already.
  DriverRange() {
    void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (driver == nullptr) return;
    start_ = reinterpret_cast<Function>(dlsym(driver, "cuProfilerStart"));
    stop_ = reinterpret_cast<Function>(dlsym(driver, "cuProfilerStop"));
  }
  ~DriverRange() override { Enter(Phase::kIdle); }

  void Enter(Phase phase) override {
    const bool within = phase == Phase::kKernel;
    if (within == within_ || done_ || start_ == nullptr || stop_ == nullptr) return;
    within_ = within;
    done_ = !within;
    (within ? start_ : stop_)();
  }

 private:
  using Function = int (*)();
  Function start_ = nullptr;
  Function stop_ = nullptr;
  bool within_ = false;
  bool done_ = false;
};

}  // namespace

absl::StatusOr<v1::CaseSpec> ReadCaseFile(const std::string& path) {
  const bool standard_input = path == "-";
  const std::string name = standard_input ? "standard input" : path;
  std::stringstream text;
  if (standard_input) {
    text << std::cin.rdbuf();
  } else {
    std::ifstream file(path);
    std::error_code none;
    if (!file || std::filesystem::is_directory(path, none)) {
      return absl::NotFoundError(Cat("cannot read ", name));
    }
    text << file.rdbuf();
    if (file.bad()) return absl::NotFoundError(Cat("cannot read ", name));
  }
  v1::CaseSpec spec;
  if (const auto status = google::protobuf::util::JsonStringToMessage(text.str(), &spec);
      !status.ok()) {
    return absl::InvalidArgumentError(
        Cat(name, " holds no case (a CaseSpec as JSON): ",
            std::string(status.message().data(), status.message().size())));
  }
  if (spec.problem_case() == v1::CaseSpec::PROBLEM_NOT_SET) {
    return absl::InvalidArgumentError(
        Cat(name, " holds no case: it names no operator, as in {\"gemm\": {\"m\": 64, …}, …}"));
  }
  if (!spec.has_seed()) spec.set_seed(1);
  if (spec.provider().empty()) spec.set_provider("builtin");
  if (spec.mode() == v1::MODE_UNSPECIFIED) spec.set_mode(v1::MODE_VALIDATE);
  std::vector<FieldError> said_by_the_run;
  spec.set_criterion(static_cast<v1::Criterion>(GatingCriterion(FromProto(spec, said_by_the_run))));
  if (spec.repeats() == 0) spec.set_repeats(1);
  return spec;
}

absl::StatusOr<std::string> ResultText(const v1::CaseResult& result) {
  google::protobuf::util::JsonPrintOptions print;
  print.add_whitespace = true;
  print.preserve_proto_field_names = true;
  std::string json;
  if (const auto status = google::protobuf::util::MessageToJsonString(result, &json, print);
      !status.ok()) {
    return absl::InternalError(std::string(status.message().data(), status.message().size()));
  }
  if (!json.ends_with('\n')) json += '\n';
  return json;
}

std::unique_ptr<PhaseObserver> MakePerfControl(const std::string& control) {
  const std::size_t comma = control.find(',');
  if (comma == std::string::npos) return std::make_unique<PerfControl>(-1, -1);
  // The case must go on if nobody reads the pipes, and also if perf ends.
  signal(SIGPIPE, SIG_IGN);
  const std::string to = control.substr(0, comma), from = control.substr(comma + 1);
  return std::make_unique<PerfControl>(open(to.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC),
                                       open(from.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
}

std::unique_ptr<PhaseObserver> MakeDriverRange() { return std::make_unique<DriverRange>(); }

std::optional<std::int64_t> SmallArena(const v1::CaseSpec& spec) {
  // Room for workspaces, references and probes, beside the operands.
  constexpr std::int64_t kBeside = std::int64_t{1} << 30;
  std::vector<FieldError> errors;
  const Case c = FromProto(spec, errors);
  const Op* op = errors.empty() ? FindOp(OpName(c.problem)) : nullptr;
  if (op == nullptr) return std::nullopt;
  const absl::StatusOr<Plan> plan = op->MakePlan(c);
  if (!plan.ok()) return std::nullopt;
  const auto bytes = [](const Operand& operand) {
    return StorageBytes(operand.dtype, operand.extents.span());
  };
  std::int64_t all = bytes(plan->output);
  for (const Operand& input : plan->inputs) all += bytes(input);
  // Reference and bound are doubles.
  all += 2 * static_cast<std::int64_t>(sizeof(double)) * plan->output.extents.count();
  return 2 * all + kBeside;
}

void EndWith(int pid) {
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (fd < 0) {
    if (errno == ESRCH) kill(0, SIGKILL);  // it has ended
    return;
  }
  std::thread([fd] {
    pollfd ended{fd, POLLIN, 0};
    while (poll(&ended, 1, -1) < 0 && errno == EINTR) {
    }
    kill(0, SIGKILL);
  }).detach();
}

}  // namespace assay::server
