#include "kernels/bench/gpu_ceilings.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "kernels/bench/ceilings_gpu.h"
#include "kernels/bench/fastest_run.h"
#include "kernels/runtime/gpu/error_status.h"
#include "kernels/runtime/gpu/stream_of.h"

namespace assay::inline kernels {
namespace {

// Runs after one warm-up.
constexpr FastestRunOptions kRuns = {.least = 7, .most = 21, .agree = 0.01};
constexpr double kRunSeconds = 0.004;  // [seconds] about the length of a run
constexpr std::int64_t kStreamBytes = std::int64_t{512}
                                      << 20;  // of each buffer; more if the cache is large
constexpr std::int64_t kLeastStreamBytes = std::int64_t{1} << 20;
constexpr std::int64_t kBeyondCache = 4;  // the operands of a stream are this many times the cache
constexpr int kBlocksEach = 8;            // blocks a multiprocessor
constexpr int kFirstRounds = 256;  // of the first run, which tells how many rounds a run needs
constexpr std::int64_t kProducts[] = {4096, 8192};  // edges n of the vendor's products
// A product of twice the edge takes eight times as long. After a product that took longer than
// this, no larger one is tried.
constexpr double kLongProduct = 0.02;  // [seconds]

std::optional<Ceiling> Faster(const std::optional<Ceiling>& a, const std::optional<Ceiling>& b) {
  if (!a || !b) return a ? a : b;
  return a->per_second < b->per_second ? b : a;
}

class GpuCeilings final : public Ceilings {
 public:
  GpuCeilings(GpuDevice& device, LargeProductMaker products)
      : device_(device), products_(std::move(products)) {}

  std::optional<Ceiling> Find(CeilingKind kind, DType dtype) override {
    std::optional<Ceiling>& kept = Kept(kind, dtype);
    if (kept) return kept;
    // The mark frees the product's workspace, so that its guard bands are gone before a kernel
    // under test runs.
    const ArenaMark mark(device_.arena());
    if (IsMemory(kind)) {
      kept = MeasureStream(kind);
    } else if (kind == CeilingKind::kMatrix) {
      kept = MeasureMatrix(dtype);
    } else {
      kept = MeasureLoop(kind, dtype);
    }
    return kept;
  }

  void Forget(CeilingKind kind, DType dtype) override { Kept(kind, dtype).reset(); }

  std::int64_t CacheBytes() const override { return device_.properties().last_cache_bytes; }

 private:
  std::optional<Ceiling>& Kept(CeilingKind kind, DType dtype) {
    if (IsMemory(kind)) return bytes_[static_cast<std::size_t>(kind)];
    return (kind == CeilingKind::kMatrix ? matrix_ : vector_)[static_cast<std::size_t>(dtype)];
  }

  template <class Launch>
  std::optional<FastestRun> Fastest(Launch launch) {
    const auto run = [&]() -> std::optional<double> {
      const absl::StatusOr<double> seconds =
          device_.TimeLaunch([&]() -> absl::Status { return launch(); });
      if (!seconds.ok()) return std::nullopt;
      return *seconds;
    };
    if (!run()) return std::nullopt;
    return FindFastestRun(kRuns, run);
  }

  // The same for a launch that takes the stream.
  template <class Launch>
  std::optional<FastestRun> FastestOnStream(Launch launch) {
    return Fastest([&]() -> absl::Status {
      const absl::StatusOr<gpu::Stream> stream = device_.stream();
      if (!stream.ok()) return stream.status();
      return gpu::StatusOf(launch(*stream), "the launch failed");
    });
  }

  std::optional<Ceiling> MeasureMatrix(DType dtype) {
    const bool cuda = device_.info().backend == "cuda";
    std::optional<Ceiling> fastest = MeasureLoop(CeilingKind::kMatrix, dtype);
    if (products_ == nullptr || (cuda && dtype == DType::kF32)) return fastest;
    bool measured = false;
    for (const std::int64_t n : kProducts) {
      const absl::StatusOr<LargeProduct> product = products_(dtype, n);
      if (!product.ok()) {
        // The loop's rate alone may be too low. A later measurement tells.
        const bool no_room = absl::IsResourceExhausted(product.status());
        if (no_room && !measured && fastest) fastest->suspect = true;
        break;
      }
      const std::optional<FastestRun> run = Fastest(product->launch);
      if (!run) break;
      measured = true;
      fastest = Faster(fastest, Ceiling{CeilingKind::kMatrix, dtype,
                                        product->operations / run->seconds, run->noise});
      if (run->seconds > kLongProduct) break;
    }
    return fastest;
  }

  std::optional<Ceiling> MeasureStream(CeilingKind kind) {
    const int operands = kind == CeilingKind::kRead ? 1 : kind == CeilingKind::kTriad ? 3 : 2;
    // Blocks begin at multiples of 256 bytes. One more block holds the sum of a read.
    const std::int64_t room = device_.arena().available_bytes(4) / (operands + 1) / 256 * 256;
    // Operands that fit into the cache would show the cache's rate, which no kernel gets from
    // memory.
    const std::int64_t least = (kBeyondCache * CacheBytes() / operands + 255) / 256 * 256;
    const std::int64_t bytes = std::min(std::max(kStreamBytes, least), room);
    if (bytes < std::max(kLeastStreamBytes, least)) return std::nullopt;
    std::array<void*, 3> data = {};
    for (int i = 0; i < operands; ++i) {
      const absl::StatusOr<Block> block = device_.arena().Allocate(bytes, false);
      if (!block.ok()) return std::nullopt;
      data[static_cast<std::size_t>(i)] = block->data;
    }
    const absl::StatusOr<Block> sum = device_.arena().Allocate(256, false);
    if (!sum.ok()) return std::nullopt;
    // The operands that are read get random data, because constants run faster than the data of a
    // real kernel.
    for (int i = 0; i < std::max(1, operands - 1); ++i) {
      const FillSpec fill{Pattern{PatternKind::kNormal, 1, 0}, 1, static_cast<std::uint32_t>(i), 0};
      const TensorView words{data[static_cast<std::size_t>(i)], DType::kF32,
                             Extents::Dense(1, 1, bytes / 4)};
      if (!device_.Fill(fill, words).ok()) return std::nullopt;
    }
    const auto fastest = FastestOnStream([&](gpu::Stream stream) {
      if (kind == CeilingKind::kCopy) {
        return gpu::LaunchStreamCopy(data[0], data[1], bytes, stream);
      }
      if (kind == CeilingKind::kTriad) {
        return gpu::LaunchStreamTriad(static_cast<const float*>(data[0]),
                                      static_cast<const float*>(data[1]), 0.5F,
                                      static_cast<float*>(data[2]), bytes, stream);
      }
      return gpu::LaunchStreamRead(data[0], bytes, device_.info().compute_units * kBlocksEach,
                                   static_cast<unsigned long long*>(sum->data), stream);
    });
    if (!fastest) return std::nullopt;
    return Ceiling{kind, DType::kUnspecified,
                   operands * static_cast<double>(bytes) / fastest->seconds, fastest->noise};
  }

  std::optional<Ceiling> MeasureLoop(CeilingKind kind, DType dtype) {
    const bool matrix = kind == CeilingKind::kMatrix;
    // On HIP the products of tiles are plain multiply-adds, so they are no ceiling of a matrix
    // unit.
    if (matrix && device_.info().backend == "hip") return std::nullopt;
    const bool known = matrix
                           ? dtype == DType::kF16 || dtype == DType::kBF16
                           : dtype == DType::kF16 || dtype == DType::kF32 || dtype == DType::kF64;
    if (!known) return std::nullopt;
    const int blocks = device_.info().compute_units * kBlocksEach;
    const absl::StatusOr<Block> sums = device_.arena().Allocate(
        std::int64_t{blocks} * gpu::kChainThreads * static_cast<std::int64_t>(sizeof(double)),
        false);
    if (!sums.ok()) return std::nullopt;
    const auto launch = [&](int rounds) {
      return FastestOnStream([&](gpu::Stream stream) {
        if (matrix) {
          return gpu::LaunchMatrixProducts(dtype, blocks, rounds, static_cast<float*>(sums->data),
                                           stream);
        }
        return gpu::LaunchMultiplyAdds(dtype, blocks, rounds, 0.999, 0.001, sums->data, stream);
      });
    };
    const std::optional<FastestRun> first = launch(kFirstRounds);
    if (!first) return std::nullopt;
    const double more = std::clamp(kRunSeconds / first->seconds, 1.0, 1e4);
    const int rounds = static_cast<int>(kFirstRounds * more);
    const std::optional<FastestRun> fastest = rounds == kFirstRounds ? first : launch(rounds);
    if (!fastest) return std::nullopt;
    const double operations = matrix ? gpu::MatrixOperations(blocks, rounds)
                                     : gpu::MultiplyAddOperations(dtype, blocks, rounds);
    return Ceiling{kind, dtype, operations / fastest->seconds, fastest->noise};
  }

  GpuDevice& device_;
  const LargeProductMaker products_;
  std::array<std::optional<Ceiling>, 4> bytes_;  // by kind
  std::array<std::optional<Ceiling>, kDTypeCount> vector_;
  std::array<std::optional<Ceiling>, kDTypeCount> matrix_;
};

}  // namespace

std::unique_ptr<Ceilings> MakeGpuCeilings(GpuDevice& device, LargeProductMaker products) {
  return std::make_unique<GpuCeilings>(device, std::move(products));
}

}  // namespace assay::kernels
