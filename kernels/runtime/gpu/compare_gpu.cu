// The compare pass for GPUs; kernels/runtime/compare.h has the formulas.
//
// The kernel reads output, reference and allowance once: 20 bytes for each element of fp32. An
// element takes some 30 operations of FP64 and as many integer operations for the digest, some 90
// instructions in all. So memory is the limit if FP64 has half the rate of FP32. compare_quick.h
// says how divisions are avoided.
//
// A wave takes chunks of 4 elements a lane, one stride of the grid apart. It prefetches the next
// chunk while it judges one, because 16 waves of a multiprocessor alone do not keep the memory
// busy. If all elements of a thread are ordinary, the thread judges them in registers. Otherwise (a
// NaN, an infinity, a reference beyond the format's range, the end of the tensor) it passes each to
// AddToTotals, the specification itself, in a separate function. Rare things (those, a new largest
// error or ratio, a mismatch) are kept in local memory, and their elements are read again, so that
// the registers are free for the rest. Some chunks cannot be moved in pairs: those with padding
// between rows, with addresses that are not multiples of 16, and the last one. They are read
// element by element and judged in the same way.
//
// The result is deterministic. Integers, largest values and smallest indices do not depend on the
// order of atomics. Floating-point sums are added along a thread's chunks, then over the wave's
// lanes, the block's waves and the grid's blocks, each in a fixed order. The grid depends on the
// extents alone.
#include "kernels/numerics/bits.h"
#include "kernels/runtime/gpu/compare_gpu.h"

#include <algorithm>
#include <cstring>

#include "kernels/runtime/compare_rule.h"
#include "kernels/runtime/gpu/compare_pack.h"
#include "kernels/runtime/gpu/compare_quick.h"
#include "kernels/runtime/gpu/compare_wave.h"
#include "kernels/runtime/gpu/compare_words.h"
#include "kernels/runtime/gpu/port.h"
#include "kernels/runtime/gpu/primitives.h"

namespace assay::inline kernels::gpu {
namespace {

constexpr int kThreads = 256;
constexpr int kBlocksOfProcessor = 2;  // 128 registers a thread
// Twice the blocks that 132 multiprocessors hold at once. Their partial results have 186 KB.
constexpr std::int64_t kMostBlocks = 4 * 132;
static_assert(ReadCode<8>::kCodes <= kThreads);
constexpr int kMostWavesOfBlock = kThreads / 32;

constexpr int kMergeThreads = 512;
constexpr int kMergeGroups = kMergeThreads / kMergeRow;

constexpr std::int64_t kPartialsAt = 1024;  // [bytes] in the scratch memory
static_assert(kMostPacked * sizeof(Word) <= kPartialsAt);
static_assert(kPartialsAt + kMostBlocks * compared::kWords * 8 <= kScratchBytes);

// ---- a block's share ----

template <class Read>
ASSAY_GLOBAL void ASSAY_BOUNDS(kThreads, kBlocksOfProcessor)
    CompareBlocks(ASSAY_GRID_CONSTANT const ComparePass pass, Word* partials) {
  ASSAY_SHARED(Word, shared_words, kMergeRow);
  ASSAY_SHARED(Word, shared_below, 1);
  ASSAY_SHARED(double, shared_values, Read::kCodes + 1);
  ASSAY_SHARED(Word, shared_samples, kMostWavesOfBlock * kMismatchSamples);
  ASSAY_SHARED(double, shared_sums, kMostWavesOfBlock* compared::kSumsEnd);
  const int thread = static_cast<int>(Thread().x);
  const int width = WaveWidth();
  const int lane = thread % width;
  const int wave = thread / width;
  const int waves = kThreads / width;
  if (thread < compared::kWords) shared_words[thread] = EmptyWord(thread);
  if (thread == 0) shared_below[0] = 0;
  if (thread < Read::kCodes) {
    shared_values[thread] = ToDouble(pass.rule.dtype, static_cast<std::uint64_t>(thread));
  }
  if (thread < kMostWavesOfBlock * kMismatchSamples) shared_samples[thread] = kNone;
  SyncBlock();

  Word* const words = &shared_words[0];
  Word* const samples = &shared_samples[wave * kMismatchSamples];
  const BlockLargest largest{words, &shared_below[0]};
  const Read read(&shared_values[0]);
  Seen seen;
  ChunkDigest<Read> digest(lane);
  Rare rare;
  const std::int64_t chunk = std::int64_t{kHeld} * width;
  const std::int64_t stride = std::int64_t{GridExtent().x} * waves * chunk;
  // The last element at which a whole chunk can begin.
  const std::int64_t last_whole = pass.packed ? pass.count - chunk : -1;
  const std::int64_t ahead = stride + 2 * lane;
  std::int64_t begin = (std::int64_t{Block().x} * waves + wave) * chunk;
  bool whole = begin <= last_whole;
  while (begin < pass.count) {
    const std::int64_t first = begin + 2 * lane;
    const bool next_whole = begin + stride <= last_whole;
    Held x;
    if (whole) {
      if (next_whole) PrefetchChunk<Read>(pass, static_cast<std::uint64_t>(first + ahead));
      const Stored<Read> stored = LoadPairs(pass, read, first, width, x);
      if (pass.digests) digest.Add(pass, stored, begin, lane, width);
    } else {
      LoadElements(pass, first, width, x);
      if (pass.digests) {
        const Digest part = PartDigest<Read>(pass, begin, width);
        rare.raw.of[0] += part.of[0];
        rare.raw.of[1] += part.of[1];
      }
    }
    std::uint32_t flags;
    if (IsOrdinary<Read>(pass, x)) {
      if (seen.pairs == 0) rare.first_pair = static_cast<Word>(first);
      flags = AddOrdinary<Read>(pass, x, ThresholdsOf(largest), seen);
    } else {
      flags = AddOthers(pass, first, width, &rare);
    }
    if (Ballot(flags != 0) != 0) {
      TakeRare(pass, read, flags, whole, begin, width, largest, samples, &rare);
    }
    begin += stride;
    whole = next_whole;
  }

  if (rare.used) {
    Seen all = seen;  // a copy, because a variable whose address is passed leaves the registers
    AddTotals(largest, &all, &rare);
    seen = all;
  }
  const Digest raw = digest.Sum(rare.raw);
  const auto count = [&](int word, Word n) {
    const Word all = WaveSum(n);
    if (Lane() == 0 && all != 0) AtomicAdd(words + word, all);
  };
  count(compared::kMismatches, rare.mismatches);
  count(compared::kBeyondProbable, rare.beyond_probable);
  count(compared::kBeyondProven, rare.beyond_proven);
  count(compared::kFinitePairs, seen.pairs);
  count(compared::kZeros, seen.zeros);
  count(compared::kReferenceZeros, seen.reference_zeros);
  count(compared::kBiasCount, seen.biased);
  for (int k = 0; k < 2; ++k) {
    count(compared::kRawDigest + k, raw.of[k]);
    count(compared::kCanonicalDigest + k, raw.of[k] + rare.difference.of[k]);
  }
  for (int s = 0; s < compared::kSumsEnd; ++s) {
    const double sum = WaveSum(seen.sums[s]);
    if (Lane() == 0) shared_sums[wave * compared::kSumsEnd + s] = sum;
  }
  SyncBlock();  // the block's largest ratio is known

  const Word rho = LoadRelaxed(words + compared::kRho);
  Word worst = rho == WordOf(rare.worst_rho) ? rare.worst : kNone;
  if (rho == 0) worst = rare.first_pair;
  worst = WaveSmallest(worst);
  if (Lane() == 0 && worst != kNone) AtomicMin(words + compared::kWorst, worst);
  if (thread == 0) {
    Word list[kMismatchSamples] = {kNone, kNone, kNone, kNone, kNone};
    for (int i = 0; i < waves * kMismatchSamples; ++i) Insert(shared_samples[i], list);
    for (int i = 0; i < kMismatchSamples; ++i) shared_words[compared::kSamples + i] = list[i];
  }
  if (thread < compared::kSumsEnd) {
    double sum = 0.0;
    for (int w = 0; w < waves; ++w) sum += shared_sums[w * compared::kSumsEnd + thread];
    shared_words[thread] = WordOf(sum);
  }
  SyncBlock();
  if (thread < compared::kWords) {
    partials[std::int64_t{Block().x} * compared::kWords + thread] = shared_words[thread];
  }
}

// ---- all blocks' results ----

// One block merges the partial results: rows of threads take them in turn. Then the first row
// merges the rows in order.
ASSAY_GLOBAL void ASSAY_BOUNDS(kMergeThreads, 1)
    CompareMerge(ASSAY_GRID_CONSTANT const ComparePass pass, const Word* partials, int blocks,
                 Word* result) {
  ASSAY_SHARED(Word, rows, kMergeThreads);
  const int word = static_cast<int>(Thread().x) % kMergeRow;
  const int group = static_cast<int>(Thread().x) / kMergeRow;
  Merged mine = NothingMerged(word);
  for (int b = group; b < blocks; b += kMergeGroups) {
    Merge(word, partials + std::int64_t{b} * compared::kWords, mine);
  }
  PutMerged(word, mine, &rows[group * kMergeRow]);
  SyncBlock();
  if (group == 0) {
    for (int g = 1; g < kMergeGroups; ++g) Merge(word, &rows[g * kMergeRow], mine);
    PutMerged(word, mine, &rows[0]);
  }
  SyncBlock();
  PackResult(pass, &rows[0], result);
}

template <class Read>
ErrorCode LaunchFor(const ComparePass& pass, void* scratch, Stream stream) {
  auto* partials = reinterpret_cast<Word*>(static_cast<unsigned char*>(scratch) + kPartialsAt);
  const std::int64_t of_block = std::int64_t{kThreads} * kHeld;
  const std::int64_t blocks =
      std::clamp<std::int64_t>((pass.count + of_block - 1) / of_block, 1, kMostBlocks);
  const ErrorCode error = Launch(CompareBlocks<Read>, Extent{static_cast<unsigned>(blocks), 1, 1},
                                 Extent{kThreads, 1, 1}, 0, stream, pass, partials);
  if (error != kOk) return error;
  return Launch(CompareMerge, Extent{1, 1, 1}, Extent{kMergeThreads, 1, 1}, 0, stream, pass,
                static_cast<const Word*>(partials), static_cast<int>(blocks),
                static_cast<Word*>(scratch));
}

}  // namespace

ErrorCode LaunchCompare(const CompareRequest& request, void* scratch, Stream stream) {
  const ComparePass pass(request);
  switch (request.output.dtype) {
    case DType::kF64:
      return LaunchFor<ReadPack<Float64>>(pass, scratch, stream);
    case DType::kF16:
      return LaunchFor<ReadPack<Half>>(pass, scratch, stream);
    case DType::kBF16:
      return LaunchFor<ReadPack<BFloat>>(pass, scratch, stream);
    case DType::kI8:
      return LaunchFor<ReadInteger<std::int8_t>>(pass, scratch, stream);
    case DType::kI32:
      return LaunchFor<ReadInteger<std::int32_t>>(pass, scratch, stream);
    case DType::kE2M1:
      return LaunchFor<ReadCode<4>>(pass, scratch, stream);
    case DType::kE4M3FN:
    case DType::kE4M3FNUZ:
    case DType::kE5M2:
    case DType::kE5M2FNUZ:
      return LaunchFor<ReadCode<8>>(pass, scratch, stream);
    default:  // fp32 and tf32
      return LaunchFor<ReadPack<Float32>>(pass, scratch, stream);
  }
}

std::int64_t ComparedBytes() { return kMostPacked * sizeof(Word); }

std::int64_t ComparedBytes(const void* packed) {
  Word head = 0;
  std::memcpy(&head, packed, sizeof head);
  const auto samples = static_cast<int>(head >> kSampleCountBit);
  const int present = CountOnes(head & ((Word{1} << kResultWords) - 1));
  return static_cast<std::int64_t>(sizeof(Word)) * (kPackedHead + present + samples * kSampleWords);
}

std::int64_t ComparedBytesOfClean(const CompareRequest& request) {
  return std::int64_t{sizeof(Word)} * (request.exact ? kCleanWordsOfExact : kCleanWords);
}

namespace {

ElementSample SampleAt(const Word* words) {
  ElementSample sample;
  std::memcpy(static_cast<void*>(&sample), words, sizeof sample);
  return sample;
}

}  // namespace

CompareResult UnpackCompared(const void* packed, const CompareRequest& request) {
  Word all[kMostPacked] = {};
  std::memcpy(all, packed, static_cast<std::size_t>(ComparedBytes(packed)));
  Word words[kResultWords];
  int next = kPackedHead;
  for (int w = 0; w < kResultWords; ++w) {
    words[w] = (all[0] >> w & 1) != 0 ? all[next++] : EmptyWord(w);
  }
  const auto number = [&words](int word) {
    return std::bit_cast<double>(std::uint64_t{words[word]});
  };
  const auto integer = [&words](int word) { return static_cast<std::int64_t>(words[word]); };
  CompareResult r;
  r.count = request.output.count();
  r.mismatches = integer(compared::kMismatches);
  r.beyond_probable = integer(compared::kBeyondProbable);
  r.beyond_proven = integer(compared::kBeyondProven);
  r.rho = number(compared::kRho);
  r.rho_proven = number(compared::kRhoProven);
  r.max_abs_error = number(compared::kMaxAbsError);
  r.sum_abs_error = number(compared::kSumAbsError);
  r.sum_squared_error = number(compared::kSumSquaredError);
  r.max_rel_error = number(compared::kMaxRelError);
  r.max_ulp = number(compared::kMaxUlp);
  r.dot = number(compared::kSumDot);
  r.sum_squared_actual = number(compared::kSumSquaredActual);
  r.sum_squared_expected = number(compared::kSumSquaredExpected);
  r.max_abs_expected = number(compared::kMaxAbsExpected);
  r.finite_pairs = integer(compared::kFinitePairs);
  r.bias_count = integer(compared::kBiasCount);
  r.bias_sum = number(compared::kSumBias);
  r.bias_sum_squared = number(compared::kSumBiasSquared);
  r.nan_count = integer(compared::kNans);
  r.inf_count = integer(compared::kInfs);
  r.reference_nan_count = integer(compared::kReferenceNans);
  r.reference_inf_count = integer(compared::kReferenceInfs);
  r.class_mismatches = integer(compared::kClassMismatches);
  r.unwritten = integer(compared::kUnwritten);
  r.zero_count = integer(compared::kZeros);
  r.reference_zero_count = integer(compared::kReferenceZeros);
  r.first_nan = integer(compared::kFirstNan);  // kNone is -1
  r.first_inf = integer(compared::kFirstInf);
  r.first_unexpected_nan = integer(compared::kFirstUnexpectedNan);
  r.first_unexpected_inf = integer(compared::kFirstUnexpectedInf);
  r.unexpected_nan = integer(compared::kUnexpectedNans);
  r.unexpected_inf = integer(compared::kUnexpectedInfs);
  r.first_unwritten = integer(compared::kFirstUnwritten);
  r.worst = SampleAt(all + 1);
  for (int k = 0; k < 2; ++k) {
    r.digest_raw[k] = words[compared::kRawDigest + k];
    r.digest_canonical[k] = words[compared::kCanonicalDigest + k];
  }
  for (int i = 0; i < static_cast<int>(all[0] >> kSampleCountBit); ++i) {
    r.samples.push_back(SampleAt(all + next + i * kSampleWords));
  }
  return r;
}

}  // namespace assay::kernels::gpu
