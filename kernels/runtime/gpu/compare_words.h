// Defines a partial result of the GPU's compare pass: 64-bit words, grouped by the way two of them
// are merged. The merge of every word is exact and independent of the order, except for the sums,
// which are added in a fixed order.
#ifndef ASSAY_KERNELS_RUNTIME_GPU_COMPARE_WORDS_H_
#define ASSAY_KERNELS_RUNTIME_GPU_COMPARE_WORDS_H_

#include <cstdint>

#include "kernels/runtime/compare.h"

namespace assay::inline kernels::gpu {

using Word = unsigned long long;  // the type that atomics take

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

  // The larger one. Doubles >= 0 are ordered like their bits. These words also steer the pass; see
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
  kRawDigest,  // two words
  kCanonicalDigest = kRawDigest + 2,
  kCountsEnd = kCanonicalDigest + 2,

  // The smaller index; kNone if there is none.
  kFirstsBegin = kCountsEnd,
  kFirstNan = kFirstsBegin,
  kFirstInf,
  kFirstUnexpectedNan,
  kFirstUnexpectedInf,
  kFirstUnwritten,
  kFirstOfWrongClass,
  kFirstsEnd,

  kWorst = kFirstsEnd,  // the smallest index of a pair whose ratio is kRho
  kSamples,             // the smallest indices of mismatches, ascending
  kWords = kSamples + kMismatchSamples,
};
}  // namespace compared

inline constexpr Word kNone = ~Word{0};

// The value of a word if nothing was seen.
constexpr Word EmptyWord(int word) { return word >= compared::kFirstsBegin ? kNone : Word{0}; }

// The packed result, in words: a head, the worst element, the words below kResultWords that are not
// empty, and the samples. The head has a bit for each of these words, and above the bits the number
// of samples. If nothing is wrong, most words are empty.
inline constexpr int kResultWords = compared::kFirstsEnd;
inline constexpr int kSampleCountBit = 56;
inline constexpr int kSampleWords = sizeof(ElementSample) / sizeof(Word);
inline constexpr int kPackedHead = 1 + kSampleWords;  // the head and the worst element
inline constexpr int kMostPacked = kPackedHead + kResultWords + kMismatchSamples * kSampleWords;
// The usual number of words if nothing is wrong. Exact results have the largest magnitude, the sums
// of magnitudes, finite pairs, zeros and digests. Other results also have the sums of errors, the
// largest errors, and the bias.
inline constexpr int kCleanWordsOfExact = kPackedHead + 11;
inline constexpr int kCleanWords = kPackedHead + 21;
static_assert(kResultWords < kSampleCountBit);
static_assert(sizeof(ElementSample) == kSampleWords * sizeof(Word));

}  // namespace assay::kernels::gpu

#endif  // ASSAY_KERNELS_RUNTIME_GPU_COMPARE_WORDS_H_
