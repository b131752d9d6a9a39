"""The changes that broken_test.py makes to the primitives of a GPU device."""

GPU = "kernels/runtime/gpu/"
FILL = GPU + "fill_gpu.cu"
MEMORY = GPU + "memory_gpu.cu"
GUARD = GPU + "guard_gpu.cu"
DIGEST = GPU + "digest_gpu.cu"
RECHECK = GPU + "recheck_gpu.cu"
KEPT = GPU + "kept_gpu.cu"
RESIDUALS = GPU + "residuals_gpu.cu"
RUNS = GPU + "runs.h"
REDUCE = GPU + "reduce.h"

# For each kernel: its source, its test, the sources that are not changed, whether the test
# needs the host's libraries, and a filter for the tests that suffice (one wave width).
KERNELS = {
    "fill": (FILL, "tests/simt/fill_test.cc", (MEMORY,), True, "*/0"),
    "memory": (MEMORY, "tests/simt/memory_test.cc", (GUARD,), True, "*/0"),
    "guard": (GUARD, "tests/simt/memory_test.cc", (MEMORY,), True, "*/0"),
    "digest": (DIGEST, "tests/simt/digest_test.cc", (), True, "*/0"),
    "recheck": (RECHECK, "tests/simt/recheck_test.cc"),
    "kept": (KEPT, "tests/simt/kept_test.cc"),
    "residuals": (RESIDUALS, "tests/simt/residuals_test.cc"),
}

# Kernel, file, old text (and its occurrence, from 0), new text, what the change breaks.
CHANGES = [
    ("fill", FILL, "    SyncBlock();\n", 0, "", "barrier before the coefficients are read"),
    ("fill", FILL, "unit < whole", 0, "unit <= whole", "store past the end"),
    ("fill", FILL, "begin + e < job.count", 0, "begin + e <= job.count", "index past the end"),
    ("fill", FILL, "begin + e < job.count", 0, "begin + e + 1 < job.count", "last element left out"),
    ("fill", FILL, "SlotOf(158 - lz)", 0, "SlotOf(157 - lz)", "coefficients of the next octave"),
    ("fill", FILL, "index >> 2 != block", 0, "block < 0", "words of the block before"),
    ("fill", FILL, "alone ? 1 : ItemStep()", 0, "ItemStep()", "chunks that no thread takes where runs share bytes"),
    ("fill", FILL, "std::none_of(jobs.begin(), jobs.end(), overlaps)", 0, "true", "two fills of one tensor in one launch"),
    ("fill", FILL, "std::none_of(left.begin(), left.end(), overlaps)", 0, "true", "order of two fills of one tensor"),
    ("fill", FILL, "const AnyFill& job = batch.jobs[Block().y];", 0, "const AnyFill& job = batch.jobs[Block().y & 15];", "index of a launch's seventeenth job"),
    ("fill", FILL, "const DenseFill<Draw> job = batch.jobs[Block().y];", 0, "const DenseFill<Draw> job = batch.jobs[Block().y & 3];", "index of a launch's fifth dense job"),
    ("fill", FILL, "BlocksFor(chunks), static_cast<unsigned>(jobs.size())", 0, "BlocksFor(chunks), static_cast<unsigned>(std::max(jobs.size() - 1, std::size_t{1}))", "last job left out"),
    ("fill", FILL, "BlocksFor(units), static_cast<unsigned>(jobs.size())", 0, "BlocksFor(units), static_cast<unsigned>(std::max(jobs.size() - 1, std::size_t{1}))", "last dense job left out"),
    ("fill", FILL, "jobs.size() < kFillsOfALaunch", 0, "jobs.size() <= kFillsOfALaunch", "one job more than a launch has room for"),
    ("fill", FILL, "PhiloxAt(job.words.seed, job", 0, "PhiloxAt(batch.jobs[0].words.seed, job", "seed of a launch's first job"),
    ("fill", FILL, "PhiloxAt(job.words.seed, job.words.tensor_id, job", 0, "PhiloxAt(job.words.seed, job.words.tensor_id, batch.jobs[0]", "epoch of a launch's first job"),
    ("fill", FILL, " && !IsKeyGroups(job.pattern.kind)", 0, "", "operands of the exact case among the small"),
    ("fill", FILL, " || path == Path::kKeyGroups) return false;", 0, ") return false;", "two operands of the exact case in one launch"),
    ("fill", FILL, "a.dst.dtype == b.dst.dtype", 0, "StorageBits(a.dst.dtype) == StorageBits(b.dst.dtype)", "formats of one width in one dense launch"),
    ("fill", FILL, "return at < other + b.bytes() && other < at + a.bytes();", 0, "return at == other;", "order of two fills that overlap"),
    ("fill", FILL, "std::fabs(job.pattern.b) < kLargestParameter", 0, "true", "values that are not finite taken for dense"),
    ("fill", FILL, "scale >= kLeastScale", 0, "scale > 0", "values below a float's normal range taken for dense"),
    ("fill", RUNS, "at > start ? at : start", 0, "at", "elements before a run"),
    ("fill", RUNS, "(std::int64_t{2} << shift) - 2", 0, "(std::int64_t{1} << shift) - 1", "last chunk of a run"),
    ("memory", MEMORY, "chunk.n == 1 << shift", 0, "chunk.n > 0", "store of 16 bytes past a run"),
    ("memory", MEMORY, "from % whole == 0", 0, "from >= 0", "load of 16 bytes that lie otherwise"),
    ("memory", MEMORY, "in_run + whole <= src.length", 0, "in_run >= 0", "load past a run"),
    ("memory", MEMORY, "i < chunk.n", 1, "i + 1 < chunk.n", "last element of a chunk not copied"),
    ("guard", REDUCE, "  SyncBlock();\n", 0, "", "barrier before the waves' counts are read"),
    ("guard", GUARD, "Thread().x == 0 && sum", 0, "Lane() == 0 && sum", "mask of the one that adds"),
    ("guard", GUARD, "at < end", 0, "at <= end", "index past a gap"),
    ("guard", GUARD, "at < bytes", 0, "at <= bytes", "index past a range"),
    ("guard", GUARD, "* bits + 7) / 8", 0, "* bits) / 8", "half a byte of a row counted as padding"),
    ("digest", REDUCE, "  SyncBlock();", 1, "", "barrier before the next sum's parts are written"),
    ("digest", DIGEST, "Thread().x == 0", 0, "Lane() == 0", "mask of the one that adds"),
    ("digest", DIGEST, "begin + e < runs.count", 0, "e < kElements", "index past the end"),
    ("digest", DIGEST, "w = 2 * pairs + FirstItem()", 0, "w = 2 * pairs + 1 + FirstItem()", "word left out"),
    ("digest", DIGEST, "magnitude > kLargest", 0, "magnitude >= kLargest", "mask of the NaNs"),
    ("recheck", REDUCE, "  SyncBlock();\n", 0, "", "barrier before the waves' counts are read"),
    ("recheck", RECHECK, "if (wrong++ == 0) first", 0, "++wrong; first", "mask of all but a thread's first"),
    ("recheck", RECHECK, "i < pass.count", 0, "i <= pass.count", "index past the elements"),
    ("recheck", RECHECK, "i < pass.count", 0, "i + 1 < pass.count", "last element left out"),
    ("recheck", RECHECK, "internal::StorageIndex(pass.output.extents, index)", 0, "index", "wrong leading dimension"),
    ("kept", REDUCE, "  SyncBlock();", 1, "", "barrier before the next count's parts are written"),
    ("kept", KEPT, "Thread().x != 0", 0, "Lane() != 0", "mask of the one that adds"),
    ("kept", KEPT, "i < count", 0, "i <= count", "index past the list"),
    ("kept", KEPT, "i < count", 1, "i + 1 < count", "last element left out"),
    ("kept", KEPT, "internal::StorageIndex(output.extents, index)", 0, "index", "wrong leading dimension"),
    ("residuals", RESIDUALS, "      SyncBlock();\n", 0, "", "barrier before the waves' sums of a row are read"),
    ("residuals", RESIDUALS, "      SyncBlock();  // the next row's parts are written\n", 0, "", "barrier before the next row's sums are written"),
    ("residuals", RESIDUALS, "row % x.rows * x.ld", 0, "row % x.rows * x.cols", "wrong leading dimension"),
    ("residuals", RESIDUALS, "z == largest && index > at", 0, "z == largest && index < at", "the last of equal elements"),
    ("residuals", RESIDUALS, "if (column >= x.cols) break;", 0, "", "index past a row"),
    ("residuals", RESIDUALS, "by >= 16", 0, "by > 16", "half of a column's rows left out"),
    ("residuals", RESIDUALS, "for (int w = 1; w < waves; ++w) Add", 0, "for (int w = 2; w < waves; ++w) Add", "a wave's part of a long row left out"),
    ("residuals", RESIDUALS, "range < pass.ranges", 0, "range + 1 < pass.ranges", "last range of bands left out"),
    ("residuals", RESIDUALS, "columns[range * x.cols + column] =", 0, "columns[column] =", "ranges of bands in one place"),
    ("residuals", RESIDUALS, "i < count; i += kMergeThreads", 0, "i + 1 < count; i += kMergeThreads", "last block's result left out"),
    ("residuals", RESIDUALS, "for (int j = 0; j < 16; ++j)", 0, "for (int j = 1; j < 16; ++j)", "first column of a tile left out"),
]
