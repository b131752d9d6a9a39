// Sets and counts guard bytes: the padding between the runs of a strided tensor, and ranges of
// bytes around blocks. They are set before a launch, and changed bytes are counted after it.
//
// Each gap of padding gets 32 threads, because most gaps are the few elements between cols and ld.
// The y extent of the grid cuts long gaps. For e2m1 only whole bytes of padding are guarded.
#include "kernels/runtime/gpu/primitives.h"
#include "kernels/runtime/gpu/reduce.h"
#include "kernels/runtime/gpu/runs.h"

namespace assay::inline kernels::gpu {
namespace {

constexpr unsigned kThreadsOfAGap = 32;
constexpr std::int64_t kGapBytes = 4096;      // bytes of a gap for the threads of one block
constexpr std::int64_t kMostCuts = 1024;      // parts of a gap
constexpr std::int64_t kMostCounters = 2048;  // blocks that add to one counter

// The work on one byte: set it, or count it if it differs.
struct SetByte {
  static constexpr bool kCounts = false;
  static ASSAY_DEVICE_MEMBER unsigned Visit(unsigned char* at, unsigned char byte) {
    *at = byte;
    return 0;
  }
};
struct CountByte {
  static constexpr bool kCounts = true;
  static ASSAY_DEVICE_MEMBER unsigned Visit(const unsigned char* at, unsigned char byte) {
    return *at != byte ? 1U : 0U;
  }
};

// Adds the counts of the block's threads to *count.
template <class Shared>
ASSAY_DEVICE void AddCount(unsigned long long counted, Shared partial, unsigned long long* count) {
  const unsigned long long sum = BlockReduce<Sum>(counted, partial, kThreads);
  if (Thread().x == 0 && sum != 0) AtomicAdd(count, sum);
}

template <class Byte>
ASSAY_GLOBAL void VisitGaps(Runs runs, std::int64_t gaps, unsigned char byte,
                            unsigned long long* count) {
  const std::int64_t bits = StorageBits(runs.dtype);
  const std::int64_t lane = Thread().x % kThreadsOfAGap + Block().y * kThreadsOfAGap;
  const std::int64_t lanes = std::int64_t{kThreadsOfAGap} * GridExtent().y;
  unsigned long long counted = 0;
  for (std::int64_t gap = FirstItem() / kThreadsOfAGap; gap < gaps;
       gap += ItemStep() / kThreadsOfAGap) {
    const std::int64_t begin = ((StartOf(runs, gap) + runs.length) * bits + 7) / 8;
    const std::int64_t end = StartOf(runs, gap + 1) * bits / 8;
    for (std::int64_t at = begin + lane; at < end; at += lanes) {
      counted += Byte::Visit(runs.data + at, byte);
    }
  }
  if constexpr (Byte::kCounts) {
    ASSAY_SHARED(unsigned long long, partial, kMostWaves);
    AddCount(counted, partial, count);
  }
}

struct Ranges {
  ByteRange of[kRangesOfALaunch];
};

template <class Byte>
ASSAY_GLOBAL void VisitRanges(Ranges ranges, unsigned char byte, unsigned long long* count) {
  auto* data = static_cast<unsigned char*>(ranges.of[Block().y].data);
  const std::int64_t bytes = ranges.of[Block().y].bytes;
  unsigned long long counted = 0;
  for (std::int64_t at = FirstItem(); at < bytes; at += ItemStep()) {
    counted += Byte::Visit(data + at, byte);
  }
  if constexpr (Byte::kCounts) {
    ASSAY_SHARED(unsigned long long, partial, kMostWaves);
    AddCount(counted, partial, count);
  }
}

template <class Byte>
ErrorCode LaunchGaps(const TensorView& view, unsigned char byte, unsigned long long* count,
                     Stream stream) {
  const Runs runs = RunsOf(view);
  const std::int64_t gaps = runs.count == 0 ? 0 : runs.count / runs.length - 1;
  if (gaps == 0) return kOk;
  const Extents& e = view.extents;
  // The gaps between batches may be longer.
  const std::int64_t between =
      e.batch > 1 ? e.batch_stride - (runs.per_batch - 1) * runs.stride - runs.length : 0;
  const std::int64_t longest =
      StorageBytes(view.dtype, std::max(runs.stride - runs.length, between));
  const auto cuts =
      static_cast<unsigned>(std::clamp<std::int64_t>(longest / kGapBytes, 1, kMostCuts));
  const std::int64_t most = std::max<std::int64_t>(1, kMostCounters / cuts);
  return Launch(VisitGaps<Byte>, Extent{BlocksFor(gaps * kThreadsOfAGap, most), cuts, 1},
                Extent{kThreads, 1, 1}, 0, stream, runs, gaps, byte, count);
}

template <class Byte>
ErrorCode LaunchRanges(std::span<const ByteRange> ranges, unsigned char byte,
                       unsigned long long* count, Stream stream) {
  while (!ranges.empty()) {
    const std::size_t n = std::min<std::size_t>(ranges.size(), kRangesOfALaunch);
    Ranges taken;
    std::int64_t longest = 0;
    for (std::size_t i = 0; i < n; ++i) {
      taken.of[i] = ranges[i];
      longest = std::max(longest, ranges[i].bytes);
    }
    const ErrorCode code = Launch(
        VisitRanges<Byte>,
        Extent{BlocksFor(longest, kMostCounters / kRangesOfALaunch), static_cast<unsigned>(n), 1},
        Extent{kThreads, 1, 1}, 0, stream, taken, byte, count);
    if (code != kOk) return code;
    ranges = ranges.subspan(n);
  }
  return kOk;
}

}  // namespace

ErrorCode LaunchGuardPadding(const TensorView& dst, unsigned char byte, Stream stream) {
  return LaunchGaps<SetByte>(dst, byte, nullptr, stream);
}

ErrorCode LaunchCountPadding(const TensorView& view, unsigned char byte, unsigned long long* count,
                             Stream stream) {
  return LaunchGaps<CountByte>(view, byte, count, stream);
}

ErrorCode LaunchSetRanges(std::span<const ByteRange> ranges, unsigned char byte, Stream stream) {
  return LaunchRanges<SetByte>(ranges, byte, nullptr, stream);
}

ErrorCode LaunchCountRanges(std::span<const ByteRange> ranges, unsigned char byte,
                            unsigned long long* count, Stream stream) {
  return LaunchRanges<CountByte>(ranges, byte, count, stream);
}

}  // namespace assay::kernels::gpu
