#include "kernels/providers/user/runner_kernel.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <optional>
#include <random>
#include <span>
#include <utility>

#include "kernels/providers/user/check_library.h"
#include "kernels/providers/user/describe_problem.h"
#include "kernels/providers/user/runner_process.h"
#include "kernels/runner/shared_word.h"
#include "kernels/runtime/arena.h"
#include "kernels/runtime/kernel_failure.h"
#include "kernels/sdk/assay/kernel.h"
#include "kernels/text/cat.h"

namespace assay {
namespace {

// What is read of an output before the runner is stopped: all of a small one.
constexpr std::int64_t kPieceBytes = 64;
constexpr std::int64_t kPieces = 64;
constexpr std::int64_t kSmallOutput = 16 << 10;
constexpr std::int64_t kLargestLibrary = std::int64_t{1} << 30;

// Text of a stranger's, for messages: ASCII without control characters.
std::string Printable(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < 0x20 || c > 0x7e; }, '?');
  return text;
}

absl::Status Unusable(std::string_view why) {
  return FailedKernel({.preparing = true}, Cat("the kernel's library cannot be used: ", why));
}

// A file that cannot be read is no fault of the kernel's: the daemon gave its path.
absl::Status CheckFile(const std::string& path) {
  const absl::Status unread = FailedKernel({.error = KernelError::kNotStarted, .preparing = true},
                                           Cat("the kernel's file ", path, " cannot be read"));
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return unread;
  const auto size = static_cast<std::int64_t>(file.tellg());
  if (size > kLargestLibrary) {
    return Unusable(Cat("it has ", size, " bytes, and at most ", kLargestLibrary, " are taken"));
  }
  std::vector<char> bytes(static_cast<std::size_t>(std::max<std::int64_t>(size, 0)));
  file.seekg(0);
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!file) return unread;
  const absl::Status checked = CheckLibrary(std::as_bytes(std::span(bytes)));
  return checked.ok() ? checked : Unusable(Cat(checked.message()));
}

// The case's deadline, a little early: the kernel's process then ends, and not the worker. The
// judge's own work counts towards it, so a kernel may be left with too little of it.
class Deadline {
 public:
  explicit Deadline(const Case& c)
      : begin_(c.deadline_from > 0 ? c.deadline_from : Now()),
        of_case_(c.deadline_seconds.value_or(0)) {}

  // Asks for a task that should have `fair` seconds. A kernel that had less, and did not return in
  // time, is not to blame: KernelError::kNoTime.
  absl::StatusOr<int> Ask(RunnerProcess& process, RunnerTask task, double fair) const {
    if (of_case_ == 0) return process.Ask(task);
    const double left = kShare * of_case_ - (Now() - begin_);
    if (left <= 0) return NoTime(left, task);
    absl::StatusOr<int> answer = process.Ask(task, left);
    if (answer.ok() || left >= fair) return answer;
    const std::optional<KernelFailure> failure = FailureOf(answer.status());
    if (!failure || failure->cause != DeathCause::kDeadline) return answer;
    return NoTime(left, task);
  }
  static double Now() { return 1e-9 * static_cast<double>(NanosecondsNow()); }

 private:
  static constexpr double kShare = 0.8;

  absl::Status NoTime(double left, RunnerTask task) const {
    return FailedKernel(
        {.error = KernelError::kNoTime, .preparing = task != RunnerTask::kLaunch},
        Cat("of the case's deadline of ", of_case_, " s the kernel had ", std::max(left, 0.0),
            " s left, too little to judge it by; give the case more time"));
  }

  double begin_;    // [s], of the steady clock
  double of_case_;  // [s]; 0: there is none
};

// A first call of a kernel's, and others in units of the slowest that came before.
constexpr double kFairSeconds = 1;
constexpr double kFairLaunches = 10;

// A piece of the output that was read before the runner was stopped.
struct Piece {
  std::int64_t begin = 0;
  std::vector<char> bytes;
};

class RunnerKernel final : public Kernel {
 public:
  RunnerKernel(std::unique_ptr<Description> description, std::unique_ptr<RunnerProcess> process,
               std::string implementation, const Deadline& until)
      : description_(std::move(description)),
        process_(std::move(process)),
        implementation_(std::move(implementation)),
        until_(until) {}

  absl::Status Bring(std::span<const TensorView> inputs, const TensorView& output) override {
    // No thread of the kernel's sees the operands before the launch, and its clock, begin.
    if (absl::Status status = process_->Freeze(); !status.ok()) return status;
    for (std::size_t i = 0; i < inputs.size(); ++i) Bring(inputs[i], description_->inputs[i]);
    Bring(output, description_->output);
    return absl::OkStatus();
  }

  absl::Status Launch(std::span<const TensorView>, const TensorView&) override {
    const double begin = Deadline::Now();
    const double fair = slowest_ > 0 ? kFairLaunches * slowest_ : kFairSeconds;
    const absl::StatusOr<int> status = until_.Ask(*process_, RunnerTask::kLaunch, fair);
    if (!status.ok()) return status.status();
    slowest_ = std::max(slowest_, Deadline::Now() - begin);
    if (*status == ASSAY_OK) return absl::OkStatus();
    return FailedKernel({}, Cat("launch returned ", *status));
  }

  absl::Status Fetch(std::span<const TensorView> inputs, const TensorView& output) override {
    const std::vector<Piece> pieces = ReadAtOnce(output);
    if (absl::Status status = process_->Freeze(); !status.ok()) return status;
    for (std::size_t i = 0; i < inputs.size(); ++i) Fetch(description_->inputs[i], inputs[i]);
    Fetch(description_->output, output);
    if (first_fetch_) libraries_ = process_->LoadedLibraries(description_->library);
    first_fetch_ = false;
    auto* const data = static_cast<char*>(output.data);
    for (const Piece& piece : pieces) {
      std::memcpy(data + piece.begin, piece.bytes.data(), piece.bytes.size());
    }
    return absl::OkStatus();
  }

  std::vector<TensorView> OperandsInPlace(std::span<const TensorView> inputs,
                                          const TensorView& output) const override {
    std::vector<TensorView> views(inputs.begin(), inputs.end());
    views.push_back(output);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      views[i].data = process_->At(description_->inputs[i].offset);
    }
    views.back().data = process_->At(description_->output.offset);
    return views;
  }

  bool trusted() const override { return false; }
  double TakeOverheadSeconds() override { return process_->TakeOverhead(); }
  std::string implementation() const override { return implementation_; }
  std::vector<std::string> loaded_libraries() const override {
    std::vector<std::string> all = process_->LoadedLibraries(description_->library);
    all.insert(all.end(), libraries_.begin(), libraries_.end());
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return all;
  }

 private:
  static std::size_t BytesWithBands(const TensorView& view) {
    return static_cast<std::size_t>(view.bytes() + 2 * kGuardBytes);
  }

  void Bring(const TensorView& from, const SharedTensor& to) {
    std::memcpy(process_->At(to.offset) - kGuardBytes,
                static_cast<const char*>(from.data) - kGuardBytes, BytesWithBands(from));
  }
  // Most of the time nothing but the output has changed.
  void Fetch(const SharedTensor& from, const TensorView& to) {
    const char* const source = process_->At(from.offset) - kGuardBytes;
    char* const target = static_cast<char*>(to.data) - kGuardBytes;
    if (std::memcmp(target, source, BytesWithBands(to)) != 0) {
      std::memcpy(target, source, BytesWithBands(to));
    }
  }

  std::vector<Piece> ReadAtOnce(const TensorView& output) {
    const char* const data = process_->At(description_->output.offset);
    const std::int64_t bytes = output.bytes();
    std::vector<Piece> pieces;
    if (bytes <= kSmallOutput) {
      pieces.push_back({0, std::vector<char>(data, data + bytes)});
      return pieces;
    }
    std::uniform_int_distribution<std::int64_t> place(0, (bytes - 1) / kPieceBytes);
    for (int i = 0; i < kPieces; ++i) {
      const std::int64_t begin = place(secret_) * kPieceBytes;
      const std::int64_t end = std::min(begin + kPieceBytes, bytes);
      pieces.push_back({begin, std::vector<char>(data + begin, data + end)});
    }
    return pieces;
  }

  const std::unique_ptr<Description> description_;
  const std::unique_ptr<RunnerProcess> process_;
  const std::string implementation_;
  const Deadline until_;
  double slowest_ = 0;  // launch so far [s]
  std::mt19937_64 secret_{std::random_device{}()};
  std::vector<std::string> libraries_;
  bool first_fetch_ = true;
};

// Room beside the operands, as kernels in the worker have it.
std::uint64_t MemoryFor(const Device& device) {
  constexpr std::int64_t kLeast = std::int64_t{1} << 30;
  const std::int64_t all = device.info().memory_bytes;
  return static_cast<std::uint64_t>(
      std::min(std::max(all / 16, kLeast), std::max(all / 4, kLeast)));
}

absl::Status LoadError(LoadStatus status, const std::string& message) {
  switch (status) {
    case LoadStatus::kOk:
      return absl::OkStatus();
    case LoadStatus::kOtherOp:
    case LoadStatus::kUnsupported:
      return absl::UnimplementedError(message.empty() ? "the kernel does not take this problem"
                                                      : message);
    case LoadStatus::kNoMemory:
      return absl::ResourceExhaustedError(message.empty() ? "prepare had no memory" : message);
    case LoadStatus::kNoSymbol:
      return Unusable(Cat("it does not export ", kKernelSymbol));
    case LoadStatus::kWrongVersion:
      return Unusable(Cat("another version of assay/kernel.h: ", message));
    case LoadStatus::kFailed:
      return FailedKernel({.preparing = true}, Cat("the kernel could not be prepared: ", message));
    case LoadStatus::kNotLoaded:
    case LoadStatus::kMalformed:
      break;
  }
  return Unusable(message);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> MakeRunnerKernel(const Case& c, const Plan& plan,
                                                         Device& device) {
  if (c.kernel_file.empty()) {
    return absl::UnimplementedError(Cat("no library was given for ", c.provider));
  }
  const Deadline until(c);
  if (absl::Status status = CheckFile(c.kernel_file); !status.ok()) return status;
  absl::StatusOr<std::unique_ptr<Description>> description = DescribeProblem(c, plan);
  if (!description.ok()) return description.status();
  (*description)->thread_count =
      static_cast<std::uint32_t>(std::max(1, device.info().compute_units));
  (*description)->memory_bytes = MemoryFor(device);
  absl::StatusOr<std::unique_ptr<RunnerProcess>> process = RunnerProcess::Start(**description);
  if (!process.ok()) return process.status();
  // Before the library is loaded, the runner's word counts.
  if (const std::string lacks = (*process)->Answer().unconfined; !lacks.empty()) {
    return absl::UnimplementedError(
        Cat("users' kernels need landlock and seccomp; this platform lacks: ", lacks));
  }
  const absl::StatusOr<int> loaded = until.Ask(**process, RunnerTask::kLoad, kFairSeconds);
  if (!loaded.ok()) return loaded.status();
  const RunnerAnswer answer = (*process)->Answer();
  const absl::Status status =
      LoadError(static_cast<LoadStatus>(*loaded), Printable(answer.message));
  if (!status.ok()) return status;
  return std::make_unique<RunnerKernel>(*std::move(description), *std::move(process),
                                        Printable(answer.name), until);
}

KernelEntry UserKernels(std::string_view prefix) {
  KernelEntry entry;
  entry.provider = prefix;
  entry.backend = "cpu";
  for (int i = 1; i < kDTypeCount; ++i) entry.dtypes.push_back(static_cast<DType>(i));
  entry.make = MakeRunnerKernel;
  return entry;
}

}  // namespace assay
