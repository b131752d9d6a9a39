// A partial result of the GPU's compare pass: 64-bit words, in ranges by how two of them
// are put together. Every word's combination is exact and in any order the same, but for
// the sums, which are added in an order of their own.
#ifndef ASSAY_KERNELS_RUNTIME_GPU_COMPARE_WORDS_H_
#define ASSAY_KERNELS_RUNTIME_GPU_COMPARE_WORDS_H_

#include <cstdint>

#include "kernels/runtime/compare.h"

namespace assay::gpu {

using Word = unsigned long long;  // what atomics take

namespace compared {
enum : int {
  // Doubles, added.
  kSumAbsError,
  kSumSquaredError,
  kSumDot,
  kSumSquaredActual,
  kSumSquaredExpected,
  kSumBias,
  kSumBiasSquared,
  kSumsEnd,

  // The largest; doubles >= 0 are in the order of their bits. They steer the pass, see
  // compare_quick.h.
  kMaximaBegin = kSumsEnd,
  kRho = kMaximaBegin,
  kRhoProven,
  kMaxRelError,
  kMaxUlp,
  kMaxAbsError,
  kMaxAbsExpected,
  kMaximaEnd,

  // Added modulo 2^64: counts and digests.
  kCountsBegin = kMaximaEnd,
  kMismatches = kCountsBegin,
  kBeyondProbable,
  kBeyondProven,
  kFinitePairs,
  kZeros,
  kReferenceZeros,
  kBiasCount,
  kNans,
  kInfs,
  kReferenceNans,
  kReferenceInfs,
  kClassMismatches,
  kUnwritten,
  kUnexpectedNans,
  kUnexpectedInfs,
  kRawDigest,  // two
  kCanonicalDigest = kRawDigest + 2,
  kCountsEnd = kCanonicalDigest + 2,

  // The smallest index; kNone where there is none.
  kFirstsBegin = kCountsEnd,
  kFirstNan = kFirstsBegin,
  kFirstInf,
  kFirstUnexpectedNan,
  kFirstUnexpectedInf,
  kFirstUnwritten,
  kFirstOfWrongClass,
  kFirstsEnd,

  kWorst = kFirstsEnd,  // smallest index of a pair whose ratio is the word kRho
  kSamples,             // smallest indices of mismatches, ascending
  kWords = kSamples + kMismatchSamples,
};
}  // namespace compared

inline constexpr Word kNone = ~Word{0};

// What a word is where nothing was seen.
constexpr Word EmptyWord(int word) { return word >= compared::kFirstsBegin ? kNone : Word{0}; }

// The result as it leaves the device, in words: which of the words below kResultWords are
// not empty (a bit each, and the number of samples above them), the worst element, these
// words in their order, and the samples. Where nothing is wrong most of them are empty.
inline constexpr int kResultWords = compared::kFirstsEnd;
inline constexpr int kSampleCountBit = 56;
inline constexpr int kSampleWords = sizeof(ElementSample) / sizeof(Word);
inline constexpr int kPackedHead = 1 + kSampleWords;  // words before those that are not empty
inline constexpr int kMostPacked = kPackedHead + kResultWords + kMismatchSamples * kSampleWords;
// Of one as it usually is where nothing is wrong: largest and summed magnitudes, finite pairs,
// zeros and digests; and where there are errors those, what they are at most, and the bias.
inline constexpr int kCleanWordsOfExact = kPackedHead + 11;
inline constexpr int kCleanWords = kPackedHead + 21;
static_assert(kResultWords < kSampleCountBit);
static_assert(sizeof(ElementSample) == kSampleWords * sizeof(Word));

}  // namespace assay::gpu

#endif  // ASSAY_KERNELS_RUNTIME_GPU_COMPARE_WORDS_H_
