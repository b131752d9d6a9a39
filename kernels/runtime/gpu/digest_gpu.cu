// Computes the digests of a GPU's tensors (kernels/numerics/digest.h), raw and canonical in one
// pass.
//
//   D = Σ mod 2^64 of Finalise(w_i + (i+1)·0x9e3779b97f4a7c15 + seed)
//
// w_i are the 8-byte words of the packed logical elements. For integer sums any order gives the
// same value, so each block adds its own sums to the result with one atomic each.
//
// If the data are dense and aligned to 16 bytes, two words are read at a time. Other words are
// gathered element by element, or with one load if the word is aligned. Zeros fill up the last
// word.
#include "kernels/numerics/convert.h"
#include "kernels/numerics/digest.h"
#include "kernels/runtime/gpu/primitives.h"
#include "kernels/runtime/gpu/reduce.h"
#include "kernels/runtime/gpu/runs.h"

namespace assay::inline kernels::gpu {
namespace {

// Device code cannot read the array of the host.
constexpr std::uint64_t kSeed0 = kDigestSeeds[0];
constexpr std::uint64_t kSeed1 = kDigestSeeds[1];
constexpr std::int64_t kMostAdders = 2048;  // blocks that add to the result

// CanonicalWord for a format that is known at compile time. It uses integer comparisons alone.
template <DType T>
ASSAY_DEVICE std::uint64_t Canonical(std::uint64_t word) {
  if constexpr (internal::IsInteger(T)) {
    return word;
  } else {
    constexpr internal::Layout f = internal::LayoutOf(T);
    constexpr int kBits = StorageBits(T);
    constexpr std::uint64_t kMask =
        kBits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << (kBits % 64)) - 1;
    constexpr std::uint64_t kSign = std::uint64_t{1} << f.sign_bit;
    // Larger magnitudes are NaN. If a format has no Inf, this is its largest finite magnitude.
    constexpr std::uint64_t kLargest =
        f.inf_code != f.nan_code ? f.inf_code : f.max_code << f.shift;
    std::uint64_t out = 0;
    ASSAY_UNROLL
    for (int at = 0; at < 64; at += kBits) {
      std::uint64_t code = (word >> at) & kMask;
      const std::uint64_t magnitude = code & ~kSign;
      const bool nan = f.fnuz ? code == kSign : magnitude > kLargest;
      if (nan) {
        code = f.nan_code;
      } else if (magnitude == 0) {
        code = 0;
      }
      out |= code << at;
    }
    return out;
  }
}

struct Sums {
  unsigned long long raw[2] = {0, 0};
  unsigned long long canonical[2] = {0, 0};
};

template <DType T>
ASSAY_DEVICE void AddWord(std::uint64_t word, std::int64_t index, Sums& sums) {
  const auto i = static_cast<std::uint64_t>(index);
  const std::uint64_t first = DigestTerm(word, i, kSeed0);
  const std::uint64_t second = DigestTerm(word, i, kSeed1);
  sums.raw[0] += first;
  sums.raw[1] += second;
  const std::uint64_t canonical = Canonical<T>(word);
  const bool same = canonical == word;  // nearly always
  sums.canonical[0] += same ? first : DigestTerm(canonical, i, kSeed0);
  sums.canonical[1] += same ? second : DigestTerm(canonical, i, kSeed1);
}

// Word `index` of the packed logical elements.
template <DType T>
ASSAY_DEVICE std::uint64_t Gather(const Runs& runs, std::int64_t index) {
  constexpr int kBits = StorageBits(T);
  constexpr std::int64_t kElements = 64 / kBits;
  const std::int64_t begin = index * kElements;
  std::int64_t offset = OffsetOf(runs, begin);
  std::int64_t left = runs.length - begin % runs.length;  // in this run
  if (runs.aligned && left >= kElements && offset % kElements == 0) {
    return reinterpret_cast<const std::uint64_t*>(runs.data)[offset / kElements];
  }
  std::uint64_t word = 0;
  for (int e = 0; e < kElements && begin + e < runs.count; ++e) {
    word |= LoadBits(T, runs.data, offset) << (e * kBits);
    ++offset;
    if (--left == 0 && begin + e + 1 < runs.count) {
      offset = OffsetOf(runs, begin + e + 1);
      left = runs.length;
    }
  }
  return word;
}

// Words 0 to 2·pairs − 1 are read 16 bytes at a time.
template <DType T>
ASSAY_GLOBAL void DigestWords(Runs runs, std::int64_t pairs, std::int64_t words,
                              unsigned long long* out) {
  ASSAY_SHARED(unsigned long long, partial, kMostWaves);
  Sums sums;
  const auto* wide = reinterpret_cast<const Bytes16*>(runs.data);
  for (std::int64_t pair = FirstItem(); pair < pairs; pair += ItemStep()) {
    const Bytes16 v = wide[pair];
    AddWord<T>(v.v[0] | std::uint64_t{v.v[1]} << 32, 2 * pair, sums);
    AddWord<T>(v.v[2] | std::uint64_t{v.v[3]} << 32, 2 * pair + 1, sums);
  }
  for (std::int64_t w = 2 * pairs + FirstItem(); w < words; w += ItemStep()) {
    AddWord<T>(Gather<T>(runs, w), w, sums);
  }
  const unsigned long long all[4] = {sums.raw[0], sums.raw[1], sums.canonical[0],
                                     sums.canonical[1]};
  ASSAY_UNROLL
  for (int s = 0; s < 4; ++s) {
    const unsigned long long sum = BlockReduce<Sum>(all[s], partial, kThreads);
    if (Thread().x == 0) AtomicAdd(out + s, sum);
  }
}

template <DType T>
ErrorCode LaunchOf(const Runs& runs, bool dense, unsigned long long* out, Stream stream) {
  constexpr std::int64_t kElements = 64 / StorageBits(T);
  const std::int64_t words = (runs.count + kElements - 1) / kElements;
  const std::int64_t pairs = dense && runs.aligned ? runs.count / kElements / 2 : 0;
  return Launch(DigestWords<T>,
                Extent{BlocksFor(std::max(pairs, words - 2 * pairs), kMostAdders), 1, 1},
                Extent{kThreads, 1, 1}, 0, stream, runs, pairs, words, out);
}

}  // namespace

ErrorCode LaunchDigest(const TensorView& view, unsigned long long* out, Stream stream) {
  if (view.count() == 0) return kOk;
  const Runs runs = RunsOf(view);
  const bool dense = view.extents.dense();
  switch (view.dtype) {
    case DType::kF64:
      return LaunchOf<DType::kF64>(runs, dense, out, stream);
    case DType::kF32:
    case DType::kTF32:  // the same words
      return LaunchOf<DType::kF32>(runs, dense, out, stream);
    case DType::kF16:
      return LaunchOf<DType::kF16>(runs, dense, out, stream);
    case DType::kBF16:
      return LaunchOf<DType::kBF16>(runs, dense, out, stream);
    case DType::kE4M3FN:
      return LaunchOf<DType::kE4M3FN>(runs, dense, out, stream);
    case DType::kE4M3FNUZ:
    case DType::kE5M2FNUZ:  // the same NaN and no -0
      return LaunchOf<DType::kE4M3FNUZ>(runs, dense, out, stream);
    case DType::kE5M2:
      return LaunchOf<DType::kE5M2>(runs, dense, out, stream);
    case DType::kE2M1:
      return LaunchOf<DType::kE2M1>(runs, dense, out, stream);
    case DType::kI32:
      return LaunchOf<DType::kI32>(runs, dense, out, stream);
    default:
      return LaunchOf<DType::kI8>(runs, dense, out, stream);
  }
}

}  // namespace assay::kernels::gpu
