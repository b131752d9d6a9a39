"""The changes that broken_test.py makes to the compare pass and the checksums of a GPU device."""

GPU = "kernels/runtime/gpu/"
COMPARE = GPU + "compare_gpu.cu"
SMALL = GPU + "compare_small_gpu.cu"
PACK = GPU + "compare_pack.h"
WAVE = GPU + "compare_wave.h"
QUICK = GPU + "compare_quick.h"
CHECKSUM = GPU + "checksum_gpu.cu"

# For each kernel: its source, its test, other sources, whether the test needs the host's
# libraries, and a filter for the tests that suffice.
KERNELS = {
    "compare": (COMPARE, "tests/simt/compare_test.cc", (), True, "*/fp16_64:*Large*/0:*Largest*"),
    "compare small": (SMALL, "tests/simt/compare_small_test.cc", (COMPARE,), True),
    "checksum": (CHECKSUM, "tests/simt/checksum_test.cc"),
}

# Kernel, file, old text (and its occurrence, from 0), new text, what the change breaks.
CHANGES = [
    ("compare", COMPARE, "  SyncBlock();\n\n  Word* const words", 0, "\n  Word* const words", "barrier before the block's words are used"),
    ("compare", COMPARE, "  SyncBlock();  // the block's largest", 0, "  // the block's largest", "barrier before the waves' sums are read"),
    ("compare", COMPARE, "  SyncBlock();\n  if (thread < compared::kWords) {\n", 0, "  if (thread < compared::kWords) {\n", "barrier before the block's result is written"),
    ("compare", COMPARE, "kMergeRow]);\n  SyncBlock();\n", 0, "kMergeRow]);\n", "barrier before the rows are merged"),
    ("compare", COMPARE, "&rows[0]);\n  }\n  SyncBlock();\n", 0, "&rows[0]);\n  }\n", "barrier before the result is read"),
    ("compare", COMPARE, "g < kMergeGroups", 0, "g < kMergeGroups - 1", "last row of partial results not merged"),
    ("compare", COMPARE, "b < blocks", 0, "b < blocks - 1", "last block's result not merged"),
    ("compare", COMPARE, "begin += stride", 0, "begin += stride + chunk", "chunk of the second round left out"),
    ("compare", COMPARE, "pass.count - chunk", 0, "pass.count", "last chunk read whole"),
    ("compare", COMPARE, "w < waves;", 0, "w < waves - 1;", "last wave's sums left out"),
    ("compare", WAVE, "rare->taken < kMismatchSamples && Ballot(wrong", 0, "rare->taken == 0 && Ballot(wrong", "samples of a wave's first chunk only"),
    ("compare", PACK, "rho == into.rho && index < into.value", 0, "rho == into.rho && index > into.value", "last of equals"),
    ("compare", COMPARE, "if (rho == 0) worst = rare.first_pair;", 0, "", "no worst element where there is no error"),
    ("compare", WAVE, "if (at >= pass.count) break;", 0, "", "index past the tensor"),
    ("compare", WAVE, "if (at >= pass.count) {", 0, "if (at > pass.count) {", "index past the tensor read"),
    ("compare", WAVE, "(row - matrix * rows) * x.ld", 0, "(row - matrix * rows) * x.cols", "wrong leading dimension"),
    ("compare", WAVE, "w < words; w += width", 0, "w < words; w += 32", "words of a 64-wide wave digested twice"),
    ("compare", WAVE, "Ballot((wrong >> (2 * k) & 1) != 0)", 0, "(Ballot((wrong >> (2 * k) & 1) != 0) & 0xffffffffU)", "half of a 64-wide wave's samples"),
    ("compare", WAVE, "AtomicMax(largest.below, WordOf(rho) - 1)", 0, "AtomicMax(largest.below, WordOf(rho))", "ties of the worst missed"),
    ("compare", WAVE, "((j == 0 ? low : high) >> lane & 1) == 0 || ", 0, "", "mask of a pair's wrong element"),
    ("compare", QUICK, "<= pass.rule.max_finite", 0, "<= 2 * pass.rule.max_finite", "overflow taken for ordinary"),
    ("compare", QUICK, "signs |= HighWord(o[i]);", 0, "", "-0 not canonical"),
    ("compare", QUICK, "exponent > pass.min_normal_high ? exponent : pass.min_normal_high", 0, "exponent", "subnormals rounded too finely"),
    ("compare", WAVE, "k * kOfPair * width + j", 0, "k * kOfPair + j", "index of the words of a thread's second pair"),
    ("compare", WAVE, "at / kOfWord + static_cast<std::uint64_t>(lane)", 0, "at / kOfWord + static_cast<std::uint64_t>(lane % 32)", "words of a 64-wide wave's second half digested as the first's"),
    ("compare", WAVE, "Prefetch(pass.reference + at)", 0, "Prefetch(pass.reference + 2 * at)", "index past the reference brought near"),
    ("compare", QUICK, ">= HighWord(1.0)", 0, ">= kHighExponent", "elements beyond a bound and below the worst not counted"),
    ("compare", QUICK, "Exceeds(quick.error, largest.error) | ", 0, "", "largest error that is no largest ratio"),
    ("compare", QUICK, "if (different) {", 0, "if (false) {", "sums of errors of an exact output"),
    ("compare small", SMALL, "  SyncBlock();\n  const int last", 0, "  const int last", "barrier before the waves' words are read"),
    ("compare small", SMALL, "  SyncBlock();\n  constexpr", 0, "  constexpr", "barrier before the block's words are read"),
    ("compare small", SMALL, "  SyncBlock();  // the result's", 0, "  // the result's", "barrier before the result's head is copied"),
    ("compare small", SMALL, "Ballot(at < pass.count && ", 0, "Ballot(at <= pass.count && ", "index past the tensor"),
    ("compare small", SMALL, "begin + of_word <= pass.count", 0, "begin < pass.count", "word past the tensor"),
    ("compare small", SMALL, "begin + i < pass.count", 0, "i < of_word", "index past the last word"),
    ("compare small", SMALL, "begin += kThreads", 0, "begin += kThreads + width", "index of the second round"),
    ("compare small", SMALL, "w < last", 0, "w < last - 1", "last wave left out"),
    ("compare small", SMALL, "worst < words[compared::kWorst]", 0, "worst > words[compared::kWorst]", "last of equals"),
    ("compare small", SMALL, "CountTrailingZeros(wrong)", 0, "CountLeadingZeros(wrong)", "mask of the lanes read from behind"),
    ("compare small", SMALL, "by = WaveWidth() / 2", 0, "by = 8", "mask of half a wave"),
    ("compare small", SMALL, "samples[kMismatchSamples - 1] == kNone", 0, "samples[0] == kNone", "index of a wave's first mismatch only"),
    ("compare small", SMALL, "wrong_class ? -1 : t.worst.index", 0, "-1", "worst index of none wrong"),
    ("compare small", SMALL, "batch.passes[Block().x]", 0, "batch.passes[Block().x & 3]", "index of a launch's fifth request"),
    ("compare small", SMALL, "static_cast<unsigned>(requests.size())", 0, "static_cast<unsigned>(std::max(requests.size() - 1, std::size_t{1}))", "last request left out"),
    ("compare small", SMALL, "(pass.count * bits + 63) / 64", 0, "pass.count * bits / 64", "tail of the last word not digested"),
    ("compare small", SMALL, "const int width = WaveWidth();", 0, "const int width = 32;", "index of a 64-wide wave"),
    ("compare small", SMALL, "const int last = kThreads / width;", 0, "const int last = kMostWavesOfBlock;", "rows of waves that there are not where they are 64 wide"),
    ("compare small", SMALL, "(kMostWavesOfBlock + 1) * kMergeRow", 0, "kMostWavesOfBlock * kMergeRow", "no room for the block's row"),
    ("compare small", SMALL, "if (pass.digests)", 0, "if (batch.passes[0].digests)", "digests of a launch's first request"),
    ("compare small", SMALL, "thread < kCleanWords)", 0, "thread < kCleanWordsOfExact)", "head shorter than what is copied"),
    ("compare small", SMALL, "pass.packed && begin + of_word", 0, "pass.dense && begin + of_word", "word at an address that is no multiple of its size"),
    ("compare small", PACK, "pass.reference[at], AllowanceAt", 0, "pass.reference[Position(pass, at)], AllowanceAt", "reference of a sample by its place in storage"),
    ("compare small", PACK, "BitsAt(pass, at);", 0, "LoadBits(pass.rule.dtype, pass.output.data, at);", "wrong leading dimension of a sample"),
    ("compare small", PACK, "other != kNone ? other : row[compared::kWorst]", 0, "row[compared::kWorst]", "wrong class not the worst"),
    ("compare small", PACK, "rho == into.rho && index < into.value", 0, "false", "first wave's of equals"),
    ("compare small", PACK, "head >> thread & 1", 0, "head >> thread % 32 & 1", "words past the first 32"),
    ("checksum", CHECKSUM, "    SyncBlock();  // the tile before", 0, "    // the tile before", "barrier before a tile is written again"),
    ("checksum", CHECKSUM, "    SyncBlock();\n    double col_sums", 0, "    double col_sums", "barrier before a tile is read"),
    ("checksum", CHECKSUM, "  SyncBlock();  // `room` has", 0, "  // `room` has", "barrier before a tile becomes room"),
    ("checksum", CHECKSUM, "  SyncBlock();\n  for (int i = thread; i < kSums", 0, "  for (int i = thread; i < kSums", "barrier before the quarters are added"),
    ("checksum", CHECKSUM, "row < x.rows && col < x.cols", 0, "row < x.rows && col <= x.cols", "index past a row"),
    ("checksum", CHECKSUM, "row < x.rows && col < x.cols", 0, "row <= x.rows && col < x.cols", "index past the last row"),
    ("checksum", CHECKSUM, "if (line < count)", 0, "if (line <= count)", "sum past the last written"),
    ("checksum", CHECKSUM, "q < kQuarters", 0, "q < kQuarters - 1", "last quarter left out"),
    ("checksum", CHECKSUM, "p < parts", 0, "p < parts - 1", "last block's sums left out"),
    ("checksum", CHECKSUM, "i >= length", 0, "i > length", "index past a vector"),
]
