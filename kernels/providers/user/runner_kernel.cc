#include "kernels/providers/user/runner_kernel.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <span>
#include <utility>

#include "kernels/providers/user/describe_problem.h"
#include "kernels/providers/user/loaded_runner.h"
#include "kernels/providers/user/runner_process.h"
#include "kernels/runtime/arena.h"
#include "kernels/runtime/kernel_failure.h"
#include "kernels/sdk/assay/kernel.h"
#include "kernels/text/cat.h"

namespace assay::inline kernels {
namespace {

// What is read of an output before the runner is stopped: all of a small one.
constexpr std::size_t kPageBytes = 4096;
constexpr std::int64_t kPieceBytes = 64;
constexpr std::int64_t kPieces = 64;
constexpr std::int64_t kSmallOutput = 16 << 10;

// Bytes of the shared memory, from its begin on.
struct Stretch {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

// What belongs to no operand's band, because each operand begins at a page. It holds 0.
std::vector<Stretch> Gaps(const Description& d) {
  std::vector<Stretch> taken;
  const auto take = [&taken](const SharedTensor& t, std::int64_t band) {
    if (t.bytes == 0) return;
    taken.push_back({t.offset - static_cast<std::uint64_t>(band),
                     t.offset + static_cast<std::uint64_t>(t.bytes + band)});
  };
  for (const SharedTensor& input : std::span(d.inputs, d.input_count)) take(input, kGuardBytes);
  take(d.output, kGuardBytes);
  take(d.magnitude, 0);
  take(d.debug, 0);
  taken.push_back({d.total_bytes, d.total_bytes});
  std::vector<Stretch> gaps;
  std::uint64_t end = kOperandsOffset;
  for (const Stretch& next : taken) {  // in the order of their offsets
    if (next.begin > end) gaps.push_back({end, next.begin});
    end = next.end;
  }
  return gaps;
}

// A piece of the output that was read before the runner was stopped.
struct Piece {
  std::int64_t begin = 0;
  std::vector<char> bytes;
};

class RunnerKernel final : public Kernel {
 public:
  RunnerKernel(std::unique_ptr<Description> description, std::unique_ptr<RunnerProcess> process,
               std::string implementation, const RunnerDeadline& until, double slowest)
      : description_(std::move(description)),
        process_(std::move(process)),
        implementation_(std::move(implementation)),
        until_(until),
        gaps_(Gaps(*description_)),
        fair_first_(std::max(kFairSeconds, kFairLaunches * slowest)) {}

  absl::Status Bring(std::span<const TensorView> inputs, const TensorView& output) override {
    // A kernel that fills its workspace in its first launch alone shows in all others. Once is
    // enough, and no launch has it in its time.
    if (++times_brought_ == 2) {
      const absl::StatusOr<int> filled =
          until_.Ask(*process_, RunnerTask::kFillWorkspace, kFairSeconds);
      if (!filled.ok()) return filled.status();
    }
    // No thread of the kernel's sees the operands before the launch, and its clock, begin.
    if (absl::Status status = process_->Freeze(); !status.ok()) return status;
    for (std::size_t i = 0; i < inputs.size(); ++i) Bring(inputs[i], description_->inputs[i]);
    Bring(output, description_->output);
    if (const std::size_t bytes = DebugBytes(); bytes > 0) {
      std::memset(process_->At(description_->debug.offset), 0, bytes);
    }
    return absl::OkStatus();
  }

  absl::Status Launch(std::span<const TensorView>, const TensorView&) override {
    process_->TakeOverhead();  // of what was before
    const double begin = RunnerDeadline::Now();
    const double fair = slowest_ > 0 ? kFairLaunches * slowest_ : fair_first_;
    const absl::StatusOr<int> status = until_.Ask(*process_, RunnerTask::kLaunch, fair);
    const double whole = RunnerDeadline::Now() - begin;
    if (!status.ok()) return status.status();
    slowest_ = std::max(slowest_, whole);
    // The estimate may be nearly all of a tiny kernel's time, so half stays.
    const RunnerProcess::Overhead overhead = process_->TakeOverhead();
    overhead_ += overhead.known + std::min(overhead.estimated, (whole - overhead.known) / 2);
    if (*status == ASSAY_OK) return absl::OkStatus();
    const std::string said = SaidBy(*process_);
    switch (*status) {
      case ASSAY_OUT_OF_BOUNDS:
        return FailedKernel({.error = KernelError::kWroteOutside},
                            said.empty() ? "the kernel says that it runs out of bounds" : said);
      case ASSAY_RACE:
        return FailedKernel({.error = KernelError::kVaries},
                            said.empty() ? "the kernel says that it has a race" : said);
      case ASSAY_NO_MEMORY:
        return FailedKernel(
            {}, Cat("launch returned ", *status,
                    ", for want of memory (beside its operands it may have ",
                    description_->memory_bytes, " bytes)", said.empty() ? "" : ": ", said));
      default:
        return FailedKernel({}, Cat("launch returned ", *status, said.empty() ? "" : ": ", said));
    }
  }

  absl::Status Fetch(std::span<const TensorView> inputs, const TensorView& output) override {
    const std::vector<Piece> pieces = ReadAtOnce(output);
    if (absl::Status status = process_->Freeze(); !status.ok()) return status;
    for (std::size_t i = 0; i < inputs.size(); ++i) Fetch(description_->inputs[i], inputs[i]);
    Fetch(description_->output, output);
    FetchGaps(output);
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
  std::vector<std::uint8_t> debug_buffer() const override {
    const char* const from = process_->At(description_->debug.offset);
    return {from, from + DebugBytes()};
  }
  double TakeOverheadSeconds() override { return std::exchange(overhead_, 0.0); }
  std::string implementation() const override { return implementation_; }
  std::vector<std::string> loaded_libraries() const override {
    std::vector<std::string> all = process_->LoadedLibraries(description_->library);
    all.insert(all.end(), libraries_.begin(), libraries_.end());
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return all;
  }

 private:
  std::size_t DebugBytes() const { return static_cast<std::size_t>(description_->debug.bytes); }
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

  // What was written into gaps counts as damage of the output's band.
  void FetchGaps(const TensorView& output) {
    char* damaged = static_cast<char*>(output.data) - kGuardBytes;
    for (const Stretch& gap : gaps_) {
      static constexpr char kZeros[kPageBytes] = {};
      const std::size_t bytes = static_cast<std::size_t>(gap.end - gap.begin);
      char* const begin = process_->At(gap.begin);
      if (bytes <= sizeof kZeros && std::memcmp(begin, kZeros, bytes) == 0) continue;
      for (char& byte : std::span(begin, bytes)) {
        if (byte == 0) continue;
        byte = 0;
        if (damaged < static_cast<char*>(output.data)) *damaged++ ^= 1;
      }
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
  const RunnerDeadline until_;
  const std::vector<Stretch> gaps_;
  const double fair_first_;  // what the first launch should have [s]
  double slowest_ = 0;       // launch so far [s]
  double overhead_ = 0;      // of launches [s]
  std::mt19937_64 secret_{std::random_device{}()};
  std::vector<std::string> libraries_;
  bool first_fetch_ = true;
  std::int64_t times_brought_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> MakeRunnerKernel(const Case& c, const Plan& plan,
                                                         Device& device) {
  if (c.kernel_file.empty()) {
    return absl::UnimplementedError(Cat("no library was given for ", c.provider));
  }
  const RunnerDeadline until(c);
  absl::StatusOr<std::unique_ptr<Description>> description = DescribeProblem(c, plan);
  if (!description.ok()) return description.status();
  absl::StatusOr<LoadedRunner> runner = LoadRunner(**description, device, until);
  if (!runner.ok()) return runner.status();
  if (absl::Status status = LoadError(*runner); !status.ok()) return status;
  return std::make_unique<RunnerKernel>(*std::move(description), std::move(runner->process),
                                        std::move(runner->name), until, c.slowest_launch);
}

KernelEntry UserKernels(std::string_view prefix, std::string_view backend) {
  return KernelEntry{.op = {},  // every one
                     .provider = prefix,
                     .backend = backend,
                     .dtypes = AllFormats(),
                     .make = &MakeRunnerKernel};
}

}  // namespace assay::kernels
