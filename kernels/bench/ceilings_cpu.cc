// The CPU's ceilings: all cores in multiply-add loops, and a copy that misses the
// caches. Each is the best of several short runs, since whatever else happens on
// the machine only makes them slower.
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <string>

#include "kernels/bench/ceilings.h"
#include "kernels/bench/multiply_add_cpu.h"
#include "kernels/bench/stream_copy_cpu.h"
#include "kernels/runtime/cpu/parallel.h"
#include "kernels/runtime/device.h"

namespace assay {
namespace {

constexpr int kRuns = 5;
constexpr double kRunSeconds = 0.005;  // [seconds] at least; at most twice that
constexpr std::int64_t kDefaultL3Bytes = std::int64_t{32} << 20;  // where it is not known
constexpr std::int64_t kMaxCopyBytes = std::int64_t{512} << 20;   // of each buffer
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

std::optional<double> MeasureBytes(std::int64_t l3_bytes) {
  // Both buffers together are five times the last cache.
  std::int64_t bytes = std::min(l3_bytes * 5 / 2, kMaxCopyBytes);
  bytes = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  const Mapping memory(2 * bytes);
  if (memory.data() == nullptr) return std::nullopt;
  unsigned char* const from = memory.data();
  unsigned char* const to = memory.data() + bytes;
  constexpr std::int64_t kPiece = std::int64_t{1} << 16;
  ParallelFor(bytes / kPiece, 1, [&](std::int64_t first, std::int64_t last) {
    // Touched by the thread that will copy it, and not the one shared zero page.
    std::memset(from + first * kPiece, 1, static_cast<std::size_t>((last - first) * kPiece));
    std::memset(to + first * kPiece, 2, static_cast<std::size_t>((last - first) * kPiece));
  });
  double best = 0;
  for (int i = 0; i < kRuns; ++i) {
    const double begin = Seconds();
    ParallelFor(bytes / kPiece, 1, [&](std::int64_t first, std::int64_t last) {
      internal::StreamCopy(from + first * kPiece, to + first * kPiece, (last - first) * kPiece);
    });
    best = std::max(best, 2.0 * static_cast<double>(bytes) / (Seconds() - begin));
  }
  return best;
}

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

  std::optional<double> FlopsPerSecond(DType dtype) override {
    Measured& m = flops_[static_cast<std::size_t>(dtype)];
    if (!m.done) m = Measured{true, MeasureFlops(dtype)};
    return m.value;
  }

  std::int64_t CacheBytes() const override { return l3_bytes_; }

  std::optional<double> BytesPerSecond() override {
    if (!bytes_.done) bytes_ = Measured{true, MeasureBytes(l3_bytes_)};
    return bytes_.value;
  }

 private:
  struct Measured {
    bool done = false;
    std::optional<double> value;
  };

  std::int64_t l3_bytes_ = 0;
  std::array<Measured, kDTypeCount> flops_;
  Measured bytes_;
};

}  // namespace

std::unique_ptr<Ceilings> MakeCpuCeilings(Device& device) {
  return std::make_unique<CpuCeilings>(device);
}

}  // namespace assay
