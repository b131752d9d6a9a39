// Measures the CPU's ceilings: all cores run multiply-add loops, and streams miss the caches. Each
// ceiling is the fastest of several short runs.
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <limits>
#include <mutex>
#include <string>

#include "kernels/bench/ceilings.h"
#include "kernels/bench/fastest_run.h"
#include "kernels/bench/multiply_add_cpu.h"
#include "kernels/bench/streams_cpu.h"
#include "kernels/runtime/cpu/parallel.h"
#include "kernels/runtime/device.h"

namespace assay::inline kernels {
namespace {

constexpr double kRunSeconds = 0.005;  // [seconds] the least of a run; the most is twice that
// If a run takes longer than its slowest thread by this factor, a thread waited for a core. Then
// the others had for themselves what they else share: the units of a core that runs two threads, or
// the higher clocks of few cores. Such runs count only if there are not two others.
constexpr double kTogether = 1.1;
constexpr std::int64_t kMostRounds = std::int64_t{1} << 26;        // far more than a run needs
constexpr std::int64_t kDefaultL3Bytes = std::int64_t{32} << 20;   // if the size is not known
constexpr std::int64_t kMaxStreamBytes = std::int64_t{256} << 20;  // of each buffer; or the cache's
constexpr std::int64_t kShareOfMemory = 16;                        // of it, that a buffer may take
constexpr std::int64_t kHugePage = std::int64_t{2} << 20;

double Seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Anonymous memory, in huge pages if the system has some. data() is null if there is no memory.
class Mapping {
 public:
  explicit Mapping(std::int64_t bytes) : bytes_(static_cast<std::size_t>(bytes)) {
    void* p = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return;
    data_ = static_cast<unsigned char*>(p);
    madvise(data_, bytes_, MADV_HUGEPAGE);
  }
  ~Mapping() {
    if (data_ != nullptr) munmap(data_, bytes_);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  unsigned char* data() const { return data_; }

 private:
  std::size_t bytes_;
  unsigned char* data_ = nullptr;
};

// The time that this thread has had a core. Time that another process had the core does not count.
// NaN if the clock cannot be read.
double ThreadSeconds() {
  timespec now = {};
  if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) != 0) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double TimeRounds(const internal::MultiplyAddLoop& loop, std::int64_t rounds) {
  const double begin = ThreadSeconds();
  loop.run(rounds);
  return ThreadSeconds() - begin;
}

// Runs `rounds` rounds on every core at once and returns the seconds of the slowest core.
double TimeOnAllCores(const internal::MultiplyAddLoop& loop, std::int64_t rounds) {
  std::mutex mutex;
  double slowest = 0;
  ParallelFor(ParallelWidth(), 1, [&](std::int64_t first, std::int64_t last) {
    const double seconds = TimeRounds(loop, rounds * (last - first));
    const std::lock_guard<std::mutex> lock(mutex);
    slowest = std::max(slowest, seconds);
  });
  return slowest;
}

std::optional<Ceiling> MeasureFlops(DType dtype) {
  const internal::MultiplyAddLoop loop = internal::MultiplyAddLoopOf(dtype);
  if (loop.run == nullptr) return std::nullopt;
  // The faster of two runs, so that a thread that was interrupted does not end the search.
  std::int64_t rounds = 1024;
  while (std::min(TimeRounds(loop, rounds), TimeRounds(loop, rounds)) < kRunSeconds / 4) {
    rounds *= 2;
    if (rounds > kMostRounds) return std::nullopt;  // the clock stands still
  }
  rounds *= 4;
  const auto measure = [&](bool together) {
    return FindFastestRun({}, [&]() -> std::optional<double> {
      const double begin = Seconds();
      const double slowest = TimeOnAllCores(loop, rounds);
      return together && Seconds() - begin > kTogether * slowest ? 0 : slowest;  // 0: ignored
    });
  };
  auto fastest = measure(/*together=*/true);
  // One run alone, which has no noise, proves too little.
  if (!fastest || !fastest->noise) fastest = measure(/*together=*/false);
  if (!fastest) return std::nullopt;
  const double operations =
      loop.operations * static_cast<double>(rounds) * static_cast<double>(ParallelWidth());
  return Ceiling{CeilingKind::kFma, dtype, operations / fastest->seconds, fastest->noise};
}

// Three buffers, together far larger than the last cache. Each run begins at the next buffer, so
// that it reads the data that were touched longest ago.
class Streams {
 public:
  Streams(std::int64_t l3_bytes, std::int64_t memory_bytes)
      : bytes_((std::min(
                    l3_bytes * 5 / 2,
                    std::max(kMaxStreamBytes, std::min(l3_bytes, memory_bytes / kShareOfMemory))) +
                kHugePage - 1) /
               kHugePage * kHugePage),
        memory_(3 * bytes_) {
    if (memory_.data() == nullptr) return;
    ParallelFor(bytes_ / kPiece, 1, [&](std::int64_t first, std::int64_t last) {
      // The thread that will use a piece touches it first, so that it is not the shared zero page.
      // The bytes make ordinary fp64 numbers.
      for (int operand = 0; operand < 3; ++operand) {
        std::memset(At(operand, first), 0x3f, static_cast<std::size_t>((last - first) * kPiece));
      }
    });
  }

  std::optional<Ceiling> Measure(CeilingKind kind) {
    if (memory_.data() == nullptr) return std::nullopt;
    const double moved = static_cast<double>(bytes_) * (kind == CeilingKind::kRead    ? 1
                                                        : kind == CeilingKind::kTriad ? 3
                                                                                      : 2);
    int run = 0;
    const auto fastest = FindFastestRun({}, [&]() -> std::optional<double> {
      const double begin = Seconds();
      ParallelFor(bytes_ / kPiece, 1, [&](std::int64_t first, std::int64_t last) {
        Run(kind, run, first, (last - first) * kPiece);
      });
      ++run;
      return Seconds() - begin;
    });
    if (!fastest) return std::nullopt;
    return Ceiling{kind, DType::kUnspecified, moved / fastest->seconds, fastest->noise};
  }

 private:
  static constexpr std::int64_t kPiece = std::int64_t{1} << 16;

  unsigned char* At(int operand, std::int64_t piece) const {
    return memory_.data() + operand * bytes_ + piece * kPiece;
  }

  void Run(CeilingKind kind, int run, std::int64_t piece, std::int64_t bytes) {
    unsigned char* const first = At(run % 3, piece);
    unsigned char* const second = At((run + 1) % 3, piece);
    if (kind == CeilingKind::kRead) {
      sum_.fetch_add(internal::StreamRead(first, bytes), std::memory_order_relaxed);
    } else if (kind == CeilingKind::kTriad) {
      internal::StreamTriad(first, second, 0.5, At((run + 2) % 3, piece), bytes);
    } else {
      internal::StreamCopy(first, second, bytes);
    }
  }

  std::int64_t bytes_;
  Mapping memory_;
  std::atomic<std::uint64_t> sum_{0};  // a use of the sums, so that they are computed
};

class CpuCeilings : public Ceilings {
 public:
  explicit CpuCeilings(Device& device) : memory_bytes_(device.info().memory_bytes) {
    const auto& properties = device.info().properties;
    const auto found = properties.find("l3_bytes");
    if (found != properties.end()) {
      const std::string& text = found->second;
      std::from_chars(text.data(), text.data() + text.size(), l3_bytes_);
    }
    if (l3_bytes_ <= 0) l3_bytes_ = kDefaultL3Bytes;
  }

  std::optional<Ceiling> Find(CeilingKind kind, DType dtype) override {
    if (IsMemory(kind)) {
      std::optional<Ceiling>& kept = bytes_[static_cast<std::size_t>(kind)];
      if (!kept) MeasureStreams();
      return kept;
    }
    if (kind != CeilingKind::kFma) return std::nullopt;
    std::optional<Ceiling>& kept = flops_[static_cast<std::size_t>(dtype)];
    if (!kept) kept = MeasureFlops(dtype);
    return kept;
  }

  void Forget(CeilingKind kind, DType dtype) override {
    if (IsMemory(kind)) {
      bytes_[static_cast<std::size_t>(kind)].reset();
    } else if (kind == CeilingKind::kFma) {
      flops_[static_cast<std::size_t>(dtype)].reset();
    }
  }

  std::int64_t CacheBytes() const override { return l3_bytes_; }

 private:
  // Measures all missing memory ceilings at once, because taking the memory costs more than the
  // measurements.
  void MeasureStreams() {
    Streams streams(l3_bytes_, memory_bytes_);
    for (const CeilingKind kind : {CeilingKind::kCopy, CeilingKind::kTriad, CeilingKind::kRead}) {
      std::optional<Ceiling>& kept = bytes_[static_cast<std::size_t>(kind)];
      if (!kept) kept = streams.Measure(kind);
    }
  }

  const std::int64_t memory_bytes_;
  std::int64_t l3_bytes_ = 0;
  std::array<std::optional<Ceiling>, kDTypeCount> flops_;
  std::array<std::optional<Ceiling>, 4> bytes_;  // by kind
};

}  // namespace

std::unique_ptr<Ceilings> MakeCpuCeilings(Device& device) {
  return std::make_unique<CpuCeilings>(device);
}

}  // namespace assay::kernels
