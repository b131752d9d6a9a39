#include "tests/bench/stream_read.h"

#include <atomic>

#include "kernels/runtime/cpu/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/bench/stream_read.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace assay::internal {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

std::uint64_t ReadPiece(const unsigned char* data, std::int64_t bytes) {
  const hn::ScalableTag<std::uint64_t> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto* words = reinterpret_cast<const std::uint64_t*>(data);
  auto a = hn::Zero(d), b = a, c = a, e = a;
  const std::int64_t n = bytes / 8;
  std::int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    a = hn::Add(a, hn::LoadU(d, words + i));
    b = hn::Add(b, hn::LoadU(d, words + i + lanes));
    c = hn::Add(c, hn::LoadU(d, words + i + 2 * lanes));
    e = hn::Add(e, hn::LoadU(d, words + i + 3 * lanes));
  }
  std::uint64_t sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(a, b), hn::Add(c, e))));
  for (; i < n; ++i) sum += words[i];
  return sum;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace assay::internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay {
namespace internal {
namespace {

HWY_EXPORT(ReadPiece);

std::uint64_t DispatchReadPiece(const unsigned char* data, std::int64_t bytes) {
  return HWY_DYNAMIC_DISPATCH(ReadPiece)(data, bytes);
}

}  // namespace
}  // namespace internal

std::uint64_t ReadStreams(std::span<const Stream> streams, std::int64_t parts) {
  std::atomic<std::uint64_t> total{0};
  ParallelFor(parts, 1, [&](std::int64_t begin, std::int64_t end) {
    std::uint64_t sum = 0;
    for (std::int64_t p = begin; p < end; ++p) {
      for (const Stream& s : streams) {
        const std::int64_t piece = s.bytes / parts;
        sum += internal::DispatchReadPiece(static_cast<const unsigned char*>(s.data) + p * piece,
                                           piece);
      }
    }
    total += sum;
  });
  return total;
}

}  // namespace assay
#endif  // HWY_ONCE
