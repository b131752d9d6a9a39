#include "kernels/providers/user/loaded_runner.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/providers/user/check_library.h"
#include "kernels/providers/user/device_program.h"
#include "kernels/runner/shared_word.h"
#include "kernels/runtime/kernel_failure.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

constexpr std::int64_t kLargestLibrary = std::int64_t{1} << 30;
constexpr double kShareOfDeadline = 0.8;

// Text of a stranger's, for messages: ASCII without control characters.
std::string Printable(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < 0x20 || c > 0x7e; }, '?');
  return text;
}

absl::Status Unusable(std::string_view why) {
  return FailedKernel({.preparing = true}, Cat("the kernel's library cannot be used: ", why));
}

// A kernel of CUDA source runs on the emulator, and nothing else does.
absl::Status CheckDevice(std::span<const std::byte> library, const Device& device) {
  const bool cuda = ExportsSymbol(library, kEmulatedSymbol);
  const bool emulator = device.info().backend == "simt";
  if (cuda == emulator) return absl::OkStatus();
  return absl::UnimplementedError(cuda
                                      ? Cat("this kernel is CUDA source, and ", device.info().id,
                                            " does not run it; a cuda device or simt:0 does")
                                      : Cat("this kernel is no CUDA source, and ", device.info().id,
                                            " runs nothing else; --device cpu:0 runs it"));
}

// A file that cannot be read is no fault of the kernel's: the daemon gave its path. `device` is
// null for a reference, which may be of any kind.
absl::Status CheckFile(const std::string& path, const Device* device) {
  absl::Status unread = FailedKernel({.error = KernelError::kNotStarted, .preparing = true},
                                     Cat("the kernel's file ", path, " cannot be read"));
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file && HasDeviceProgram(path)) {
    return absl::UnimplementedError(
        "this kernel is compiled for cards alone: it is HIP source, or CUDA source that the "
        "emulator "
        "could not compile, or this daemon has no simt:0");
  }
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
  if (!checked.ok()) return Unusable(Cat(checked.message()));
  return device == nullptr ? absl::OkStatus()
                           : CheckDevice(std::as_bytes(std::span(bytes)), *device);
}

// Room beside the operands, as kernels in the worker have it.
std::uint64_t MemoryFor(const Device& device) {
  constexpr std::int64_t kLeast = std::int64_t{1} << 30;
  const std::int64_t all = device.info().memory_bytes;
  return static_cast<std::uint64_t>(
      std::min(std::max(all / 16, kLeast), std::max(all / 4, kLeast)));
}

}  // namespace

RunnerDeadline::RunnerDeadline(const Case& c)
    : begin_(c.deadline_from > 0 ? c.deadline_from : Now()),
      of_case_(c.deadline_seconds.value_or(0)) {}

double RunnerDeadline::Now() { return 1e-9 * static_cast<double>(NanosecondsNow()); }

absl::StatusOr<int> RunnerDeadline::Ask(RunnerProcess& process, RunnerTask task,
                                        double fair) const {
  if (of_case_ == 0) return process.Ask(task);
  const double left = kShareOfDeadline * of_case_ - (Now() - begin_);
  if (left <= 0) return NoTime(left, task);
  absl::StatusOr<int> answer = process.Ask(task, left);
  if (answer.ok() || left >= fair) return answer;
  const std::optional<KernelFailure> failure = FailureOf(answer.status());
  if (!failure || failure->cause != DeathCause::kDeadline) return answer;
  return NoTime(left, task);
}

absl::Status RunnerDeadline::NoTime(double left, RunnerTask task) const {
  return FailedKernel(
      {.error = KernelError::kNoTime, .preparing = task == RunnerTask::kLoad},
      Cat("of the case's deadline of ", of_case_, " s the kernel had ", std::max(left, 0.0),
          " s left, too little to judge it by; give the case more time"));
}

absl::StatusOr<LoadedRunner> LoadRunner(Description& description, Device& device,
                                        const RunnerDeadline& until) {
  const bool reference = description.magnitude.bytes > 0;
  const absl::Status status = CheckFile(description.library, reference ? nullptr : &device);
  if (!status.ok()) return status;
  description.thread_count = static_cast<std::uint32_t>(std::max(1, device.info().compute_units));
  description.memory_bytes = MemoryFor(device);
  absl::StatusOr<std::unique_ptr<RunnerProcess>> process = RunnerProcess::Start(description);
  if (!process.ok()) return process.status();
  // Before the library is loaded, the runner's word counts.
  if (const std::string lacks = (*process)->Answer().unconfined; !lacks.empty()) {
    return absl::UnimplementedError(
        Cat("users' kernels need landlock and seccomp; this platform lacks: ", lacks));
  }
  const absl::StatusOr<int> loaded = until.Ask(**process, RunnerTask::kLoad, kFairSeconds);
  if (!loaded.ok()) return loaded.status();
  const RunnerAnswer answer = (*process)->Answer();
  return LoadedRunner{*std::move(process), static_cast<LoadStatus>(*loaded),
                      Printable(answer.message), Printable(answer.name)};
}

std::string SaidBy(const RunnerProcess& process) { return Printable(process.Answer().message); }

absl::Status LoadError(const LoadedRunner& runner) {
  const std::string& message = runner.message;
  switch (runner.status) {
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

}  // namespace assay::kernels
