// What a wave does with a chunk of elements in the GPU's compare pass: reading it, the
// digest of its words, the elements that are not ordinary, the largest ratios and the
// first mismatches. For GPU kernels only.
#ifndef ASSAY_KERNELS_RUNTIME_GPU_COMPARE_WAVE_H_
#define ASSAY_KERNELS_RUNTIME_GPU_COMPARE_WAVE_H_

#include <bit>
#include <cstdint>

#include "kernels/numerics/convert.h"
#include "kernels/numerics/digest.h"
#include "kernels/runtime/compare_rule.h"
#include "kernels/runtime/gpu/compare_quick.h"
#include "kernels/runtime/gpu/compare_words.h"
#include "kernels/runtime/gpu/element.h"
#include "kernels/runtime/gpu/port.h"
#include "kernels/runtime/gpu/reduce.h"

namespace assay::gpu {

ASSAY_DEVICE std::int64_t Position(const ComparePass& pass, std::int64_t i) {
  if (pass.dense) return i;
  if (!pass.short_count) return internal::StorageIndex(pass.output.extents, i);
  const Extents& x = pass.output.extents;
  const auto at = static_cast<std::uint32_t>(i);
  const auto cols = static_cast<std::uint32_t>(x.cols);
  const auto rows = static_cast<std::uint32_t>(x.rows);
  const std::uint32_t row = at / cols;
  const std::uint32_t matrix = row / rows;
  return matrix * x.batch_stride + (row - matrix * rows) * x.ld + (at - row * cols);
}

ASSAY_DEVICE std::uint64_t BitsAt(const ComparePass& pass, std::int64_t i) {
  return LoadBits(pass.rule.dtype, pass.output.data, Position(pass, i));
}
ASSAY_DEVICE double AllowanceAt(const ComparePass& pass, std::int64_t i) {
  return pass.allowance == nullptr ? 0.0 : pass.allowance[i];
}

template <class Read>
ASSAY_DEVICE void LoadPairs(const ComparePass& pass, const Read& read, std::int64_t first,
                            int width, Held& x) {
  using Two = Pack<Float64, 2>;
  ASSAY_UNROLL
  for (int k = 0; k < kPairs; ++k) {
    const std::int64_t pair = first / 2 + std::int64_t{k} * width;
    read.Pair(pass.output.data, pair, &x.o[2 * k]);
    const Two r = reinterpret_cast<const Two*>(pass.reference)[pair];
    Two e{{0.0, 0.0}};
    if (pass.allowance != nullptr) e = reinterpret_cast<const Two*>(pass.allowance)[pair];
    ASSAY_UNROLL
    for (int j = 0; j < 2; ++j) {
      x.r[2 * k + j] = r.v[j];
      x.e[2 * k + j] = e.v[j];
    }
  }
}

struct Loaded {
  double o, r, e;
};

// One element; one behind the tensor's last is NaN, hence not ordinary.
ASSAY_OUTLINE Loaded LoadElement(const ComparePass& pass, std::int64_t at) {
  if (at >= pass.count) {
    return {0.0, std::bit_cast<double>(std::uint64_t{0x7ff8000000000000}), 0.0};
  }
  return {ToDouble(pass.rule.dtype, BitsAt(pass, at)), pass.reference[at], AllowanceAt(pass, at)};
}

ASSAY_DEVICE void LoadElements(const ComparePass& pass, std::int64_t first, int width, Held& x) {
  ASSAY_UNROLL
  for (int i = 0; i < kHeld; ++i) {
    const Loaded one = LoadElement(pass, first + std::int64_t{2} * (i / 2) * width + i % 2);
    x.o[i] = one.o;
    x.r[i] = one.r;
    x.e[i] = one.e;
  }
}

inline constexpr std::uint32_t kCanonical = 1U << 31;

// A thread's elements that are not all ordinary. Returns which are mismatches, and
// kCanonical where the canonical code of one is another.
ASSAY_OUTLINE std::uint32_t AddOthers(const ComparePass& pass, std::int64_t first, int width,
                                      bool used, CompareTotals* totals) {
  if (!used) *totals = CompareTotals{};
  std::uint32_t wrong = 0;
  for (int i = 0; i < kHeld; ++i) {
    const std::int64_t at = first + std::int64_t{2} * (i / 2) * width + i % 2;
    if (at >= pass.count) break;
    const std::uint64_t bits = BitsAt(pass, at);
    const internal::Judgement j = internal::AddToTotals(pass.rule, at, bits, pass.reference[at],
                                                        AllowanceAt(pass, at), totals);
    if (j.mismatch) wrong |= 1U << i;
    if (CanonicalBits(pass.rule.dtype, bits) != bits) wrong |= kCanonical;
  }
  return wrong;
}

// Word `index` of the logical elements, zero behind the last.
template <class Read>
ASSAY_DEVICE std::uint64_t DigestWord(const ComparePass& pass, bool whole, std::int64_t index) {
  if (whole) return static_cast<const std::uint64_t*>(pass.output.data)[index];
  constexpr int kOfWord = 64 / Read::kBits;
  std::uint64_t word = 0;
  for (int i = 0; i < kOfWord; ++i) {
    const std::int64_t at = index * kOfWord + i;
    if (at < pass.count) word |= BitsAt(pass, at) << (i * Read::kBits);
  }
  return word;
}

struct Digest {
  std::uint64_t of[2];
};

ASSAY_DEVICE void AddTerms(std::uint64_t word, std::int64_t index, Digest& digest) {
  constexpr std::uint64_t kFirst = kDigestSeeds[0], kSecond = kDigestSeeds[1];
  const auto i = static_cast<std::uint64_t>(index);
  digest.of[0] += DigestTerm(word, i, kFirst);
  digest.of[1] += DigestTerm(word, i, kSecond);
}

// A thread's words of a chunk.
template <class Read>
ASSAY_DEVICE void AddDigest(const ComparePass& pass, bool whole, std::int64_t begin, int width,
                            Digest& digest) {
  constexpr int kOfWord = 64 / Read::kBits;
  const int words = kHeld * width / kOfWord;
  for (int w = Lane(); w < words; w += width) {
    const std::int64_t index = begin / kOfWord + w;
    if (index * kOfWord >= pass.count) break;
    AddTerms(DigestWord<Read>(pass, whole, index), index, digest);
  }
}

// By how much the canonical digest of a thread's words differs from the raw one.
template <class Read>
ASSAY_OUTLINE Digest CanonicalDifference(const ComparePass& pass, bool whole, std::int64_t begin,
                                         int width) {
  constexpr int kOfWord = 64 / Read::kBits;
  const int words = kHeld * width / kOfWord;
  Digest raw{{0, 0}}, canonical{{0, 0}};
  for (int w = Lane(); w < words; w += width) {
    const std::int64_t index = begin / kOfWord + w;
    if (index * kOfWord >= pass.count) break;
    const std::uint64_t word = DigestWord<Read>(pass, whole, index);
    AddTerms(word, index, raw);
    AddTerms(CanonicalWord(pass.rule.dtype, word), index, canonical);
  }
  return {{canonical.of[0] - raw.of[0], canonical.of[1] - raw.of[1]}};
}

// The next smaller double of one >= 0, so that a ratio equal to the largest exceeds it.
ASSAY_DEVICE double JustBelow(Word largest) {
  return std::bit_cast<double>(std::uint64_t{largest == 0 ? 0 : largest - 1});
}

ASSAY_DEVICE Thresholds ThresholdsOf(const Word* words, const Seen& seen) {
  const auto largest = [words](int word) {
    return std::bit_cast<double>(std::uint64_t{LoadRelaxed(words + word)});
  };
  // Of equal ratios the one of the smallest index counts, whichever thread's it is.
  return {internal::LargerOf(seen.worst_rho, JustBelow(LoadRelaxed(words + compared::kRho))),
          largest(compared::kRhoProven), largest(compared::kMaxRelError),
          largest(compared::kMaxUlp)};
}

ASSAY_DEVICE Word WordOf(double v) { return std::bit_cast<std::uint64_t>(v); }

ASSAY_DEVICE double WaveLargest(double v) {
  for (int by = WaveWidth() / 2; by > 0; by /= 2) v = internal::LargerOf(v, ShuffleXor(v, by));
  return v;
}
ASSAY_DEVICE Word WaveSmallest(Word v) {
  for (int by = WaveWidth() / 2; by > 0; by /= 2) {
    const Word other = ShuffleXor(v, by);
    v = other < v ? other : v;
  }
  return v;
}

// Makes what a wave found the block's. Every lane calls.
ASSAY_OUTLINE void RaiseThresholds(const Thresholds found, Word* words) {
  const double largest[] = {WaveLargest(found.rho), WaveLargest(found.rho_proven),
                            WaveLargest(found.rel), WaveLargest(found.ulps)};
  if (Lane() != 0) return;
  ASSAY_UNROLL
  for (int i = 0; i < 4; ++i) {
    if (largest[i] > 0.0) AtomicMax(words + compared::kMaximaBegin + i, WordOf(largest[i]));
  }
}

// Takes the mismatches of a chunk, in the order of their indices, into the wave's list
// of the first ones. Every lane calls with its own mask; lane 0 writes.
ASSAY_DEVICE int TakeSamples(std::uint32_t wrong, std::int64_t begin, int width, int taken,
                             Word* samples) {
  for (int k = 0; k < kPairs; ++k) {
    const std::uint64_t low = Ballot((wrong >> (2 * k) & 1) != 0);
    const std::uint64_t high = Ballot((wrong >> (2 * k + 1) & 1) != 0);
    for (std::uint64_t any = low | high; any != 0; any &= any - 1) {
      const int lane = std::countr_zero(any);
      for (int j = 0; j < 2; ++j) {
        if (((j == 0 ? low : high) >> lane & 1) == 0 || taken == kMismatchSamples) continue;
        if (Lane() == 0) {
          samples[taken] = static_cast<Word>(begin + 2 * (std::int64_t{k} * width + lane) + j);
        }
        ++taken;
      }
    }
  }
  return taken;
}

// What a thread's totals hold beside what is in registers.
ASSAY_OUTLINE void AddTotals(const CompareTotals& t, Word* words, Seen* seen) {
  const auto count = [words](int word, std::int64_t n) {
    if (n != 0) AtomicAdd(words + word, static_cast<Word>(n));
  };
  count(compared::kMismatches, t.mismatches);
  count(compared::kBeyondProbable, t.beyond_probable);
  count(compared::kBeyondProven, t.beyond_proven);
  count(compared::kFinitePairs, t.finite_pairs);
  count(compared::kZeros, t.zero_count);
  count(compared::kReferenceZeros, t.reference_zero_count);
  count(compared::kBiasCount, t.bias_count);
  count(compared::kNans, t.nan_count);
  count(compared::kInfs, t.inf_count);
  count(compared::kReferenceNans, t.reference_nan_count);
  count(compared::kReferenceInfs, t.reference_inf_count);
  count(compared::kClassMismatches, t.class_mismatches);
  count(compared::kUnwritten, t.unwritten);
  count(compared::kUnexpectedNans, t.unexpected_nan);
  count(compared::kUnexpectedInfs, t.unexpected_inf);

  const auto first = [words](int word, std::int64_t index) {
    if (index >= 0) AtomicMin(words + word, static_cast<Word>(index));
  };
  first(compared::kFirstNan, t.first_nan);
  first(compared::kFirstInf, t.first_inf);
  first(compared::kFirstUnexpectedNan, t.first_unexpected_nan);
  first(compared::kFirstUnexpectedInf, t.first_unexpected_inf);
  first(compared::kFirstUnwritten, t.first_unwritten);

  const auto largest = [words](int word, double v) {
    if (v > 0.0) AtomicMax(words + word, WordOf(v));
  };
  largest(compared::kRho, t.rho);
  largest(compared::kRhoProven, t.rho_proven);
  largest(compared::kMaxRelError, t.max_rel_error);
  largest(compared::kMaxUlp, t.max_ulp);
  seen->max_abs_error = internal::LargerOf(seen->max_abs_error, t.max_abs_error);
  seen->max_abs_expected = internal::LargerOf(seen->max_abs_expected, t.max_abs_expected);

  seen->sums[compared::kSumAbsError] += t.sum_abs_error;
  seen->sums[compared::kSumSquaredError] += t.sum_squared_error;
  seen->sums[compared::kSumDot] += t.dot;
  seen->sums[compared::kSumSquaredActual] += t.sum_squared_actual;
  seen->sums[compared::kSumSquaredExpected] += t.sum_squared_expected;
  seen->sums[compared::kSumBias] += t.bias_sum;
  seen->sums[compared::kSumBiasSquared] += t.bias_sum_squared;

  if (t.worst.index < 0) return;
  const auto index = static_cast<Word>(t.worst.index);
  if (t.class_mismatches > 0) {  // its pairs' worst no longer matters
    AtomicMin(words + compared::kFirstOfWrongClass, index);
    return;
  }
  if (t.rho == 0.0 && index < seen->first_pair) seen->first_pair = index;
  if (t.rho > seen->worst_rho || (t.rho == seen->worst_rho && index < seen->worst)) {
    seen->worst_rho = t.rho;
    seen->worst = index;
  }
}

// Puts an index into an ascending list of the kMismatchSamples smallest.
ASSAY_DEVICE void Insert(Word index, Word* list) {
  ASSAY_UNROLL
  for (int i = 0; i < kMismatchSamples; ++i) {
    const Word larger = index < list[i] ? list[i] : index;
    list[i] = index < list[i] ? index : list[i];
    index = larger;
  }
}

}  // namespace assay::gpu

#endif  // ASSAY_KERNELS_RUNTIME_GPU_COMPARE_WAVE_H_
