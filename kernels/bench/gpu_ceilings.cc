#include "kernels/bench/gpu_ceilings.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "kernels/bench/ceilings_gpu.h"
#include "kernels/runtime/gpu/stream_of.h"

namespace assay {
namespace {

constexpr int kRuns = 7;                                      // the best counts, after one warm-up
constexpr double kRunSeconds = 0.004;                         // [seconds] about so long is a run
constexpr std::int64_t kCopyBytes = std::int64_t{512} << 20;  // of each buffer, at most
constexpr std::int64_t kLeastCopyBytes = std::int64_t{1} << 20;
constexpr int kBlocksEach = 8;     // blocks a multiprocessor
constexpr int kFirstRounds = 256;  // of the run that says how many rounds a run takes

class GpuCeilings final : public Ceilings {
 public:
  explicit GpuCeilings(GpuDevice& device) : device_(device) {}

  std::optional<double> FlopsPerSecond(DType dtype) override {
    std::optional<double>& kept = flops_[static_cast<std::size_t>(dtype)];
    if (!kept) kept = MeasureFlops(dtype);
    return kept;
  }

  std::optional<double> BytesPerSecond() override {
    if (!bytes_) bytes_ = MeasureCopy();
    return bytes_;
  }

  std::int64_t CacheBytes() const override { return device_.properties().l2_bytes; }

 private:
  // The shortest of several runs of `launch` [seconds].
  template <class Launch>
  std::optional<double> Best(Launch launch) {
    std::optional<double> best;
    for (int run = 0; run <= kRuns; ++run) {
      const absl::StatusOr<double> seconds = device_.TimeLaunch([&]() -> absl::Status {
        const absl::StatusOr<gpu::Stream> stream = device_.stream();
        if (!stream.ok()) return stream.status();
        const gpu::ErrorCode code = launch(*stream);
        return code == gpu::kOk ? absl::OkStatus() : absl::InternalError(gpu::Describe(code));
      });
      if (!seconds.ok()) return std::nullopt;
      if (run > 0 && *seconds > 0) best = std::min(best.value_or(*seconds), *seconds);
    }
    return best;
  }

  std::optional<double> MeasureCopy() {
    const std::int64_t room = device_.arena().available_bytes(2) / 2 / 256 * 256;
    const std::int64_t bytes = std::min(kCopyBytes, room);
    if (bytes < kLeastCopyBytes) return std::nullopt;
    const absl::StatusOr<Block> from = device_.arena().Allocate(bytes, false);
    const absl::StatusOr<Block> to = device_.arena().Allocate(bytes, false);
    if (!from.ok() || !to.ok()) return std::nullopt;
    // Random data: constants run faster than a real kernel's.
    const FillSpec data{Pattern{PatternKind::kNormal, 1, 0}, 1, 0, 0};
    const TensorView words{from->data, DType::kF32, Extents::Dense(1, 1, bytes / 4)};
    if (!device_.Fill(data, words).ok()) return std::nullopt;
    const auto seconds = Best([&](gpu::Stream stream) {
      return gpu::LaunchStreamCopy(from->data, to->data, bytes, stream);
    });
    if (!seconds) return std::nullopt;
    return 2.0 * static_cast<double>(bytes) / *seconds;
  }

  std::optional<double> MeasureFlops(DType dtype) {
    const bool matrix = dtype == DType::kF16 || dtype == DType::kBF16;
    if (!matrix && dtype != DType::kF32 && dtype != DType::kF64) return std::nullopt;
    const int blocks = device_.info().compute_units * kBlocksEach;
    const absl::StatusOr<Block> sums = device_.arena().Allocate(
        std::int64_t{blocks} * gpu::kChainThreads * static_cast<std::int64_t>(sizeof(double)),
        false);
    if (!sums.ok()) return std::nullopt;
    const auto launch = [&](int rounds) {
      return Best([&](gpu::Stream stream) {
        if (matrix) {
          return gpu::LaunchMatrixProducts(dtype, blocks, rounds, static_cast<float*>(sums->data),
                                           stream);
        }
        return gpu::LaunchMultiplyAdds(dtype, blocks, rounds, 0.999, 0.001, sums->data, stream);
      });
    };
    const std::optional<double> first = launch(kFirstRounds);
    if (!first) return std::nullopt;
    const double more = std::clamp(kRunSeconds / *first, 1.0, 1e4);
    const int rounds = static_cast<int>(kFirstRounds * more);
    const std::optional<double> seconds = launch(rounds);
    if (!seconds) return std::nullopt;
    const double operations = matrix ? gpu::MatrixOperations(blocks, rounds)
                                     : gpu::MultiplyAddOperations(dtype, blocks, rounds);
    return operations / *seconds;
  }

  GpuDevice& device_;
  std::optional<double> bytes_;
  std::array<std::optional<double>, kDTypeCount> flops_;
};

}  // namespace

std::unique_ptr<Ceilings> MakeGpuCeilings(GpuDevice& device) {
  return std::make_unique<GpuCeilings>(device);
}

}  // namespace assay
