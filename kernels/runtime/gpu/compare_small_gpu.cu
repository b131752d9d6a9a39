// Compares several small tensors in one launch; kernels/runtime/compare.h has the formulas.
//
// A block takes one request of any format and packs its result itself, so there is no second
// launch. The specification (AddToTotals) judges every element, and the format is known only at run
// time, so one kernel serves all formats. An element then takes some 800 instructions, several
// times those of CompareBlocks, and a block has only one multiprocessor. Hence the limit
// kSmallCompare: 32 elements for each thread. That is about a tenth of a millisecond on a device of
// 1.7 GHz. Eight requests that each have two launches, a copy and a wait of their own take longer,
// some 20 microseconds each. Most requests are far smaller.
//
// Threads take elements and words of the digests in turn, a block's width apart. A thread's totals
// become the words of compare_words.h. A butterfly merges them over the wave's lanes, and then the
// waves are merged in order. So the order of the sums depends on count and wave width alone. There
// are no atomics.
#include <algorithm>
#include <cstddef>
#include <utility>

#include "kernels/numerics/bits.h"
#include "kernels/numerics/digest.h"
#include "kernels/runtime/compare_rule.h"
#include "kernels/runtime/gpu/compare_gpu.h"
#include "kernels/runtime/gpu/compare_pack.h"
#include "kernels/runtime/gpu/compare_quick.h"
#include "kernels/runtime/gpu/compare_wave.h"
#include "kernels/runtime/gpu/compare_words.h"
#include "kernels/runtime/gpu/port.h"
#include "kernels/runtime/gpu/primitives.h"

namespace assay::inline kernels::gpu {
namespace {

constexpr int kThreads = 512;  // 128 registers each
constexpr int kMostWavesOfBlock = kThreads / 32;

static_assert(kSmallBytes <= kScratchBytes);

// The requests of a launch. The last one is repeated in the places behind it.
struct SmallCompares {
  template <std::size_t... I>
  SmallCompares(std::span<const CompareRequest> requests, std::index_sequence<I...>)
      : passes{ComparePass(requests[std::min(I, requests.size() - 1)])...} {}

  ComparePass passes[kComparesOfALaunch];
};
static_assert(sizeof(SmallCompares) + sizeof(void*) <= kMostParameterBytes);

// Adds an element to the thread's totals. Returns whether it is a mismatch.
ASSAY_DEVICE bool AddElement(const ComparePass& pass, std::int64_t at, CompareTotals* totals) {
  return internal::AddToTotals(pass.rule, at, BitsAt(pass, at), pass.reference[at],
                               AllowanceAt(pass, at), totals)
      .mismatch;
}

// Word `index` of the logical elements, with zeros behind the last element.
ASSAY_DEVICE std::uint64_t WordAt(const ComparePass& pass, int bits, std::int64_t index) {
  const std::int64_t of_word = 64 / bits;
  const std::int64_t begin = index * of_word;
  if (pass.packed && begin + of_word <= pass.count) {
    return static_cast<const std::uint64_t*>(pass.output.data)[index];
  }
  std::uint64_t word = 0;
  for (int i = 0; i < of_word && begin + i < pass.count; ++i) {
    word |= BitsAt(pass, begin + i) << (i * bits);
  }
  return word;
}

// Adds a thread's words to both digests.
ASSAY_DEVICE void AddDigests(const ComparePass& pass, CompareTotals* totals) {
  const int bits = StorageBits(pass.rule.dtype);
  const std::int64_t words = (pass.count * bits + 63) / 64;
  Digest raw{{0, 0}}, canonical{{0, 0}};
  for (std::int64_t w = Thread().x; w < words; w += kThreads) {
    const std::uint64_t word = WordAt(pass, bits, w);
    AddTerms(word, w, raw);
    AddTerms(CanonicalWord(pass.rule.dtype, word), w, canonical);
  }
  for (int k = 0; k < 2; ++k) {
    totals->digest_raw[k] = raw.of[k];
    totals->digest_canonical[k] = canonical.of[k];
  }
}

// Writes the totals as the words before kSamples. The index -1 becomes kNone.
ASSAY_DEVICE void WordsOf(const CompareTotals& t, Word* words) {
  words[compared::kSumAbsError] = WordOf(t.sum_abs_error);
  words[compared::kSumSquaredError] = WordOf(t.sum_squared_error);
  words[compared::kSumDot] = WordOf(t.dot);
  words[compared::kSumSquaredActual] = WordOf(t.sum_squared_actual);
  words[compared::kSumSquaredExpected] = WordOf(t.sum_squared_expected);
  words[compared::kSumBias] = WordOf(t.bias_sum);
  words[compared::kSumBiasSquared] = WordOf(t.bias_sum_squared);
  words[compared::kRho] = WordOf(t.rho);
  words[compared::kRhoProven] = WordOf(t.rho_proven);
  words[compared::kMaxRelError] = WordOf(t.max_rel_error);
  words[compared::kMaxUlp] = WordOf(t.max_ulp);
  words[compared::kMaxAbsError] = WordOf(t.max_abs_error);
  words[compared::kMaxAbsExpected] = WordOf(t.max_abs_expected);
  const auto integer = [words](int word, std::int64_t n) { words[word] = static_cast<Word>(n); };
  integer(compared::kMismatches, t.mismatches);
  integer(compared::kBeyondProbable, t.beyond_probable);
  integer(compared::kBeyondProven, t.beyond_proven);
  integer(compared::kFinitePairs, t.finite_pairs);
  integer(compared::kZeros, t.zero_count);
  integer(compared::kReferenceZeros, t.reference_zero_count);
  integer(compared::kBiasCount, t.bias_count);
  integer(compared::kNans, t.nan_count);
  integer(compared::kInfs, t.inf_count);
  integer(compared::kReferenceNans, t.reference_nan_count);
  integer(compared::kReferenceInfs, t.reference_inf_count);
  integer(compared::kClassMismatches, t.class_mismatches);
  integer(compared::kUnwritten, t.unwritten);
  integer(compared::kUnexpectedNans, t.unexpected_nan);
  integer(compared::kUnexpectedInfs, t.unexpected_inf);
  for (int k = 0; k < 2; ++k) {
    words[compared::kRawDigest + k] = t.digest_raw[k];
    words[compared::kCanonicalDigest + k] = t.digest_canonical[k];
  }
  integer(compared::kFirstNan, t.first_nan);
  integer(compared::kFirstInf, t.first_inf);
  integer(compared::kFirstUnexpectedNan, t.first_unexpected_nan);
  integer(compared::kFirstUnexpectedInf, t.first_unexpected_inf);
  integer(compared::kFirstUnwritten, t.first_unwritten);
  // If a class is wrong, the worst pair no longer matters.
  const bool wrong_class = t.class_mismatches > 0;
  integer(compared::kFirstOfWrongClass, wrong_class ? t.worst.index : -1);
  integer(compared::kWorst, wrong_class ? -1 : t.worst.index);
}

// Merges the words of all lanes of a wave; every lane gets the result. Every lane must call this.
ASSAY_DEVICE void ReduceWords(Word* words) {
  ASSAY_ROLLED
  for (int by = WaveWidth() / 2; by > 0; by /= 2) {
    const Word rho = ShuffleXor(words[compared::kRho], by);
    const Word worst = ShuffleXor(words[compared::kWorst], by);
    if (rho > words[compared::kRho] ||
        (rho == words[compared::kRho] && worst < words[compared::kWorst])) {
      words[compared::kWorst] = worst;
    }
    ASSAY_UNROLL
    for (int w = 0; w < compared::kWorst; ++w) {
      words[w] = Combined(w, words[w], ShuffleXor(words[w], by));
    }
  }
}

ASSAY_GLOBAL void ASSAY_BOUNDS(kThreads, 1)
    CompareSmall(ASSAY_GRID_CONSTANT const SmallCompares batch, Word* scratch) {
  ASSAY_SHARED(Word, rows, (kMostWavesOfBlock + 1) * kMergeRow);  // the waves', and the block's
  const ComparePass& pass = batch.passes[Block().x];
  const int thread = static_cast<int>(Thread().x);
  const int width = WaveWidth();
  const int wave = thread / width;
  Word* const row = &rows[wave * kMergeRow];

  CompareTotals totals;
  Word samples[kMismatchSamples] = {kNone, kNone, kNone, kNone, kNone};  // the wave's
  for (std::int64_t begin = std::int64_t{wave} * width; begin < pass.count; begin += kThreads) {
    const std::int64_t at = begin + Lane();
    std::uint64_t wrong = Ballot(at < pass.count && AddElement(pass, at, &totals));
    for (; wrong != 0 && samples[kMismatchSamples - 1] == kNone; wrong &= wrong - 1) {
      Insert(static_cast<Word>(begin + CountTrailingZeros(wrong)), samples);
    }
  }
  if (pass.digests) AddDigests(pass, &totals);

  Word words[compared::kSamples];
  WordsOf(totals, words);
  ReduceWords(words);
  if (Lane() == 0) {
    ASSAY_UNROLL
    for (int w = 0; w < compared::kSamples; ++w) row[w] = words[w];
    ASSAY_UNROLL
    for (int i = 0; i < kMismatchSamples; ++i) row[compared::kSamples + i] = samples[i];
  }
  SyncBlock();
  const int last = kThreads / width;
  if (thread < kMergeRow) {
    Merged all = NothingMerged(thread);
    for (int w = 0; w < last; ++w) Merge(thread, &rows[w * kMergeRow], all);
    PutMerged(thread, all, &rows[last * kMergeRow]);
  }
  SyncBlock();
  constexpr std::int64_t kBytes = sizeof(Word);
  const auto block = static_cast<int>(Block().x);
  Word* const result = scratch + SmallResultAt(block) / kBytes;
  PackResult(pass, &rows[last * kMergeRow], result);
  SyncBlock();  // the result's words are there
  if (thread < kCleanWords) scratch[SmallHeadAt(block) / kBytes + thread] = result[thread];
}

}  // namespace

ErrorCode LaunchSmallCompares(std::span<const CompareRequest> requests, void* scratch,
                              Stream stream) {
  const SmallCompares batch(requests, std::make_index_sequence<kComparesOfALaunch>{});
  return Launch(CompareSmall, Extent{static_cast<unsigned>(requests.size()), 1, 1},
                Extent{kThreads, 1, 1}, 0, stream, batch, static_cast<Word*>(scratch));
}

}  // namespace assay::kernels::gpu
