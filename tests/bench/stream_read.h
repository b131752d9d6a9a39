// The roof of a pass that only reads: all bytes of some streams, on all cores.
#ifndef ASSAY_TESTS_BENCH_STREAM_READ_H_
#define ASSAY_TESTS_BENCH_STREAM_READ_H_

#include <cstdint>
#include <span>

namespace assay {

struct Stream {
  const void* data = nullptr;
  std::int64_t bytes = 0;  // a multiple of 64 * `parts`, see ReadStreams
};

// Reads every byte once, in `parts` pieces of each stream side by side as a fused
// pass does, and returns a sum so that nothing can be left out.
std::uint64_t ReadStreams(std::span<const Stream> streams, std::int64_t parts);

}  // namespace assay

#endif  // ASSAY_TESTS_BENCH_STREAM_READ_H_
