// The CPU's ceilings: all cores in multiply-add loops, and streams that miss the caches. Each is
// the best of several short runs, since whatever else happens on the machine only makes them
// slower.
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <string>

#include "kernels/bench/ceilings.h"
#include "kernels/bench/multiply_add_cpu.h"
#include "kernels/bench/streams_cpu.h"
#include "kernels/runtime/cpu/parallel.h"
#include "kernels/runtime/device.h"

namespace assay {
namespace {

constexpr int kRuns = 5;
constexpr int kMostRuns = 15;  // of a stream
constexpr double kAgree = 0.98;
constexpr double kRunSeconds = 0.005;  // [seconds] at least; at most twice that
constexpr std::int64_t kDefaultL3Bytes = std::int64_t{32} << 20;   // where it is not known
constexpr std::int64_t kMaxStreamBytes = std::int64_t{256} << 20;  // of each buffer
constexpr std::int64_t kHugePage = std::int64_t{2} << 20;

double Seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Anonymous memory in huge pages where there are some; null where there is none.
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

// Time this thread was on a core: while another process has the core, this one's
// arithmetic is not slower.
double ThreadSeconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double TimeRounds(const internal::MultiplyAddLoop& loop, std::int64_t rounds) {
  const double begin = ThreadSeconds();
  loop.run(rounds);
  return ThreadSeconds() - begin;
}

// Seconds of `rounds` rounds on every core at once: the slowest core's.
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

std::optional<double> MeasureFlops(DType dtype) {
  const internal::MultiplyAddLoop loop = internal::MultiplyAddLoopOf(dtype);
  if (loop.run == nullptr) return std::nullopt;
  // The better of two, so that a thread that was put aside does not end the search.
  std::int64_t rounds = 1024;
  while (std::min(TimeRounds(loop, rounds), TimeRounds(loop, rounds)) < kRunSeconds / 4) {
    rounds *= 2;
  }
  rounds *= 4;
  double best = TimeOnAllCores(loop, rounds);
  for (int i = 1; i < kRuns; ++i) best = std::min(best, TimeOnAllCores(loop, rounds));
  return loop.operations * static_cast<double>(rounds) * static_cast<double>(ParallelWidth()) /
         best;
}

// Three buffers, together far larger than the last cache. Each run begins at the next, so
// that it reads what was touched longest ago.
class Streams {
 public:
  explicit Streams(std::int64_t l3_bytes)
      : bytes_((std::min(l3_bytes * 5 / 2, kMaxStreamBytes) + kHugePage - 1) / kHugePage *
               kHugePage),
        memory_(3 * bytes_) {
    if (memory_.data() == nullptr) return;
    ParallelFor(bytes_ / kPiece, 1, [&](std::int64_t first, std::int64_t last) {
      // Touched by the thread that will use it, and not the one shared zero page. The bytes
      // make ordinary numbers of fp64.
      for (int operand = 0; operand < 3; ++operand) {
        std::memset(At(operand, first), 0x3f, static_cast<std::size_t>((last - first) * kPiece));
      }
    });
  }

  std::optional<double> Measure(CeilingKind kind) {
    if (memory_.data() == nullptr) return std::nullopt;
    const double moved = static_cast<double>(bytes_) * (kind == CeilingKind::kRead    ? 1
                                                        : kind == CeilingKind::kTriad ? 3
                                                                                      : 2);
    // The two best agree where nobody else took the memory's time; else there may be a better.
    double best = 0, second = 0;
    for (int i = 0; i < kMostRuns && (i < kRuns || second < kAgree * best); ++i) {
      const double begin = Seconds();
      ParallelFor(bytes_ / kPiece, 1, [&](std::int64_t first, std::int64_t last) {
        Run(kind, i, first, (last - first) * kPiece);
      });
      const double seconds = Seconds() - begin;
      if (!(seconds > 0)) continue;
      const double rate = moved / seconds;
      second = std::max(second, std::min(best, rate));
      best = std::max(best, rate);
    }
    return best > 0 ? std::optional<double>(best) : std::nullopt;
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
  std::atomic<std::uint64_t> sum_{0};  // so that the sums are made
};

class CpuCeilings : public Ceilings {
 public:
  explicit CpuCeilings(Device& device) {
    const auto& properties = device.info().properties;
    const auto found = properties.find("l3_bytes");
    if (found != properties.end()) {
      const std::string& text = found->second;
      std::from_chars(text.data(), text.data() + text.size(), l3_bytes_);
    }
    if (l3_bytes_ <= 0) l3_bytes_ = kDefaultL3Bytes;
  }

  std::optional<double> PerSecond(CeilingKind kind, DType dtype) override {
    if (IsMemory(kind)) {
      std::optional<double>& kept = bytes_[static_cast<std::size_t>(kind)];
      if (!kept) MeasureStreams();
      return kept;
    }
    if (kind != CeilingKind::kFma) return std::nullopt;
    std::optional<double>& kept = flops_[static_cast<std::size_t>(dtype)];
    if (!kept) kept = MeasureFlops(dtype);
    return kept;
  }

  std::int64_t CacheBytes() const override { return l3_bytes_; }

 private:
  // All three at once: taking the memory costs more than they do.
  void MeasureStreams() {
    Streams streams(l3_bytes_);
    for (const CeilingKind kind : {CeilingKind::kCopy, CeilingKind::kTriad, CeilingKind::kRead}) {
      bytes_[static_cast<std::size_t>(kind)] = streams.Measure(kind);
    }
  }

  std::int64_t l3_bytes_ = 0;
  std::array<std::optional<double>, kDTypeCount> flops_;
  std::array<std::optional<double>, 4> bytes_;  // by kind
};

}  // namespace

std::unique_ptr<Ceilings> MakeCpuCeilings(Device& device) {
  return std::make_unique<CpuCeilings>(device);
}

}  // namespace assay
