// Merges and packs partial results of the GPU's compare passes (compare_words.h). Two partial
// results are merged word by word; the final one is packed before it leaves the device. A row of
// threads takes one partial result, one word each. For GPU kernels only.
#ifndef ASSAY_KERNELS_RUNTIME_GPU_COMPARE_PACK_H_
#define ASSAY_KERNELS_RUNTIME_GPU_COMPARE_PACK_H_

#include <bit>
#include <cstdint>

#include "kernels/runtime/compare_rule.h"
#include "kernels/runtime/gpu/compare_quick.h"
#include "kernels/runtime/gpu/compare_wave.h"
#include "kernels/runtime/gpu/compare_words.h"
#include "kernels/runtime/gpu/port.h"

namespace assay::inline kernels::gpu {

inline constexpr int kMergeRow = 64;  // threads for one partial result
static_assert(compared::kWords <= kMergeRow);

// Combines two values of a word before kWorst.
ASSAY_DEVICE Word Combined(int word, Word a, Word b) {
  if (word < compared::kSumsEnd) {
    return WordOf(std::bit_cast<double>(std::uint64_t{a}) +
                  std::bit_cast<double>(std::uint64_t{b}));
  }
  if (word < compared::kMaximaEnd) return a < b ? b : a;
  if (word < compared::kCountsEnd) return a + b;
  return a < b ? a : b;
}

// A thread's part of the merged result. `value` is its word. For kWorst, `rho` is the ratio that
// belongs to it. For kSamples, `list` holds the samples.
struct Merged {
  Word value, rho;
  Word list[kMismatchSamples];
};
ASSAY_DEVICE Merged NothingMerged(int word) {
  return {EmptyWord(word), 0, {kNone, kNone, kNone, kNone, kNone}};
}

ASSAY_DEVICE void Merge(int word, const Word* from, Merged& into) {
  if (word == compared::kWorst) {
    const Word rho = from[compared::kRho], index = from[compared::kWorst];
    if (rho > into.rho || (rho == into.rho && index < into.value)) {
      into.rho = rho;
      into.value = index;
    }
  } else if (word == compared::kSamples) {
    for (int i = 0; i < kMismatchSamples; ++i) {
      const Word index = from[compared::kSamples + i];
      if (index >= into.list[kMismatchSamples - 1]) break;
      Insert(index, into.list);
    }
  } else if (word < compared::kWorst) {
    into.value = Combined(word, into.value, from[word]);
  }
}

// Writes a thread's part to the row that begins at `row`.
ASSAY_DEVICE void PutMerged(int word, const Merged& merged, Word* row) {
  if (word == compared::kSamples) {
    for (int i = 0; i < kMismatchSamples; ++i) row[word + i] = merged.list[i];
  } else if (word <= compared::kWorst) {
    row[word] = merged.value;
  }
}

ASSAY_DEVICE ElementSample SampleAt(const ComparePass& pass, Word index) {
  ElementSample none;
  if (index == kNone) return none;
  const auto at = static_cast<std::int64_t>(index);
  const std::uint64_t bits = BitsAt(pass, at);
  return internal::SampleOf(
      internal::JudgeElement(pass.rule, bits, pass.reference[at], AllowanceAt(pass, at)), at, bits);
}

// Packs the final result, which lies in `row`; every thread of the block can read it. Every thread
// must call this.
ASSAY_DEVICE void PackResult(const ComparePass& pass, const Word* row, Word* result) {
  const int thread = static_cast<int>(Thread().x);
  Word head = 0;
  int before = 0, present = 0, samples = 0;  // words; `before`: those before this thread's
  for (int w = 0; w < kResultWords; ++w) {
    const bool empty = row[w] == EmptyWord(w);
    head |= Word{!empty} << w;
    before += w < thread && !empty ? 1 : 0;
    present += empty ? 0 : 1;
  }
  for (int i = 0; i < kMismatchSamples; ++i) {
    samples += row[compared::kSamples + i] == kNone ? 0 : 1;
  }
  if (thread < kResultWords && (head >> thread & 1) != 0) {
    result[kPackedHead + before] = row[thread];
  }
  const auto write_sample = [&](int at, Word index) {
    *reinterpret_cast<ElementSample*>(result + at) = SampleAt(pass, index);
  };
  if (thread < samples) {
    write_sample(kPackedHead + present + thread * kSampleWords, row[compared::kSamples + thread]);
  } else if (thread == kMismatchSamples) {
    result[0] = head | static_cast<Word>(samples) << kSampleCountBit;
    const Word other = row[compared::kFirstOfWrongClass];
    write_sample(1, other != kNone ? other : row[compared::kWorst]);
  }
}

}  // namespace assay::kernels::gpu

#endif  // ASSAY_KERNELS_RUNTIME_GPU_COMPARE_PACK_H_
