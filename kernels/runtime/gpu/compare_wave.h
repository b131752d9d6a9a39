// The work of a wave on a chunk of elements in the GPU's compare pass: it reads the chunk, adds its
// words to the digest, judges the elements that are not ordinary, and keeps the largest ratios and
// the first mismatches. For GPU kernels only.
#ifndef ASSAY_KERNELS_RUNTIME_GPU_COMPARE_WAVE_H_
#define ASSAY_KERNELS_RUNTIME_GPU_COMPARE_WAVE_H_

#include <bit>
#include <cstdint>

#include "kernels/numerics/bits.h"
#include "kernels/numerics/convert.h"
#include "kernels/numerics/digest.h"
#include "kernels/runtime/compare_rule.h"
#include "kernels/runtime/gpu/compare_quick.h"
#include "kernels/runtime/gpu/compare_words.h"
#include "kernels/runtime/gpu/element.h"
#include "kernels/runtime/gpu/port.h"
#include "kernels/runtime/gpu/reduce.h"

namespace assay::inline kernels::gpu {

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

// A thread's stored pairs of a chunk: the pair at element `first`, and the one behind all pairs of
// the wave.
template <class Read>
struct Stored {
  typename Read::Two two[kPairs];
};

template <class Read>
ASSAY_DEVICE Stored<Read> LoadPairs(const ComparePass& pass, const Read& read, std::int64_t first,
                                    int width, Held& x) {
  using Two = Pack<Float64, 2>;
  Stored<Read> stored;
  const auto pair = static_cast<std::uint64_t>(first) / 2;
  const auto* const o = static_cast<const typename Read::Two*>(pass.output.data) + pair;
  const auto* const r = reinterpret_cast<const Two*>(pass.reference) + pair;
  ASSAY_UNROLL
  for (int k = 0; k < kPairs; ++k) {
    stored.two[k] = o[k * width];
    const Two from_r = r[k * width];
    Two from_e{{0.0, 0.0}};
    if (pass.allowance != nullptr) {
      from_e = (reinterpret_cast<const Two*>(pass.allowance) + pair)[k * width];
    }
    ASSAY_UNROLL
    for (int j = 0; j < 2; ++j) {
      x.r[2 * k + j] = from_r.v[j];
      x.e[2 * k + j] = from_e.v[j];
    }
  }
  ASSAY_UNROLL
  for (int k = 0; k < kPairs; ++k) read.Values(stored.two[k], &x.o[2 * k]);
  return stored;
}

// Prefetches a whole chunk. Each lane prefetches its part of the tensors: the kHeld elements from
// `at` on. They follow those of the lane before.
template <class Read>
ASSAY_DEVICE void PrefetchChunk(const ComparePass& pass, std::uint64_t at) {
  const auto* const o = static_cast<const unsigned char*>(pass.output.data);
  Prefetch(o + (Read::kBits < 8 ? at / 2 : at * (Read::kBits / 8)));
  Prefetch(pass.reference + at);
  if (pass.allowance != nullptr) Prefetch(pass.allowance + at);
}

struct Loaded {
  double o, r, e;
};

// Loads one element. Behind the end of the tensor r is NaN, so the element is not ordinary.
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

struct Digest {
  std::uint64_t of[2];
};

// The rare findings of a thread. They are in local memory and touched seldom.
struct Rare {
  CompareTotals totals;  // of elements that are not ordinary; set if `used`
  bool used = false;
  int taken = 0;  // samples that the wave has taken
  std::uint32_t mismatches = 0;
  std::uint32_t beyond_probable = 0;
  std::uint32_t beyond_proven = 0;
  double worst_rho = 0.0;  // of the elements that exceeded a threshold
  Word worst = kNone;
  Word first_pair = kNone;
  Digest raw{{0, 0}};         // of chunks that are not whole
  Digest difference{{0, 0}};  // of the canonical digest from the raw one
};

// Adds a thread's elements if they are not all ordinary. Returns the flags for them.
ASSAY_OUTLINE std::uint32_t AddOthers(const ComparePass& pass, std::int64_t first, int width,
                                      Rare* rare) {
  if (!rare->used) rare->totals = CompareTotals{};
  rare->used = true;
  std::uint32_t flags = 0;
  for (int i = 0; i < kHeld; ++i) {
    const std::int64_t at = first + std::int64_t{2} * (i / 2) * width + i % 2;
    if (at >= pass.count) break;
    const std::uint64_t bits = BitsAt(pass, at);
    const internal::Judgement j = internal::AddToTotals(pass.rule, at, bits, pass.reference[at],
                                                        AllowanceAt(pass, at), &rare->totals);
    if (j.mismatch) flags |= 1U << i;
    if (pass.digests && CanonicalBits(pass.rule.dtype, bits) != bits) flags |= kCanonical;
  }
  return flags == 0 ? 0 : flags | kOthers;
}

// Word `index` of the logical elements, with zeros behind the last element.
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

ASSAY_DEVICE void AddTerms(std::uint64_t word, std::int64_t index, Digest& digest) {
  constexpr std::uint64_t kFirst = kDigestSeeds[0], kSecond = kDigestSeeds[1];
  const auto i = static_cast<std::uint64_t>(index);
  digest.of[0] += DigestTerm(word, i, kFirst);
  digest.of[1] += DigestTerm(word, i, kSecond);
}

// A thread's part of the raw digest of whole chunks. If a chunk has fewer words than a wave has
// lanes, two lanes share a word and take one seed each. `sum.of[0]` is then the sum for the lane's
// seed.
template <class Read>
struct ChunkDigest {
  static constexpr int kOfWord = 64 / Read::kBits;
  static constexpr int kLanes = kOfWord > kHeld ? kOfWord / kHeld : 1;  // for each word
  static constexpr bool kShared = kLanes > 1;

  static constexpr std::uint64_t kFirst = kDigestSeeds[0], kSecond = kDigestSeeds[1];

  ASSAY_DEVICE_MEMBER explicit ChunkDigest(int lane)
      : seed(lane % 2 == 0 ? kFirst : kSecond), mine(lane % kLanes < 2) {}

  ASSAY_DEVICE_MEMBER void Add(const ComparePass& pass, const Stored<Read>& stored,
                               std::int64_t begin, int lane, int width) {
    const auto* const words = static_cast<const std::uint64_t*>(pass.output.data);
    const auto at = static_cast<std::uint64_t>(begin);
    if constexpr (kShared) {
      const std::uint64_t index = at / kOfWord + static_cast<std::uint64_t>(lane / kLanes);
      sum.of[0] += DigestTerm(words[index], index, seed);
    } else if constexpr (kOfWord == kHeld) {
      const std::uint64_t index = at / kOfWord + static_cast<std::uint64_t>(lane);
      AddTerms(words[index], static_cast<std::int64_t>(index), sum);
    } else {
      constexpr int kOfPair = 2 / kOfWord;
      const std::uint64_t first = (at + static_cast<std::uint64_t>(2 * lane)) / kOfWord;
      ASSAY_UNROLL
      for (int k = 0; k < kPairs; ++k) {
        struct Words {
          std::uint64_t of[kOfPair];
        };
        const auto pair = std::bit_cast<Words>(stored.two[k]);
        ASSAY_UNROLL
        for (int j = 0; j < kOfPair; ++j) {
          const std::uint64_t index = first + static_cast<std::uint64_t>(k * kOfPair * width + j);
          AddTerms(pair.of[j], static_cast<std::int64_t>(index), sum);
        }
      }
    }
  }
  // The sum together with that of chunks that are not whole.
  ASSAY_DEVICE_MEMBER Digest Sum(const Digest& others) const {
    Digest all = others;
    if constexpr (kShared) {
      const bool first = seed == kFirst;
      all.of[0] += mine && first ? sum.of[0] : 0;
      all.of[1] += mine && !first ? sum.of[0] : 0;
    } else {
      all.of[0] += sum.of[0];
      all.of[1] += sum.of[1];
    }
    return all;
  }

  Digest sum{{0, 0}};
  std::uint64_t seed;
  bool mine;
};

// The digest of a thread's words of a chunk that is not whole.
template <class Read>
ASSAY_OUTLINE Digest PartDigest(const ComparePass& pass, std::int64_t begin, int width) {
  constexpr int kOfWord = 64 / Read::kBits;
  const int words = kHeld * width / kOfWord;
  Digest digest{{0, 0}};
  for (int w = Lane(); w < words; w += width) {
    const std::int64_t index = begin / kOfWord + w;
    if (index * kOfWord >= pass.count) break;
    AddTerms(DigestWord<Read>(pass, false, index), index, digest);
  }
  return digest;
}

// The difference between the canonical and the raw digest of a thread's words.
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

ASSAY_DEVICE Word WordOf(double v) { return std::bit_cast<std::uint64_t>(v); }

// The largest values of a block so far, in shared memory. Of equal ratios the one with the smallest
// index counts, whichever thread has it. So a ratio that equals the largest must pass the test: the
// threshold is `below`, the next smaller number.
struct BlockLargest {
  Word* words;
  Word* below;
};

ASSAY_DEVICE Thresholds ThresholdsOf(const BlockLargest& largest) {
  const auto of = [](const Word* word) {
    return std::bit_cast<double>(std::uint64_t{LoadRelaxed(word)});
  };
  const Word* const words = largest.words;
  return {of(largest.below),
          of(words + compared::kRhoProven),
          of(words + compared::kMaxRelError),
          of(words + compared::kMaxUlp),
          of(words + compared::kMaxAbsError),
          of(words + compared::kMaxAbsExpected)};
}

ASSAY_DEVICE void RaiseRho(double rho, const BlockLargest& largest) {
  if (!(rho > 0.0)) return;
  AtomicMax(largest.words + compared::kRho, WordOf(rho));
  AtomicMax(largest.below, WordOf(rho) - 1);
}

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

// Adds the largest values of a wave to those of the block. Every lane must call this.
ASSAY_OUTLINE void RaiseThresholds(const Thresholds found, const BlockLargest largest) {
  const double rho = WaveLargest(found.rho);
  const double others[] = {WaveLargest(found.rho_proven), WaveLargest(found.rel),
                           WaveLargest(found.ulps), WaveLargest(found.error),
                           WaveLargest(found.expected)};
  if (Lane() != 0) return;
  RaiseRho(rho, largest);
  ASSAY_UNROLL
  for (int i = 0; i < 5; ++i) {
    if (others[i] > 0.0) AtomicMax(largest.words + compared::kRhoProven + i, WordOf(others[i]));
  }
}

// Adds the mismatches of a chunk, in the order of their indices, to the wave's list of the first
// ones. Every lane must call this with its own mask; lane 0 writes.
ASSAY_DEVICE int TakeSamples(std::uint32_t wrong, std::int64_t begin, int width, int taken,
                             Word* samples) {
  for (int k = 0; k < kPairs; ++k) {
    const std::uint64_t low = Ballot((wrong >> (2 * k) & 1) != 0);
    const std::uint64_t high = Ballot((wrong >> (2 * k + 1) & 1) != 0);
    for (std::uint64_t any = low | high; any != 0; any &= any - 1) {
      const int lane = CountTrailingZeros(any);
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

// Looks at a thread's elements, all ordinary, that may be beyond a threshold. It computes the
// quotients above the largest so far, counts the elements beyond the bounds, and returns which
// elements are mismatches by these bounds.
template <class Read>
ASSAY_DEVICE std::uint32_t LookCloser(const ComparePass& pass, const Held& x, std::int64_t first,
                                      int width, const BlockLargest& block, Rare* rare,
                                      Thresholds* found) {
  const bool exact = IsExact<Read>(pass);
  const Thresholds largest = ThresholdsOf(block);
  std::uint32_t beyond = 0, beyond_proven = 0;
  int worst = -1;
  double worst_rho = internal::LargerOf(largest.rho, rare->worst_rho);
  ASSAY_UNROLL
  for (int i = 0; i < kHeld; ++i) {
    const Quick<Read> quick(pass, exact, x.o[i], x.r[i], x.e[i]);
    if (quick.error > quick.bound) beyond |= 1U << i;
    if (quick.error > quick.bound_proven) beyond_proven |= 1U << i;
    if (SignOf(Exceeds(quick.error, worst_rho, quick.bound))) {
      const double rho = internal::ErrorRatio(quick.error, quick.bound);
      if (rho > worst_rho) {
        worst_rho = rho;
        worst = i;
      }
    }
    if (SignOf(Exceeds(quick.error, largest.rho_proven, quick.bound_proven))) {
      found->rho_proven = internal::LargerOf(found->rho_proven,
                                             internal::ErrorRatio(quick.error, quick.bound_proven));
    }
    if (quick.magnitude != 0.0 && SignOf(Exceeds(quick.error, largest.rel, quick.magnitude))) {
      found->rel = internal::LargerOf(found->rel, quick.error / quick.magnitude);
    }
    if constexpr (!Read::kInteger) {
      found->ulps = internal::LargerOf(
          found->ulps, quick.Distance(x.o[i]) / internal::UlpAt(pass.rule, quick.rounded));
    }
    found->error = internal::LargerOf(found->error, quick.error);
    found->expected = internal::LargerOf(found->expected, quick.magnitude);
  }
  if (worst >= 0) {
    found->rho = worst_rho;
    rare->worst_rho = worst_rho;
    rare->worst = static_cast<Word>(first + std::int64_t{2} * (worst / 2) * width + worst % 2);
  }
  rare->beyond_probable += static_cast<std::uint32_t>(CountOnes(beyond));
  rare->beyond_proven += static_cast<std::uint32_t>(CountOnes(beyond_proven));
  if (pass.rule.gate >= Gate::kAllClose) return 0;
  return pass.rule.gate == Gate::kBound ? beyond_proven : beyond;
}

// Handles the flags of a wave's threads. It reads the elements of the chunk again. Every lane must
// call this.
template <class Read>
ASSAY_OUTLINE void TakeRare(const ComparePass& pass, const Read read, std::uint32_t flags,
                            bool whole, std::int64_t begin, int width, const BlockLargest largest,
                            Word* samples, Rare* rare) {
  if (Ballot((flags & kCloser) != 0) != 0) {
    Thresholds found{0.0, 0.0, 0.0, 0.0, 0.0, 0.0};
    if ((flags & kCloser) != 0) {
      const std::int64_t first = begin + 2 * Lane();
      Held x;
      if (whole) {
        LoadPairs(pass, read, first, width, x);
      } else {
        LoadElements(pass, first, width, x);
      }
      flags |= LookCloser<Read>(pass, x, first, width, largest, rare, &found);
    }
    RaiseThresholds(found, largest);
  }
  const std::uint32_t wrong = flags & kWrongBits;
  if ((flags & kOthers) == 0) rare->mismatches += static_cast<std::uint32_t>(CountOnes(wrong));
  if (rare->taken < kMismatchSamples && Ballot(wrong != 0) != 0) {
    rare->taken = TakeSamples(wrong, begin, width, rare->taken, samples);
  }
  if (Ballot((flags & kCanonical) != 0) != 0) {
    const Digest other = CanonicalDifference<Read>(pass, whole, begin, width);
    rare->difference.of[0] += other.of[0];
    rare->difference.of[1] += other.of[1];
  }
}

// Adds the rest of a thread's totals to the block. Sums go to `seen`, the worst element goes to
// `rare`.
ASSAY_OUTLINE void AddTotals(const BlockLargest block, Seen* seen, Rare* rare) {
  const CompareTotals& t = rare->totals;
  Word* const words = block.words;
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
  RaiseRho(t.rho, block);
  largest(compared::kRhoProven, t.rho_proven);
  largest(compared::kMaxRelError, t.max_rel_error);
  largest(compared::kMaxUlp, t.max_ulp);
  largest(compared::kMaxAbsError, t.max_abs_error);
  largest(compared::kMaxAbsExpected, t.max_abs_expected);

  seen->sums[compared::kSumAbsError] += t.sum_abs_error;
  seen->sums[compared::kSumSquaredError] += t.sum_squared_error;
  seen->sums[compared::kSumDot] += t.dot;
  seen->sums[compared::kSumSquaredActual] += t.sum_squared_actual;
  seen->sums[compared::kSumSquaredExpected] += t.sum_squared_expected;
  seen->sums[compared::kSumBias] += t.bias_sum;
  seen->sums[compared::kSumBiasSquared] += t.bias_sum_squared;

  if (t.worst.index < 0) return;
  const auto index = static_cast<Word>(t.worst.index);
  if (t.class_mismatches > 0) {  // the worst pair no longer matters
    AtomicMin(words + compared::kFirstOfWrongClass, index);
    return;
  }
  if (t.rho == 0.0 && index < rare->first_pair) rare->first_pair = index;
  if (t.rho > rare->worst_rho || (t.rho == rare->worst_rho && index < rare->worst)) {
    rare->worst_rho = t.rho;
    rare->worst = index;
  }
}

// Inserts an index into an ascending list of the kMismatchSamples smallest.
ASSAY_DEVICE void Insert(Word index, Word* list) {
  ASSAY_UNROLL
  for (int i = 0; i < kMismatchSamples; ++i) {
    const Word larger = index < list[i] ? list[i] : index;
    list[i] = index < list[i] ? index : list[i];
    index = larger;
  }
}

}  // namespace assay::kernels::gpu

#endif  // ASSAY_KERNELS_RUNTIME_GPU_COMPARE_WAVE_H_
