#include "kernels/runtime/cpu/digest_cpu.h"

#include <algorithm>
#include <mutex>

#include "kernels/runtime/cpu/parallel.h"
#include "kernels/runtime/cpu/strided.h"

namespace assay::inline kernels {
namespace {

constexpr std::int64_t kPackedWords = 512;  // words of one step over strided data, 4 KiB
constexpr std::int64_t kGrainWords = 8192;  // with fewer words one thread is faster

}  // namespace

TensorDigest DigestCpu(const TensorView& view) {
  TensorDigest total;
  const std::int64_t count = view.count();
  if (count == 0) return total;
  const std::int64_t per_word = 64 / Info(view.dtype).storage_bits;  // elements
  const std::int64_t whole = count / per_word;
  const bool dense = view.extents.dense();
  std::mutex mutex;
  const auto add = [&](const TensorDigest& part) {
    const std::lock_guard<std::mutex> lock(mutex);
    for (int s = 0; s < 2; ++s) {
      total.raw[s] += part.raw[s];
      total.canonical[s] += part.canonical[s];
    }
  };
  ParallelFor(whole, kGrainWords, [&](std::int64_t first, std::int64_t last) {
    TensorDigest part;
    if (dense) {
      AccumulateDigest(view.dtype, view.as<char>() + 8 * first, last - first, first, part);
    } else {
      alignas(64) std::uint64_t packed[kPackedWords];
      for (std::int64_t w = first; w < last; w += kPackedWords) {
        const std::int64_t n = std::min(kPackedWords, last - w);
        PackElements(view, w * per_word, n * per_word, packed);
        AccumulateDigest(view.dtype, packed, n, w, part);
      }
    }
    add(part);
  });
  if (const std::int64_t rest = count - whole * per_word; rest > 0) {
    std::uint64_t word = 0;
    PackElements(view, whole * per_word, rest, &word);
    TensorDigest part;
    AccumulateDigest(view.dtype, &word, 1, whole, part);
    add(part);
  }
  return total;
}

}  // namespace assay::kernels
